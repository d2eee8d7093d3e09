"""Who refers to an object: asked of the garbage collector, from the object up to what has a name.

One pass over all objects for each step. What refers to them because of the looking itself is kept apart, by number.
"""

from __future__ import annotations

import gc
import os
import types
from collections.abc import Iterable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any, Final, final

from hookpatch import _imports
from hookpatch._beneath import originals
from hookpatch._trampoline import Trampoline, is_trampoline

_HERE: Final = os.path.dirname(__file__) + os.sep
DEPTH: Final = 4  # as in m:REGISTRY['a'][0][1]: how far away from a name a holder may be to be named
_CROWD: Final = 500  # more nameless holders than these are not followed to names
_MANY: Final = 16  # from so many on it is faster to look at the references of all objects ourselves
_STEP: Final = 64  # objects that are looked at together

# What belongs to a class or to the type system and is not a name that somebody bound.
_BELONGS: Final = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
    types.FrameType,
    types.TracebackType,
    types.GenericAlias,
    types.UnionType,
    super,
)


@final
class Referrers:
    """What refers to some objects, what refers to that, and so on. Lives as long as a look at all objects.

    It refers to all it has found: ``forget`` it when the look is over, or the next one would find that.
    """

    def __init__(self, things: Sequence[Any]) -> None:
        self._mine: set[int] = {id(things), id(originals)}  # what refers to them because of us
        self._mine.add(id(_imports.loaded("_asyncio")))  # never to be asked for its references: see _objects
        self._kept: list[Any] = [things]  # so that no number in _mine is given to another object
        self._mine.add(id(self._kept))
        self._modules = self._keep({id(vars(module)): (name, module) for name, module in _imports.modules()})
        self._classes: dict[int, type] | None = None
        self._mine |= set(map(id, self._keep(Trampoline.links())))
        for thing in things:
            if issubclass(type(thing), type):  # the tuples in which a class and its subclasses keep their bases
                subclasses = self._keep([*classes(thing)])
                self._mine |= {id(one) for cls in subclasses for one in (cls.__mro__, cls.__bases__)}
        self._found: dict[int, list[Any]] = {}
        self._mine.add(id(self._found))
        self._look_up(things)

    def _look_up(self, things: Iterable[Any]) -> None:
        """Note who refers to the objects, who refers to those, and so on."""
        level = self._keep({id(thing): thing for thing in things})
        for depth in range(DEPTH):
            referrers = self._keep(_referrers(level))
            if depth == 0 and gc.get_freeze_count():
                referrers += self._frozen()  # which the collector leaves out
            for referrer in referrers:
                if id(referrer) in self._mine or _is_ours(referrer) or issubclass(type(referrer), _BELONGS):
                    continue
                for at in level.keys() & map(id, gc.get_referents(referrer)):
                    self._noted(level[at]).append(referrer)
            upwards = self._keep({})
            for thing in level.values():
                found = self._found.get(id(thing), ())
                if depth == 0 or not any(map(self._is_named, found)):  # one name is enough
                    upwards |= {id(one): one for one in found if not self._is_named(one)}
            level = self._keep({at: thing for at, thing in upwards.items() if at not in self._found})
            if not level or len(level) > _CROWD:
                break

    def _keep(self, made: Any) -> Any:
        self._kept.append(made)
        self._mine.add(id(made))
        return made

    def _noted(self, thing: Any) -> list[Any]:
        if id(thing) not in self._found:
            self._found[id(thing)] = self._keep([])
        return self._found[id(thing)]

    def _frozen(self) -> list[Any]:
        return [
            *(vars(module) for _, module in _imports.modules()),
            *(gc.get_referents(vars(cls))[0] for cls in classes()),
        ]

    def of(self, thing: Any) -> Sequence[Any]:
        """Return what refers to an object, one of those that were looked up."""
        return self._found.get(id(thing), ())

    def module_of(self, holder: Any) -> tuple[str, ModuleType] | None:
        """Return the module whose names a dict holds, with its name."""
        found: tuple[str, ModuleType] | None = self._modules.get(id(holder))
        return found

    def _is_named(self, holder: Any) -> bool:
        return (
            id(holder) in self._modules
            or issubclass(type(holder), (ModuleType, type))
            or self.class_of(holder) is not None
        )

    def class_of(self, holder: Any) -> type | None:
        """Return the class whose attributes a dict holds."""
        if type(holder) is not dict:
            return None
        if self._classes is None:  # looked up when the first dict is met that is no module's
            self._classes = self._keep({id(gc.get_referents(vars(cls))[0]): cls for cls in classes()})
        return self._classes.get(id(holder))

    def forget(self) -> None:
        """Hold nothing any more."""
        vars(self).clear()


def _referrers(things: dict[int, Any]) -> list[Any]:
    """Return what refers to objects that are given by their numbers."""
    if len(things) < _MANY:
        return gc.get_referrers(*things.values())
    # The collector compares each reference with each of them. So the other way round, in steps that C does whole.
    # What a function holds it has in a tuple or a dict.
    may_be_functions = any(issubclass(type(thing), (dict, tuple)) for thing in things.values())
    objects, found, has_none, referents = _objects(may_be_functions), [], set(things).isdisjoint, gc.get_referents
    for start in range(0, len(objects), _STEP):
        step = objects[start : start + _STEP]
        if not has_none(map(id, referents(*step))):
            found += [one for one in step if not has_none(map(id, referents(one)))]
    return found


def _objects(functions: bool) -> list[Any]:
    """Return all objects, or all but functions; and without the module ``_asyncio``: what it holds is in its dict.

    From Python 3.12 on it shows the collector iterators that have died; a reference to one has it die twice, and the
    next look at the module does not end.
    """
    odd = _imports.loaded("_asyncio")
    if functions:
        return [one for one in gc.get_objects() if one is not odd]
    return [one for one in gc.get_objects() if type(one) is not FunctionType and one is not odd]


def classes(top: type = object) -> Iterator[type]:
    """Yield a class and all its subclasses, every class there is for ``object``."""
    seen: set[type] = {top}
    waiting: list[type] = [top]
    while waiting:
        cls = waiting.pop()
        yield cls
        new: set[type] = set(type.__subclasses__(cls)) - seen
        seen |= new
        waiting += new


def _is_ours(thing: Any) -> bool:
    """Tell whether something is a part of hookpatch, or a function that it made."""
    if type(thing) is FunctionType:
        return is_trampoline(thing) or thing.__code__.co_filename.startswith(_HERE)
    is_module = type(thing) is dict and thing.get("__spec__") is not None
    module = dict.get(thing, "__name__") if is_module else type(thing).__module__
    return isinstance(module, str) and module.partition(".")[0] == "hookpatch"

"""Ask the garbage collector which objects refer to an object, level by level up to objects with a name.

Each level takes one pass over all objects. The search itself also creates references: they are left out by id.
An object that modules alone hold needs no pass: the object has a reference for each name, and no other.

Long because each part of the search leaves out the references of all other parts.
"""

from __future__ import annotations

import gc
import os
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, compress, islice, repeat
from operator import call, is_not
from types import FunctionType, ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import ErrorsOfCode, frames_of_threads
from hookpatch._engine.calls.trampoline import Trampoline, is_trampoline
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import AttributesInPlace, FunctionSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.originals import originals, patched_slots
from hookpatch._engine.slots.slot import ABSENT, COUNTS_REFERENCES, T, attributes_of

HERE: Final = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
DEPTH: Final = 4  # levels between a holder and a name, as in m:REGISTRY['a'][0][1]
_CROWD: Final = 500  # a level of more nameless holders is not followed upwards
_MANY: Final = 100  # from this number of objects on, a loop over all references beats gc.get_referrers
_STEP: Final = 64  # objects per step of the loop
_OF_PYTHON: Final = 1_000 if sys.version_info[:2] == (3, 12) else 0  # Python 3.12 freezes some hundred by itself

# Objects of the type system: no user gives them a name.
_INTERNAL: Final = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.FrameType,
    types.TracebackType,
    types.GenericAlias,
    types.UnionType,
    super,
)


@final
class Referrers:
    """The referrers of some objects, their referrers, and so on. Lives as long as one search.

    Call ``forget`` after the search: the references kept here would disturb the next search.
    """

    def __init__(self, *sought: Sequence[Any], counts: bool) -> None:
        self._counts: Final = counts  # also the references that the collector does not list: a report shows the number
        self._own_ids: set[int] = {id(sought), *map(id, sought), id(originals)}
        self._own_ids.add(id(imports.loaded("_asyncio")))  # must not be asked for its references: see _objects
        self._kept: list[Any] = [sought]  # kept alive, so that no id in _own_ids is used again
        self._own_ids.add(id(self._kept))
        # No tuple for each module and class: many new objects would make the collector go through all objects.
        self._modules = self._keep(dict(imports.modules()))
        self._names = self._keep({id(vars(module)): name for name, module in self._modules.items()})
        self._classes: dict[int, type] | None = None
        links = self._keep(Trampoline.links())
        self._own_ids |= {id(held) for link in links for held in (link, *_binders(link))}
        slots = self._keep([patched.slot for patched in patched_slots()])
        self._own_ids |= {id(slot.attributes) for slot in slots if isinstance(slot, FunctionSlot)}
        referents = self._keep([referent for objects in sought for referent in objects])
        # No local variable keeps a referent here: the references are counted.
        for top in [referent for referent in referents if issubclass(type(referent), type)]:
            subclasses = self._keep([*classes(top)])  # leave out the tuples of bases of the class and its subclasses
            self._own_ids |= {id(bases) for cls in subclasses for bases in (cls.__mro__, cls.__bases__)}
        self._referrers: dict[int, list[Any]] = {}
        self._own_ids.add(id(self._referrers))
        self.unlisted: Final[dict[int, int]] = {}  # by id, the references that the collector does not list
        self._inside: Final[set[int]] = set()  # ids of objects that a part of hookpatch holds
        self._closures: Final[dict[int, list[Any]]] = {}  # by the id of a tuple, the other tuples with the same cell
        self._entries = self._keep(entries_beneath())
        self._own_ids |= {id(slots) for slots in self._entries.values()}
        times = self._keep(Counter(map(id, referents)))
        self._search(self._keep({id(referent): referent for referent in referents}), times)

    def _search(self, level: dict[int, Any], times: Counter[int]) -> None:
        # An object's __dict__ is no step: Python makes the dict when it is first asked for, by this search for example.
        steps: dict[int, int] = dict.fromkeys(level, 0)
        for depth in range(2 * DEPTH):
            referrers = self._keep(_referrers(level) if depth else self._first_referrers(level, times))
            if depth == 0 and gc.get_freeze_count():  # the collector leaves out frozen objects
                referrers += [vars(module) for _, module in imports.modules()]
                referrers += [gc.get_referents(vars(cls))[0] for cls in classes()]
            for referrer in referrers:
                if id(referrer) in self._own_ids or issubclass(type(referrer), _INTERNAL):
                    continue
                if is_of_hookpatch(referrer):
                    self._inside.update(level.keys() & map(id, gc.get_referents(referrer)))
                    continue
                for number in level.keys() & map(id, gc.get_referents(referrer)):
                    if number not in self._referrers:
                        self._referrers[number] = self._keep([])
                    self._referrers[number].append(referrer)
            upwards: dict[int, Any] = self._keep({})
            for number in level:
                holders = self._referrers.get(number, ())
                if depth and any(map(self._is_named, holders)):  # one name is enough
                    continue
                followed = self._holders_to_follow(level[number], holders)
                for holder in (*followed, *(slot.owner for slot in self._entries.get(number, ()))):
                    is_attributes = type(level[number]) is dict and attributes_of(holder) is level[number]
                    further = steps[number] + (not is_attributes)
                    if further < DEPTH and id(holder) not in self._referrers and not self._has_name(holder):
                        steps[id(holder)] = min(steps.get(id(holder), further), further)
                        upwards[id(holder)] = holder
            level = upwards
            if not level or len(level) > _CROWD:
                break

    def _holders_to_follow(self, outer: Any, holders: Sequence[Any]) -> Sequence[Any]:
        """Return the holders whose own holders are looked for; of a cell one closure: more objects make a pass slower.

        One function names a cell. A tuple that is no closure is followed by the other tuples with the cell.
        """
        if type(outer) is types.CellType and len(holders) > 1 and all(type(holder) is tuple for holder in holders):
            if id(holders[0]) not in self._closures:
                self._closures[id(holders[0])] = self._keep([])
            self._closures[id(holders[0])] += holders[1:]
            return self._keep(holders[:1])
        if id(outer) not in self._closures:
            return holders
        is_closure = any(type(holder) is FunctionType and holder.__closure__ is outer for holder in holders)
        return holders if is_closure else self._keep([*holders, *self._closures[id(outer)]])

    def _first_referrers(self, level: dict[int, Any], times: Counter[int]) -> list[Any]:
        """Return the referrers of the sought objects; for objects that modules alone hold, without a pass."""
        named = self._keep(self._held_by_modules_alone(level, times))
        others = self._keep({number: level[number] for number in level if number not in named})
        referrers = self._keep(_referrers(others) if others else [])
        if self._counts:
            self._count_unlisted(others, referrers)
        ids = set(map(id, referrers))
        namespaces = {id(names): names for dicts in named.values() for names in dicts if id(names) not in ids}
        return [*referrers, *namespaces.values()]

    def _held_by_modules_alone(self, level: dict[int, Any], times: Counter[int]) -> dict[int, list[Any]]:
        """Return, by id, the objects to which only modules refer, with the module's dict for each name.

        ``times``: how often an object is sought, and so is in two lists of this search, beside ``level``.
        """
        if not COUNTS_REFERENCES:
            return {}
        named = _named(level, [vars(self._modules[name]) for name in self._names.values()])
        return {
            number: dicts
            for number, dicts in named.items()
            if sys.getrefcount(level[number]) - _of_question() == len(dicts) + 2 * times[number] + 1
        }

    def _count_unlisted(self, level: dict[int, Any], referrers: list[Any]) -> None:
        """Count the references to functions that no object shows: of C code, and of running functions."""
        if hides_objects() or not hasattr(sys, "_current_frames") or not hasattr(sys, "getrefcount"):
            return
        listed = Counter(number for number in map(id, referrers) if number in level)  # held by this list
        for referrer in referrers:
            listed.update(number for number in map(id, gc.get_referents(referrer)) if number in level)
        running = running_codes()
        for number in level:
            code = level[number].__code__ if type(level[number]) is FunctionType else None
            if code is not None and code not in running:
                self.unlisted[number] = max(0, sys.getrefcount(level[number]) - _of_question() - listed[number])

    def is_of_hookpatch(self, holder: Any) -> bool:
        """Return True if a part of hookpatch holds an object, also through other objects."""
        numbers = level = {id(holder)}  # each object once: the ways multiply at each step
        for _ in range(DEPTH + 1):
            if not self._inside.isdisjoint(level):
                return True
            level = {id(outer) for number in level for outer in self._referrers.get(number, ())} - numbers
            numbers = numbers | level
        return False

    def _keep(self, container: T) -> T:
        self._kept.append(container)
        self._own_ids.add(id(container))
        return container

    def referrers_of(self, referent: Any) -> Sequence[Any]:
        """Return the referrers of an object met in the search."""
        return self._referrers.get(id(referent), ())

    def named_by(self, holder: Any) -> tuple[Any, str] | None:
        """Return the module and its name, or the class and "", if the holder is the dict of a module or class."""
        if (name := self._names.get(id(holder))) is not None:
            return self._modules[name], name
        if type(holder) is not dict:
            return None
        if self._classes is None:  # built for the first dict that is not a module's
            self._classes = self._keep({id(gc.get_referents(vars(cls))[0]): cls for cls in classes()})
        cls = self._classes.get(id(holder))
        return None if cls is None else (cls, "")

    def _is_named(self, holder: Any) -> bool:
        return self.named_by(holder) is not None or issubclass(type(holder), (ModuleType, type))

    def _has_name(self, holder: Any) -> bool:
        """Return True if the name of a holder is known without a look at the referrers of the holder."""
        return self._is_named(holder) or (type(holder) is FunctionType and module_of(holder) is not None)

    def forget(self) -> None:
        """Drop all references."""
        vars(self).clear()


def module_of(owner: Any) -> str | None:
    """Return the name of the module of a class or function; None if foreign code has put another object there."""
    module = owner.__module__
    return module if isinstance(module, str) else None


def _binders(link: Any) -> list[Any]:
    """Return the methods ``__get__`` of functions in the link of a trampoline."""
    return [held for held in link if type(held) is types.MethodWrapperType] if type(link) is tuple else []


def running_codes(but: int | None = None) -> set[types.CodeType]:
    """Return the code of the running functions of all threads, but of one.

    No frame stays in a variable: a frame that holds itself would keep the local variables of the search alive, and the
    next search would find them.
    """
    codes = set()
    for thread, frame in frames_of_threads().items():
        caller: types.FrameType | None = None if thread == but else frame
        del frame
        while caller is not None:
            codes.add(caller.f_code)
            caller = caller.f_back
    return codes


def hides_objects() -> bool:
    """Return True if the program has hidden objects from the collector, by ``gc.freeze``."""
    return gc.get_freeze_count() > _OF_PYTHON


@cache
def _of_question() -> int:
    """Return the number of references that the question for a number of references makes itself."""
    table = {0: object()}
    return sys.getrefcount(table[0]) - 1


@cache
def lists_references() -> bool:
    """Return True if the collector lists references as hookpatch expects: tried out once, with a class."""

    def of_function() -> None:
        return None

    class OfClass:
        attribute = of_function

    with ErrorsOfCode(Exception):  # a later Python may raise anything here
        return (
            gc.get_referents(vars(OfClass))[0].get("attribute") is of_function
            and any(referent is of_function.__code__ for referent in gc.get_referents(of_function))
            and any(referent is vars(gc) for referent in gc.get_referents(gc))
        )
    return False


def entries_beneath() -> dict[int, list[Any]]:
    """Return, by the id of the value beneath, the patched slots of entries and of attributes of objects."""
    entries: dict[int, list[Any]] = {}
    for patched in patched_slots():
        slot = patched.slot
        is_of_object = isinstance(slot, AttributeSlot) and not issubclass(type(slot.owner), (ModuleType, type))
        if (is_of_object or isinstance(slot, ItemSlot)) and slot.owner is not None and _is_followed(patched.original):
            entries.setdefault(id(patched.original), []).append(slot)
    return entries


def _is_followed(value: Any) -> bool:
    """Return True if a value may hold other objects, and is no number or text that many entries hold."""
    return type(value) not in (str, bytes, int, float, bool, type(None), type(ABSENT))


def _named(level: dict[int, Any], namespaces: Iterable[dict[str, Any]]) -> dict[int, list[Any]]:
    """Return, by id, for each name of an object the namespace with the name. No variable keeps an object here."""
    named: dict[int, list[Any]] = {}
    has_none = set(level).isdisjoint
    for names in namespaces:
        values = list(names.values())  # in one operation: another thread may add a name
        if not has_none(map(id, values)):
            for number in map(id, values):
                if number in level:
                    named.setdefault(number, []).append(names)
    return named


def _referrers(level: dict[int, Any]) -> list[Any]:
    """Return the objects that refer to any of some objects, given by id."""
    if len(level) < _MANY:
        referents = tuple(level.values())  # from Python 3.14 on the collector shows the arguments of the question, too
        return [referrer for referrer in gc.get_referrers(*referents) if referrer is not referents]
    # gc.get_referrers compares each reference with each object. Here C code looks up a step's references in a set.
    # A tuple is looked at when an object that refers to it was.
    has_none, refer_to = set(level).isdisjoint, gc.get_referents
    holders: list[Any] = []
    objects, tuples = _objects(), dict[int, Any]()
    while objects:
        known = len(tuples)
        for start in range(0, len(objects), _STEP):
            step = objects[start : start + _STEP]
            contents = refer_to(*step)
            if not has_none(map(id, contents)):
                holders += [holder for holder in step if not has_none(map(id, refer_to(holder)))]
            tuples.update({id(content): content for content in contents if type(content) is tuple})
        objects = [*islice(tuples.values(), known, None)]
    return holders


def _objects() -> list[Any]:
    """Return all objects but tuples, without the module ``_asyncio``.

    From Python 3.12 on ``_asyncio`` shows dead iterators to the collector. A reference to a dead iterator frees the
    iterator twice, and the next look at the module never ends. The module's dict has all its names anyway.
    """
    asyncio = imports.loaded("_asyncio")
    return [candidate for candidate in all_but_tuples() if candidate is not asyncio]


def all_but_tuples() -> list[Any]:
    """Return all objects that the collector lists, without the exact tuples.

    Up to Python 3.13 the collector lists unfinished tuples, too. A second reference to one makes ``tuple(generator)``
    in another thread raise a SystemError. So all objects are in a list only during one run of C code, in which no
    other thread goes on. The list that is returned is made after the look, and does not contain itself.
    """
    objects: list[Any] = []
    fill = _doing(objects.extend, chain.from_iterable(map(call, (gc.get_objects,))))
    remaining = compress(objects, map(is_not, map(type, objects), repeat(tuple)))
    made: Iterator[list[Any]] = map(list, (chain(remaining, _doing(objects.clear)),))
    return next(chain(fill, made))


def _doing(act: Callable[..., None], *arguments: Any) -> Iterator[Any]:
    """Return an iterator over nothing that calls a function at its first step."""
    return filter(None, map(call, (partial(act, *arguments),)))


def classes(top: type = object) -> Iterator[type]:
    """Yield a class and all its subclasses; for ``object`` all classes."""
    # Classes are compared by id: a set would call the foreign __hash__ and __eq__ of their metaclasses.
    ids = {id(top)}
    waiting: list[type] = [top]
    while waiting:
        cls = waiting.pop()
        yield cls
        subclasses: list[type] = type.__subclasses__(cls)
        new = [subclass for subclass in subclasses if id(subclass) not in ids]
        ids.update(map(id, new))
        waiting += new


def is_of_hookpatch(referrer: Any) -> bool:
    """Return True if an object is a part of hookpatch, or a function made by hookpatch."""
    if type(referrer) is FunctionType:
        is_ours = is_trampoline(referrer) or referrer.__code__.co_filename.startswith(HERE)
        return is_ours or is_of_hookpatch(referrer.__globals__)  # dataclasses make functions
    if type(referrer) is AttributesInPlace:
        return False
    is_module = type(referrer) is dict and referrer.get("__spec__") is not None
    module = dict.get(referrer, "__name__") if is_module else type(referrer).__module__
    return isinstance(module, str) and module.partition(".")[0] == "hookpatch"

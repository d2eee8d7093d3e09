"""A state machine of patches for many places: rules, edits and instances, beside patches of the same slots.

The model knows answers of calls, not objects: `machine.py` compares objects. At the end all modules and instances are
compared with their start.
"""

from __future__ import annotations

import contextvars
import copy
import gc
import importlib
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, ClassVar, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from layers import hides
from snapshot import Snapshot
from watching import watched

import hookpatch
from hookpatch import errors
from hookpatch._engine.site import late_restore, site, sites

V, L = "many_vendor", "many_late"
_BODY: Final = (
    '\n    {indent}first = "1"\n    {indent}second = "2"\n    {indent}return "{letter}" + first + second + {more}x\n'
)


def _function(name: str, letter: str, method: bool = False, calls: str = "") -> str:
    indent = "    " if method else ""
    head = f"{indent}def {name}({'self, ' if method else ''}x=''):"
    return head + _BODY.format(indent=indent, letter=letter, more=calls and f"{calls} + ")


VENDOR: Final = f"""
def called(x=""): return "g" + x

class Base:
    __slotnames__ = []  # else copyreg puts them there at the first copy
    def __init__(self):
        self.n = "n"
        self.call = called
{_function("run", "a", True)}
class Middle(Base):
    __slotnames__ = []

class Child(Middle):
    __slotnames__ = []
{_function("run", "b", True, "super().run()")}
{_function("get_one", "c")}
{_function("get_two", "d")}
table = {{"one": get_one, "two": get_two}}

def make_class():
    class Made(Base):
    {_function("run", "m", True, "super().run()").replace(chr(10) + "    ", chr(10) + "        ").rstrip()}
    return Made

import many_witness
many_witness.executed(__name__)
"""
LATE: Final = f"""
from {V} import Base

class Late(Base):
    __slotnames__ = []
{_function("run", "h", True, "super().run()")}
class Lazy(Base):
    __slotnames__ = []

{_function("get_three", "e")}
import many_witness
many_witness.executed(__name__)
"""

AROUND, VALUES = ("wrap", "inject", "default"), ("replace", "derive")
EDITS: Final = ("first", "second")
REACHES: Final = ("slot", "everywhere")
_SLOTS: Final = (f"{V}:Base.run", f"{V}:Child.run", f"{V}:get_one", f"{V}:table['one']", f"{L}:Late.run")
_RULES: Final = (f"{V}:Base+.run", f"{V}:Middle+.run", f"{V}:*.run", f"{V}:get_*", "many_*:get_*", f"{V}:table[*]")
_METHODS: Final = (*(f"{V}:{cls}().run" for cls in ("Base", "Base+", "Middle", "Middle+", "Child")), f"{L}:Late().run")
TRIED: Final = [
    *((address, verb, reach) for address in (*_SLOTS, *_RULES) for verb in AROUND for reach in REACHES),
    *((address, verb, "slot") for address in (*_SLOTS, *_RULES) for verb in VALUES),
    *((address, verb, "everywhere") for address in (*_SLOTS, *_RULES) for verb in EDITS),
    *((f"{V}:Middle.run", verb, reach) for verb in AROUND for reach in REACHES),
    (f"{V}:Middle.run", "replace", "slot"),  # a derive would keep the inherited function of its moment
    *((address, verb, "slot") for address in _METHODS for verb in (*AROUND, "replace")),
    *((f"{V}:{cls}().run", "derive", "slot") for cls in ("Base", "Child")),
    *((f"{V}:{cls}().n", verb, "slot") for cls in ("Base", "Base+", "Child") for verb in VALUES),
    *((f"{V}:{cls}().call", verb, "slot") for cls in ("Base", "Base+", "Child") for verb in (*AROUND, *VALUES)),
]


@dataclass(eq=False)
class Asked:
    """A patch of a session, with the layers of the model."""

    address: str
    verb: str
    reach: str
    tag: str
    rank: tuple[int, int] = (0, 0)
    is_for_task: bool = False
    laid: list[tuple[list[Layer], Layer]] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)  # the slots, or the functions, with a layer of this patch

    @property
    def module(self) -> str:
        return self.address.partition(":")[0]

    @property
    def path(self) -> str:
        return self.address.partition(":")[2]

    @property
    def is_of_instances(self) -> bool:
        return "()" in self.address

    @property
    def is_rule(self) -> bool:
        return not self.is_of_instances and ("*" in self.address or "+" in self.address)

    def is_for(self, kind: str) -> bool:
        """Return True if the instances of a class are meant."""
        return any(kind in layer.kinds for _, layer in self.laid if layer.kinds is not None)

    def patch(self) -> hookpatch.Patch:
        tag, facts = self.tag, {"why": self.tag}
        if self.is_rule:
            facts["matches"] = ">=0"  # type: ignore[assignment]  # mixed values
        if self.verb in EDITS:
            old = {"first": '"1"', "second": '"2"'}[self.verb]
            return hookpatch.edit(self.address, f"{self.verb} = {old}", f"{self.verb} = {tag!r}", **facts)  # type: ignore[arg-type]
        facts["reach"] = self.reach
        declare: Any = getattr(hookpatch, self.verb)
        if self.verb == "wrap":
            return declare(self.address, lambda w, i, a, k: f"{tag}({w(*a, **k)})", **facts)
        if self.verb in ("inject", "default"):
            return declare(self.address, {"x": tag}, **facts)
        if self.path.endswith(".n"):
            return declare(self.address, tag if self.verb == "replace" else lambda was: f"{tag}[{was}]", **facts)
        make = _made_method if self.path.endswith("run") else _made
        if self.verb == "replace":
            return declare(self.address, make(tag), **facts)
        return declare(self.address, lambda low: make(tag, low), **facts)


def _made(tag: str, low: Any = None) -> Callable[..., str]:
    def made(x: str = "") -> str:
        return f"{tag}[{low(x) if x else low()}]" if low else tag

    return made


def _made_method(tag: str, low: Any = None) -> Callable[..., str]:
    def made(self: Any, x: str = "") -> str:
        return f"{tag}[{low(self, x) if x else low(self)}]" if low else tag

    return made


@dataclass(eq=False)
class Layer:
    """A patch in a slot or in a function; ``kinds``: the classes of the meant instances, if of instances."""

    asked: Asked
    kinds: set[str] | None = None


@dataclass(eq=False)
class Function:
    """A function of a module: its letter, the layers inside it, its edits."""

    letter: str
    calls_super: bool = False
    layers: list[Layer] = field(default_factory=list)
    edits: dict[str, list[Layer]] = field(default_factory=lambda: {"first": [], "second": []})


@dataclass(eq=False)
class Slot:
    """A slot with the function it holds, or None where a class inherits; and the layers over it."""

    name: str
    function: Function | None
    layers: list[Layer] = field(default_factory=list)


class Refused(Exception):
    """The model says that a session cannot be opened."""


def around(
    layers: list[Layer], below: Callable[[str], str], x: str, kind: str, inside: bool, given: bool = False
) -> str:
    """Return the answer of a call through layers, from the outermost to the innermost."""
    if not layers:
        return below(x)
    layer, inner = layers[0], layers[1:]
    verb, tag = layer.asked.verb, layer.asked.tag
    if layer.asked.is_for_task and not inside:
        return around(inner, below, x, kind, inside, given)
    if layer.kinds is not None and kind not in layer.kinds:
        is_given = verb == "inject" and x == tag and layer.asked.is_for(kind)  # by the layer in the class below
        return around(inner, below, x, kind, inside, verb in AROUND and (given or is_given))
    if verb == "inject":
        return around(inner, below, x if given else tag, kind, inside, True)
    if verb == "default":
        return around(inner, below, x or tag, kind, inside, given)
    if verb == "replace":
        return tag
    if verb == "derive":
        return f"{tag}[{around(inner, below, x, kind, inside)}]"
    return f"{tag}({around(inner, below, x, kind, inside, given)})"


def ordered(layers: list[Layer]) -> list[Layer]:
    return sorted(layers, key=lambda layer: layer.asked.rank, reverse=True)


class ManyMachine(RuleBasedStateMachine):
    """Sessions with patches of many places open and end in any order; the answers are always those of the model."""

    examples = steps = refused = 0
    ended: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).examples += 1
        gc.freeze()
        self.meta_path = list(sys.meta_path)
        self.count = 0
        self.open: list[tuple[hookpatch.Session, list[Asked]]] = []
        self.bases: dict[str, str | None] = {}  # of each class of the model: its base
        self.classes: dict[str, type] = {}
        self.slots: dict[str, Slot] = {}
        self.instances: list[tuple[Any, str]] = []
        self.snapshots: list[Snapshot] = []
        vars(sys.modules["many_witness"]).update(executed=self.executed)

    def executed(self, name: str) -> None:
        """Note all objects of a module; the last line of the module calls this method, before any patch."""
        self.snapshots.append(Snapshot(sys.modules[name]))

    # --- the model

    def _class(self, name: str, cls: type, base: str | None, letter: str = "") -> None:
        self.bases[name], self.classes[name] = base, cls
        function = Function(letter, calls_super=base is not None) if letter else None
        self.slots[f"{name}.run"] = Slot(f"{name}.run", function)

    def _mro(self, name: str | None) -> list[str]:
        return [] if name is None else [name, *self._mro(self.bases[name])]

    def _holder(self, kinds: list[str]) -> Slot:
        """Return the slot in which a class, given by its method resolution order, finds the method."""
        slots = [self.slots[f"{kind}.run"] for kind in kinds]
        return next(slot for slot in slots if slot.function is not None or slot.layers)

    def answer(self, slot: Slot, x: str, kind: str, inside: bool) -> str:
        """Return the answer of the function in a slot, called for an instance of a class."""

        def plain(x: str) -> str:
            if slot.function is None:
                return self.answer(self._holder(self._mro(slot.name.partition(".")[0])[1:]), x, kind, inside)
            function = slot.function

            def text(x: str) -> str:
                pieces = []
                for piece, number in (("first", "1"), ("second", "2")):
                    edits = function.edits[piece]
                    pieces.append(edits[-1].asked.tag if edits else number)
                if function.calls_super:
                    cls = slot.name.partition(".")[0]
                    pieces.append(self.answer(self._holder(self._mro(cls)[1:]), "", kind, inside))
                return function.letter + "".join(pieces) + x

            return around(ordered(function.layers), text, x, kind, inside)

        return around(ordered(slot.layers), plain, x, kind, inside)

    def arrive(self, name: str) -> None:
        """Note a module that has just been imported; patches that wait for it are applied in the model."""
        m: Any = sys.modules[name]
        if name == V:
            self._class("Base", m.Base, None, "a")
            self._class("Middle", m.Middle, "Base")
            self._class("Child", m.Child, "Middle", "b")
            for number, letter in (("one", "c"), ("two", "d")):
                function = Function(letter)
                for slot in (f"get_{number}", f"table['{number}']"):
                    self.slots[slot] = Slot(slot, function)
        else:
            self._class("Late", m.Late, "Base", "h")
            self._class("Lazy", m.Lazy, "Base")
            self.slots["get_three"] = Slot("get_three", Function("e"))
        for _, plan in self.open:
            for asked in plan:
                with suppress(Refused):
                    self._apply(asked)

    def _is_of(self, kind: str, cls: str) -> bool:
        return cls in self._mro(kind)

    def _meant(self, asked: Asked) -> list[str]:
        """Return the classes whose instances are meant."""
        cls = asked.path.partition("(")[0]
        if "+" in cls:
            return [kind for kind in self.bases if self._is_of(kind, cls.removesuffix("+"))]
        return [cls] if cls in self.bases else []

    def _matches(self, asked: Asked) -> list[Slot]:
        """Return the slots of a patch that is not of instances, as of now."""
        path = asked.path
        if "+" in path:
            cls = path.partition("+")[0]
            names = [f"{kind}.run" for kind in self.bases if self._is_of(kind, cls)]
        elif path == "*.run":
            names = ["Base.run", "Middle.run", "Child.run"]
        elif path == "get_*":
            names = ["get_one", "get_two", *(["get_three"] if asked.module == "many_*" else [])]
        elif path == "table[*]":
            names = ["table['one']", "table['two']"]
        else:
            return [self.slots[path]] if path in self.slots else []
        slots = [self.slots[name] for name in names if name in self.slots]
        return [slot for slot in slots if slot.function is not None]

    def _apply(self, asked: Asked) -> None:
        if asked.is_of_instances:
            if asked.path.endswith(".run") and asked.module in sys.modules:
                self._apply_to_instances(asked)
            return
        refused = False
        for slot in self._matches(asked):
            if slot.name in asked.seen:
                continue
            asked.seen.add(slot.name)
            in_place = asked.reach == "everywhere" and slot.function is not None
            if in_place:
                assert slot.function is not None
                layers = slot.function.edits[asked.verb] if asked.verb in EDITS else slot.function.layers
                if any(layers is other for other, _ in asked.laid):
                    continue
                if asked.verb in EDITS and layers:
                    refused = True
                    continue
            else:
                layers = slot.layers
            self._lay(asked, layers, Layer(asked))
        if refused:
            raise Refused

    def _lay(self, asked: Asked, layers: list[Layer], layer: Layer) -> None:
        layers.append(layer)
        asked.laid.append((layers, layer))

    def _apply_to_instances(self, asked: Asked) -> None:
        first = asked.path.partition("(")[0].removesuffix("+")
        known = {kind for _, layer in asked.laid for kind in layer.kinds or ()}
        by_slot: dict[str, set[str]] = {}
        for kind in self._meant(asked):
            if kind not in known:
                kinds = self._mro(kind)
                down_to = kinds[: kinds.index(first) + 1]
                slots = [self.slots[f"{name}.run"] for name in down_to]
                owner = next((slot for slot in slots if slot.function is not None or slot.layers), slots[-1])
                by_slot.setdefault(owner.name, set()).add(kind)
        for name, kinds_of in by_slot.items():
            layers = self.slots[name].layers
            mine = next((layer for other, layer in asked.laid if other is layers), None)
            if mine is not None:
                assert mine.kinds is not None
                mine.kinds |= kinds_of
            else:
                self._lay(asked, layers, Layer(asked, kinds_of))

    # --- rules

    @initialize(names=st.sampled_from([(), (V,), (V, L)]))
    def begin(self, names: tuple[str, ...]) -> None:
        """Import some of the modules before the first session."""
        for name in names:
            self._import(name)

    def _import(self, name: str) -> None:
        for needed in (V, L) if name == L else (V,):
            if needed not in sys.modules:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    importlib.import_module(needed)
                self.arrive(needed)

    @rule(name=st.sampled_from([V, L]))
    def import_module(self, name: str) -> None:
        """Import a module."""
        self._import(name)

    @rule(data=st.data(), task=st.integers(0, 4))
    def open_session(self, data: st.DataObject, task: int) -> None:
        """Open a session of up to three patches."""
        drawn = data.draw(st.lists(st.sampled_from(TRIED), min_size=1, max_size=3), "patches")
        self.count += 1
        plan: list[Asked] = []
        for address, verb, reach in drawn:
            asked = Asked(
                address, verb, reach, f"t{self.count}{'abc'[len(plan)]}.", (self.count, -len(plan)), task == 0
            )
            if not (task == 0 and verb not in AROUND) and not any(self._meet(outer, asked) for outer in plan):
                plan.append(asked)
        if not plan:
            return
        session = hookpatch.active(
            *(asked.patch() for asked in plan), scope="task" if task == 0 else "process", children="local"
        )
        try:
            for asked in plan:
                self._apply(asked)
        except Refused:
            for asked in plan:
                self._end(asked)
            type(self).refused += 1
            with self._quiet(), pytest.raises(errors.HookpatchError):
                session.open()
            return
        self.open.append((session, plan))
        with self._quiet():
            session.open()

    def _meet(self, outer: Asked, inner: Asked) -> bool:
        """Return True if two patches of one session may conflict: two values of one slot, or two edits of one piece."""
        if outer.path.split(".")[-1] != inner.path.split(".")[-1] and "run" in outer.path + inner.path:
            return False
        return hides(outer.verb, inner.verb) or outer.verb == inner.verb != "wrap"

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def close_session(self, data: st.DataObject) -> None:
        """Close any open session."""
        self._close(data.draw(st.integers(0, len(self.open) - 1), "which"))

    def _close(self, index: int) -> None:
        session, plan = self.open.pop(index)
        for asked in plan:
            self._end(asked)
        type(self).ended += 1
        with self._quiet():
            session.close()

    def _end(self, asked: Asked) -> None:
        for layers, layer in asked.laid:
            layers.remove(layer)
        asked.laid.clear()

    @precondition(lambda self: V in sys.modules)
    @rule(data=st.data(), how=st.sampled_from(["made", "copied", "deep copied", "pickled", "gone"]))
    def instance(self, data: st.DataObject, how: str) -> None:
        """Make an instance, in one of several ways, or drop one."""
        if how == "made" or not self.instances:
            kind = data.draw(st.sampled_from(sorted(self.classes)), "class")
            self.instances.append((self.classes[kind](), kind))
            return
        index = data.draw(st.integers(0, len(self.instances) - 1), "which")
        if how == "gone":
            del self.instances[index]
            return
        instance, kind = self.instances[index]
        if how == "pickled" and kind.startswith("Made"):
            return
        made = {"copied": copy.copy, "deep copied": copy.deepcopy, "pickled": lambda it: pickle.loads(pickle.dumps(it))}
        self.instances.append((made[how](instance), kind))

    @precondition(lambda self: V in sys.modules)
    @rule()
    def make_class(self) -> None:
        """Make a subclass without an import, and look: rules notice the class at the next report."""
        self.count += 1
        name = f"Made{self.count}"
        self._class(name, sys.modules[V].make_class(), "Base", "m")
        for _, plan in self.open:
            for asked in plan:
                with suppress(Refused):
                    self._apply(asked)
        self.look()

    @rule()
    def look(self) -> None:
        """Make all reports, which must be honest."""
        gc.collect()
        answers = "".join(answer for _, answer in self._answers())
        for session, plan in self.open:
            with self._quiet():
                report = session.report()
            for asked in plan:
                rows = [row for row in report if row.why == asked.tag and (row.rule is not None or not asked.is_rule)]
                hidden = [any(text.startswith("without effect: ") for text in row.warnings) for row in rows]
                limited = any(text.startswith("without effect") for row in rows for text in row.warnings)
                if asked.verb in ("inject", "default") or asked.is_of_instances:
                    continue
                if {row.state for row in rows} == {"applied"} and not limited:
                    assert asked.tag in answers, ("applied, and not seen", asked)
                if rows and all(hidden):
                    assert asked.tag not in answers, ("without effect, and seen", asked)

    # --- what must hold

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield

    def _calls(self) -> Iterator[tuple[Any, Callable[[str, bool], str], Callable[[], Any]]]:
        """Give each call: its name, its answer in the model, and the function to call."""
        for name, slot in self.slots.items():
            if name.startswith("get_"):
                m = sys.modules[L if name == "get_three" else V]
                yield (
                    name,
                    lambda x, inside, slot=slot: self.answer(slot, x, "", inside),
                    lambda m=m, n=name: getattr(m, n),
                )
            elif name.startswith("table"):
                key = name[7:-2]
                yield (
                    name,
                    lambda x, inside, slot=slot: self.answer(slot, x, "", inside),
                    lambda key=key: sys.modules[V].table[key],
                )
            else:
                kind = name.partition(".")[0]
                yield (
                    f"{kind}().run",
                    lambda x, inside, kind=kind: self.answer(self._holder(self._mro(kind)), x, kind, inside),
                    lambda kind=kind: self.classes[kind]().run,
                )
        for number, (instance, kind) in enumerate(self.instances):
            yield (
                f"instance {number} of {kind}: run",
                lambda x, inside, kind=kind: self.answer(self._holder(self._mro(kind)), x, kind, inside),
                lambda instance=instance: instance.run,
            )
            yield (
                f"instance {number} of {kind}: call",
                lambda x, inside, kind=kind: self._of_value(kind, ".call", x, inside),
                lambda instance=instance: instance.call,
            )

    def _of_value(self, kind: str, name: str, x: str, inside: bool) -> str:
        layers = [
            Layer(asked)
            for _, plan in self.open
            for asked in plan
            if asked.path.endswith(name) and asked.is_of_instances and kind in self._meant(asked)
        ]
        return around(ordered(layers), (lambda x: "n") if name == ".n" else lambda x: f"g{x}", x, kind, inside)

    def _answers(self) -> Iterator[tuple[str, str]]:
        for name, _, get in self._calls():
            for x in ("", "-"):
                yield name, str(get()(x) if x else get()())
        for instance, kind in self.instances:
            yield kind, instance.n

    @invariant()
    def agrees(self) -> None:
        """Each call answers as the model says, in this task and in another."""
        type(self).steps += 1
        for name, expected, get in self._calls():
            for x in ("", "-"):
                call: Callable[[], str] = lambda get=get, x=x: str(get()(x) if x else get()())  # noqa: E731 - short
                assert call() == expected(x, True), (name, x)
                assert contextvars.Context().run(call) == expected(x, False), (name, x, "in another task")
        for number, (instance, kind) in enumerate(self.instances):
            assert instance.n == self._of_value(kind, ".n", "", True), (number, kind)

    def teardown(self) -> None:
        """Close all sessions: everything is as before, and no class made by the program is kept."""
        try:
            while self.open:
                self._close(0)
                self.agrees()
            for instance, _ in self.instances:
                assert {**vars(instance)} == {"n": "n", "call": sys.modules[V].called}
                assert [*vars(instance)] == ["n", "call"]
            for name, slot in self.slots.items():
                if name.endswith(".run"):
                    own = vars(self.classes[name.partition(".")[0]]).get("run")
                    assert (own is None) == (slot.function is None), name
                    assert own is None or (type(own) is FunctionType and own.__code__.co_names is not None)
            for snapshot in self.snapshots:
                assert snapshot.changed() == []
            assert sys.meta_path == self.meta_path
            assert watched() == []
            assert sites.patched() == []
            assert [*late_restore.late_restores(), *late_restore._unborne, *site.covered] == []
        finally:
            for session, _ in self.open:
                with warnings.catch_warnings(), suppress(errors.RestoreError):
                    warnings.simplefilter("ignore")
                    session.close()
            for leftovers in (late_restore.waiting, late_restore._unborne, site.covered):
                leftovers.clear()
            for name in (V, L):
                sys.modules.pop(name, None)
            vars(sys.modules["many_witness"]).update(executed=None)
            vars(self).clear()
            gc.unfreeze()


@contextmanager
def many_world(folder: Path) -> Iterator[None]:
    """Write the modules to a folder on sys.path."""
    (folder / f"{V}.py").write_text(VENDOR)
    (folder / f"{L}.py").write_text(LATE)
    importlib.invalidate_caches()
    sys.modules["many_witness"] = ModuleType("many_witness")
    try:
        yield
    finally:
        del sys.modules["many_witness"]

"""The slots of ``targets.awkward``, each with its verbs, and a world in which a test patches a slot."""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any, ClassVar, Final
from weakref import WeakSet

import targets
from snapshot import ABSENT, Snapshot, is_mapping

import hookpatch
from hookpatch import Target
from hookpatch._engine.calls.torchscript import ATTRIBUTES

NAME: Final = "targets.awkward"
CALLS: Final = ("wrap", "inject", "default")
VALUES: Final = ("replace", "derive")
SHARED: Final = (*CALLS, *VALUES, "everywhere")
ALL: Final = (*SHARED, "remove")

# kind of slot -> address in the module, verbs, and the place where the patch shows, if another place
SLOTS: Final[dict[str, tuple[Any, ...]]] = {
    "function": ("function", ALL),
    "c function": ("c_function", (*CALLS, *VALUES, "remove")),
    "value": ("LIMIT", (*VALUES, "remove")),
    "class": ("Model", (*CALLS, *VALUES, "remove")),
    "own method": ("Child.method", ALL),
    "static method": ("Child.static_method", ALL),
    "class method": ("Child.class_method", ALL),
    "inherited method": ("Child.inherited", SHARED),
    "inherited static method": ("Child.inherited_static", SHARED),
    "inherited class method": ("Child.inherited_class", SHARED),
    "inherited c method": ("Table.get", (*CALLS, *VALUES)),
    "inherited c class method": ("Table.fromkeys", ("wrap", *VALUES)),
    "property": ("Child.attribute", (*VALUES, "remove")),
    "inherited property": ("Child.inherited_property", VALUES),
    "metaclass method": ("Meta.meta_method", ALL),
    "nested class": ("Child.Nested", (*CALLS, *VALUES, "remove")),
    "method of nested class": ("Child.Nested.method", ALL),
    "descriptor of slots": ("Slotted.member", (*VALUES, "remove")),
    "member of slots": ("slotted.member", ALL),
    "unset member of slots": ("slotted.unset", ("replace",)),
    "instance attribute": ("instance.own", ALL),
    "inherited by instance": ("instance.method", (*CALLS, *VALUES)),
    "forwarded attribute": ("forwarding.own", SHARED, "behind.own"),
    "forwarded method": ("forwarding.method", (*CALLS, *VALUES), "behind.method"),
    "attribute through ObjectProxy": ("proxy.own", ALL, "wrapped.own"),
    "method through ObjectProxy": ("proxy.method", (*CALLS, *VALUES), "wrapped.method"),
    "served by getattr": ("lazy", SHARED),
    "never fetched from getattr": ("sleeping", ("replace",)),
    "entry of dict": ("table['b']", ALL),
    "entry of OrderedDict": ("ordered['b']", ALL),
    "entry of defaultdict": ("lists['b']", ALL),
    "entry of mapping": ("store['b']", ALL),
    "list index": ("rows[1]", SHARED),
    "last list index": ("rows[-1]", SHARED, "rows[2]"),
    "absent in module": ("added", ("replace", "wrap")),
    "absent in class": ("Child.added", ("replace", "wrap")),
    "absent in instance": ("instance.added", ("replace", "wrap")),
    "absent in dict": ("table['added']", ("replace", "wrap")),
    "absent in OrderedDict": ("ordered['added']", ("replace", "wrap")),
    "absent in defaultdict": ("lists['added']", ("replace", "wrap")),
    "absent in mapping": ("store['added']", ("replace", "wrap")),
}


@dataclass(frozen=True)
class Cell:
    """A slot, and a verb that patches the slot; ``everywhere`` is *wrap* with ``reach="everywhere"``."""

    slot: str
    address: str
    verb: str
    place: str  # where the patch shows

    @property
    def is_in_place(self) -> bool:
        """True for a function that is changed inside; an inherited or forwarded name is patched in its slot."""
        is_own = not ("inherited" in self.slot or self.address == "lazy" or self.is_forwarded)
        return self.verb == "everywhere" and is_own

    @property
    def is_forwarded(self) -> bool:
        """True for a proxy without own values, not even in vars()."""
        return self.address.startswith("forwarding.")

    def __str__(self) -> str:
        return f"{self.slot}-{self.verb}".replace(" ", "_")


CELLS: Final = [
    Cell(slot, address, verb, shows[0] if shows else address)
    for slot, (address, verbs, *shows) in SLOTS.items()
    for verb in verbs
]


@functools.cache
def _parsed(address: str) -> tuple[CodeType, bool, Any]:
    """Return how to get the owner of an address, whether the slot is an item, and its key or name."""
    node: Any = ast.parse(f"module.{address}", mode="eval").body
    is_item = isinstance(node, ast.Subscript)
    owner = compile(ast.Expression(node.value), "<address>", "eval")
    return owner, is_item, ast.literal_eval(node.slice) if is_item else node.attr


def around(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    """Call the wrapped function without a change."""
    return wrapped(*args, **kwargs)


class World:
    """The module, new for each test, and a slot of the module."""

    opened: ClassVar[WeakSet[hookpatch.Session]] = WeakSet()

    def __init__(self, cell: Cell, imported: bool = True) -> None:
        self.cell: Final = cell
        self.given: Final[list[Any]] = [around]  # objects handed to hookpatch: must be clean at the end, too
        self.finders: Final = list(sys.meta_path)
        self.original: Any = None
        sys.modules.pop(NAME, None)
        targets.executed[:] = [self.executed]
        if imported:
            importlib.import_module(NAME)

    def executed(self, module: ModuleType) -> None:
        """Take a snapshot of the module when its code has run, before a patch is applied."""
        self.module, self.before = module, Snapshot(module)
        if self.original is ABSENT:  # executed again: the value of a patch is still in the slot
            self.before.drop(self.cell.place)
        self.original = self.there()
        owner, self.is_item, self.key = _parsed(self.cell.address)
        self.owner = eval(owner, {"module": module})
        self.in_mapping = is_mapping(self.owner)
        # The foreign value dies inside __setitem__: too early to set or delete.
        self.has_setter = self.in_mapping and type(self.owner).__setitem__ is not dict.__setitem__
        if self.in_mapping:
            self.key = next((key for key in self.owner if key == self.key), self.key)  # the identical key
        self.changes = {self.cell.place}
        if self.cell.is_in_place:
            function = self.owner[self.key] if self.is_item else getattr(self.owner, self.key)
            place = self.before.of_function(getattr(function, "__func__", function))
            self.changes = {f"{place}.{name}" for name in ("__code__", "__kwdefaults__", "__signature__", *ATTRIBUTES)}

    # the requests to hookpatch

    def at_hand(self) -> Target:
        """Return the slot as a target without an address."""
        return (Target.item if self.is_item else Target.attribute)(self.owner, self.key)

    def patch(self, verb: str = "", target: str | Target = "") -> hookpatch.Patch:
        """Return a patch of the slot by the cell's verb, unless another verb or target is given."""
        verb, target = verb or self.cell.verb, target or f"{NAME}:{self.cell.address}"
        value = lambda *args, key=None: None  # noqa: E731 - an object of its own for each patch
        self.given.append(value)
        if verb in ("wrap", "everywhere"):
            reach: Any = "slot" if verb == "wrap" else "everywhere"
            return hookpatch.wrap(target, around, reach=reach, add=self.cell.slot.startswith("absent"))
        if verb in ("inject", "default"):
            return getattr(hookpatch, verb)(target, key=value)
        if verb == "derive":
            return hookpatch.derive(target, lambda low: type("Low", (low,), {}) if isinstance(low, type) else value)
        return hookpatch.replace(target, value, add=True) if verb == "replace" else hookpatch.remove(target)

    def open(self, verb: str = "", target: str | Target = "") -> hookpatch.Session:
        """Open a session that patches the slot."""
        session = hookpatch.active(self.patch(verb, target)).open()
        self.opened.add(session)
        return session

    def is_patched(self, *also: str) -> bool:
        """Return True if the slot is changed, and no other place."""
        changed = set(self.before.changed(self.moves()))
        return bool(changed) and changed <= {*self.changes, *also}

    def moves(self, by_others: bool = False) -> str:
        """Return the place, if its position may be another at the end, because the name was deleted and set again.

        A remove deletes the name, and keeps the position in mappings only. Through a proxy with empty vars() we
        delete and set as mock.patch does.

        Args:
            by_others: whether foreign code has deleted the name, or set a name that we removed.
        """
        is_removed = self.cell.verb == "remove" and not self.in_mapping
        return self.cell.place if is_removed or by_others or self.cell.is_forwarded else ""

    # the actions of foreign code

    def there(self) -> Any:
        """Return the value in the slot, or ABSENT."""
        return self.before.now(self.cell.place)

    def put(self, value: Any) -> None:
        """Put a value into the slot, or delete the name or key for ABSENT."""
        if value is ABSENT:
            self.owner.__delitem__(self.key) if self.is_item else delattr(self.owner, self.key)
        elif self.is_item:
            self.owner[self.key] = value
        else:
            setattr(self.owner, self.key, value)

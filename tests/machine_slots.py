"""The modules and slots of the state machine, and the values for the slots."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import wrapt
from model import Place

from hookpatch import Target

VENDOR: Final = '''
from collections import OrderedDict
from collections.abc import MutableMapping

def function(x=""): return "o" + x

class Base:
    def own(self, x=""): return "o" + x
    @staticmethod
    def static(x=""): return "o" + x
    @classmethod
    def of_class(cls, x=""): return "o" + x
    @property
    def prop(self): return "o"

class Child(Base):
    __slots__ = ("member",)

class Stubborn(type):
    """Its classes refuse, while ``locked``, to have an attribute set or deleted."""
    locked = False
    def __setattr__(cls, name, value):
        if Stubborn.locked: raise RuntimeError(f"{name} is locked")
        super().__setattr__(name, value)
    def __delattr__(cls, name):
        if Stubborn.locked: raise RuntimeError(f"{name} is locked")
        super().__delattr__(name)

class Locked(metaclass=Stubborn):
    def own(self, x=""): return "o" + x

class Kind:
    def __str__(self): return "o"

class Mapping(MutableMapping):
    def __init__(self, **entries): self.entries = entries
    def __getitem__(self, key): return self.entries[key]
    def __setitem__(self, key, value): self.entries[key] = value
    def __delitem__(self, key): del self.entries[key]
    def __iter__(self): return iter(self.entries)
    def __len__(self): return len(self.entries)

def made():
    return lambda x="": "o" + x

child = Child()
child.attribute, child.member = made(), made()
table = {"first": 1, "entry": made(), "last": 2}
ordered = OrderedDict(first=1, entry=made(), last=2)
mapping = Mapping(first=1, entry=made(), last=2)
elements = [1, made(), 2]
c = "o".strip
held = {"first": 1, "c": c}
def default(held=c): return held()
def outer():
    held = c
    return lambda: held()
closure = outer()
kinds = [Kind, 1]

import machine_witness
machine_witness.executed(__name__)
'''

USER: Final = """
from machine_vendor import c as copied, function as alias
registry = {"first": 1, "function": alias}
def default(held=alias): return held()
def outer():
    held = alias
    return lambda: held()
closure = outer()

import machine_witness
machine_witness.executed(__name__)
"""

PLUGIN: Final = """
import hookpatch, machine_witness
@hookpatch.hookimpl
def hookpatch_patches():
    yield from machine_witness.patches["{owner}"]
"""

V, U = "machine_vendor", "machine_user"

CALLS, VALUES = ("wrap", "inject", "default"), ("replace", "derive")

# The verbs tried on each place: with reach="slot", and with reach="everywhere". Left out:
# - remove of a name that another class inherits, or from a slot without removal (a list, a class method);
# - the verbs for calls on a property and on a class: both are only derived and replaced;
# - inject and default for `c`: the function takes no argument.
TRIED: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    f"{V}:function": ((*CALLS, *VALUES, "remove"), (*CALLS, *VALUES)),
    f"{V}:Base.own": ((*CALLS, *VALUES), (*CALLS, *VALUES)),
    f"{V}:Child.own": ((*CALLS, *VALUES), ("wrap",)),
    f"{V}:child.own": ((*CALLS, *VALUES), ()),
    f"{V}:Base.static": ((*CALLS, *VALUES), (*CALLS, "derive")),
    f"{V}:Child.static": ((*CALLS, *VALUES), ()),
    f"{V}:Base.of_class": ((*CALLS, *VALUES), (*CALLS,)),
    f"{V}:Child.of_class": ((*CALLS, *VALUES), ()),
    f"{V}:Base.prop": (VALUES, ()),
    f"{V}:child.attribute": ((*CALLS, *VALUES, "remove"), ("wrap",)),
    f"{V}:child.member": ((*CALLS, *VALUES, "remove"), ("wrap",)),
    f"{V}:Locked.own": ((*CALLS, *VALUES), ("wrap",)),
    f"{V}:table['entry']": ((*CALLS, *VALUES, "remove"), ("wrap",)),
    f"{V}:ordered['entry']": ((*CALLS, *VALUES, "remove"), ("wrap",)),
    f"{V}:mapping['entry']": ((*CALLS, *VALUES, "remove"), ("wrap",)),
    f"{V}:elements[1]": ((*CALLS, *VALUES), ("wrap",)),
    f"{V}:added": ((*CALLS, *VALUES, "remove"), ()),
    f"{V}:table['added']": ((*CALLS, *VALUES, "remove"), ()),
    f"{V}:ordered['added']": ((*CALLS, *VALUES, "remove"), ()),
    f"{V}:mapping['added']": ((*CALLS, *VALUES, "remove"), ()),
    f"{V}:c": (("wrap", *VALUES), ("wrap", *VALUES)),
    f"{V}:Kind": (VALUES, VALUES),
    f"{U}:alias": ((*CALLS, *VALUES), (*CALLS, *VALUES)),
    f"{U}:registry['function']": ((*CALLS, *VALUES), ("wrap",)),
    f"{U}:copied": (("wrap", *VALUES), ()),
    f"{V} (enter)": (("enter",), ()),
}

# The foreign values tried on each place. Left out: static and class methods, properties, classes. Foreign code deletes
# no entry of a mapping: the removal of the foreign value would add the entry again, at the end.
FOREIGN: Final = ("closure", "lambda", "proxy", "mock", "value", "deleted")

OTHERS: Final[dict[str, tuple[str, ...]]] = {
    f"{V}:function": FOREIGN,
    f"{V}:Base.own": FOREIGN[:-1],
    f"{V}:Child.own": FOREIGN[:-1],
    f"{V}:child.own": FOREIGN[:-1],
    f"{V}:child.attribute": FOREIGN,
    f"{V}:child.member": FOREIGN,
    f"{V}:Locked.own": FOREIGN[:-1],
    f"{V}:table['entry']": ("closure", "lambda", "proxy", "value"),
    f"{V}:ordered['entry']": ("closure", "proxy", "value"),
    f"{V}:mapping['entry']": ("closure", "proxy", "value"),
    f"{V}:elements[1]": ("closure", "proxy", "value"),
    f"{V}:added": ("value", "deleted"),
    f"{U}:alias": FOREIGN,
}

# Places that affect each other; and some places alone, to concentrate all steps on a single place.
TOGETHER: Final = (
    (f"{V}:function", f"{U}:alias"),
    (f"{V}:c", f"{U}:copied"),
    (f"{V}:c",),
    (f"{V}:Kind",),
    (f"{V}:Base.own", f"{V}:Child.own", f"{V}:child.own"),
    (f"{V}:Base.static", f"{V}:Child.static"),
    (f"{V}:child.attribute",),
    (f"{V}:Locked.own",),
    (f"{V}:added",),
    (f"{V}:table['entry']", f"{V}:table['added']"),
)

# Places of calls without an argument.
WITHOUT: Final = {f"{V}:c", f"{V}:Kind", f"{V}:Base.prop", f"{U}:copied", "held", "default", "closure", "kinds"} | {
    "user default",
    "user closure",
}

# Attributes of modules are named in words: a target by the module at hand does not notice a reload of the module.
OF_MODULES: Final = {f"{V}:function", f"{V}:added", f"{V}:Kind", f"{V}:c", f"{U}:alias", f"{U}:copied", f"{V} (enter)"}

OWNERS: Final = (None, None, None, "outer", "inner", "third")

MISSING: Final = object()


class Spot:
    """A slot of the model together with the real slot, which is read here without hookpatch."""

    def __init__(self, place: Place, owner: Any, name: Any, call: Callable[[], Any]) -> None:
        self.place: Final = place
        self.owner: Final = owner
        self.name: Final = name
        self._call: Final = call

    @property
    def is_item(self) -> bool:
        return isinstance(self.owner, (Mapping, list))

    def raw(self) -> Any:
        """Return the value that the slot holds."""
        if isinstance(self.owner, list):
            return self.owner[self.name]
        if self.is_item:
            return self.owner.get(self.name, MISSING)
        if self.name == "member":
            return getattr(self.owner, self.name, MISSING)
        if self.name == "__defaults__":
            return self.owner.__defaults__[0]
        if self.name == "cell_contents":
            return self.owner.cell_contents
        return vars(self.owner).get(self.name, MISSING)

    def set(self, value: Any) -> None:
        """Set or delete the value of the slot, as foreign code does."""
        if self.is_item:
            self.owner[self.name] = value
        elif value is not MISSING:
            setattr(self.owner, self.name, value)
        elif self.raw() is not MISSING:
            delattr(self.owner, self.name)

    def answer(self, x: str) -> str:
        """Return the answer of a call."""
        return str(self._call()(x=x) if x else self._call()())

    def target(self) -> Target:
        """Return the target for the owner at hand."""
        return Target.item(self.owner, self.name) if self.is_item else Target.attribute(self.owner, self.name)


def tried_on(label: str) -> list[tuple[str, str, str]]:
    slot, everywhere = TRIED[label]
    return [*((label, verb, "slot") for verb in slot), *((label, verb, "everywhere") for verb in everywhere)]


def module_of(label: str) -> str:
    """Return the module of a label."""
    return label.replace(" ", ":").partition(":")[0]


def _wrapped(tag: str, saved: Any) -> Any:
    @functools.wraps(saved)
    def closure(*args: Any, **kwargs: Any) -> str:
        return f"{tag}<{saved(*args, **kwargs)}>"

    return closure


def _lambda(tag: str, saved: Any) -> Any:
    return lambda *args, **kwargs: f"{tag}<{saved(*args, **kwargs)}>"


def _proxy(tag: str, saved: Any) -> Any:
    return wrapt.FunctionWrapper(saved, lambda w, i, a, k: f"{tag}<{w(*a, **k)}>")


FOREIGN_WRAPPERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "closure": _wrapped,
    "lambda": _lambda,
    "proxy": _proxy,
    "value": lambda tag, saved: given_for(tag, "Base.static" if isinstance(saved, staticmethod) else ""),
}


def given_for(tag: str, label: str) -> Any:
    """Return a new object that answers with a tag, for a place."""
    if label == f"{V}:Base.prop":
        return property(lambda self: tag)
    if label == f"{V}:Kind":
        return type("Given", (), {"__str__": lambda self: tag})

    def given(*args: Any, **kwargs: Any) -> str:
        return tag

    if label.endswith(".of_class"):
        return classmethod(given)
    return staticmethod(given) if label.endswith(".static") else given


def derived_of(tag: str, below: Any) -> Any:
    """Return a derived object of the same kind as the object below."""
    if isinstance(below, type):

        class Kind(below):  # type: ignore[misc]  # mypy has no name for the base
            def __str__(self) -> str:
                return f"{tag}[{super().__str__()}]"

        return Kind
    if isinstance(below, property):
        return property(lambda self: f"{tag}[{below.fget(self)}]")
    if isinstance(below, (staticmethod, classmethod)):
        return type(below)(derived_of(tag, below.__func__))
    return lambda *args, **kwargs: f"{tag}[{below(*args, **kwargs)}]"

"""Slots: every kind of place is patched, and afterwards holds again exactly what it held, or nothing."""

from __future__ import annotations

import array
import os
import sys
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import hookpatch
from hookpatch import Target, errors

MakeModule = Callable[[str, str], ModuleType]

SOURCE = """
    from types import MappingProxyType

    def function():
        return "original"

    class Meta(type):
        def meta_method(cls):
            return "original"

    class Base(metaclass=Meta):
        limit = 1
        def inherited(self):
            return "original"
        @classmethod
        def inherited_class(cls):
            assert issubclass(cls, Base)
            return "original"
        @staticmethod
        def inherited_static():
            return "original"

    class Child(Base):
        first = "first"
        def method(self):
            return "original"
        @classmethod
        def class_method(cls):
            assert cls is Child
            return "original"
        @staticmethod
        def static_method():
            return "original"
        @property
        def attribute(self):
            return "original"
        class Nested:
            def method(self):
                return "original"
        last = "last"

    class Slotted:
        __slots__ = ("member", "unset")
        def __init__(self):
            self.member = function

    instance = Child()
    instance.own = function
    slotted = Slotted()
    table = {"first": 1, "function": function, "last": 3}
    rows = [function, 2, function]
    shown = MappingProxyType(table)
    LIMIT = 1
"""

# address -> how it is called; all return "original"
CALLABLE = {
    "function": lambda m: m.function(),
    "Child.method": lambda m: m.Child().method(),
    "Child.class_method": lambda m: m.Child.class_method(),
    "Child.static_method": lambda m: m.Child.static_method(),
    "Child.inherited": lambda m: m.Child().inherited(),
    "Child.inherited_class": lambda m: m.Child.inherited_class(),
    "Child.inherited_static": lambda m: m.Child.inherited_static(),
    "Child.Nested.method": lambda m: m.Child.Nested().method(),
    "Meta.meta_method": lambda m: m.Child.meta_method(),
    "instance.own": lambda m: m.instance.own(),
    "instance.method": lambda m: m.instance.method(),
    "slotted.member": lambda m: m.slotted.member(),
    "table['function']": lambda m: m.table["function"](),
    "rows[0]": lambda m: m.rows[0](),
    "rows[-1]": lambda m: m.rows[2](),
}

OWN = [address for address in CALLABLE if "inherited" not in address and address not in ("instance.method",)]


@pytest.fixture
def kinds(make_module: MakeModule) -> ModuleType:
    """A module with a slot of every kind."""
    return make_module("kinds", SOURCE)


def _owners(module: ModuleType) -> list[Mapping[Any, Any]]:
    classes = (module.Meta, module.Base, module.Child, module.Child.Nested, module.Slotted)
    return [
        vars(module),
        *map(vars, classes),
        vars(module.instance),
        vars(module.function),
        vars(vars(module.Child)["method"]),
        module.table,
        dict(enumerate(module.rows)),
        {"member": module.slotted.member, "unset": getattr(module.slotted, "unset", None)},
    ]


def _contents(module: ModuleType) -> list[list[tuple[Any, Any]]]:
    return [list(owner.items()) for owner in _owners(module)]


def _same(before: list[list[tuple[Any, Any]]], after: list[list[tuple[Any, Any]]]) -> bool:
    """Tell whether all owners hold identical objects under the same keys in the same order."""
    return [[key for key, _ in owner] for owner in before] == [[key for key, _ in owner] for owner in after] and all(
        old is new for owners in zip(before, after, strict=True) for (_, old), (_, new) in zip(*owners, strict=True)
    )


def _around(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> str:
    return f"patched({wrapped(*args, **kwargs)})"


@pytest.mark.parametrize("address", CALLABLE)
def test_wrapped_slot_of_every_kind_is_restored_exactly(kinds: ModuleType, address: str) -> None:
    """A wrap works on every kind of slot; afterwards each owner holds identical objects in identical order."""
    before = _contents(kinds)
    call = CALLABLE[address]
    with hookpatch.active(hookpatch.wrap(f"kinds:{address}", _around)) as session:
        assert call(kinds) == "patched(original)"
    assert call(kinds) == "original"
    assert _same(before, _contents(kinds))
    assert [patch.state for patch in session.report()] == ["restored"]


@pytest.mark.parametrize("address", CALLABLE)
def test_replaced_slot_of_every_kind_is_restored_exactly(kinds: ModuleType, address: str) -> None:
    """A value put into any kind of slot stands there itself, and goes again without a trace."""
    before = _contents(kinds)
    value = staticmethod(lambda: "value") if address.startswith(("Child", "Meta")) else lambda: "value"
    if address == "Meta.meta_method":
        value = lambda cls: "value"  # noqa: E731 - a function of one argument, for the metaclass
    with hookpatch.active(hookpatch.replace(f"kinds:{address}", value)):
        assert CALLABLE[address](kinds) == "value"
        held = [entry for owner in _owners(kinds) for entry in owner.values()]
        assert any(entry is value for entry in held)
    assert _same(before, _contents(kinds))


@pytest.mark.parametrize("address", OWN)
def test_derive_gets_what_lies_in_the_slot(kinds: ModuleType, address: str) -> None:
    """A factory gets the slot's own object, descriptors included, never a bound one."""
    before = _contents(kinds)
    got: list[Any] = []

    def factory(original: Any) -> Any:
        got.append(original)
        return original

    with hookpatch.active(hookpatch.derive(f"kinds:{address}", factory)):
        assert CALLABLE[address](kinds) == "original"
    (original,) = got
    assert any(original is value for owner in before for _, value in owner)
    assert _same(before, _contents(kinds))


@pytest.mark.parametrize("address", ["function", "Child.method", "Child.class_method", "instance.own", "LIMIT"])
def test_removed_attribute_is_the_identical_object_again(kinds: ModuleType, address: str) -> None:
    """A removed attribute is absent from its owner's own vars(), and comes back as the identical object."""
    *path, name = address.split(".")
    owner = getattr(kinds, path[0]) if path else kinds
    before = dict(vars(owner))
    with hookpatch.active(hookpatch.remove(f"kinds:{address}")):
        assert name not in vars(owner)
        assert not hasattr(owner, name)
    assert vars(owner)[name] is before[name]
    assert set(vars(owner)) == set(before)


def test_unset_member_of_slots_is_unset_again(kinds: ModuleType) -> None:
    """A member of __slots__ that held nothing holds nothing again."""
    with hookpatch.active(hookpatch.replace("kinds:slotted.unset", 5)):
        assert kinds.slotted.unset == 5
    assert not hasattr(kinds.slotted, "unset")


def test_descriptor_of_slots_is_restored_in_its_class(kinds: ModuleType) -> None:
    """Patching the class, not the instance, replaces the member descriptor and restores the identical one."""
    descriptor = vars(kinds.Slotted)["member"]
    value = kinds.slotted.member
    with hookpatch.active(hookpatch.replace("kinds:Slotted.member", 5)):
        assert kinds.slotted.member == 5
    assert vars(kinds.Slotted)["member"] is descriptor
    assert kinds.slotted.member is value


def test_inherited_value_is_deleted_not_set(kinds: ModuleType) -> None:
    """A replaced class attribute that was inherited is inherited again: a later change of the base is seen."""
    with hookpatch.active(hookpatch.replace("kinds:Child.limit", 9)):
        assert (kinds.Child.limit, kinds.Base.limit) == (9, 1)
    assert "limit" not in vars(kinds.Child)
    kinds.Base.limit = 2
    assert kinds.Child.limit == 2


def test_instance_attribute_hides_its_class_only_in_the_block(kinds: ModuleType) -> None:
    """A method patched on one instance touches neither its class nor other instances."""
    with hookpatch.active(hookpatch.wrap("kinds:instance.method", _around)):
        assert kinds.instance.method() == "patched(original)"
        assert kinds.Child().method() == "original"
    assert "method" not in vars(kinds.instance)


def test_attribute_absent_before_is_absent_again(kinds: ModuleType) -> None:
    """A name that replace added is gone from module, class and instance; so is it from hasattr."""
    owners = (kinds, kinds.Child, kinds.instance)
    before = _contents(kinds)
    patches = [hookpatch.replace(Target.attribute(owner, "added"), owner) for owner in owners]
    with hookpatch.active(*patches):
        assert all(vars(owner)["added"] is owner for owner in owners)
    assert not any(hasattr(owner, "added") for owner in owners)
    assert _same(before, _contents(kinds))


def test_property_is_not_run_and_restored_as_descriptor(make_module: MakeModule) -> None:
    """A property is read as it lies in the class: its getter does not run, and the identical property comes back."""
    module = make_module(
        "properties",
        """
        ran = []
        class Model:
            @property
            def size(self):
                ran.append("getter")
                return 1
        """,
    )
    before = vars(module.Model)["size"]

    def doubled(original: property) -> property:
        assert original.fget is not None
        get = original.fget
        return property(lambda self: 2 * get(self))

    with hookpatch.active(hookpatch.derive("properties:Model.size", doubled)):
        assert module.ran == []
        assert module.Model().size == 2
    assert vars(module.Model)["size"] is before


def test_patched_and_removed_names_take_part_in_the_mro(kinds: ModuleType) -> None:
    """While a class's own method is removed, the base's is found; afterwards the own one is again."""
    kinds.Child.inherited = lambda self: "own"
    own = vars(kinds.Child)["inherited"]
    with hookpatch.active(hookpatch.remove("kinds:Child.inherited")):
        assert kinds.Child().inherited() == "original"
    assert vars(kinds.Child)["inherited"] is own


@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda items: defaultdict(list, items), Counter])
@pytest.mark.parametrize("key", ["a", "b", "c"])
def test_removed_key_comes_back_at_its_position(kind: Callable[[dict[str, int]], Any], key: str) -> None:
    """A removed key is back between the neighbours that it had, with the identical key and value."""
    mapping = kind({"a": 1000, "b": 2000, "c": 3000})
    before = list(mapping.items())
    with hookpatch.active(hookpatch.remove(Target.item(mapping, key))):
        assert key not in mapping
        assert len(mapping) == 2
    assert list(mapping.items()) == before
    assert all(old is new for (_, old), (_, new) in zip(before, mapping.items(), strict=True))


def test_keys_others_added_stay_behind_the_key_that_comes_back() -> None:
    """Keys that others added meanwhile keep their value, order and place at the end."""
    mapping = {"a": 1, "b": 2, "c": 3}
    with hookpatch.active(hookpatch.remove(Target.item(mapping, "b"))):
        mapping["x"] = 10
        mapping["y"] = 11
        del mapping["a"]
    assert list(mapping.items()) == [("b", 2), ("c", 3), ("x", 10), ("y", 11)]


def test_replaced_key_keeps_its_position() -> None:
    """A key that is replaced never moves, neither while it is nor afterwards."""
    mapping = {"a": object(), "b": object(), "c": object()}
    before = list(mapping.items())
    with hookpatch.active(hookpatch.replace(Target.item(mapping, "b"), 5)):
        assert list(mapping) == ["a", "b", "c"]
        mapping["x"] = 1
    assert list(mapping.items()) == [*before, ("x", 1)]


def test_key_absent_before_is_absent_again() -> None:
    """An entry that replace added to a mapping goes again, and nothing else moves."""
    mapping = {"a": 1, "b": 2}
    with hookpatch.active(hookpatch.replace(Target.item(mapping, "new"), 3)):
        mapping["x"] = 4
        assert mapping["new"] == 3
    assert list(mapping.items()) == [("a", 1), ("b", 2), ("x", 4)]


def test_defaultdict_is_read_without_making_entries() -> None:
    """Looking at a key that a defaultdict does not have makes no entry, whether the patch is refused or not."""
    made: list[str] = []
    mapping: defaultdict[str, list[int]] = defaultdict(lambda: made.append("made") or [])  # type: ignore[func-returns-value]  # notes each call
    with pytest.raises(errors.TargetNotFound), hookpatch.active(hookpatch.remove(Target.item(mapping, "k"))):
        pass
    with hookpatch.active(hookpatch.replace(Target.item(mapping, "k"), [1])):
        assert mapping["k"] == [1]
    assert "k" not in mapping
    assert made == []


class Folded(MutableMapping[str, Any]):
    """A mapping that is no dict: keys without regard to case, in order of insertion, no ``get`` of its own."""

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = {key.lower(): value for key, value in items.items()}

    def __getitem__(self, key: str) -> Any:
        return self._items[key.lower()]

    def __setitem__(self, key: str, value: Any) -> None:
        self._items[key.lower()] = value

    def __delitem__(self, key: str) -> None:
        del self._items[key.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


def test_mapping_that_is_no_dict_is_patched_through_its_own_methods() -> None:
    """Entries of any MutableMapping are wrapped, replaced, added and removed, and restored in order."""
    mapping = Folded({"a": lambda: "original", "b": object(), "c": object()})
    before = list(mapping.items())
    with hookpatch.active(
        hookpatch.wrap(Target.item(mapping, "a"), _around),
        hookpatch.remove(Target.item(mapping, "b")),
        hookpatch.replace(Target.item(mapping, "c"), 5),
        hookpatch.replace(Target.item(mapping, "d"), 6),
    ):
        assert mapping["a"]() == "patched(original)"
        assert list(mapping) == ["a", "c", "d"]
    assert list(mapping) == ["a", "b", "c"]
    assert all(mapping[key] is value for key, value in before)


def test_read_only_mapping_is_refused_and_unchanged(kinds: ModuleType) -> None:
    """An entry of a MappingProxyType is refused with where to go instead; what it shows is as before."""
    before = _contents(kinds)
    with (
        pytest.raises(errors.TargetRefused) as caught,
        hookpatch.active(hookpatch.replace("kinds:shown['first']", 2)),
    ):
        pass
    assert str(caught.value) == (
        "kinds:shown is a read-only mappingproxy; patch what it shows instead "
        "(target kinds:shown['first'] of a patch given to active())"
    )
    assert _same(before, _contents(kinds))


@pytest.mark.parametrize("index", [0, 2, -1, -3])
@pytest.mark.parametrize("kind", [list, deque])
def test_list_index_is_replaced_and_restored(kind: Callable[[list[Any]], Any], index: int) -> None:
    """An index of a list, negative ones too, holds the value and afterwards the identical object."""
    items = kind([object(), object(), object()])
    before = list(items)
    value = object()
    with hookpatch.active(hookpatch.replace(Target.item(items, index), value)):
        assert items[index] is value
        assert sum(item is value for item in items) == 1
    assert all(old is new for old, new in zip(before, items, strict=True))


def test_negative_and_positive_index_are_one_site() -> None:
    """Two patches that name one place of a list differently lie over each other and come off in any order."""
    items = [lambda: "a", lambda: "b"]
    original = items[1]
    first = hookpatch.active(hookpatch.wrap(Target.item(items, 1), _around)).open()
    second = hookpatch.active(hookpatch.wrap(Target.item(items, -1), _around)).open()
    assert items[1]() == "patched(patched(b))"
    first.close()
    assert items[1]() == "patched(b)"
    second.close()
    assert items[1] is original


@pytest.mark.parametrize("index", [2, -3])
def test_index_outside_the_list_is_refused(index: int) -> None:
    """A place that a list does not have is not there, and the list keeps its length."""
    items = [1, 2]
    with pytest.raises(errors.TargetNotFound), hookpatch.active(hookpatch.replace(Target.item(items, index), 3)):
        pass
    assert items == [1, 2]


@pytest.mark.parametrize("kind", [list, deque])
def test_entry_of_a_list_cannot_be_removed(kinds: ModuleType, kind: Callable[[list[Any]], Any]) -> None:
    """Removing an entry would move its neighbours: it is refused, by address and at hand, and the list is as it was."""
    kinds.rows = kind([0, 1, 2])
    before = list(kinds.rows)
    for target in (Target("kinds:rows[1]"), Target.item(kinds.rows, 1)):
        with pytest.raises(errors.HookpatchError), hookpatch.active(hookpatch.remove(target)):
            pass
        assert list(kinds.rows) == before


@pytest.mark.parametrize("key", [1, (1, "a"), None, b"k", frozenset({1}), True])
def test_key_of_any_hashable_kind(key: Any) -> None:
    """Keys need not be text."""
    mapping = {key: lambda: "original"}
    original = mapping[key]
    with hookpatch.active(hookpatch.wrap(Target.item(mapping, key), _around)):
        assert mapping[key]() == "patched(original)"
    assert mapping[key] is original


def test_key_that_is_an_address(make_module: MakeModule) -> None:
    """A key can be an object named by its address; the entry under it is patched."""
    module = make_module("keyed", "class Linear: pass\nTABLE = {Linear: lambda: 'original'}\n")
    original = module.TABLE[module.Linear]
    with hookpatch.active(hookpatch.wrap("keyed:TABLE[keyed:Linear]", _around)):
        assert module.TABLE[module.Linear]() == "patched(original)"
    assert module.TABLE[module.Linear] is original


@pytest.mark.parametrize(
    ("address", "verb"),
    [
        ("builtins:dict.get", "wrap"),
        ("builtins:dict.get", "replace"),
        ("builtins:dict.get", "remove"),
        ("builtins:int.real", "derive"),
        ("builtins:object.hookpatch_added", "replace"),
        ("datetime:datetime.now", "wrap"),
    ],
)
def test_built_in_type_is_refused_with_nothing_changed(address: str, verb: str) -> None:
    """A type of the interpreter's own takes no patch; it is refused and its vars() are as before."""
    path = address.partition(":")[2].split(".")[0]
    owner = getattr(sys.modules[address.partition(":")[0]], path)
    before = dict(vars(owner))
    patch = {
        "wrap": lambda: hookpatch.wrap(address, _around),
        "replace": lambda: hookpatch.replace(address, 1),
        "derive": lambda: hookpatch.derive(address, lambda original: property(lambda self: 1)),
        "remove": lambda: hookpatch.remove(address),
    }[verb]()
    with pytest.raises(errors.ApplyError, match="immutable type"), hookpatch.active(patch):
        pass
    assert list(vars(owner)) == list(before)
    assert all(vars(owner)[name] is value for name, value in before.items())


def test_frozen_instance_is_refused_with_nothing_changed() -> None:
    """An instance that lets nobody set its attributes keeps them."""

    @dataclass(frozen=True)
    class Options:
        limit: int = 1

    options = Options()
    with pytest.raises(errors.ApplyError), hookpatch.active(hookpatch.replace(Target.attribute(options, "limit"), 2)):
        pass
    assert vars(options) == {"limit": 1}


@pytest.mark.parametrize("address", ["kinds:nothing", "kinds:Child.nothing", "kinds:Child.Nothing.method"])
@pytest.mark.parametrize("verb", [hookpatch.remove, lambda address: hookpatch.wrap(address, _around)])
def test_name_that_is_not_there_is_an_error(
    kinds: ModuleType, address: str, verb: Callable[[str], hookpatch.Patch]
) -> None:
    """Only replace makes a new name; for the other verbs, and on the way, a missing name is an error."""
    before = _contents(kinds)
    with pytest.raises(errors.TargetNotFound), hookpatch.active(verb(address)):
        pass
    assert _same(before, _contents(kinds))


def test_inherited_attribute_cannot_be_removed(kinds: ModuleType) -> None:
    """What is inherited is not in the class: removing it there is refused with where to remove it."""
    with pytest.raises(errors.TargetRefused) as caught, hookpatch.active(hookpatch.remove("kinds:Child.inherited")):
        pass
    assert str(caught.value) == (
        "kinds:Child.inherited is inherited; remove it from the class that defines it "
        "(target kinds:Child.inherited of a patch given to active())"
    )
    assert "inherited" not in vars(kinds.Child)


def test_value_that_cannot_be_called_is_refused_for_wrap(kinds: ModuleType) -> None:
    """A wrap needs something to call."""
    with (
        pytest.raises(errors.TargetRefused, match="kinds:LIMIT holds an int, which cannot be called"),
        hookpatch.active(hookpatch.wrap("kinds:LIMIT", _around)),
    ):
        pass
    assert kinds.LIMIT == 1


def test_none_is_a_value_and_not_absence() -> None:
    """A slot that held None holds None again; one that held nothing does not."""
    owner = SimpleNamespace(value=None)
    mapping = {"value": None}
    with hookpatch.active(
        hookpatch.replace(Target.attribute(owner, "value"), 1), hookpatch.replace(Target.item(mapping, "value"), 1)
    ):
        assert (owner.value, mapping["value"]) == (1, 1)
    assert vars(owner) == {"value": None}
    assert mapping == {"value": None}


def test_none_can_be_put_into_a_slot(kinds: ModuleType) -> None:
    """None put into a slot stands there: the name is not absent."""
    with hookpatch.active(hookpatch.replace("kinds:LIMIT", None), hookpatch.replace("kinds:table['first']", None)):
        assert vars(kinds)["LIMIT"] is None
        assert kinds.table["first"] is None
    assert (kinds.LIMIT, kinds.table["first"]) == (1, 1)


def test_name_that_a_module_fetches_on_demand_is_absent_again(make_module: MakeModule) -> None:
    """A name that only a module's __getattr__ knows is patched, and is not in the module's vars() afterwards."""
    module = make_module(
        "on_demand",
        """
        def __getattr__(name):
            if name == "lazy":
                return lambda: "original"
            raise AttributeError(name)
        """,
    )
    before = list(vars(module))
    with hookpatch.active(hookpatch.wrap("on_demand:lazy", _around)):
        assert module.lazy() == "patched(original)"
    assert module.lazy() == "original"
    assert list(vars(module)) == before


# --- what an object keeps itself


def test_defaults_of_a_function_are_the_identical_object_again() -> None:
    """An attribute that the interpreter keeps in the object itself is read, set and restored like any other."""

    def function(x: int = 1) -> int:
        return x

    before = function.__defaults__
    with hookpatch.active(hookpatch.replace(Target.attribute(function, "__defaults__"), (5,))):
        assert function() == 5
    assert function.__defaults__ is before
    assert vars(function) == {}


def test_name_of_a_class_is_restored() -> None:
    """A name that the interpreter keeps for a class is restored, and nothing is left in the class."""

    class Model:
        pass

    before = list(vars(Model))
    with hookpatch.active(hookpatch.replace(Target.attribute(Model, "__name__"), "Other")):
        assert Model.__name__ == "Other"
    assert Model.__name__ == "Model"
    assert list(vars(Model)) == before


def test_class_of_an_instance_is_restored() -> None:
    """An instance given another class is of its own class again."""

    class Model:
        pass

    class Other:
        pass

    model = Model()
    with hookpatch.active(hookpatch.replace(Target.attribute(model, "__class__"), Other)):
        assert type(model) is Other
    assert type(model) is Model
    assert vars(model) == {}


# --- owners that keep elsewhere, or otherwise, what is set


def test_property_with_a_setter_is_refused_on_an_instance(make_module: MakeModule) -> None:
    """Setting it would run the setter, which nothing can undo: refused with the property's address, which works."""
    module = make_module(
        "properties",
        """
        class Model:
            def __init__(self):
                self.kept = 1000
            @property
            def size(self):
                return self.kept
            @size.setter
            def size(self, size):
                self.kept = size
        model = Model()
        """,
    )
    model, kept, before = module.model, module.model.kept, vars(module.Model)["size"]
    with pytest.raises(errors.TargetRefused) as caught, hookpatch.active(hookpatch.replace("properties:model.size", 7)):
        pass
    assert str(caught.value) == (
        f"<Model object at {id(model):#x}>.size is a property of its class: to set it would run it; patch "
        "properties:Model.size (target properties:model.size of a patch given to active())"
    )
    assert list(vars(model)) == ["kept"]
    assert model.kept is kept
    with hookpatch.active(hookpatch.replace("properties:Model.size", property(lambda self: 7))):
        assert model.size == 7
    assert vars(module.Model)["size"] is before
    assert model.kept is kept


@pytest.mark.model
def test_parameter_of_a_torch_module_is_refused_where_it_is_not_kept() -> None:
    """A parameter is refused as an attribute; as the entry that the message names it is replaced and restored."""
    import torch

    layer, other = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.zeros(2, 2))
    before, attributes, parameters = layer.weight, dict(vars(layer)), list(layer._parameters)
    with (
        pytest.raises(errors.TargetRefused) as caught,
        hookpatch.active(hookpatch.replace(Target.attribute(layer, "weight"), other)),
    ):
        pass
    place = f"<Linear object at {id(layer):#x}>.weight"
    assert str(caught.value) == (
        f"{place} is kept in _parameters of a Linear; take hookpatch.Target.item(owner._parameters, 'weight') "
        f"(target {place} of a patch given to active())"
    )
    assert layer.weight is before
    with hookpatch.active(hookpatch.replace(Target.item(layer._parameters, "weight"), other)):
        assert layer.weight is other
    assert layer.weight is before
    assert list(layer._parameters) == parameters
    assert list(vars(layer)) == list(attributes)
    assert all(vars(layer)[name] is value for name, value in attributes.items())


@pytest.mark.model
def test_submodule_of_a_torch_module_is_refused_where_it_is_not_kept() -> None:
    """A submodule is refused as an attribute; as an entry of ``_modules`` it is replaced and restored in its place."""
    import torch

    model = torch.nn.Sequential(OrderedDict(a=torch.nn.ReLU(), b=torch.nn.Tanh()))
    other, before, attributes = torch.nn.Tanh(), list(model._modules.items()), dict(vars(model))
    with (
        pytest.raises(errors.TargetRefused) as caught,
        hookpatch.active(hookpatch.replace(Target.attribute(model, "a"), other)),
    ):
        pass
    place = f"<Sequential object at {id(model):#x}>.a"
    assert str(caught.value) == (
        f"{place} is kept in _modules of a Sequential; take hookpatch.Target.item(owner._modules, 'a') "
        f"(target {place} of a patch given to active())"
    )
    assert model.a is before[0][1]
    with hookpatch.active(hookpatch.replace(Target.item(model._modules, "a"), other)):
        assert model.a is other
        assert [name for name, _ in model.named_children()] == ["a", "b"]
    assert [name for name, _ in before] == list(model._modules)
    assert all(model._modules[name] is submodule for name, submodule in before)
    assert list(vars(model)) == list(attributes)
    assert all(vars(model)[name] is value for name, value in attributes.items())


def test_inherited_new_is_refused_and_the_class_can_be_called() -> None:
    """CPython cannot undo a __new__ that was set and deleted: refused, and the class still takes its arguments."""

    class Model:
        def __init__(self, size: int) -> None:
            self.size = size

    before = list(vars(Model))
    with (
        pytest.raises(errors.TargetRefused) as caught,
        hookpatch.active(hookpatch.wrap(Target.attribute(Model, "__new__"), _around)),
    ):
        pass
    place = f"{__name__}:test_inherited_new_is_refused_and_the_class_can_be_called.<locals>.Model.__new__"
    assert str(caught.value) == (
        f"{place} is inherited, and a class whose __new__ was set and deleted can no longer be called with arguments; "
        f"patch __init__, or the class that defines it (target {place} of a patch given to active())"
    )
    assert list(vars(Model)) == before
    assert Model(5).size == 5


class Deaf(type):
    """A metaclass whose classes do not hear when their ``size`` is set."""

    def __setattr__(cls, name: str, value: object) -> None:
        if name != "size":
            super().__setattr__(name, value)


class Texts(dict[str, str]):
    """A mapping that makes text of what is put there."""

    def __setitem__(self, key: str, value: object) -> None:
        super().__setitem__(key, str(value))


def test_class_that_does_not_keep_what_is_set_is_refused() -> None:
    """An owner that ignores what is set is found out: refused, not reported as patched, and it is as before."""

    class Model(metaclass=Deaf):
        size = 1000

    before = dict(vars(Model))
    with (
        pytest.raises(errors.TargetRefused) as caught,
        hookpatch.active(hookpatch.replace(Target.attribute(Model, "size"), 2)),
    ):
        pass
    place = f"{__name__}:test_class_that_does_not_keep_what_is_set_is_refused.<locals>.Model.size"
    assert str(caught.value) == (
        f"{place} does not keep what is put there; patch what it is made from "
        f"(target {place} of a patch given to active())"
    )
    assert list(vars(Model)) == list(before)
    assert all(vars(Model)[name] is value for name, value in before.items())


@pytest.mark.parametrize("key", ["a", "new"])
def test_dict_that_makes_something_else_of_its_values_is_patched_as_it_keeps_them(key: str) -> None:
    """What its class does on setting and getting is passed by, so that what it kept is there again, as it was."""
    texts = Texts(a="first", b="second")
    before = list(dict.items(texts))
    with hookpatch.active(hookpatch.replace(Target.item(texts, key), 5)):
        assert dict.__getitem__(texts, key) == 5
    assert [name for name, _ in before] == list(texts)
    assert all(dict.__getitem__(texts, name) is value for name, value in before)
    with hookpatch.active(hookpatch.remove(Target.item(texts, "a"))):
        assert list(texts) == ["b"]
    assert all(one[0] == other[0] and one[1] is other[1] for one, other in zip(dict.items(texts), before, strict=True))


@pytest.mark.parametrize("key", ["a", "new"])
def test_mapping_that_keeps_something_else_is_refused(key: str) -> None:
    """A mapping that is no dict is set and read by its own methods; if these do not agree, the patch is refused."""

    class Tagged(UserDict[str, str]):
        def __setitem__(self, name: str, value: str) -> None:
            super().__setitem__(name, value.removesuffix("!") + "!")

    tagged = Tagged(a="first!", b="second!")
    before = list(tagged.items())
    with (
        pytest.raises(errors.TargetRefused) as caught,
        hookpatch.active(hookpatch.replace(Target.item(tagged, key), "plain")),
    ):
        pass
    place = f"<{Tagged.__qualname__} object at {id(tagged):#x}>[{key!r}]"
    assert str(caught.value) == (
        f"{place} does not keep what is put there; patch what it is made from "
        f"(target {place} of a patch given to active())"
    )
    assert list(tagged.items()) == before


@pytest.mark.model
def test_name_added_to_a_torch_module_is_absent_again() -> None:
    """The module keeps submodules and parameters elsewhere; what it takes in is taken out."""
    import torch

    layer = torch.nn.Linear(2, 2)
    modules, parameters = list(layer._modules), list(layer._parameters)
    for value in (torch.nn.ReLU(), torch.nn.Parameter(torch.zeros(1))):
        with hookpatch.active(hookpatch.replace(Target.attribute(layer, "extra"), value)):
            assert layer.extra is value
        assert (list(layer._modules), list(layer._parameters)) == (modules, parameters)
        assert not hasattr(layer, "extra")


class First:
    """What a Registry makes."""


class Second:
    """What a Registry makes otherwise."""


class Registry(OrderedDict[str, Any]):
    """A mapping of classes that gives a new instance at each reading, as transformers has for activations."""

    def __getitem__(self, key: str) -> Any:
        content = super().__getitem__(key)
        kind, arguments = content if isinstance(content, tuple) else (content, {})
        return kind(**arguments)


def test_mapping_that_gives_a_new_object_at_each_reading() -> None:
    """What such a mapping keeps is patched and restored, not what it makes of it."""
    registry = Registry(a=First, b=(First, {}), c=First)
    before = list(dict.items(registry))
    with hookpatch.active(hookpatch.replace(Target.item(registry, "a"), Second)):
        assert type(registry["a"]) is Second
    assert type(registry["a"]) is First
    after = list(dict.items(registry))
    assert [key for key, _ in after] == ["a", "b", "c"]
    assert all(old is new for (_, old), (_, new) in zip(before, after, strict=True))


@pytest.mark.parametrize("key", ["a", "b", "c"])
def test_removed_entry_of_a_mapping_that_gives_a_new_object_at_each_reading(key: str) -> None:
    """What such a mapping kept comes back itself, between the neighbours that it had."""
    registry = Registry(a=First, b=(First, {}), c=First)
    before = dict(dict.items(registry))
    with hookpatch.active(hookpatch.remove(Target.item(registry, key))):
        assert key not in registry
    assert list(registry) == ["a", "b", "c"]
    assert all(dict.__getitem__(registry, name) is value for name, value in before.items())


def test_environment_variable_is_replaced_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """os.environ makes its texts anew at each reading; its entry is restored all the same."""
    monkeypatch.setenv("HOOKPATCH_TEST", "original")
    with hookpatch.active(hookpatch.replace("os:environ['HOOKPATCH_TEST']", "patched")) as session:
        assert os.environ["HOOKPATCH_TEST"] == "patched"
    assert os.environ["HOOKPATCH_TEST"] == "original"
    assert [patch.state for patch in session.report()] == ["restored"]


def test_environment_variable_absent_before_is_absent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that a patch added is gone."""
    monkeypatch.delenv("HOOKPATCH_TEST", raising=False)
    with hookpatch.active(hookpatch.replace("os:environ['HOOKPATCH_TEST']", "patched")):
        assert os.environ["HOOKPATCH_TEST"] == "patched"
    there = os.environ.pop("HOOKPATCH_TEST", None)
    assert there is None


def test_place_of_an_array_is_replaced_and_restored() -> None:
    """An array makes its numbers anew at each reading; its place holds the number of before."""
    numbers = array.array("d", [1.5, 2.5])
    with hookpatch.active(hookpatch.replace(Target.item(numbers, 0), 9.5)):
        assert numbers.tolist() == [9.5, 2.5]
    assert numbers.tolist() == [1.5, 2.5]


class Color(StrEnum):
    """Text that is more than text."""

    RED = "red"


def test_key_that_comes_back_is_the_identical_key() -> None:
    """A key removed by another that is equal to it comes back as the object that it was."""
    mapping = {Color.RED: 1, "b": 2}
    with hookpatch.active(hookpatch.remove(Target.item(mapping, "red"))):
        assert list(mapping) == ["b"]
    assert next(iter(mapping)) is Color.RED


def test_last_key_comes_back_before_the_keys_that_others_added() -> None:
    """A key that was the last is not put behind keys that were added while it was away."""
    mapping = {"a": 1, "b": 2}
    with hookpatch.active(hookpatch.remove(Target.item(mapping, "b"))):
        mapping["z"] = 3
    assert list(mapping.items()) == [("a", 1), ("b", 2), ("z", 3)]


class Forwarding:
    """A proxy without a __dict__ that hands everything on by __getattr__."""

    __slots__ = ("_kept",)

    def __init__(self, kept: Any) -> None:
        object.__setattr__(self, "_kept", kept)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._kept, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._kept, name)


class ForwardingAll:
    """The same by __getattribute__."""

    __slots__ = ("_kept",)

    def __init__(self, kept: Any) -> None:
        object.__setattr__(self, "_kept", kept)

    def __getattribute__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_kept"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_kept"), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(object.__getattribute__(self, "_kept"), name)


class Kept:
    def __init__(self) -> None:
        self.first, self.own = 1, "own"

    def method(self) -> str:
        return "method"


@pytest.mark.parametrize("proxy", [Forwarding, ForwardingAll])
@pytest.mark.parametrize("name", ["own", "method", "absent"])
def test_proxy_that_hands_on_is_patched_as_mock_does(proxy: type[Any], name: str) -> None:
    """What it hands on to holds afterwards what it holds after mock.patch, and the same while patched."""
    kept, by_mock = Kept(), Kept()
    with mock.patch.object(proxy(by_mock), name, "other", create=True):
        assert vars(by_mock)[name] == "other"
    with hookpatch.active(hookpatch.replace(Target.attribute(proxy(kept), name), "other")):
        assert vars(kept)[name] == "other"
    assert list(vars(kept).items()) == list(vars(by_mock).items())
    assert kept.method() == "method"


@pytest.mark.parametrize("proxy", [Forwarding, ForwardingAll])
def test_method_of_a_proxy_is_wrapped(proxy: type[Any]) -> None:
    """It is reached through the proxy and beside it; sessions overlap; nothing is left."""
    kept = Kept()
    target = Target.attribute(proxy(kept), "method")

    def marking(name: str) -> hookpatch.Patch:
        return hookpatch.wrap(target, lambda wrapped, instance, args, kwargs: f"{wrapped()} {name}")

    first, second = hookpatch.active(marking("a")).open(), hookpatch.active(marking("b")).open()
    assert kept.method() == "method a b"
    first.close()
    assert kept.method() == "method b"
    second.close()
    assert vars(kept) == {"first": 1, "own": "own"}

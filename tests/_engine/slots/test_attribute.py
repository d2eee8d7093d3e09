"""Attributes of modules, classes and instances are restored exactly, or refused with nothing changed."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from slot_kinds import are_identical, around, contents_of

import hookpatch
from hookpatch import Target, errors

MakeModule = Callable[[str, str], ModuleType]


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


def test_removed_closure_variable_comes_back() -> None:
    """An empty cell of a closure reads as absent."""
    variable = object()
    (cell,) = (lambda: variable).__closure__ or ()
    with hookpatch.active(hookpatch.remove(Target.attribute(cell, "cell_contents"))):
        with pytest.raises(ValueError, match="empty"):
            cell.cell_contents  # noqa: B018  # the read raises
        with hookpatch.active(hookpatch.replace(Target.attribute(cell, "cell_contents"), 5, add=True)):
            assert cell.cell_contents == 5
    assert cell.cell_contents is variable


def test_unset_member_of_slots_is_unset_again(kinds: ModuleType) -> None:
    """An unset member of __slots__ is unset again."""
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


@pytest.mark.parametrize("verb", ["replace", "derive"])
@pytest.mark.parametrize("name", ["Base.plain", "Child.plain"])
def test_descriptor_is_told_its_name(make_module: Callable[[str, str], ModuleType], verb: str, name: str) -> None:
    """replace calls __set_name__, without which a cached_property fails; not for a descriptor of another class."""
    vendor = make_module(
        "vendor",
        """
        import functools
        class Base:
            @functools.cached_property
            def plain(self): return "plain"
        class Child(Base): pass
        """,
    )
    calls: list[tuple[type, str]] = []

    class Telling:
        def __set_name__(self, owner: type, name: str) -> None:
            calls.append((owner, name))

        def __get__(self, instance: object, owner: type) -> str:
            return "told"

    original = vars(vendor.Base)["plain"]
    owner = getattr(vendor, name.partition(".")[0])
    for descriptor, wanted in ((functools.cached_property(lambda self: "new"), "new"), (Telling(), "told")):
        patch = hookpatch.replace(f"vendor:{name}", descriptor) if verb == "replace" else None
        session = hookpatch.active(patch or hookpatch.derive(f"vendor:{name}", lambda below, value=descriptor: value))
        for _ in range(2):
            with session:
                assert owner().plain == wanted
        assert (vars(vendor.Base)["plain"], owner().plain) == (original, "plain")
    assert calls == ([] if verb == "replace" else [(owner, "plain"), (owner, "plain")])


def test_instance_attribute_hides_its_class_only_in_the_block(kinds: ModuleType) -> None:
    """A method patched on one instance touches neither its class nor other instances."""
    with hookpatch.active(hookpatch.wrap("kinds:instance.method", around)):
        assert kinds.instance.method() == "patched(original)"
        assert kinds.Child().method() == "original"
    assert "method" not in vars(kinds.instance)


def test_attribute_absent_before_is_absent_again(kinds: ModuleType) -> None:
    """A name added by replace is gone from module, class and instance afterwards."""
    owners = (kinds, kinds.Child, kinds.instance)
    before = contents_of(kinds)
    patches = [hookpatch.replace(Target.attribute(owner, "added"), owner, add=True) for owner in owners]
    with hookpatch.active(*patches):
        assert all(vars(owner)["added"] is owner for owner in owners)
    assert not any(hasattr(owner, "added") for owner in owners)
    assert are_identical(before, contents_of(kinds))


def test_property_is_not_run_and_restored_as_descriptor(make_module: MakeModule) -> None:
    """A property is read raw: the getter does not run, and the identical property is restored."""
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
    with hookpatch.active(hookpatch.wrap("on_demand:lazy", around)):
        assert module.lazy() == "patched(original)"
    assert module.lazy() == "original"
    assert list(vars(module)) == before


# --- an object's own attributes


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
    """A name kept by the interpreter for a class is restored, without a trace in the class."""

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


# --- owners with another storage


def test_property_with_a_setter_is_refused_on_an_instance(make_module: MakeModule) -> None:
    """A property with a setter is refused on an instance, with the address of the property in the class."""
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
    model, stored, before = module.model, module.model.kept, vars(module.Model)["size"]
    with pytest.raises(errors.TargetRefused) as caught, hookpatch.active(hookpatch.replace("properties:model.size", 7)):
        pass
    assert str(caught.value) == (
        f"<Model object at {id(model):#x}>.size is a property of its class, and setting the attribute would call the "
        "descriptor; patch properties:Model.size (target properties:model.size of a patch given to active())"
    )
    assert list(vars(model)) == ["kept"]
    assert model.kept is stored
    with hookpatch.active(hookpatch.replace("properties:Model.size", property(lambda self: 7))):
        assert model.size == 7
    assert vars(module.Model)["size"] is before
    assert model.kept is stored


@pytest.mark.model
def test_parameter_of_a_torch_module_is_refused_where_it_is_not_kept() -> None:
    """A parameter is refused as an attribute, and replaced as the entry named in the message."""
    import torch

    layer, replacement = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.zeros(2, 2))
    before, attributes, parameters = layer.weight, dict(vars(layer)), list(layer._parameters)
    with (
        pytest.raises(errors.TargetRefused) as caught,
        hookpatch.active(hookpatch.replace(Target.attribute(layer, "weight"), replacement)),
    ):
        pass
    place = f"<Linear object at {id(layer):#x}>.weight"
    assert str(caught.value) == (
        f"{place} is kept in _parameters of a Linear; take hookpatch.Target.item(owner._parameters, 'weight') "
        f"(target {place} of a patch given to active())"
    )
    assert layer.weight is before
    with hookpatch.active(hookpatch.replace(Target.item(layer._parameters, "weight"), replacement)):
        assert layer.weight is replacement
    assert layer.weight is before
    assert list(layer._parameters) == parameters
    assert list(vars(layer)) == list(attributes)
    assert all(vars(layer)[name] is value for name, value in attributes.items())


@pytest.mark.model
def test_submodule_of_a_torch_module_is_refused_where_it_is_not_kept() -> None:
    """A submodule is refused as an attribute, and replaced as an entry of ``_modules``."""
    import torch

    model = torch.nn.Sequential(OrderedDict(a=torch.nn.ReLU(), b=torch.nn.Tanh()))
    replacement, before, attributes = torch.nn.Tanh(), list(model._modules.items()), dict(vars(model))
    with (
        pytest.raises(errors.TargetRefused) as caught,
        hookpatch.active(hookpatch.replace(Target.attribute(model, "a"), replacement)),
    ):
        pass
    place = f"<Sequential object at {id(model):#x}>.a"
    assert str(caught.value) == (
        f"{place} is kept in _modules of a Sequential; take hookpatch.Target.item(owner._modules, 'a') "
        f"(target {place} of a patch given to active())"
    )
    assert model.a is before[0][1]
    with hookpatch.active(hookpatch.replace(Target.item(model._modules, "a"), replacement)):
        assert model.a is replacement
        assert [name for name, _ in model.named_children()] == ["a", "b"]
    assert [name for name, _ in before] == list(model._modules)
    assert all(model._modules[name] is submodule for name, submodule in before)
    assert list(vars(model)) == list(attributes)
    assert all(vars(model)[name] is value for name, value in attributes.items())


def test_new_of_object_is_refused_and_the_class_can_be_called() -> None:
    """CPython cannot undo a deleted __new__: refused, and the class takes the same arguments."""

    class Model:
        def __init__(self, size: int) -> None:
            self.size = size

    before = list(vars(Model))
    with (
        pytest.raises(errors.TargetRefused) as caught,
        hookpatch.active(hookpatch.wrap(Target.attribute(Model, "__new__"), around)),
    ):
        pass
    place = f"{__name__}:test_new_of_object_is_refused_and_the_class_can_be_called.<locals>.Model.__new__"
    assert str(caught.value) == (
        f"{place} is object.__new__, and a class takes no arguments any more after setting and deleting __new__; patch "
        f"__init__, or derive a class with a __new__ (target {place} of a patch given to active())"
    )
    assert list(vars(Model)) == before
    assert Model(5).size == 5


class Deaf(type):
    """A metaclass whose classes ignore a new ``size``."""

    def __setattr__(cls, name: str, value: object) -> None:
        if name != "size":
            super().__setattr__(name, value)


def test_class_that_does_not_keep_what_is_set_is_refused() -> None:
    """An owner that ignores a new value is refused, not reported as patched, and unchanged."""

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
        f"{place} does not keep a new value; patch the source of the value "
        f"(target {place} of a patch given to active())"
    )
    assert list(vars(Model)) == list(before)
    assert all(vars(Model)[name] is value for name, value in before.items())


@pytest.mark.model
def test_name_added_to_a_torch_module_is_absent_again() -> None:
    """A torch module stores an added submodule or parameter elsewhere; the end removes the entry."""
    import torch

    layer = torch.nn.Linear(2, 2)
    modules, parameters = list(layer._modules), list(layer._parameters)
    for value in (torch.nn.ReLU(), torch.nn.Parameter(torch.zeros(1))):
        with hookpatch.active(hookpatch.replace(Target.attribute(layer, "extra"), value, add=True)):
            assert layer.extra is value
        assert (list(layer._modules), list(layer._parameters)) == (modules, parameters)
        assert not hasattr(layer, "extra")


class Forwarding:
    """A proxy without a __dict__ that forwards every access by __getattr__."""

    __slots__ = ("_kept",)

    def __init__(self, backing: Any) -> None:
        object.__setattr__(self, "_kept", backing)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._kept, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._kept, name)


class ForwardingAll:
    """The same by __getattribute__."""

    __slots__ = ("_kept",)

    def __init__(self, backing: Any) -> None:
        object.__setattr__(self, "_kept", backing)

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
    """The object behind the proxy holds the same values as with mock.patch, inside and after."""
    backing, by_mock = Kept(), Kept()
    with mock.patch.object(proxy(by_mock), name, "other", create=True):
        assert vars(by_mock)[name] == "other"
    with hookpatch.active(hookpatch.replace(Target.attribute(proxy(backing), name), "other")):
        assert vars(backing)[name] == "other"
    assert list(vars(backing).items()) == list(vars(by_mock).items())
    assert backing.method() == "method"


@pytest.mark.parametrize("proxy", [Forwarding, ForwardingAll])
def test_method_of_a_proxy_is_wrapped(proxy: type[Any]) -> None:
    """A method is patched through a proxy and directly; sessions overlap, and leave no trace."""
    backing = Kept()
    target = Target.attribute(proxy(backing), "method")

    def marking(name: str) -> hookpatch.Patch:
        return hookpatch.wrap(target, lambda wrapped, instance, args, kwargs: f"{wrapped()} {name}")

    first, second = hookpatch.active(marking("a")).open(), hookpatch.active(marking("b")).open()
    assert backing.method() == "method a b"
    first.close()
    assert backing.method() == "method b"
    second.close()
    assert vars(backing) == {"first": 1, "own": "own"}

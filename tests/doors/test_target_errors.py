"""Errors at a target: the message has the address and the problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from messages import VENDOR

import hookpatch
from hookpatch import Patch
from hookpatch.errors import ApplyError, HookpatchError, TargetNotFound, TargetRefused

MakeModule = Callable[..., ModuleType]

OURS = "of a patch given to active()"


@pytest.fixture
def vendor(make_module: MakeModule) -> ModuleType:
    """The module to patch."""
    return make_module("vendor", VENDOR)


def passing(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Change nothing."""
    return wrapped(*args, **kwargs)


# --- patches of real targets


def refused(error: type[HookpatchError], *patches: Patch) -> str:
    """Return the message of the refusal."""
    with pytest.raises(HookpatchError) as caught:
        hookpatch.active(*patches).open()
    assert type(caught.value) is error
    return str(caught.value)


def test_factory_that_raises_is_an_apply_error(vendor: ModuleType) -> None:
    """The message has verb and error; the error is the cause, and no patch stays applied."""

    def broken(original: object) -> object:
        raise KeyError("bias")

    patches = hookpatch.replace("vendor:speed", 2), hookpatch.derive("vendor:Model", broken)
    with pytest.raises(ApplyError) as caught:
        hookpatch.active(*patches).open()
    assert str(caught.value) == f"the derive raised KeyError: 'bias' (target vendor:Model {OURS})"
    assert type(caught.value.__cause__) is KeyError
    assert vendor.speed == 1


def test_context_manager_that_raises_is_an_apply_error(vendor: ModuleType) -> None:
    """enter's target is its module."""

    @contextmanager
    def broken(module: ModuleType) -> Iterator[None]:
        raise OSError("no device")
        yield

    assert refused(ApplyError, hookpatch.enter("vendor", broken)) == (
        f"the enter raised OSError: no device (target vendor {OURS})"
    )


def test_step_that_is_not_there_is_named_where_it_is_missing(vendor: ModuleType) -> None:
    """The message has the first failing step, not the last."""
    assert refused(TargetNotFound, hookpatch.wrap("vendor:Modell.run", passing)) == (
        f"vendor has no attribute 'Modell'; did you mean 'Model'? (target vendor:Modell.run {OURS})"
    )


def test_key_whose_module_cannot_be_imported_is_refused(vendor: ModuleType) -> None:
    """A key written as an address needs its module."""
    address = "vendor:table[no_such_module:Linear]"
    assert refused(TargetNotFound, hookpatch.replace(address, 1)) == (
        f"the key no_such_module:Linear has no module 'no_such_module' (target {address} {OURS})"
    )


def test_item_of_something_without_items_is_refused(vendor: ModuleType) -> None:
    """The message has the address of the step, and its value."""
    assert refused(TargetRefused, hookpatch.replace("vendor:simplify['x']", 1)) == (
        f"vendor:simplify is a function, which has no items (target vendor:simplify['x'] {OURS})"
    )


@pytest.mark.parametrize(("name", "kind", "key"), [("shown", "mappingproxy", "'fast'"), ("pair", "tuple", "0")])
def test_item_of_something_read_only_is_refused(vendor: ModuleType, name: str, kind: str, key: str) -> None:
    """A read-only item cannot be patched."""
    assert refused(TargetRefused, hookpatch.replace(f"vendor:{name}[{key}]", 1)) == (
        f"vendor:{name} is a read-only {kind}; patch the mapping or list behind it (target vendor:{name}[{key}] {OURS})"
    )


def test_key_of_a_list_that_is_no_number_is_refused(vendor: ModuleType) -> None:
    """A list has places."""
    assert refused(TargetRefused, hookpatch.replace("vendor:entries['fast']", 1)) == (
        f"vendor:entries is a list: its key is a number, not 'fast' (target vendor:entries['fast'] {OURS})"
    )


LAZY = """
    import sys
    import types

    class Lazy(types.ModuleType):
        def __getattr__(self, name):
            if name == "Model":
                import lazy_kit.home
                return lazy_kit.home.Model
            if name == "limit":
                return 3
            raise AttributeError(name)

    sys.modules[__name__].__class__ = Lazy
    """


@pytest.fixture
def lazy_kit(write_module: Callable[[str, str], Path], make_module: MakeModule, folder: Path) -> ModuleType:
    """Make a package that fetches its names on demand."""
    write_module("lazy_kit.home", "class Model: pass")
    (folder / "lazy_kit" / "__init__.py").write_text(LAZY.replace("\n    ", "\n"))
    return make_module("lazy_kit.other", "import lazy_kit")


def test_name_fetched_lazily_is_refused_with_its_home(lazy_kit: ModuleType) -> None:
    """The message gives the address to use instead."""
    assert refused(TargetRefused, hookpatch.derive("lazy_kit:Model", repr)) == (
        "module lazy_kit fetches 'Model' lazily and may be replaced at any import; take the address of the definition: "
        f"lazy_kit.home:Model (target lazy_kit:Model {OURS})"
    )


def test_value_fetched_lazily_is_refused(lazy_kit: ModuleType) -> None:
    """A value without a home is refused as well."""
    assert refused(TargetRefused, hookpatch.replace("lazy_kit:limit", 4)) == (
        "module lazy_kit fetches 'limit' lazily and may be replaced at any import; take the module of the definition "
        f"(target lazy_kit:limit {OURS})"
    )


def test_wrapper_over_a_value_that_cannot_be_called_is_refused(vendor: ModuleType) -> None:
    """An inner patch may remove the outer patch's callable: no patch is applied."""
    original = vendor.simplify
    patches = hookpatch.wrap("vendor:simplify", passing), hookpatch.replace("vendor:simplify", None)
    assert refused(TargetRefused, *patches) == (
        "vendor:simplify holds a NoneType, which cannot be called; take hookpatch.replace or hookpatch.derive "
        f"(target vendor:simplify {OURS})"
    )
    assert vendor.simplify is original


def test_wrapper_over_what_was_removed_is_refused(vendor: ModuleType) -> None:
    """A wrapper over a removed name is refused."""
    original = vendor.simplify
    patches = hookpatch.wrap("vendor:simplify", passing), hookpatch.remove("vendor:simplify")
    assert refused(TargetRefused, *patches) == (
        f"vendor:simplify holds nothing; take hookpatch.replace or hookpatch.derive (target vendor:simplify {OURS})"
    )
    assert vendor.simplify is original


# --- warnings, issued for real


@pytest.mark.parametrize(
    ("address", "where"),
    [
        ("vendor:nested['x']['yy']", "vendor:nested has no key 'x'"),
        ("vendor:nested['a']['yy']['k']", "vendor:nested['a'] has no key 'yy'"),
        ("vendor:nested['x'].yy", "vendor:nested has no key 'x'"),
        ("vendor:nested[ 'kk' ]", "vendor:nested has no key 'kk'"),
        ("vendor:nested[0x10]", "vendor:nested has no key 16"),
        ("vendor:nested['a']['k']['a'][0]", "vendor:nested['a']['k'] is an int, which has no items"),
    ],
)
def test_step_that_fails_is_named_by_the_way_to_it(make_module: MakeModule, address: str, where: str) -> None:
    """A failing step is named by its path, also in the middle of an address."""
    make_module("vendor", "nested = {'a': {'k': 1}}")
    with pytest.raises(ApplyError) as caught, hookpatch.active(hookpatch.derive(address, str)):
        pass
    assert caught.value.problem == where

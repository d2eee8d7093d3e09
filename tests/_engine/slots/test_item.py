"""Entries of mappings, lists and arrays are restored exactly, at their positions."""

from __future__ import annotations

import array
import os
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from enum import StrEnum
from types import ModuleType
from typing import Any

import pytest
from slot_kinds import are_identical, around, contents_of

import hookpatch
from hookpatch import Target, errors

MakeModule = Callable[[str, str], ModuleType]


@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda items: defaultdict(list, items), Counter])
@pytest.mark.parametrize("key", ["a", "b", "c"])
def test_removed_key_comes_back_at_its_position(kind: Callable[[dict[str, int]], Any], key: str) -> None:
    """A removed key is back between its neighbours, with identical key and value."""
    mapping = kind({"a": 1000, "b": 2000, "c": 3000})
    before = list(mapping.items())
    with hookpatch.active(hookpatch.remove(Target.item(mapping, key))):
        assert key not in mapping
        assert len(mapping) == 2
    assert list(mapping.items()) == before
    assert all(old is new for (_, old), (_, new) in zip(before, mapping.items(), strict=True))


def test_keys_others_added_stay_behind_the_key_that_comes_back() -> None:
    """Foreign keys added meanwhile keep value, order and place at the end."""
    mapping = {"a": 1, "b": 2, "c": 3}
    with hookpatch.active(hookpatch.remove(Target.item(mapping, "b"))):
        mapping["x"] = 10
        mapping["y"] = 11
        del mapping["a"]
    assert list(mapping.items()) == [("b", 2), ("c", 3), ("x", 10), ("y", 11)]


def test_replaced_key_keeps_its_position() -> None:
    """A replaced key never moves, inside or afterwards."""
    mapping = {"a": object(), "b": object(), "c": object()}
    before = list(mapping.items())
    with hookpatch.active(hookpatch.replace(Target.item(mapping, "b"), 5)):
        assert list(mapping) == ["a", "b", "c"]
        mapping["x"] = 1
    assert list(mapping.items()) == [*before, ("x", 1)]


def test_key_absent_before_is_absent_again() -> None:
    """An entry added by replace is removed, and no other entry moves."""
    mapping = {"a": 1, "b": 2}
    with hookpatch.active(hookpatch.replace(Target.item(mapping, "new"), 3, add=True)):
        mapping["x"] = 4
        assert mapping["new"] == 3
    assert list(mapping.items()) == [("a", 1), ("b", 2), ("x", 4)]


def test_defaultdict_is_read_without_making_entries() -> None:
    """Looking at a key that a defaultdict does not have makes no entry, whether the patch is refused or not."""
    calls: list[str] = []
    mapping: defaultdict[str, list[int]] = defaultdict(lambda: calls.append("made") or [])  # type: ignore[func-returns-value]  # notes each call
    with pytest.raises(errors.TargetNotFound), hookpatch.active(hookpatch.remove(Target.item(mapping, "k"))):
        pass
    with hookpatch.active(hookpatch.replace(Target.item(mapping, "k"), [1], add=True)):
        assert mapping["k"] == [1]
    assert "k" not in mapping
    assert calls == []


class Folded(MutableMapping[str, Any]):
    """A mapping of another class than dict: keys without regard to case, in order of insertion, without ``get``."""

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
        hookpatch.wrap(Target.item(mapping, "a"), around),
        hookpatch.remove(Target.item(mapping, "b")),
        hookpatch.replace(Target.item(mapping, "c"), 5, add=True),
        hookpatch.replace(Target.item(mapping, "d"), 6, add=True),
    ):
        assert mapping["a"]() == "patched(original)"
        assert list(mapping) == ["a", "c", "d"]
    assert list(mapping) == ["a", "b", "c"]
    assert all(mapping[key] is value for key, value in before)


def test_read_only_mapping_is_refused_and_unchanged(kinds: ModuleType) -> None:
    """An entry of a MappingProxyType is refused, with another address; the mapping is unchanged."""
    before = contents_of(kinds)
    with (
        pytest.raises(errors.TargetRefused) as caught,
        hookpatch.active(hookpatch.replace("kinds:shown['first']", 2)),
    ):
        pass
    assert str(caught.value) == (
        "kinds:shown is a read-only mappingproxy; patch the mapping or list behind it "
        "(target kinds:shown['first'] of a patch given to active())"
    )
    assert are_identical(before, contents_of(kinds))


@pytest.mark.parametrize("index", [0, 2, -1, -3])
@pytest.mark.parametrize("kind", [list, deque])
def test_list_index_is_replaced_and_restored(kind: Callable[[list[Any]], Any], index: int) -> None:
    """An index of a list, even negative, holds the value, and afterwards the identical object."""
    items = kind([object(), object(), object()])
    before = list(items)
    value = object()
    with hookpatch.active(hookpatch.replace(Target.item(items, index), value)):
        assert items[index] is value
        assert sum(item is value for item in items) == 1
    assert all(old is new for old, new in zip(before, items, strict=True))


def test_negative_and_positive_index_are_one_site() -> None:
    """Two indexes of the same list entry share a site, and end in any order."""
    items = [lambda: "a", lambda: "b"]
    original = items[1]
    first = hookpatch.active(hookpatch.wrap(Target.item(items, 1), around)).open()
    second = hookpatch.active(hookpatch.wrap(Target.item(items, -1), around)).open()
    assert items[1]() == "patched(patched(b))"
    first.close()
    assert items[1]() == "patched(b)"
    second.close()
    assert items[1] is original


@pytest.mark.parametrize("index", [2, -3])
def test_index_outside_the_list_is_refused(index: int) -> None:
    """An index outside the list is refused, and the list keeps its length."""
    items = [1, 2]
    with pytest.raises(errors.TargetNotFound), hookpatch.active(hookpatch.replace(Target.item(items, index), 3)):
        pass
    assert items == [1, 2]


@pytest.mark.parametrize("kind", [list, deque])
def test_entry_of_a_list_cannot_be_removed(kinds: ModuleType, kind: Callable[[list[Any]], Any]) -> None:
    """Removing a list entry is refused, by address and at hand, and the list is unchanged."""
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
    with hookpatch.active(hookpatch.wrap(Target.item(mapping, key), around)):
        assert mapping[key]() == "patched(original)"
    assert mapping[key] is original


def test_key_that_is_an_address(make_module: MakeModule) -> None:
    """A key may be an object named by address; the entry of the object is patched."""
    module = make_module("keyed", "class Linear: pass\nTABLE = {Linear: lambda: 'original'}\n")
    original = module.TABLE[module.Linear]
    with hookpatch.active(hookpatch.wrap("keyed:TABLE[keyed:Linear]", around)):
        assert module.TABLE[module.Linear]() == "patched(original)"
    assert module.TABLE[module.Linear] is original


class Texts(dict[str, str]):
    """A mapping that converts values to text."""

    def __setitem__(self, key: str, value: object) -> None:
        super().__setitem__(key, str(value))


@pytest.mark.parametrize("key", ["a", "new"])
def test_dict_that_makes_something_else_of_its_values_is_patched_as_it_keeps_them(key: str) -> None:
    """A dict's own setter and getter are bypassed, so that the stored value is restored exactly."""
    texts = Texts(a="first", b="second")
    before = list(dict.items(texts))
    with hookpatch.active(hookpatch.replace(Target.item(texts, key), 5, add=True)):
        assert dict.__getitem__(texts, key) == 5
    assert [name for name, _ in before] == list(texts)
    assert all(dict.__getitem__(texts, name) is value for name, value in before)
    with hookpatch.active(hookpatch.remove(Target.item(texts, "a"))):
        assert list(texts) == ["b"]
    assert all(
        entry[0] == original[0] and entry[1] is original[1]
        for entry, original in zip(dict.items(texts), before, strict=True)
    )


@pytest.mark.parametrize("key", ["a", "new"])
def test_mapping_that_keeps_something_else_is_refused(key: str) -> None:
    """A mapping is set and read by its methods; if these disagree, the patch is refused."""

    class Tagged(UserDict[str, str]):
        def __setitem__(self, name: str, value: str) -> None:
            super().__setitem__(name, value.removesuffix("!") + "!")

    tagged = Tagged(a="first!", b="second!")
    before = list(tagged.items())
    with (
        pytest.raises(errors.TargetRefused) as caught,
        hookpatch.active(hookpatch.replace(Target.item(tagged, key), "plain", add=True)),
    ):
        pass
    place = f"<{Tagged.__qualname__} object at {id(tagged):#x}>[{key!r}]"
    assert str(caught.value) == (
        f"{place} does not keep a new value; patch the source of the value "
        f"(target {place} of a patch given to active())"
    )
    assert list(tagged.items()) == before


class First:
    """The first product of a Registry."""


class Second:
    """Another product of a Registry."""


class Registry(OrderedDict[str, Any]):
    """A mapping of classes that gives a new instance at each reading, as transformers has for activations."""

    def __getitem__(self, key: str) -> Any:
        content = super().__getitem__(key)
        kind, arguments = content if isinstance(content, tuple) else (content, {})
        return kind(**arguments)


def test_mapping_that_gives_a_new_object_at_each_reading() -> None:
    """The stored value is patched and restored, not the product of a read."""
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
    """The stored value itself is restored, between its neighbours."""
    registry = Registry(a=First, b=(First, {}), c=First)
    before = dict(dict.items(registry))
    with hookpatch.active(hookpatch.remove(Target.item(registry, key))):
        assert key not in registry
    assert list(registry) == ["a", "b", "c"]
    assert all(dict.__getitem__(registry, name) is value for name, value in before.items())


def test_environment_variable_is_replaced_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """os.environ makes new texts at each read; the entry is restored all the same."""
    monkeypatch.setenv("HOOKPATCH_TEST", "original")
    with hookpatch.active(hookpatch.replace("os:environ['HOOKPATCH_TEST']", "patched")) as session:
        assert os.environ["HOOKPATCH_TEST"] == "patched"
    assert os.environ["HOOKPATCH_TEST"] == "original"
    assert [patch.state for patch in session.report()] == ["restored"]


def test_environment_variable_absent_before_is_absent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable added by a patch is removed."""
    monkeypatch.delenv("HOOKPATCH_TEST", raising=False)
    with hookpatch.active(hookpatch.replace("os:environ['HOOKPATCH_TEST']", "patched", add=True)):
        assert os.environ["HOOKPATCH_TEST"] == "patched"
    value = os.environ.pop("HOOKPATCH_TEST", None)
    assert value is None


def test_place_of_an_array_is_replaced_and_restored() -> None:
    """An array makes new numbers at each read; the index holds the earlier number again."""
    numbers = array.array("d", [1.5, 2.5])
    with hookpatch.active(hookpatch.replace(Target.item(numbers, 0), 9.5)):
        assert numbers.tolist() == [9.5, 2.5]
    assert numbers.tolist() == [1.5, 2.5]


class Color(StrEnum):
    """A subclass of str."""

    RED = "red"


def test_key_that_comes_back_is_the_identical_key() -> None:
    """A key removed through an equal key is restored as the identical object."""
    mapping = {Color.RED: 1, "b": 2}
    with hookpatch.active(hookpatch.remove(Target.item(mapping, "red"))):
        assert list(mapping) == ["b"]
    assert next(iter(mapping)) is Color.RED


def test_last_key_comes_back_before_the_keys_that_others_added() -> None:
    """A last key comes back before the keys added meanwhile."""
    mapping = {"a": 1, "b": 2}
    with hookpatch.active(hookpatch.remove(Target.item(mapping, "b"))):
        mapping["z"] = 3
    assert list(mapping.items()) == [("a", 1), ("b", 2), ("z", 3)]


class _Key:
    """A key that equals only itself, with foreign code that can raise."""

    def __init__(self, number: int) -> None:
        self.number, self.raises_equal, self.raises_hash = number, False, False

    def __eq__(self, other: object) -> bool:
        if self.raises_equal:
            raise RuntimeError("foreign ==")
        return self is other

    def __hash__(self) -> int:
        if self.raises_hash:
            raise RuntimeError("foreign hash")
        return self.number


class _NoIteration(dict[Any, Any]):
    """A dict whose own methods raise."""

    def __iter__(self) -> Any:
        raise RuntimeError("foreign iteration")

    __contains__ = __getitem__ = keys = __iter__  # type: ignore[assignment]  # whatever the arguments


class _Raising(UserDict[Any, Any]):
    """A mapping with a method that raises, once told so."""

    raises = ""

    def __iter__(self) -> Any:
        return self._or_raise("iter", super().__iter__)

    def __getitem__(self, key: Any) -> Any:
        return self._or_raise("get", lambda: super(_Raising, self).__getitem__(key))

    def _or_raise(self, name: str, act: Callable[[], Any]) -> Any:
        if self.raises == name:
            raise RuntimeError(f"foreign {name}")
        return act()


def _patch_of(mapping: Any, key: Any, verb: str) -> hookpatch.Patch:
    target = Target.item(mapping, key)
    return hookpatch.remove(target) if verb == "remove" else hookpatch.replace(target, 0, add=verb == "add")


@pytest.mark.parametrize("verb", ["replace", "remove"])
@pytest.mark.parametrize("index", range(4))
def test_keys_that_cannot_be_compared(index: int, verb: str) -> None:
    """The entries are back at their places, though each ``==`` of a key raises."""
    keys = [_Key(number) for number in range(4)]
    mapping = dict.fromkeys(keys, 1)
    for key in keys:
        key.raises_equal = True
    with hookpatch.active(_patch_of(mapping, keys[index], verb), children="local"):
        assert (keys[index] in mapping) == (verb == "replace")
    assert all(key is before for key, before in zip(mapping, keys, strict=True))
    assert [*mapping.values()] == [1] * 4


@pytest.mark.parametrize("raises", ["raises_equal", "raises_hash"])
@pytest.mark.parametrize("removed", ["first", "last", "bad"])
def test_a_removal_that_could_not_be_undone_is_refused(removed: str, raises: str) -> None:
    """A key behind the removed key cannot be moved back, or the removed key cannot be looked up: nothing changes."""
    one, other = _Key(7), _Key(7 if raises == "raises_equal" else 8)
    mapping: dict[Any, int] = {"first": 1, one: 2, other: 3, "last": 4}
    before = [*mapping.items()]
    for key_that_raises in (one, other):
        setattr(key_that_raises, raises, True)
    key = {"bad": one}.get(removed, removed)
    if removed == "last":
        with hookpatch.active(_patch_of(mapping, key, "remove"), children="local"):
            assert len(mapping) == 3
    else:
        with pytest.raises(errors.ApplyError, match=r"cannot be looked up, nor moved back|foreign"):
            hookpatch.active(_patch_of(mapping, key, "remove"), children="local").open()
    assert all(new is old for (new, _), (old, _) in zip(mapping.items(), before, strict=True))


@pytest.mark.parametrize("verb", ["replace", "remove", "add"])
def test_a_dict_whose_methods_raise(verb: str) -> None:
    """The stored data is patched and restored by the methods of dict."""
    mapping = _NoIteration(a=1, b=2, c=3)
    before = [*dict.items(mapping)]
    with hookpatch.active(_patch_of(mapping, "new" if verb == "add" else "a", verb), children="local"):
        assert [*dict.items(mapping)] != before
    assert [*dict.items(mapping)] == before


@pytest.mark.parametrize("verb", ["replace", "remove", "add"])
@pytest.mark.parametrize("raises", ["iter", "get"])
def test_a_mapping_whose_methods_raise(raises: str, verb: str) -> None:
    """A patch is restored, or refused at the beginning; nothing is left behind."""
    mapping = _Raising(a=1, b=2, c=3)
    mapping.raises, before = raises, [*mapping.data.items()]
    session = hookpatch.active(_patch_of(mapping, "new" if verb == "add" else "a", verb), children="local")
    if raises == "iter" and verb != "remove":
        with session:
            assert [*mapping.data.items()] != before
    else:
        with pytest.raises(errors.ApplyError, match=f"foreign {raises}"):
            session.open()
    assert [*mapping.data.items()] == before


@pytest.mark.parametrize("verb", ["replace", "remove", "add", "wrap"])
@pytest.mark.parametrize("key", ["first", "both", "second"])
def test_a_chain_of_maps(key: str, verb: str) -> None:
    """The first map of a ChainMap is patched; an entry of a further map is inherited, and stays there alone."""
    maps: list[dict[str, Any]] = [{"first": len, "both": min, "last": 1}, {"both": max, "second": sum}]
    chain, before = ChainMap(*maps), [[*part.items()] for part in maps]
    target = Target.item(chain, key)
    patch = hookpatch.wrap(target, around) if verb == "wrap" else _patch_of(chain, key, verb)
    session = hookpatch.active(patch, children="local")
    if verb == "remove" and key == "second":
        with pytest.raises(errors.TargetRefused, match="comes from a further map of a ChainMap; remove the entry"):
            session.open()
    else:
        with session:
            assert chain.get(key) is {"both": max}.get(key) if verb == "remove" else chain[key] is not before
            assert [*maps[1].items()] == before[1]
            assert key in maps[0] or verb == "remove"
    assert [[*part.items()] for part in maps] == before

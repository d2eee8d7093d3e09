"""Order: layers of a site lie by `before` and `after`, then by selection. A conflict is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hookpatch
from hookpatch import Patch
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.layers.order import ordered
from hookpatch.errors import ApplyError, ConflictError, HookpatchError, OrderError

MakeModule = Callable[..., ModuleType]
MakeDistribution = Callable[..., Path]
Install = Callable[..., None]


@pytest.fixture
def vendor(make_module: MakeModule) -> ModuleType:
    """Make a module whose ``call`` returns the names of the wrappers around the call, the outermost first."""
    return make_module("vendor", "def call(): return []\nvalue = 'original'\nclass Base: pass\n")


@pytest.fixture
def install(vendor: ModuleType, make_distribution: MakeDistribution) -> Install:
    """Install plugins, each in a distribution of its own: by name, with an expression to yield."""

    def all_of(**patches: str) -> None:
        for name, patch in patches.items():
            source = f"""
                import hookpatch

                def tag(wrapped, instance, args, kwargs):
                    return [{name!r}, *wrapped(*args, **kwargs)]

                def wrap(**facts):
                    return hookpatch.wrap("vendor:call", tag, **facts)

                def put(**facts):
                    return hookpatch.replace("vendor:value", {name!r}, **facts)

                def derive(**facts):
                    return hookpatch.derive("vendor:value", lambda below: below + "+{name}", **facts)

                def remove(**facts):
                    return hookpatch.remove("vendor:value", **facts)

                @hookpatch.hookimpl
                def hookpatch_patches():
                    yield from [{patch}]
                """
            make_distribution(f"d-{name}", plugins={name: f"plugin_{name}"}, modules={f"plugin_{name}": source})

    return all_of


def tagging(name: str, **facts: Any) -> Patch:
    """Return a patch that tags calls of ``vendor.call``, without a plugin."""
    return hookpatch.wrap(
        "vendor:call", lambda wrapped, instance, args, kwargs: [name, *wrapped(*args, **kwargs)], **facts
    )


# --- as selected


def test_first_selected_lies_outermost(install: Install, vendor: ModuleType) -> None:
    """In a session the order of selection is the order from outside to inside."""
    install(a="wrap()", b="wrap()", c="wrap()")
    with hookpatch.active("b", "c", "a"):
        assert vendor.call() == ["b", "c", "a"]
    assert vendor.call() == []


def test_patches_and_plugins_lie_in_the_order_given(install: Install, vendor: ModuleType) -> None:
    """A patch given to active() has its place among the plugins."""
    install(a="wrap()", b="wrap()")
    with hookpatch.active("b", tagging("mine"), "a"):
        assert vendor.call() == ["b", "mine", "a"]


def test_patches_of_one_plugin_lie_in_the_order_yielded(install: Install, vendor: ModuleType) -> None:
    """Of a plugin's two patches on a site the first yielded lies outside."""
    first, second = (f"hookpatch.wrap('vendor:call', lambda w, i, a, k: ['{word}', *w()])" for word in ("1st", "2nd"))
    install(a=f"{first}, {second}")
    with hookpatch.active("a"):
        assert vendor.call() == ["1st", "2nd"]


def test_later_session_lies_outside(install: Install, vendor: ModuleType) -> None:
    """A later session lies outside, and the end of a middle session does not change the order."""
    install(a="wrap()", b="wrap()")
    first, second, third = hookpatch.active("a", "b"), hookpatch.active(tagging("2")), hookpatch.active(tagging("3"))
    with first:
        second.open()
        third.open()
        assert vendor.call() == ["3", "2", "a", "b"]
        second.close()
        assert vendor.call() == ["3", "a", "b"]
        third.close()
        assert vendor.call() == ["a", "b"]


def test_order_of_opening_counts_not_of_making(vendor: ModuleType) -> None:
    """A session made first but opened last lies outside."""
    made_first, made_last = hookpatch.active(tagging("made first")), hookpatch.active(tagging("made last"))
    with made_last, made_first:
        assert vendor.call() == ["made first", "made last"]


# --- before and after


def test_before_lies_outside_of_what_it_names(install: Install, vendor: ModuleType) -> None:
    """before names plugins with patches inside, in any order of selection; the others keep their order."""
    install(a="wrap()", b="wrap()", c="wrap(before='a')")
    with hookpatch.active("a", "b", "c"):
        assert vendor.call() == ["c", "a", "b"]


def test_after_lies_inside_of_what_it_names(install: Install, vendor: ModuleType) -> None:
    """after names plugins with patches outside, in any order of selection."""
    install(a="wrap(after=['b', 'c'])", b="wrap()", c="wrap()")
    with hookpatch.active("a", "b", "c"):
        assert vendor.call() == ["b", "c", "a"]


def test_declared_place_holds_across_sessions(install: Install, vendor: ModuleType) -> None:
    """after keeps a layer inside although its session was opened later."""
    install(a="wrap()", b="wrap(after='a')")
    with hookpatch.active("a"), hookpatch.active("b"):
        assert vendor.call() == ["a", "b"]


def test_names_in_before_and_after_are_compared_as_names_of_plugins(install: Install, vendor: ModuleType) -> None:
    """Case and the kind of separator do not matter (PEP 503)."""
    install(fuse_qkv="wrap()", trim="wrap(before='Fuse-QKV')")
    with hookpatch.active("fuse_qkv", "trim"):
        assert vendor.call() == ["trim", "fuse_qkv"]


def test_before_a_plugin_that_is_not_there_changes_nothing(install: Install, vendor: ModuleType) -> None:
    """A plugin in before may be unselected, or not installed."""
    install(a="wrap(after='c')", b="wrap(before='nobody')", c="wrap()")
    with hookpatch.active("a", "b"):
        assert vendor.call() == ["a", "b"]


def test_own_name_in_before_changes_nothing(install: Install, vendor: ModuleType) -> None:
    """A plugin's own name in before has no effect."""
    install(a="wrap(before='a', after='a'), wrap(before='a')")
    with hookpatch.active("a"):
        assert vendor.call() == ["a", "a"]


def test_patch_without_a_plugin_can_declare_its_place(install: Install, vendor: ModuleType) -> None:
    """A patch given to active() names plugins, too."""
    install(a="wrap()", b="wrap()")
    with hookpatch.active(tagging("mine", after="a"), "a", "b"):
        assert vendor.call() == ["a", "mine", "b"]


def test_place_holds_for_a_module_that_comes_later(install: Install, make_module: MakeModule) -> None:
    """Deferred patches are put in order as well."""
    install(a="hookpatch.wrap('late:call', tag)", b="hookpatch.wrap('late:call', tag, before='a')")
    with hookpatch.active("a", "b"):
        late = make_module("late", "def call(): return []")
        assert late.call() == ["b", "a"]


PLUGINS = st.lists(st.sampled_from("abcdef"), unique=True)


def layers(names: Iterable[str], before: dict[str, list[str]], after: dict[str, list[str]]) -> list[Layer]:
    """Return a layer for each name, the first selected first."""
    return [
        Layer(
            hookpatch.wrap("m:f", print, before=before.get(name, ()), after=after.get(name, ())),
            name,
            f"plugin '{name}'",
            (1, -place),
        )
        for place, name in enumerate(names)
    ]


@settings(derandomize=True, deadline=None)
@given(selected=PLUGINS, data=st.data())
def test_layers_that_declare_nothing_lie_as_selected(selected: list[str], data: st.DataObject) -> None:
    """Layers lie by rank, in any order of arrival."""
    shuffled = data.draw(st.permutations(layers(selected, {}, {})))
    assert [layer.plugin for layer in ordered(shuffled, "m:f")] == selected


@settings(derandomize=True, deadline=None)
@given(selected=PLUGINS, data=st.data())
def test_every_declared_place_is_kept(selected: list[str], data: st.DataObject) -> None:
    """Any declared places are all kept, if possible at all, and no layer is lost."""
    possible = data.draw(st.permutations(selected))
    pairs = list(combinations(possible, 2))
    wanted = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for outer, inner in wanted:
        if data.draw(st.booleans()):
            before.setdefault(outer, []).append(inner)
        else:
            after.setdefault(inner, []).append(outer)
    order = [layer.plugin for layer in ordered(layers(selected, before, after), "m:f")]
    assert sorted(map(str, order)) == sorted(selected)
    assert all(order.index(outer) < order.index(inner) for outer, inner in wanted)


@settings(derandomize=True, deadline=None)
@given(selected=PLUGINS, data=st.data())
def test_who_declares_a_place_moves_and_the_others_stay(selected: list[str], data: st.DataObject) -> None:
    """The declaring plugin moves no further than needed, and the others keep their order."""
    assume(selected)
    mover = data.draw(st.sampled_from(selected))
    unmoved = [name for name in selected if name != mover]
    border = data.draw(st.integers(0, len(unmoved)))
    inside = [name for name in unmoved[border:] if data.draw(st.booleans())]
    outside = [name for name in unmoved[:border] if data.draw(st.booleans())]
    order = [str(layer.plugin) for layer in ordered(layers(selected, {mover: inside}, {mover: outside}), "m:f")]
    assert [name for name in order if name != mover] == unmoved
    place, wished = order.index(mover), selected.index(mover)
    first, last = (
        (unmoved.index(outside[-1]) + 1 if outside else 0),
        (unmoved.index(inside[0]) if inside else len(unmoved)),
    )
    assert place == min(max(wished, first), last)


# --- cycles


def test_cycle_of_two_is_refused(install: Install, vendor: ModuleType) -> None:
    """Two plugins declared outside each other are an error with the cycle; no patch stays applied."""
    install(a="wrap(before='b')", b="wrap(before='a')")
    original = vendor.call
    with pytest.raises(OrderError) as caught:
        hookpatch.active("a", "b").open()
    assert str(caught.value) == (
        "the patches on vendor:call cannot be put in order: a before b before a; plugin 'a' from d-a 1.0 declares "
        "before='b', plugin 'b' from d-b 1.0 declares before='a'; drop a declaration, or leave a plugin out"
    )
    assert caught.value.cycle == ("a", "b", "a")
    assert isinstance(caught.value, HookpatchError)
    assert vendor.call is original


def test_cycle_of_three_is_printed_in_its_direction(install: Install, vendor: ModuleType) -> None:
    """The cycle is printed from outside to inside, from the first name on, with the declaration of each step."""
    install(a="wrap(before='b')", b="wrap()", c="wrap(before='a', after='b')")
    with pytest.raises(OrderError) as caught:
        hookpatch.active("b", "a", "c").open()
    assert caught.value.cycle == ("a", "b", "c", "a")
    assert caught.value.declared == (
        "plugin 'a' from d-a 1.0 declares before='b'",
        "plugin 'c' from d-c 1.0 declares after='b'",
        "plugin 'c' from d-c 1.0 declares before='a'",
    )
    assert str(caught.value).startswith(
        "the patches on vendor:call cannot be put in order: a before b before c before a; plugin 'a'"
    )


def test_cycle_across_sessions_leaves_the_earlier_session_alone(install: Install, vendor: ModuleType) -> None:
    """The session that would close the cycle is refused; the earlier session stays open."""
    install(a="wrap(after='b')", b="wrap(after='a')")
    with hookpatch.active("a"):
        with pytest.raises(OrderError):
            hookpatch.active("b").open()
        assert vendor.call() == ["a"]


# --- conflicts


@pytest.mark.parametrize("second", ["put()", "derive()", "remove()"])
@pytest.mark.parametrize("first", ["put()", "derive()"])
def test_two_values_of_two_plugins_are_a_conflict(
    install: Install, vendor: ModuleType, first: str, second: str
) -> None:
    """Two plugins with a value each are refused by name; no patch stays applied."""
    install(a=first, b=second)
    with pytest.raises(ConflictError) as caught:
        hookpatch.active("a", "b").open()
    assert isinstance(caught.value, ApplyError)
    assert "plugin 'a' from d-a 1.0" in str(caught.value)
    assert "plugin 'b' from d-b 1.0" in str(caught.value)
    assert vendor.value == "original"


def test_conflict_with_an_earlier_session_names_both(install: Install, vendor: ModuleType) -> None:
    """The later session is refused, with the name of the earlier, which stays open."""
    install(a="put()", b="derive()")
    with hookpatch.active("a"):
        with pytest.raises(ConflictError) as caught:
            hookpatch.active("b").open()
        assert vendor.value == "a"
    assert str(caught.value) == (
        "plugin 'a' from d-a 1.0 also puts a value into the same slot (replace); select only one of the two, or "
        "declare the order with before= or after= (target vendor:value of plugin 'b' from d-b 1.0)"
    )
    assert caught.value.target == "vendor:value"
    assert caught.value.owner == "plugin 'b' from d-b 1.0"


def test_conflict_in_one_session_is_told_of_the_one_that_came_second(install: Install, vendor: ModuleType) -> None:
    """The second patch is refused, or skipped if optional; the reason names the first."""
    install(a="put()", b="derive(required=False)")
    with hookpatch.active("a", "b") as session:
        assert vendor.value == "a"
        reasons = [patch.reason for patch in session.report()]
    assert str(reasons[1]).startswith("plugin 'a' from d-a 1.0 also puts a value into the same slot (replace); ")


def test_conflict_of_a_patch_that_is_not_required_skips_it(install: Install, vendor: ModuleType) -> None:
    """With required=False the second is skipped, with the reason in the report."""
    install(a="put()", b="put(required=False), wrap()")
    with hookpatch.active("a"), hookpatch.active("b") as session:
        assert (vendor.value, vendor.call()) == ("a", ["b"])
        skipped, applied = session.report()
    assert (skipped.state, applied.state) == ("skipped", "applied")
    assert skipped.reason == (
        "plugin 'a' from d-a 1.0 also puts a value into the same slot (replace); select only one of the two, or "
        "declare the order with before= or after= (target vendor:value of plugin 'b' from d-b 1.0)"
    )


@pytest.mark.parametrize(
    ("a", "b", "value"),
    [
        ("put()", "derive(before='a')", "a+b"),
        ("derive(before='b')", "put()", "b+a"),
        ("derive(after='b')", "put()", "b"),
        ("put(before='b')", "put()", "a"),
        ("put()", "put(before='a')", "b"),
        ("derive(before='b')", "derive()", "original+b+a"),
        ("derive(after='b')", "derive()", "original+a+b"),
    ],
)
def test_declared_place_resolves_a_conflict(install: Install, vendor: ModuleType, a: str, b: str, value: str) -> None:
    """A declaration by either plugin is enough: the outermost value holds."""
    install(a=a, b=b)
    with hookpatch.active("a", "b"):
        assert vendor.value == value
    assert vendor.value == "original"


def test_value_and_wrapper_are_no_conflict(install: Install, vendor: ModuleType) -> None:
    """A wrapper lies over another plugin's value."""
    install(a="wrap()", b="hookpatch.replace('vendor:call', lambda: ['mine'])")
    with hookpatch.active("a", "b"):
        assert vendor.call() == ["a", "mine"]


def test_two_values_of_one_plugin_are_no_conflict(install: Install, vendor: ModuleType) -> None:
    """A plugin's own patches lie in the order yielded."""
    install(a="derive(), put()")
    with hookpatch.active("a"):
        assert vendor.value == "a+a"


def test_value_given_to_active_lies_over_that_of_a_plugin(install: Install, vendor: ModuleType) -> None:
    """A value given to active() lies over a plugin's value."""
    install(a="put()")
    with hookpatch.active(hookpatch.replace("vendor:value", "outer"), "a"):
        assert vendor.value == "outer"


@pytest.mark.parametrize("outer", ["replace", "remove"])
@pytest.mark.parametrize("inner", ["replace", "remove", "derive"])
def test_two_values_of_one_owner_in_one_session_are_a_conflict(
    install: Install, vendor: ModuleType, outer: str, inner: str
) -> None:
    """The inner value would have no effect, given by hand or by a plugin."""
    written = {
        "replace": "hookpatch.replace('vendor:value', 'new')",
        "remove": "hookpatch.remove('vendor:value')",
        "derive": "hookpatch.derive('vendor:value', str.upper)",
    }
    install(a=f"{written[outer]}, {written[inner]}")
    patches = [eval(written[verb], {"hookpatch": hookpatch}) for verb in (outer, inner)]
    for selected, owner in ((("a",), "plugin 'a'"), (patches, "a patch given to active()")):
        with pytest.raises(ConflictError) as raised:
            hookpatch.active(*selected).open()
        assert f"puts a value into the same slot twice ({outer}, {inner})" in str(raised.value)
        assert owner in str(raised.value)
        assert vendor.value == "original"


def test_values_of_two_sessions_are_no_conflict(vendor: ModuleType) -> None:
    with hookpatch.active(hookpatch.replace("vendor:value", "outer")):
        with hookpatch.active(hookpatch.replace("vendor:value", "inner")):
            assert vendor.value == "inner"
        assert vendor.value == "outer"


def test_values_at_different_sites_are_no_conflict(install: Install, vendor: ModuleType) -> None:
    """Values in different slots are no conflict."""
    install(a="put()", b="hookpatch.replace('vendor:other', 1, add=True)")
    with hookpatch.active("a", "b"):
        assert (vendor.value, vendor.other) == ("a", 1)

"""Guard: a patch that does not fit its slot is refused, or skipped, with the reason."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from refusals import passing, refused, simplify

import hookpatch
from hookpatch import Patch
from hookpatch._engine.calls.signatures import takes
from hookpatch.errors import ApplyError, PatchUnneededWarning, SignatureError, TargetNotFound, TargetRefused

MakeModule = Callable[..., ModuleType]

OURS = "of a patch given to active()"


# --- the slot


def test_name_that_is_not_there_is_refused(vendor: ModuleType) -> None:
    """The message proposes the nearest name."""
    assert refused(TargetNotFound, hookpatch.wrap("vendor:simplfy", passing)) == (
        f"vendor has no attribute 'simplfy'; did you mean 'simplify'? (target vendor:simplfy {OURS})"
    )


ADDED = {
    "module": ("vendor:limt", "vendor has no attribute 'limt'; did you mean 'limit'?"),
    "class": ("vendor:Model.knd", "vendor:Model has no attribute 'knd'; did you mean 'kind'?"),
    "instance": ("vendor:instance.pth", "vendor:instance has no attribute 'pth'; did you mean 'path'?"),
    "dict": ("vendor:table['gelu']", "vendor:table has no key 'gelu'; did you mean 'gelu_new'?"),
    "OrderedDict": ("vendor:ordered['b']", "vendor:ordered has no key 'b';"),
    "defaultdict": ("vendor:lists['b']", "vendor:lists has no key 'b';"),
    "mapping": ("vendor:store['b']", "vendor:store has no key 'b';"),
}


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("owner", ADDED)
def test_replace_adds_a_name_only_where_that_is_asked_for(vendor: ModuleType, owner: str, reach: Any) -> None:
    address, problem = ADDED[owner]
    before = repr([vars(vendor).keys(), vars(vendor.Model).keys(), vars(vendor.instance), vendor.table, vendor.ordered])
    assert (
        refused(TargetNotFound, hookpatch.replace(address, 7))
        == f"{problem} add=True adds it (target {address} {OURS})"
    )
    with hookpatch.active(hookpatch.replace(address, 7, add=True)) as session:
        assert hookpatch.Target(address).address == address
        assert [entry.state for entry in session.report()] == ["applied"]
    after = repr([vars(vendor).keys(), vars(vendor.Model).keys(), vars(vendor.instance), vendor.table, vendor.ordered])
    assert (after, [*vendor.lists], [*vendor.store]) == (before, ["a"], ["a"])


@pytest.mark.parametrize("address", ["Model.inherited", "fetching.any", "slotted.unset", "instance.__call__"])
def test_name_that_comes_from_elsewhere_is_not_absent(vendor: ModuleType, address: str) -> None:
    """A name from a base class, ``__getattr__``, ``__slots__`` or the class is not absent."""

    def new(*args: object, **kwargs: object) -> None: ...

    with hookpatch.active(hookpatch.replace(f"vendor:{address}", new)):
        owner, name = address.split(".")
        assert getattr(getattr(vendor, owner), name) is new


def test_name_unlike_any_is_refused_without_a_proposal(vendor: ModuleType) -> None:
    """A distant name gets no proposal."""
    assert refused(TargetNotFound, hookpatch.remove("vendor:zzzzzz")) == (
        f"vendor has no attribute 'zzzzzz' (target vendor:zzzzzz {OURS})"
    )


def test_method_that_is_not_there_is_refused(vendor: ModuleType) -> None:
    """The message has the class's address; proposals include inherited names."""
    assert refused(TargetNotFound, hookpatch.wrap("vendor:Model.inherit", passing)) == (
        f"vendor:Model has no attribute 'inherit'; did you mean 'inherited'? (target vendor:Model.inherit {OURS})"
    )


def test_key_that_is_not_there_is_refused(vendor: ModuleType) -> None:
    """The message has the mapping's address and the nearest key."""
    assert refused(TargetNotFound, hookpatch.derive("vendor:table['gelu']", repr)) == (
        f"vendor:table has no key 'gelu'; did you mean 'gelu_new'? (target vendor:table['gelu'] {OURS})"
    )


def test_name_that_python_code_may_fetch_counts_as_there(make_module: Callable[[str, str], ModuleType]) -> None:
    """A name fetched by Python code counts as present, also beneath a class."""
    vendor = make_module(
        "vendor",
        """
        import types
        class Lazy(types.SimpleNamespace):
            def __getattr__(self, name): raise AttributeError(name)
        lazy = Lazy()
        """,
    )
    with hookpatch.active(hookpatch.replace("vendor:lazy.added", 1)):
        assert vendor.lazy.added == 1
    assert vars(vendor.lazy) == {}


@pytest.mark.parametrize("place", [3, -3])
def test_place_that_a_list_does_not_have_is_refused(vendor: ModuleType, place: int) -> None:
    """A list can be extended only at its end."""
    assert refused(TargetNotFound, hookpatch.replace(f"vendor:entries[{place}]", 1)) == (
        f"vendor:entries has no key {place} (target vendor:entries[{place}] {OURS})"
    )


def test_value_that_cannot_be_called_is_refused_by_wrap(vendor: ModuleType) -> None:
    """wrap and inject need a callable; the message has the verbs for values."""
    for patch in (hookpatch.wrap("vendor:limit", passing), hookpatch.inject("vendor:limit", x=1)):
        assert refused(TargetRefused, patch) == (
            "vendor:limit holds an int, which cannot be called; take hookpatch.replace or hookpatch.derive "
            f"(target vendor:limit {OURS})"
        )


def test_removing_what_is_inherited_is_refused(vendor: ModuleType) -> None:
    """A class cannot lack an inherited name."""
    assert refused(TargetRefused, hookpatch.remove("vendor:Model.inherited")) == (
        "vendor:Model.inherited is inherited; remove the attribute from the class of its definition (target "
        f"vendor:Model.inherited {OURS})"
    )


# --- the signature


@pytest.mark.parametrize(
    ("address", "argument"),
    [
        ("vendor:simplify", "model"),
        ("vendor:simplify", "check"),
        ("vendor:by_place", "y"),
        ("vendor:packed", "x"),
        ("vendor:open_ended", "anything"),
        ("vendor:Model.method", "flag"),
        ("vendor:Model.static", "flag"),
        ("vendor:Model.of_class", "flag"),
        ("vendor:Model.inherited", "x"),
        ("vendor:Callable", "path"),
        ("vendor:instance", "x"),
    ],
)
def test_argument_that_the_target_takes_is_injected(vendor: ModuleType, address: str, argument: str) -> None:
    """inject takes parameters of every kind, and any name with ``**``."""
    with hookpatch.active(hookpatch.inject(address, {argument: 1})) as session:
        assert [entry.state for entry in session.report()] == ["applied"]


def test_argument_goes_to_the_keywords_of_an_open_signature(vendor: ModuleType) -> None:
    """A target with ``**`` takes any argument."""
    with hookpatch.active(hookpatch.inject("vendor:open_ended", anything=1)):
        assert vendor.open_ended(0) == (0, {"anything": 1})


@pytest.mark.parametrize(("word", "option"), [("uptream", "upstream"), ("requiers", "requires"), ("befor", "before")])
@pytest.mark.parametrize("name", ["open_ended", "anything", "Model.open"])
def test_option_that_is_misspelt_is_refused_where_any_argument_is_taken(
    vendor: ModuleType, name: str, word: str, option: str
) -> None:
    """A misspelt option would be an argument of each call; in a mapping the name counts as an argument."""
    assert refused(SignatureError, hookpatch.inject(f"vendor:{name}", anything=1, **{word: "x"})) == (
        f"vendor:{name} takes any argument, and '{word}' is nearly an option of inject; did you mean '{option}'? an "
        f"argument of that name is given as inject(target, {{'{word}': ...}}) (target vendor:{name} {OURS})"
    )
    with hookpatch.active(hookpatch.inject(f"vendor:{name}", {word: "x"}, anything=1)):
        function = vendor.Model().open if name == "Model.open" else vars(vendor)[name]
        assert function(0)[1] == {word: "x", "anything": 1}


def test_argument_goes_to_a_c_function_without_a_signature(vendor: ModuleType) -> None:
    """A target without a signature is not refused."""
    with hookpatch.active(hookpatch.inject("vendor:biggest", default=5)):
        assert vendor.biggest([]) == 5
    assert vendor.biggest is max


def test_argument_that_the_target_does_not_take_is_refused(vendor: ModuleType) -> None:
    """The message proposes the nearest parameter and lists all."""
    assert refused(SignatureError, hookpatch.inject("vendor:simplify", skiped=[])) == (
        "vendor:simplify takes no argument 'skiped'; did you mean 'skipped'? it takes model, skipped, check "
        f"(target vendor:simplify {OURS})"
    )


def test_misspelt_option_of_a_verb_is_refused_with_the_option(vendor: ModuleType) -> None:
    """The message proposes the option of the verb."""
    assert refused(SignatureError, hookpatch.inject("vendor:simplify", require="vendor-kit>=1")) == (
        "vendor:simplify takes no argument 'require'; did you mean the option 'requires'? it takes model, skipped, "
        f"check (target vendor:simplify {OURS})"
    )


def test_argument_unlike_any_is_refused_without_a_proposal(vendor: ModuleType) -> None:
    """A distant name gets no proposal; ``*args`` is not a name to inject."""
    assert refused(SignatureError, hookpatch.inject("vendor:packed", args=[])) == (
        f"vendor:packed takes no argument 'args'; it takes x (target vendor:packed {OURS})"
    )


@pytest.mark.parametrize("method", ["static", "of_class"])
def test_signature_of_a_static_or_class_method_is_read(vendor: ModuleType, method: str) -> None:
    """The function inside the descriptor is looked at."""
    with pytest.raises(SignatureError) as caught:
        hookpatch.active(hookpatch.inject(f"vendor:Model.{method}", flags=1)).open()
    assert str(caught.value).startswith(
        f"vendor:Model.{method} takes no argument 'flags'; did you mean 'flag'? it takes "
    )


def test_wrong_argument_changes_nothing(vendor: ModuleType) -> None:
    """All patches are checked first: no patch is applied if a later one does not fit."""
    original = vendor.bare
    refused(SignatureError, hookpatch.wrap("vendor:bare", passing), hookpatch.inject("vendor:simplify", chek=1))
    assert vendor.bare is original


# --- expects


def test_wrapper_that_finds_what_it_expects_is_applied(vendor: ModuleType) -> None:
    """expects takes a parameter or several, of every kind."""
    for expects in ("skipped", ("model", "check"), ()):
        with hookpatch.active(hookpatch.wrap("vendor:simplify", passing, expects=expects)):
            assert vendor.simplify("m", check=1) == ("m", None, 1)
    for address in ("vendor:Model.method", "vendor:Model.static", "vendor:Model.of_class", "vendor:Model.inherited"):
        with hookpatch.active(hookpatch.wrap(address, passing, expects="x")) as session:
            assert [entry.state for entry in session.report()] == ["applied"]


def test_wrapper_that_misses_what_it_expects_is_refused(vendor: ModuleType) -> None:
    """The message has the nearest parameter; a name for ``**`` does not count as found."""
    original = vendor.simplify
    patch = hookpatch.wrap("vendor:simplify", passing, expects=("model", "skiped"))
    assert refused(SignatureError, patch) == (
        "vendor:simplify has no parameter 'skiped' (expects=); did you mean 'skipped'? it takes model, skipped, check "
        f"(target vendor:simplify {OURS})"
    )
    assert refused(SignatureError, hookpatch.wrap("vendor:open_ended", passing, expects="deep")) == (
        f"vendor:open_ended has no parameter 'deep' (expects=); it takes x (target vendor:open_ended {OURS})"
    )
    assert vendor.simplify is original


def test_what_tells_no_signature_is_taken_to_have_what_is_expected(vendor: ModuleType) -> None:
    """An unknown signature is not refused."""
    with hookpatch.active(hookpatch.wrap("vendor:biggest", passing, expects="default")):
        assert vendor.biggest(1, 2) == 2


# --- optional patches

MISFITS: dict[str, Callable[..., Patch]] = {
    "version": lambda **facts: simplify(requires="vendor-kit>=2", **facts),
    "not installed": lambda **facts: simplify(requires="no-such-kit", **facts),
    "requires not read": lambda **facts: simplify(requires="?", **facts),
    "until not read": lambda **facts: simplify(until="?", **facts),
    "name": lambda **facts: hookpatch.wrap("vendor:simplfy", passing, **facts),
    "step": lambda **facts: hookpatch.wrap("vendor:Modell.method", passing, **facts),
    "key": lambda **facts: hookpatch.derive("vendor:table['gelu']", repr, **facts),
    "not callable": lambda **facts: hookpatch.wrap("vendor:limit", passing, **facts),
    "inherited": lambda **facts: hookpatch.remove("vendor:Model.inherited", **facts),
    "argument": lambda **facts: hookpatch.inject("vendor:simplify", {"chek": 1}, **facts),
    "reach": lambda **facts: hookpatch.replace("vendor:limit", 1, reach="everywhere", **facts),
    "factory": lambda **facts: hookpatch.derive("vendor:limit", len, **facts),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_patch_that_is_not_required_is_skipped_with_the_reason(vendor: ModuleType, misfit: str) -> None:
    """With required=False a misfit is skipped; its reason is the error's text, and all else is applied."""
    with pytest.raises(ApplyError) as caught:
        hookpatch.active(MISFITS[misfit]()).open()
    before, after = hookpatch.replace("vendor:Model.kind", 4), hookpatch.wrap("vendor:bare", lambda *call: "wrapped")
    with hookpatch.active(before, MISFITS[misfit](required=False), after) as session:
        assert (vendor.Model.kind, vendor.bare()) == (4, "wrapped")
        assert [entry.state for entry in session.report()] == ["applied", "skipped", "applied"]
    assert [entry.state for entry in session.report()] == ["restored", "skipped", "restored"]
    assert [entry.reason for entry in session.report()] == [None, str(caught.value), None]
    assert (vendor.Model.kind, vendor.bare()) == ("model", "bare")


def test_patch_that_is_not_required_is_skipped_in_a_module_that_comes_later(make_module: MakeModule) -> None:
    """An optional patch is skipped without a warning; the report has the reason."""
    patches = (
        hookpatch.wrap("late:gone", passing, required=False),
        hookpatch.replace("late:limit", 4),
    )
    with hookpatch.active(*patches) as session:
        assert [entry.state for entry in session.report()] == ["waiting", "waiting"]
        assert make_module("late", "limit = 3").limit == 4
        assert [(entry.state, entry.reason) for entry in session.report()] == [
            ("skipped", f"late has no attribute 'gone' (target late:gone {OURS})"),
            ("applied", None),
        ]


# --- the signature beneath a layer


def test_argument_is_checked_against_what_lies_beneath(vendor: ModuleType) -> None:
    """The signature beneath the layer counts: inner patches matter, outer patches do not."""
    loose = hookpatch.derive("vendor:simplify", lambda original: lambda *args, **kwargs: original(*args, **kwargs))
    with hookpatch.active(loose, hookpatch.inject("vendor:simplify", skipped=["a"])):
        assert vendor.simplify("m", ["b"]) == ("m", ["a"], 0)
    strict = hookpatch.derive("vendor:Callable", lambda original: lambda model: original(model))
    with (
        pytest.raises(SignatureError) as caught,
        hookpatch.active(hookpatch.inject("vendor:Callable", path=1), strict),
    ):
        pass
    assert (
        str(caught.value) == f"vendor:Callable takes no argument 'path'; it takes model (target vendor:Callable {OURS})"
    )


@pytest.mark.parametrize(("name", "own"), [("method", "self"), ("of_class", "cls")])
def test_object_that_a_method_is_called_on_is_no_argument(vendor: ModuleType, name: str, own: str) -> None:
    """inject cannot give the object of a method call."""
    with pytest.raises(SignatureError) as caught, hookpatch.active(hookpatch.inject(f"vendor:Model.{name}", {own: 3})):
        pass
    address = f"vendor:Model.{name}"
    assert str(caught.value) == f"{address} takes no argument '{own}'; it takes x, flag (target {address} {OURS})"


def test_function_without_parameters_takes_nothing(vendor: ModuleType) -> None:
    """The message says that the function has no parameters."""
    with pytest.raises(SignatureError) as caught, hookpatch.active(hookpatch.inject("vendor:bare", x=1)):
        pass
    assert str(caught.value) == f"vendor:bare takes no argument 'x'; it takes nothing (target vendor:bare {OURS})"


def test_entry_of_a_list_cannot_be_removed(vendor: ModuleType) -> None:
    """A removed list entry would move its neighbours."""
    target = hookpatch.Target.item(vendor.entries, 0)
    for patch in (hookpatch.remove("vendor:entries[0]"), hookpatch.remove(target)):
        with (
            pytest.raises(TargetRefused, match=r"\[0\] cannot be absent: its neighbours would move \(target"),
            hookpatch.active(patch),
        ):
            pass
        assert vendor.entries == [1, 2]


def test_patch_beneath_an_outer_remove_is_applied(vendor: ModuleType) -> None:
    """The slot's original counts, not the value of other patches."""
    limit = vendor.limit
    with hookpatch.active(hookpatch.remove("vendor:limit")), hookpatch.active(hookpatch.replace("vendor:limit", 4)):
        assert vendor.limit == 4
    with hookpatch.active(hookpatch.remove("vendor:limit")), hookpatch.active(hookpatch.remove("vendor:limit")):
        assert not hasattr(vendor, "limit")
    assert vendor.limit is limit


def test_warning_that_was_made_an_error_stays_one(vendor: ModuleType) -> None:
    """A warning made an error stays a warning's error, not an error of the patch."""
    with pytest.raises(PatchUnneededWarning), hookpatch.active(hookpatch.wrap("vendor:bare", print, until="pytest>=1")):
        pass


def test_function_that_another_thread_changes_in_place_just_now_is_read_again() -> None:
    """A function under change by another thread is read again: for a moment its signature has our parameter."""

    def spread(*args: object, mark: object = None) -> None: ...

    def midst(*args: object, __hookpatch__: object = None, **kwargs: object) -> None: ...

    code, defaults = spread.__code__, spread.__kwdefaults__
    spread.__code__, spread.__kwdefaults__ = midst.__code__, midst.__kwdefaults__

    def end() -> None:
        spread.__kwdefaults__, spread.__code__ = defaults, code

    thread = threading.Timer(0.01, end)
    thread.start()
    parameters = takes(spread, binds=False)
    thread.join()
    assert [parameter.name for parameter in parameters or ()] == ["args", "mark"]

"""Guard: a patch is applied where version, slot and signature fit, else refused, or skipped where it may be."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from inspect import Parameter, Signature, signature
from itertools import combinations, product
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch import Patch
from hookpatch._calls import as_text, from_text, misfit, take_the_same, takes
from hookpatch.errors import (
    ApplyError,
    PatchFailedWarning,
    PatchUnneededWarning,
    RequirementError,
    SignatureError,
    TargetNotFound,
    TargetRefused,
)

MakeModule = Callable[..., ModuleType]
MakeDistribution = Callable[..., Path]

OURS = "of a patch given to active()"

VENDOR = """
    biggest = max  # a C function that tells no signature
    limit = 3
    table = {"gelu_new": 1}
    entries = [1, 2]

    def simplify(model, skipped=None, *, check=0): return model, skipped, check
    def bare(): return "bare"
    def packed(x, *args): return x, args
    def open_ended(x, **more): return x, more
    def by_place(x, y=0, /): return x, y
    def anything(*args, **kwargs): return args, kwargs

    class Base:
        def inherited(self, x=0): return x

    class Model(Base):
        kind = "model"
        def method(self, x, flag=False): return x, flag
        @staticmethod
        def static(x, flag=False): return x, flag
        @classmethod
        def of_class(cls, x, flag=False): return x, flag

    class Callable:
        def __init__(self, path="here"): self.path = path
        def __call__(self, x): return x

    instance = Callable()
"""


@pytest.fixture
def vendor(make_module: MakeModule, make_distribution: MakeDistribution) -> ModuleType:
    """The module to patch, of the installed distribution vendor-kit 1.4."""
    make_distribution("vendor-kit", "1.4")
    return make_module("vendor", VENDOR)


def passing(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Change nothing."""
    return wrapped(*args, **kwargs)


def refused(error: type[ApplyError], *patches: Patch) -> str:
    """Return the message with which patches are refused."""
    with pytest.raises(ApplyError) as caught:
        hookpatch.active(*patches).open()
    assert type(caught.value) is error
    assert str(caught.value) == f"{caught.value.problem} (target {caught.value.target} of {caught.value.owner})"
    return str(caught.value)


def simplify(**facts: Any) -> Patch:
    """Return a patch that is there for its facts."""
    return hookpatch.inject("vendor:simplify", {"check": 7}, **facts)


# --- requires


@pytest.mark.parametrize(
    "requires",
    [
        "vendor-kit",
        "vendor-kit>=1.4",
        "vendor-kit>=1,<2",
        "vendor-kit==1.*",
        "Vendor_Kit~=1.4",
        ["vendor-kit>=1", "vendor-kit<2"],
        (),
    ],
)
def test_patch_whose_requirement_is_met_is_applied(vendor: ModuleType, requires: str) -> None:
    """The installed version is among those named; names are compared as distributions' names."""
    with hookpatch.active(simplify(requires=requires)):
        assert vendor.simplify("m") == ("m", None, 7)


def test_prerelease_counts_as_the_version_it_is(vendor: ModuleType, make_distribution: MakeDistribution) -> None:
    """A pre-release that is installed is judged by its number, not passed over."""
    make_distribution("nightly", "2.0rc1")
    with hookpatch.active(simplify(requires="nightly>=1.9")):
        assert vendor.simplify("m") == ("m", None, 7)
    assert refused(RequirementError, simplify(requires="nightly>=2")) == (
        "made for nightly>=2, but nightly 2.0rc1 is installed; install one that is, or a newer release of the plugin "
        f"(target vendor:simplify {OURS})"
    )


@pytest.mark.parametrize("requires", ["vendor-kit>=1.5", "vendor-kit<1.4", "vendor-kit!=1.4", "vendor-kit==1.4.1"])
def test_patch_whose_requirement_is_not_met_is_refused(vendor: ModuleType, requires: str) -> None:
    """The message tells what was asked for, what is installed and the ways out; nothing is applied."""
    original = vendor.simplify
    assert refused(RequirementError, simplify(requires=requires)) == (
        f"made for {requires}, but vendor-kit 1.4 is installed; install one that is, or a newer release of the plugin "
        f"(target vendor:simplify {OURS})"
    )
    assert vendor.simplify is original


def test_requirement_of_what_is_not_installed_is_refused(vendor: ModuleType) -> None:
    """The message says that it is not there at all."""
    assert refused(RequirementError, simplify(requires="no-such-kit>=1")) == (
        f"made for no-such-kit>=1, but it is not installed; install it (target vendor:simplify {OURS})"
    )


def test_requirement_that_cannot_be_read_is_refused(vendor: ModuleType) -> None:
    """The message quotes what was written and shows how to write it."""
    message = refused(RequirementError, simplify(requires=">=1.4"))
    head, tail = (
        "requires='>=1.4' cannot be read (",
        (f"); write it like 'onnxsim>=0.4.36,<1' (target vendor:simplify {OURS})"),
    )
    assert message.startswith(head)
    assert message.endswith(tail)
    assert message == f"{head}Expected package name at the start of dependency specifier{tail}"


def test_requirement_is_looked_at_before_anything_is_applied(vendor: ModuleType) -> None:
    """All is checked first: a patch that fits is not applied when the next does not."""
    seen: list[object] = []

    def factory(limit: object) -> object:
        seen.append(limit)
        return limit

    fits = hookpatch.derive("vendor:limit", factory)
    refused(RequirementError, fits, simplify(requires="vendor-kit>=9"))
    assert seen == []


def test_requirement_of_a_plugin_names_the_plugin(vendor: ModuleType, make_distribution: MakeDistribution) -> None:
    """The owner in the message is the plugin with its distribution and version."""
    source = """
        import hookpatch

        @hookpatch.hookimpl
        def hookpatch_patches():
            yield hookpatch.replace("vendor:limit", 1, requires="vendor-kit>=2")
        """
    make_distribution("hookpatch-kit", "0.3", {"limit_off": "limit_off"}, {"limit_off": source})
    with pytest.raises(RequirementError) as caught:
        hookpatch.active("limit_off").open()
    assert str(caught.value) == (
        "made for vendor-kit>=2, but vendor-kit 1.4 is installed; install one that is, or a newer release of the "
        "plugin (target vendor:limit of plugin 'limit_off' from hookpatch-kit 0.3)"
    )


def test_requirement_not_met_by_a_module_that_comes_later_is_a_warning(
    write_module: Callable[[str, str], Path], make_module: MakeModule, make_distribution: MakeDistribution
) -> None:
    """The import of the module succeeds, unpatched; the report says failed, with the reason."""
    make_distribution("vendor-kit", "1.4")
    problem = (
        "made for vendor-kit>=2, but vendor-kit 1.4 is installed; install one that is, or a newer release of the "
        f"plugin (target late:limit {OURS})"
    )
    with hookpatch.active(hookpatch.replace("late:limit", 1, requires="vendor-kit>=2")) as session:
        with pytest.warns(PatchFailedWarning) as warned:
            late = make_module("late", "limit = 3")
        assert late.limit == 3
        (entry,) = session.report()
    assert [str(warning.message) for warning in warned] == [f"not patched: {problem}"]
    assert (entry.state, entry.reason) == ("failed", problem)


@pytest.mark.parametrize(
    ("requires", "problem"),
    [
        ("vendor-kit[fast]>=1", "names the extra 'fast', and which extras are installed is noted nowhere"),
        (
            "vendor-kit>=1; sys_platform == 'linux'",
            "has a condition behind ';', which is for installers: a patch of other platforms is another patch",
        ),
        ("vendor-kit @ https://example.org/kit.whl", "names a link, and what counts is the installed version"),
    ],
    ids=["extra", "marker", "link"],
)
def test_requirement_that_only_an_installer_understands_is_refused(
    vendor: ModuleType, requires: str, problem: str
) -> None:
    """An extra, a marker or a link is not passed over in silence."""
    assert refused(RequirementError, simplify(requires=requires)) == (
        f"requires={requires!r} {problem}; write it like 'onnxsim>=0.4.36,<1' (target vendor:simplify {OURS})"
    )


def test_each_of_several_requirements_is_looked_at(vendor: ModuleType, make_distribution: MakeDistribution) -> None:
    """The message names the first that is not met."""
    make_distribution("other-kit", "3.0")
    with hookpatch.active(simplify(requires=["vendor-kit>=1", "other-kit==3.*"])):
        assert vendor.simplify("m") == ("m", None, 7)
    assert refused(RequirementError, simplify(requires=("vendor-kit>=1", "other-kit<3", "no-such-kit"))) == (
        "made for other-kit<3, but other-kit 3.0 is installed; install one that is, or a newer release of the plugin "
        f"(target vendor:simplify {OURS})"
    )


@pytest.mark.parametrize("installed", ["nightly", ""], ids=["not PEP 440", "none"])
def test_version_that_cannot_be_compared_is_refused(
    vendor: ModuleType, make_distribution: MakeDistribution, installed: str
) -> None:
    """What a distribution says of itself may be no version."""
    make_distribution("odd-kit", installed)
    assert refused(RequirementError, simplify(requires="odd-kit>=1")) == (
        "requires='odd-kit>=1' cannot be compared with the version that odd-kit says it has; install a release of it "
        f"(target vendor:simplify {OURS})"
    )


# --- until


def test_patch_that_has_become_unneeded_is_applied_with_a_warning(vendor: ModuleType) -> None:
    """until met is no error: it says that the patch can go."""
    with pytest.warns(PatchUnneededWarning) as warned, hookpatch.active(simplify(until="vendor-kit>=1.2")):
        assert vendor.simplify("m") == ("m", None, 7)
    assert [str(warning.message) for warning in warned] == [
        f"vendor:simplify {OURS}: not needed from vendor-kit>=1.2 on, and vendor-kit 1.4 is installed"
    ]


def test_patch_that_has_become_unneeded_is_said_to_be_in_the_report(vendor: ModuleType) -> None:
    """For every verb, enter too; one that is needed has no such line."""
    reason = "not needed from vendor-kit>=1.2 on, and vendor-kit 1.4 is installed"
    until = {"until": "vendor-kit>=1.2"}
    patches = (
        simplify(**until),
        hookpatch.enter("vendor", nullcontext, **until),  # type: ignore[arg-type]  # a dict of facts
        hookpatch.wrap("vendor:bare", passing),
    )
    with pytest.warns(PatchUnneededWarning):
        session = hookpatch.active(*patches).open()
    report = session.report()
    session.close()
    assert [(entry.state, entry.warnings) for entry in report] == [
        ("applied", (reason,)),
        ("applied", (reason,)),
        ("applied", ()),
    ]
    assert str(report).splitlines()[:2] == [
        "applied   inject  vendor:simplify  (active())",
        f"          warning {reason}",
    ]


@pytest.mark.parametrize("until", ["vendor-kit>=1.5", "no-such-kit>=1"], ids=["older", "not installed"])
def test_patch_that_is_still_needed_is_applied_in_silence(vendor: ModuleType, until: str) -> None:
    """Before that version, and where the distribution is not installed, there is nothing to say."""
    with hookpatch.active(simplify(until=until)):
        assert vendor.simplify("m") == ("m", None, 7)


def test_until_that_cannot_be_read_is_refused(vendor: ModuleType) -> None:
    """A misspelt until is not passed over."""
    message = refused(RequirementError, simplify(until="vendor-kit => 2"))
    head, tail = (
        "until='vendor-kit => 2' cannot be read (",
        (f"); write it like 'onnxsim>=0.4.36,<1' (target vendor:simplify {OURS})"),
    )
    assert message.startswith(head)
    assert message.endswith(tail)
    assert "\n" not in message


# --- the slot


def test_name_that_is_not_there_is_refused(vendor: ModuleType) -> None:
    """The message proposes the nearest name."""
    assert refused(TargetNotFound, hookpatch.wrap("vendor:simplfy", passing)) == (
        f"vendor has no attribute 'simplfy'; did you mean 'simplify'? (target vendor:simplfy {OURS})"
    )


def test_name_unlike_any_is_refused_without_a_proposal(vendor: ModuleType) -> None:
    """Nothing is proposed that is not near."""
    assert refused(TargetNotFound, hookpatch.remove("vendor:zzzzzz")) == (
        f"vendor has no attribute 'zzzzzz' (target vendor:zzzzzz {OURS})"
    )


def test_method_that_is_not_there_is_refused(vendor: ModuleType) -> None:
    """The class is named by its address; inherited names are proposed, too."""
    assert refused(TargetNotFound, hookpatch.wrap("vendor:Model.inherit", passing)) == (
        f"vendor:Model has no attribute 'inherit'; did you mean 'inherited'? (target vendor:Model.inherit {OURS})"
    )


def test_key_that_is_not_there_is_refused(vendor: ModuleType) -> None:
    """The mapping is named by its address, and the nearest key proposed."""
    assert refused(TargetNotFound, hookpatch.derive("vendor:table['gelu']", repr)) == (
        f"vendor:table has no key 'gelu'; did you mean 'gelu_new'? (target vendor:table['gelu'] {OURS})"
    )


@pytest.mark.parametrize("place", [2, -3])
def test_place_that_a_list_does_not_have_is_refused(vendor: ModuleType, place: int) -> None:
    """A list is not made longer, not by replace either."""
    assert refused(TargetNotFound, hookpatch.replace(f"vendor:entries[{place}]", 1)) == (
        f"vendor:entries has no key {place} (target vendor:entries[{place}] {OURS})"
    )


def test_value_that_cannot_be_called_is_refused_by_wrap(vendor: ModuleType) -> None:
    """wrap and inject are for what is called; the message names the verbs for values."""
    for patch in (hookpatch.wrap("vendor:limit", passing), hookpatch.inject("vendor:limit", x=1)):
        assert refused(TargetRefused, patch) == (
            "vendor:limit holds an int, which cannot be called; take hookpatch.replace or hookpatch.derive "
            f"(target vendor:limit {OURS})"
        )


def test_removing_what_is_inherited_is_refused(vendor: ModuleType) -> None:
    """A class cannot be without what its base has."""
    assert refused(TargetRefused, hookpatch.remove("vendor:Model.inherited")) == (
        "vendor:Model.inherited is inherited; remove it from the class that defines it "
        f"(target vendor:Model.inherited {OURS})"
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
    """Parameters of every kind, and anything where there is ``**``, can be given."""
    with hookpatch.active(hookpatch.inject(address, {argument: 1})) as session:
        assert [entry.state for entry in session.report()] == ["applied"]


def test_argument_goes_to_the_keywords_of_an_open_signature(vendor: ModuleType) -> None:
    """A target with ``**`` takes any argument."""
    with hookpatch.active(hookpatch.inject("vendor:open_ended", anything=1)):
        assert vendor.open_ended(0) == (0, {"anything": 1})


def test_argument_goes_to_a_c_function_without_a_signature(vendor: ModuleType) -> None:
    """What tells no signature is not refused for it."""
    with hookpatch.active(hookpatch.inject("vendor:biggest", default=5)):
        assert vendor.biggest([]) == 5
    assert vendor.biggest is max


def test_argument_that_the_target_does_not_take_is_refused(vendor: ModuleType) -> None:
    """The message proposes the nearest parameter and lists all."""
    assert refused(SignatureError, hookpatch.inject("vendor:simplify", skiped=[])) == (
        "vendor:simplify takes no argument 'skiped'; did you mean 'skipped'? it takes model, skipped, check "
        f"(target vendor:simplify {OURS})"
    )


def test_argument_unlike_any_is_refused_without_a_proposal(vendor: ModuleType) -> None:
    """Nothing is proposed that is not near; ``*args`` is not a name to give."""
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
    """All is checked first: a patch that fits is not applied when the next does not."""
    original = vendor.bare
    refused(SignatureError, hookpatch.wrap("vendor:bare", passing), hookpatch.inject("vendor:simplify", chek=1))
    assert vendor.bare is original


# --- what a wrapper expects


def test_wrapper_that_finds_what_it_expects_is_applied(vendor: ModuleType) -> None:
    """One parameter or several, of every kind."""
    for expects in ("skipped", ("model", "check"), ()):
        with hookpatch.active(hookpatch.wrap("vendor:simplify", passing, expects=expects)):
            assert vendor.simplify("m", check=1) == ("m", None, 1)
    for address in ("vendor:Model.method", "vendor:Model.static", "vendor:Model.of_class", "vendor:Model.inherited"):
        with hookpatch.active(hookpatch.wrap(address, passing, expects="x")) as session:
            assert [entry.state for entry in session.report()] == ["applied"]


def test_wrapper_that_misses_what_it_expects_is_refused(vendor: ModuleType) -> None:
    """The message proposes the nearest parameter; what ``**`` would take is not there to be found."""
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
    """What is not known is not refused."""
    with hookpatch.active(hookpatch.wrap("vendor:biggest", passing, expects="default")):
        assert vendor.biggest(1, 2) == 2


# --- what stands for a function

TAKES_IT: dict[str, tuple[str, Any]] = {
    "the same": ("simplify", lambda model, skipped=None, *, check=0: "ours"),
    "more": ("simplify", lambda model, skipped=None, deep=False, *, check=0, fast=True: "ours"),
    "all there is": ("simplify", lambda *args, **kwargs: "ours"),
    "the rest": ("simplify", lambda model, *args, **kwargs: "ours"),
    "a keyword by place too": ("simplify", lambda model, skipped=None, check=0: "ours"),
    "other names by place": ("by_place", lambda a, b=1, /: "ours"),
    "names for places": ("by_place", lambda a, b=1: "ours"),
    "needs less": ("simplify", lambda model=None, skipped=None, *, check=0: "ours"),
    "an open signature": ("open_ended", lambda x, **other: "ours"),
    "what tells nothing": ("anything", lambda *args: "ours"),
    "no signature": ("simplify", max),
    "a partial": ("simplify", partial(lambda first, model, skipped=None, *, check=0: "ours", 1)),
    "None": ("simplify", None),
    "a method": ("Model.method", lambda anything, x, flag=False: "ours"),
    "a property": ("Model.method", property(lambda self: "ours")),
    "a static method": ("Model.static", staticmethod(lambda x, flag=False: "ours")),
    "a class method": ("Model.of_class", classmethod(lambda cls, x, flag=False: "ours")),
    "static for a method": ("Model.method", staticmethod(lambda x, flag=False: "ours")),
    "what is inherited": ("Model.inherited", lambda self, x=0: "ours"),
}


@pytest.mark.parametrize("verb", ["replace", "derive"])
@pytest.mark.parametrize("case", TAKES_IT)
def test_value_that_takes_what_the_function_takes_stands_for_it(vendor: ModuleType, verb: str, case: str) -> None:
    """Every call that was right before is right still; what is not known is not refused."""
    name, value = TAKES_IT[case]
    assert_states([standing(verb, name, value)], ["applied"])


REFUSES_IT: dict[str, tuple[str, Any, str]] = {
    "less": (
        "simplify",
        lambda model: "ours",
        "takes (model), and simplify(model=..., skipped=...) fails: got an unexpected keyword argument 'skipped'",
    ),
    "renamed": (
        "simplify",
        lambda graph, skipped=None, *, check=0: "ours",
        "takes (graph, skipped=None, *, check=0), and simplify(model=...) fails: missing a required argument: 'graph'",
    ),
    "needs more": (
        "bare",
        lambda x: "ours",
        "takes (x), and bare() fails: missing a required argument: 'x'",
    ),
    "needs a keyword": (
        "bare",
        lambda *, x: "ours",
        "takes (*, x), and bare() fails: missing a required argument: 'x'",
    ),
    "needs what was optional": (
        "simplify",
        lambda model, skipped, *, check=0: "ours",
        "takes (model, skipped, *, check=0), and simplify(model) fails: missing a required argument: 'skipped'",
    ),
    "another order": (
        "simplify",
        lambda skipped=None, model=None, *, check=0: "ours",
        "takes (skipped=None, model=None, *, check=0), and simplify(model, skipped, check=...) gives what is meant for "
        "'model' to another parameter",
    ),
    "by keyword alone": (
        "simplify",
        lambda *, model, skipped=None, check=0: "ours",
        "takes (*, model, skipped=None, check=0), and simplify(model) fails: too many positional arguments",
    ),
    "by place alone": (
        "simplify",
        lambda model, skipped=None, /, *, check=0: "ours",
        "takes (model, skipped=None, /, *, check=0), and simplify(model=...) fails: PLACE",
    ),
    "no more arguments": (
        "packed",
        lambda x: "ours",
        "takes (x), and packed(x, *args) fails: too many positional arguments",
    ),
    "no more keywords": (
        "open_ended",
        lambda x: "ours",
        "takes (x), and open_ended(x, any_other_name=...) fails: got an unexpected keyword argument 'any_other_name'",
    ),
    "without self": (
        "Model.method",
        lambda x, flag=False: "ours",
        "takes (flag=False), and method(x=...) fails: got an unexpected keyword argument 'x'",
    ),
    "a method for a static one": (
        "Model.static",
        lambda x, flag=False: "ours",
        "takes (flag=False), and static(x=...) fails: got an unexpected keyword argument 'x'",
    ),
}


@pytest.mark.parametrize("verb", ["replace", "derive"])
@pytest.mark.parametrize("case", REFUSES_IT)
def test_value_that_does_not_take_what_the_function_takes_is_refused(vendor: ModuleType, verb: str, case: str) -> None:
    """The message shows what it takes, and a call that would fail; nothing is applied."""
    name, value, problem = REFUSES_IT[case]
    owner = "." in name
    before = dict(vars(vendor.Model if owner else vendor))
    message = refused(SignatureError, standing(verb, name, value))
    message = message.replace("required keyword-only argument", "required argument")  # as newer Pythons say it
    assert re.sub(r"fails: [^;]*positional.only[^;]*;", "fails: PLACE;", message) == (
        f"what {verb} puts at vendor:{name} {problem}; take what the original takes, or *args, **kwargs "
        f"(target vendor:{name} {OURS})"
    )
    assert dict(vars(vendor.Model if owner else vendor)) == before
    assert_states([standing(verb, name, value, required=False)], ["skipped"])


@pytest.mark.parametrize("verb", ["replace", "derive"])
@pytest.mark.parametrize("value", [None, 3], ids=str)
def test_value_that_cannot_be_called_may_stand_for_a_function(vendor: ModuleType, verb: str, value: object) -> None:
    """Many a library asks whether it has a function, or holds one or its name."""
    before = vendor.simplify
    with hookpatch.active(standing(verb, "simplify", value)):
        assert vendor.simplify is value
    assert vendor.simplify is before


def a_signature(random: Random) -> Signature:
    """Return a signature of up to four parameters of all kinds, in an order of their own; without ``**``."""
    kinds = [Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY]
    names = random.sample("abcd", random.randint(0, 4))
    parameters, optional = [], False
    for name, kind in zip(names, sorted(random.choices(kinds, k=len(names))), strict=True):
        optional = random.random() < 0.5 or (optional and kind is not Parameter.KEYWORD_ONLY)
        parameters.append(Parameter(name, kind, default=None if optional else Parameter.empty))
    if random.random() < 0.3:
        at = sum(parameter.kind is not Parameter.KEYWORD_ONLY for parameter in parameters)
        parameters.insert(at, Parameter("args", Parameter.VAR_POSITIONAL))
    return Signature(parameters)


def takes_call(function: Callable[..., None], count: int, names: Iterable[str]) -> bool:
    """Tell whether a call of so many arguments by place, and these by keyword, is right."""
    try:
        function(*range(count), **dict.fromkeys(names))
    except TypeError:
        return False
    return True


def a_function(signature: Signature) -> Callable[..., None]:
    """Return a function of that signature."""
    made: Callable[..., None] = eval(f"lambda {str(signature)[1:-1]}: None")
    return made


def test_no_misfit_is_missed() -> None:
    """A thousand pairs of signatures, and every call of up to six arguments by place and four by keyword.

    Where a call that the one takes fails with the other, that is a misfit; where none does, it is one only for an
    argument that goes to another parameter. And what a lock file holds of a signature is enough to tell.
    """
    random = Random(9)
    calls = [(count, names) for count in range(7) for many in range(5) for names in combinations("abcd", many)]
    for _ in range(1000):
        like, new = a_signature(random), a_signature(random)
        one, other = a_function(like), a_function(new)
        fails = any(takes_call(one, *call) and not takes_call(other, *call) for call in calls)
        found = misfit(new, from_text(as_text([*like.parameters.values()])), "f")
        assert (found is not None) == fails or "is meant for" in str(found), (like, new, found)
        assert misfit(like, like, "f") is None


def test_first_look_at_two_functions_sees_what_their_signatures_say() -> None:
    """Whether they take the same: each of these beside each other, and one that says something else of itself."""
    heads = (
        *("", "a", "b", "a, b", "a, b=1", "a=1, b=2", "a, /", "a, /, b", "a, /, b=1", "a=1, /, b=1", "*a", "*b", "**k"),
        *("a, *b", "a, **k", "*, a", "*, a=1", "*, a, b=1", "*, a=1, b", "a, *, b", "a, *b, c", "a, *b, c, **d"),
        *("a, *b, c=1, **d", "a, *, b, **c", "a, b, *c", "a, b, **c", "*a, **b", "*a, b", "self"),
    )
    functions: list[Any] = []
    for head in heads:
        space: dict[str, Any] = {}
        exec(f"def plain({head}): pass\ndef other({head}):\n    x = y = 1\n    return x, y", space)
        functions += space["plain"], space["other"]
    kinds = [
        [(each.name, each.kind, each.default is each.empty) for each in takes(it, False) or ()] for it in functions
    ]
    for (one, of_one), (other, of_other) in product(zip(functions, kinds, strict=True), repeat=2):
        assert take_the_same(one, other) == (of_one == of_other), (signature(one), signature(other))
    functions[2].__signature__ = signature(functions[4])
    assert not take_the_same(functions[2], functions[3])
    assert not take_the_same(functions[3], functions[2])


def test_value_is_compared_with_the_original_beneath_other_patches(vendor: ModuleType) -> None:
    """Callers know that one: what a patch inside takes besides is not asked for."""
    wide = hookpatch.replace("vendor:bare", lambda extra=1: "wide", before="b")
    assert_states([hookpatch.derive("vendor:bare", lambda below: lambda: below()), wide], ["applied", "applied"])


def standing(verb: str, name: str, value: Any, **facts: Any) -> Patch:
    """Return the patch that puts a value at a name, by either verb."""
    if verb == "replace":
        return hookpatch.replace(f"vendor:{name}", value, **facts)
    return hookpatch.derive(f"vendor:{name}", lambda original: value, **facts)


def assert_states(patches: list[Patch], states: list[str]) -> None:
    """Apply patches, and compare what became of them."""
    with hookpatch.active(*patches) as session:
        assert [entry.state for entry in session.report()] == states


# --- patches that are not required

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
    before, after = hookpatch.replace("vendor:limit", 4), hookpatch.wrap("vendor:bare", lambda *call: "wrapped")
    with hookpatch.active(before, MISFITS[misfit](required=False), after) as session:
        assert (vendor.limit, vendor.bare()) == (4, "wrapped")
        assert [entry.state for entry in session.report()] == ["applied", "skipped", "applied"]
    assert [entry.state for entry in session.report()] == ["restored", "skipped", "restored"]
    assert [entry.reason for entry in session.report()] == [None, str(caught.value), None]
    assert (vendor.limit, vendor.bare()) == (3, "bare")


def test_patch_that_is_not_required_is_skipped_in_a_module_that_comes_later(make_module: MakeModule) -> None:
    """There it is skipped without a warning, and the reason is in the report."""
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


# --- the signature is that of what the layer lies over


def test_argument_is_checked_against_what_lies_beneath(vendor: ModuleType) -> None:
    """An outer patch of another signature does not matter, an inner one does."""
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
    """It cannot be given."""
    with pytest.raises(SignatureError) as caught, hookpatch.active(hookpatch.inject(f"vendor:Model.{name}", {own: 3})):
        pass
    address = f"vendor:Model.{name}"
    assert str(caught.value) == f"{address} takes no argument '{own}'; it takes x, flag (target {address} {OURS})"


def test_function_without_parameters_takes_nothing(vendor: ModuleType) -> None:
    """The message says so."""
    with pytest.raises(SignatureError) as caught, hookpatch.active(hookpatch.inject("vendor:bare", x=1)):
        pass
    assert str(caught.value) == f"vendor:bare takes no argument 'x'; it takes nothing (target vendor:bare {OURS})"


def test_entry_of_a_list_cannot_be_removed(vendor: ModuleType) -> None:
    """Its neighbours would move, and come back in the wrong places."""
    target = hookpatch.Target.item(vendor.entries, 0)
    for patch in (hookpatch.remove("vendor:entries[0]"), hookpatch.remove(target)):
        with (
            pytest.raises(TargetRefused, match=r"\[0\] cannot be absent: its neighbours would move \(target"),
            hookpatch.active(patch),
        ):
            pass
        assert vendor.entries == [1, 2]


def test_patch_beneath_an_outer_remove_is_applied(vendor: ModuleType) -> None:
    """What counts is what the slot holds without us, not what our other patches left there."""
    limit = vendor.limit
    with hookpatch.active(hookpatch.remove("vendor:limit"), hookpatch.replace("vendor:limit", 4)):
        assert not hasattr(vendor, "limit")
    with hookpatch.active(hookpatch.remove("vendor:limit")), hookpatch.active(hookpatch.remove("vendor:limit")):
        assert not hasattr(vendor, "limit")
    assert vendor.limit is limit


def test_warning_that_was_made_an_error_stays_one(vendor: ModuleType) -> None:
    """It is not turned into an error of the patch."""
    with pytest.raises(PatchUnneededWarning), hookpatch.active(hookpatch.wrap("vendor:bare", print, until="pytest>=1")):
        pass


def test_function_that_another_thread_changes_in_place_just_now_is_read_again() -> None:
    """Its code is exchanged first, what it tells of itself after that: in between it seems to take our parameter."""

    def spread(*args: object, mark: object = None) -> None: ...

    def midst(*args: object, __hookpatch__: object = None, **kwargs: object) -> None: ...

    code, defaults = spread.__code__, spread.__kwdefaults__
    spread.__code__, spread.__kwdefaults__ = midst.__code__, midst.__kwdefaults__

    def end() -> None:
        spread.__kwdefaults__, spread.__code__ = defaults, code

    thread = threading.Timer(0.01, end)
    thread.start()
    found = takes(spread, binds=False)
    thread.join()
    assert [parameter.name for parameter in found or ()] == ["args", "mark"]

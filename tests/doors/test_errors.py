"""Errors and warnings: each has owner, problem, place and remedy, and an entry in docs/messages.md."""

from __future__ import annotations

import inspect
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType

import pytest
from messages import VENDOR, sections, shown

import hookpatch
from hookpatch import errors
from hookpatch.errors import (
    AmbiguousPlugin,
    ApplyError,
    BypassError,
    BypassWarning,
    CallsError,
    ConflictError,
    ConflictingPlugins,
    DisplacedWarning,
    DriftError,
    EditError,
    HookpatchError,
    HookpatchWarning,
    MatchesError,
    MissingPlugin,
    NeverCalledWarning,
    NeverOpenedWarning,
    NewPluginError,
    NotAllowed,
    NotCarriedError,
    NotCarriedWarning,
    OptionsError,
    OrderError,
    PatchError,
    PatchFailedWarning,
    PatchUnneededWarning,
    PluginError,
    RequirementError,
    RestoreError,
    SelectionError,
    SessionError,
    SettingError,
    SignatureError,
    TargetNotFound,
    TargetRefused,
    TargetSyntaxError,
    TooFewMatchesWarning,
    UnknownCommand,
    UnknownMessage,
    UnknownModuleWarning,
    UnknownPlugin,
)

MakeModule = Callable[..., ModuleType]

OURS = "of a patch given to active()"

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == errors.__name__
}

SIMPLIFY = "onnxsim.onnx_simplifier:simplify"

ONNXSIM = "plugin 'fuse_qkv_off' from hookpatch-onnxsim 0.1.0"

GIVEN = "a patch given to active()"

# An error of each class, or of a subclass if the class is never raised, as in docs/messages.md.
EXAMPLES: dict[type[HookpatchError], HookpatchError] = {
    HookpatchError: UnknownPlugin("fuse_qkv", "active()", ["fuse_qkv_off"]),
    SelectionError: OptionsError(
        "fuse_qkv_off", "hookpatch-onnxsim 0.1.0", "the plugin has no options, but 'passes' was given"
    ),
    UnknownPlugin: UnknownPlugin("fuse_qvk_off", "HOOKPATCH_PLUGINS=fuse_qvk_off", ["fuse_qkv_off", "linear_printer"]),
    UnknownCommand: UnknownCommand("lits", ["list", "lock", "check", "doctor", "report", "run"], ["fuse_qkv_off"]),
    UnknownMessage: UnknownMessage("UnknwonPlugin", ["UnknownPlugin"]),
    AmbiguousPlugin: AmbiguousPlugin("trim", "active()", ["kit-a", "kit-b"]),
    NotAllowed: NotAllowed("loud", "loud-kit 1.0", "active()", "/opt/env/hookpatch.allow does not name it"),
    MissingPlugin: MissingPlugin(
        "trim",
        "kit-b 1.0",
        "fuse",
        "HOOKPATCH_PLUGINS=trim",
        "which was not asked for; write HOOKPATCH_PLUGINS=trim,fuse",
    ),
    ConflictingPlugins: ConflictingPlugins(
        "trim", "kit-b 1.0", "fuse", ("fuse", "kit-a 1.0"), "active()", "select one of them"
    ),
    OptionsError: OptionsError(
        "onnxsim_skip",
        "hookpatch-onnxsim 0.1.0",
        "no option 'pases'; did you mean 'passes'? it takes passes: list[str]",
    ),
    SettingError: SettingError("HOOKPATCH_ON_ERROR", "'ignore' is not a policy; it takes exit or warn"),
    NewPluginError: NewPluginError(
        "keep-linear",
        "not a valid plugin name; did you mean 'keep_linear'? a name is a letter, then letters, digits and single "
        "'_', no word of Python's own, since it names a module, too",
    ),
    PluginError: PluginError(
        "linear_printer",
        "hookpatch-example-printer 0.1.0",
        "raised ImportError when it was loaded: libcudart.so.12: cannot open shared object file; fix or uninstall it",
    ),
    PatchError: PatchError("inject", "no argument to give; write inject(target, name=value)"),
    TargetSyntaxError: TargetSyntaxError(
        "onnxsim.simplify", "has no colon between module and name; did you mean 'onnxsim:simplify'?"
    ),
    ApplyError: ApplyError(
        "torch.nn:Linear", "plugin 'bias_off' from hookpatch-kit 1.0", "the derive raised KeyError: 'bias'"
    ),
    TargetNotFound: TargetNotFound(
        "onnxsim.onnx_simplifier:simplfy", GIVEN, "onnxsim.onnx_simplifier", "attribute", "simplfy", ["simplify"]
    ),
    TargetRefused: TargetRefused(
        "vendor:limit",
        GIVEN,
        "vendor:limit holds a float, which cannot be called; take hookpatch.replace or hookpatch.derive",
    ),
    SignatureError: SignatureError(
        SIMPLIFY,
        GIVEN,
        f"{SIMPLIFY} takes no argument 'skipped_optimizer'; did you mean 'skipped_optimizers'? "
        "it takes model, skipped_optimizers",
    ),
    EditError: EditError("vendor:function", GIVEN, "'y = z + 1' is not in the source; nearest is line 8: 'y = x + 1'"),
    MatchesError: MatchesError(
        "vendor:*Norm.forward",
        GIVEN,
        "vendor:*Norm.forward matches 1 slot, and must match 2; near: vendor:BNorm.forward is inherited",
    ),
    RequirementError: RequirementError(
        SIMPLIFY,
        ONNXSIM,
        "made for onnxsim>=0.4.36, but onnxsim 0.4.20 is installed; install a fitting one, or a newer release of the "
        "plugin",
    ),
    DriftError: DriftError(
        SIMPLIFY,
        ONNXSIM,
        f"{SIMPLIFY} has changed since onnxsim 0.8.0 was locked in hookpatch.lock, and onnxsim 0.8.1 is installed: its "
        "source has changed; 'hookpatch check' shows the difference; where the patch still fits, lock it anew",
    ),
    ConflictError: ConflictError(
        "vendor:PRINTER",
        "plugin 'printer_b' from kit-b 1.0",
        "plugin 'printer_a' from kit-a 1.0 also puts a value into the same slot (derive); select only one of the two, "
        "or declare the order with before= or after=",
    ),
    OrderError: OrderError(
        "vendor:simplify",
        ["fuse", "trim", "fuse"],
        ["plugin 'trim' from kit-b 1.0 declares after='fuse'", "plugin 'trim' from kit-b 1.0 declares before='fuse'"],
    ),
    BypassError: BypassError(
        "vendor:Block.scale",
        "torch.jit.script",
        "it calls a patched method in Python, with neither default values nor class methods; give all arguments, or "
        "script the function outside of the block",
    ),
    SessionError: SessionError(
        "active() cannot decorate the generator batches: patches would stay on while the generator is suspended; write "
        "the block inside the generator"
    ),
    CallsError: CallsError([f"{SIMPLIFY} of {ONNXSIM}: applied, never called (required_calls=1)"]),
    NotCarriedError: NotCarriedError(
        [
            "the patch of vendor:speed: made of a lambda, which another process does not find; define a function in a "
            "module"
        ]
    ),
    RestoreError: RestoreError([ValueError("no")]),
}


# --- the page


def test_each_class_has_its_heading_and_no_heading_is_too_many() -> None:
    """docs/messages.md has a section for each error and warning, in the order of definition."""
    assert list(sections()) == list(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_each_section_says_what_it_means_and_what_to_do(name: str) -> None:
    """A section has a meaning, a full message, and a remedy, in order."""
    meaning, message, advice = sections()[name].partition("```text\n")
    assert meaning.strip()
    assert message
    assert "\n```\n\nWhat to do: " in advice


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_page_shows_what_the_class_writes(kind: type[HookpatchError]) -> None:
    """The message on the page equals the text of a raised error."""
    assert isinstance(EXAMPLES[kind], kind)
    assert str(EXAMPLES[kind]) == shown(kind)


def test_each_error_has_an_example() -> None:
    """No class is left out of the test above; the warnings are issued for real below."""
    assert [kind for kind in CLASSES.values() if not issubclass(kind, HookpatchWarning)] == list(EXAMPLES)


# --- the classes


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_has_its_root_and_its_docstring(name: str) -> None:
    """Errors descend from HookpatchError, warnings from HookpatchWarning; each has a docstring."""
    kind = CLASSES[name]
    assert issubclass(kind, HookpatchError) != issubclass(kind, HookpatchWarning)
    assert kind.__doc__


@pytest.mark.parametrize(
    "kind",
    [
        PatchFailedWarning,
        PatchUnneededWarning,
        BypassWarning,
        NeverOpenedWarning,
        NeverCalledWarning,
        UnknownModuleWarning,
        TooFewMatchesWarning,
        NotCarriedWarning,
        DisplacedWarning,
    ],
)
def test_docstring_of_a_warning_is_a_remedy(kind: type[Warning]) -> None:
    """The docstring of a warning has a remedy."""
    assert "\n\nRemedy: " in str(inspect.getdoc(kind))
    assert issubclass(kind, UserWarning)


def test_errors_are_what_python_calls_them_too() -> None:
    """Wrong arguments are a TypeError, malformed addresses a ValueError, failed undos a group."""
    assert issubclass(PatchError, TypeError)
    assert issubclass(TargetSyntaxError, ValueError)
    assert issubclass(RestoreError, ExceptionGroup)


@pytest.mark.parametrize(
    "kind", [UnknownPlugin, AmbiguousPlugin, MissingPlugin, ConflictingPlugins, OptionsError, SettingError]
)
def test_errors_in_what_was_asked_for_are_of_one_class(kind: type[HookpatchError]) -> None:
    """A single except clause catches all errors of a selection."""
    assert issubclass(kind, SelectionError)


@pytest.mark.parametrize(
    "kind", [TargetNotFound, TargetRefused, SignatureError, EditError, MatchesError, RequirementError, ConflictError]
)
def test_errors_at_the_target_are_of_one_class(kind: type[HookpatchError]) -> None:
    """A single except clause catches all errors at a target, which required=False skips."""
    assert issubclass(kind, ApplyError)


@pytest.mark.parametrize(
    ("kind", "nouns"),
    [
        (UnknownPlugin, {"name": "fuse_qvk_off", "installed": ("fuse_qkv_off", "linear_printer")}),
        (UnknownPlugin, {"asked_by": "HOOKPATCH_PLUGINS=fuse_qvk_off"}),
        (AmbiguousPlugin, {"name": "trim", "asked_by": "active()", "distributions": ("kit-a", "kit-b")}),
        (OptionsError, {"plugin": "onnxsim_skip", "distribution": "hookpatch-onnxsim 0.1.0"}),
        (SettingError, {"setting": "HOOKPATCH_ON_ERROR"}),
        (PluginError, {"plugin": "linear_printer", "distribution": "hookpatch-example-printer 0.1.0"}),
        (PatchError, {"verb": "inject", "problem": "no argument to give; write inject(target, name=value)"}),
        (
            TargetSyntaxError,
            {
                "address": "onnxsim.simplify",
                "problem": "has no colon between module and name; did you mean 'onnxsim:simplify'?",
            },
        ),
        (ApplyError, {"target": "torch.nn:Linear", "owner": "plugin 'bias_off' from hookpatch-kit 1.0"}),
        (TargetNotFound, {"target": "onnxsim.onnx_simplifier:simplfy", "owner": GIVEN}),
        (OrderError, {"cycle": ("fuse", "trim", "fuse")}),
        (MissingPlugin, {"plugin": "trim", "distribution": "kit-b 1.0", "needs": "fuse"}),
        (ConflictingPlugins, {"plugin": "trim", "other": ("fuse", "kit-a 1.0"), "asked_by": "active()"}),
    ],
)
def test_nouns_of_a_message_are_attributes(kind: type[HookpatchError], nouns: dict[str, object]) -> None:
    """A program need not read the text."""
    assert {name: getattr(EXAMPLES[kind], name) for name in nouns} == nouns


def test_unknown_name_without_anything_installed_says_none() -> None:
    """The list is never empty text."""
    assert str(UnknownPlugin("trim", "-p", [])) == "no plugin 'trim' (asked for by -p); installed: none"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("trim other", "; separate names by commas: trim,other;"),
        ("trim;other", "; separate names by commas: trim,other;"),
        ("trim:other", "; separate names by commas: trim,other;"),
        ("['trim', 'other']", "; separate names by commas: trim,other;"),
        ('"trim"', "; did you mean 'trim'?"),
        ("./hookpatch-trim", "; did you mean 'trim'?"),
        ("hookpatch_trim/trim.py", "; did you mean 'trim'?"),
        ("C:\\kits\\hookpatch-trim", "; did you mean 'trim'?"),
        ("hookpatch_trim.trim", "; did you mean 'trim'?"),
        ("kits/mine.py", "; a path names no plugin: install its folder with pip, 'hookpatch list' then has the name;"),
        ("json:dumps", "; an address goes into a patch, such as hookpatch.wrap(address, wrapper);"),
        ("zeal", ";"),
    ],
)
def test_name_that_is_something_else_has_a_hint(name: str, hint: str) -> None:
    """Several names in one, a path, a module and an address are recognised."""
    message = f"no plugin '{name}' (asked for by HOOKPATCH_PLUGINS){hint} installed: trim"
    assert str(UnknownPlugin(name, "HOOKPATCH_PLUGINS", ["trim"])) == message


def test_key_that_is_no_text_is_not_guessed() -> None:
    """Only words have near words."""
    error = TargetNotFound("vendor:table[3]", GIVEN, "vendor:table", "key", 3, ["3"])
    assert str(error) == f"vendor:table has no key 3 (target vendor:table[3] {OURS})"


# --- failed undos


def test_failed_undos_are_counted() -> None:
    """The message has the number of failed undos; the others succeeded."""
    group = RestoreError([ValueError("a"), KeyError("b")])
    assert str(group) == ("2 undos failed at the end of a session; everything else was restored (2 sub-exceptions)")
    assert [type(error) for error in group.exceptions] == [ValueError, KeyError]


def test_part_of_the_failed_undos_is_of_the_same_class() -> None:
    """``except*`` and ``split`` give RestoreErrors again, with their own count."""
    group = RestoreError([ValueError("a"), KeyError("b")])
    matching, remaining = group.split(ValueError)
    assert (type(matching), type(remaining)) == (RestoreError, RestoreError)
    assert str(matching) == "one undo failed at the end of a session; everything else was restored (1 sub-exception)"
    caught: list[BaseException] = []
    try:
        raise group
    except* ValueError as part:
        caught.append(part)
    except* KeyError as part:
        caught.append(part)
    assert [type(part) for part in caught] == [RestoreError, RestoreError]


def test_undo_that_fails_is_told_at_the_end(make_module: MakeModule) -> None:
    """Leaving goes on past an undo that fails; each failure is in the group, and all else is restored."""
    vendor = make_module("vendor", "speed = 1")

    @contextmanager
    def stubborn(module: ModuleType) -> Iterator[None]:
        yield
        raise OSError("still in use")

    enter = hookpatch.enter("vendor", stubborn)
    session = hookpatch.active(hookpatch.replace("vendor:speed", 2), enter, enter).open()
    with pytest.raises(RestoreError) as caught:
        session.close()
    assert str(caught.value) == (
        "2 undos failed at the end of a session; everything else was restored (2 sub-exceptions)"
    )
    assert [str(error) for error in caught.value.exceptions] == ["still in use", "still in use"]
    assert vendor.speed == 1
    session.close()


@pytest.fixture
def vendor(make_module: MakeModule) -> ModuleType:
    """The module to patch."""
    return make_module("vendor", VENDOR)


# --- sessions


def test_session_that_another_thread_does_not_finish_opening(
    vendor: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads waiting for each other end with an error in a thread."""
    monkeypatch.setattr("hookpatch._session.span.opening._PATIENCE", 0.2)
    started, go_on = threading.Event(), threading.Event()

    def slow(original: int) -> int:
        started.set()
        go_on.wait(20)
        return original + 1

    session = hookpatch.active(hookpatch.derive("vendor:speed", slow))
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(session.open)
        assert started.wait(20)
        with pytest.raises(SessionError) as caught:
            session.open()
        go_on.set()
        opening.result(20).close()
    assert str(caught.value) == (
        "<Session of vendor:speed, opening> cannot be entered or left now: another thread has been at it for 0.2 s; it "
        "may wait for this thread, as for the import of a module; open another session, made by active()"
    )
    assert vendor.speed == 1


def test_session_of_nothing_has_a_name() -> None:
    """The repr is never empty text."""
    assert repr(hookpatch.active()) == "<Session of nothing, new>"


def test_generator_is_not_decorated() -> None:
    """Patches would hold while a generator is suspended; the message has a remedy."""

    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(SessionError) as caught:
        hookpatch.active()(generator)
    assert str(caught.value) == (
        "active() cannot decorate the generator test_generator_is_not_decorated.<locals>.generator: patches would stay "
        "on while the generator is suspended; write the block inside the generator"
    )


# --- warnings, issued for real


@pytest.mark.parametrize("kind", EXAMPLES)
def test_errors_survive_pickle(kind: type[HookpatchError]) -> None:
    """An error raised in a worker process keeps its class, its text and its attributes."""
    error = EXAMPLES[kind]
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy).keys() == vars(error).keys()

"""Errors and warnings: each says in full who, what, where and what now, and has its entry in docs/messages.md."""

from __future__ import annotations

import inspect
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch import Patch, errors
from hookpatch._fingerprint import Fingerprint
from hookpatch._lock import Lock, Locked, write_lock
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
    DriftWarning,
    HookpatchError,
    HookpatchWarning,
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
    UnknownCommand,
    UnknownMessage,
    UnknownModuleWarning,
    UnknownPlugin,
)

MakeModule = Callable[..., ModuleType]
MakeDistribution = Callable[..., Path]

OURS = "of a patch given to active()"
PAGE = Path(__file__).parent.parent / "docs" / "messages.md"
CLASSES = {
    name: thing
    for name, thing in vars(errors).items()
    if isinstance(thing, type) and issubclass(thing, Exception) and thing.__module__ == errors.__name__
}

SIMPLIFY = "onnxsim.onnx_simplifier:simplify"
ONNXSIM = "plugin 'fuse_qkv_off' from hookpatch-onnxsim 0.1.0"
GIVEN = "a patch given to active()"

# An error of each class, or of a class below it where it is never raised itself, as docs/messages.md shows it.
EXAMPLES: dict[type[HookpatchError], HookpatchError] = {
    HookpatchError: UnknownPlugin("fuse_qkv", "active()", ["fuse_qkv_off"]),
    SelectionError: OptionsError("fuse_qkv_off", "hookpatch-onnxsim 0.1.0", "it has none, but 'passes' was given"),
    UnknownPlugin: UnknownPlugin("fuse_qvk_off", "HOOKPATCH_PLUGINS=fuse_qvk_off", ["fuse_qkv_off", "linear_printer"]),
    UnknownCommand: UnknownCommand(
        "lits", ["list", "lock", "check", "doctor", "report", "verify", "run"], ["fuse_qkv_off"]
    ),
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
        "that cannot be a plugin's name; did you mean 'keep_linear'? it takes a letter, then letters, digits and "
        "single '_', no word of Python's own, since it names a module, too",
    ),
    PluginError: PluginError(
        "linear_printer",
        "hookpatch-example-printer 0.1.0",
        "raised ImportError when it was loaded: libcudart.so.12: cannot open shared object file; mend or uninstall it",
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
    RequirementError: RequirementError(
        SIMPLIFY,
        ONNXSIM,
        "made for onnxsim>=0.4.36, but onnxsim 0.4.20 is installed; install one that is, or a newer release of the "
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
        "plugin 'printer_a' from kit-a 1.0 puts a value of its own there, too (derive); select one of them, or let "
        "one declare its place with before= or after=",
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
        "script it where the patch is not on",
    ),
    SessionError: SessionError(
        "<Session of fuse_qkv_off, closed> cannot be opened again; make a new one with active()"
    ),
    CallsError: CallsError([f"{SIMPLIFY} of {ONNXSIM}: applied, never called (required_calls=1)"]),
    NotCarriedError: NotCarriedError(
        [
            "the patch of vendor:speed: it is made of a lambda, which another process does not find; define a function "
            "in a module"
        ]
    ),
    RestoreError: RestoreError([ValueError("no")]),
}


def sections() -> dict[str, str]:
    """Return the sections of docs/messages.md by heading."""
    parts = re.split(r"^##+ (.*)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def shown(kind: type[Exception]) -> str:
    """Return the message that docs/messages.md shows for a class."""
    (text,) = re.findall(r"^```text\n(.*)\n```$", sections()[kind.__name__], flags=re.MULTILINE)
    return str(text)


# --- the page


def test_each_class_has_its_heading_and_no_heading_is_too_many() -> None:
    """docs/messages.md has a section for each error and warning, in the order in which they are defined."""
    assert list(sections()) == list(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_each_section_says_what_it_means_and_what_to_do(name: str) -> None:
    """A meaning, a message in full, and what to do now, in this order."""
    meaning, message, now = sections()[name].partition("```text\n")
    assert meaning.strip()
    assert message
    assert "\n```\n\nWhat to do: " in now


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_page_shows_what_the_class_writes(kind: type[HookpatchError]) -> None:
    """The message on the page is letter by letter the text of such an error."""
    assert isinstance(EXAMPLES[kind], kind)
    assert str(EXAMPLES[kind]) == shown(kind)


def test_each_error_has_an_example() -> None:
    """No class is left out of the test above; the warnings are issued for real below."""
    assert [kind for kind in CLASSES.values() if not issubclass(kind, HookpatchWarning)] == list(EXAMPLES)


# --- the classes


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_has_its_root_and_its_docstring(name: str) -> None:
    """Errors descend from HookpatchError, warnings from HookpatchWarning, and each says what it means."""
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
        NotCarriedWarning,
        DisplacedWarning,
    ],
)
def test_docstring_of_a_warning_is_a_remedy(kind: type[Warning]) -> None:
    """A warning tells what to do about it."""
    assert "\n\nRemedy: " in str(inspect.getdoc(kind))
    assert issubclass(kind, UserWarning)


def test_errors_are_what_python_calls_them_too() -> None:
    """Wrong arguments are a TypeError, addresses that cannot be read a ValueError, failed undos a group."""
    assert issubclass(PatchError, TypeError)
    assert issubclass(TargetSyntaxError, ValueError)
    assert issubclass(RestoreError, ExceptionGroup)


@pytest.mark.parametrize(
    "kind", [UnknownPlugin, AmbiguousPlugin, MissingPlugin, ConflictingPlugins, OptionsError, SettingError]
)
def test_errors_in_what_was_asked_for_are_of_one_class(kind: type[HookpatchError]) -> None:
    """One except clause catches them all."""
    assert issubclass(kind, SelectionError)


@pytest.mark.parametrize("kind", [TargetNotFound, TargetRefused, SignatureError, RequirementError, ConflictError])
def test_errors_at_the_target_are_of_one_class(kind: type[HookpatchError]) -> None:
    """One except clause catches them all; they are what required=False skips."""
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


def test_key_that_is_no_text_is_not_guessed() -> None:
    """Only words have near words."""
    error = TargetNotFound("vendor:table[3]", GIVEN, "vendor:table", "key", 3, ["3"])
    assert str(error) == f"vendor:table has no key 3 (target vendor:table[3] {OURS})"


# --- failed undos


def test_failed_undos_are_counted() -> None:
    """The message says how many undos failed, and that the others did not."""
    group = RestoreError([ValueError("a"), KeyError("b")])
    assert str(group) == ("2 undos failed at the end of a session; everything else was restored (2 sub-exceptions)")
    assert [type(error) for error in group.exceptions] == [ValueError, KeyError]


def test_part_of_the_failed_undos_is_of_the_same_class() -> None:
    """``except*`` and ``split`` give RestoreErrors again, with their own count."""
    group = RestoreError([ValueError("a"), KeyError("b")])
    some, others = group.split(ValueError)
    assert (type(some), type(others)) == (RestoreError, RestoreError)
    assert str(some) == "one undo failed at the end of a session; everything else was restored (1 sub-exception)"
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


# --- what a real target makes of a patch

VENDOR = """
    import sys
    import types

    speed = 1
    table = {"fast": 1}
    entries = [1, 2]
    shown = types.MappingProxyType(table)
    pair = (1, 2)

    def simplify(model): return model

    class Model:
        def run(self): return 1
    """


@pytest.fixture
def vendor(make_module: MakeModule) -> ModuleType:
    """The module to patch."""
    return make_module("vendor", VENDOR)


def passing(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Change nothing."""
    return wrapped(*args, **kwargs)


def refused(error: type[HookpatchError], *patches: Patch) -> str:
    """Return the message with which patches are refused."""
    with pytest.raises(HookpatchError) as caught:
        hookpatch.active(*patches).open()
    assert type(caught.value) is error
    return str(caught.value)


def test_factory_that_raises_is_an_apply_error(vendor: ModuleType) -> None:
    """The message names verb and error; the error is the cause, and nothing stays applied."""

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
    """The message names the first step that fails, not the last."""
    assert refused(TargetNotFound, hookpatch.wrap("vendor:Modell.run", passing)) == (
        f"vendor has no attribute 'Modell'; did you mean 'Model'? (target vendor:Modell.run {OURS})"
    )


def test_key_whose_module_cannot_be_imported_is_refused(vendor: ModuleType) -> None:
    """A key that is an address needs its module."""
    address = "vendor:table[no_such_module:Linear]"
    assert refused(TargetNotFound, hookpatch.replace(address, 1)) == (
        f"the key no_such_module:Linear has no module 'no_such_module' (target {address} {OURS})"
    )


def test_item_of_something_without_items_is_refused(vendor: ModuleType) -> None:
    """The message names the address up to there and what it holds."""
    assert refused(TargetRefused, hookpatch.replace("vendor:simplify['x']", 1)) == (
        f"vendor:simplify is a function, which has no items (target vendor:simplify['x'] {OURS})"
    )


@pytest.mark.parametrize(("name", "kind", "key"), [("shown", "mappingproxy", "'fast'"), ("pair", "tuple", "0")])
def test_item_of_something_read_only_is_refused(vendor: ModuleType, name: str, kind: str, key: str) -> None:
    """What cannot be set cannot be patched."""
    assert refused(TargetRefused, hookpatch.replace(f"vendor:{name}[{key}]", 1)) == (
        f"vendor:{name} is a read-only {kind}; patch what it shows instead (target vendor:{name}[{key}] {OURS})"
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
    """A package that fetches its names on demand."""
    write_module("lazy_kit.home", "class Model: pass")
    (folder / "lazy_kit" / "__init__.py").write_text(LAZY.replace("\n    ", "\n"))
    return make_module("lazy_kit.other", "import lazy_kit")


def test_name_fetched_lazily_is_refused_with_its_home(lazy_kit: ModuleType) -> None:
    """The message gives the address to use instead."""
    assert refused(TargetRefused, hookpatch.derive("lazy_kit:Model", repr)) == (
        "module lazy_kit fetches 'Model' lazily and may be replaced at any import; take the address where it is "
        f"defined: lazy_kit.home:Model (target lazy_kit:Model {OURS})"
    )


def test_value_fetched_lazily_is_refused(lazy_kit: ModuleType) -> None:
    """A value that does not know its home is refused as well."""
    assert refused(TargetRefused, hookpatch.replace("lazy_kit:limit", 4)) == (
        "module lazy_kit fetches 'limit' lazily and may be replaced at any import; take the module that defines it "
        f"(target lazy_kit:limit {OURS})"
    )


def test_wrapper_over_a_value_that_cannot_be_called_is_refused(vendor: ModuleType) -> None:
    """A patch inside another may take away what the outer one wraps; then neither is applied."""
    original = vendor.simplify
    patches = hookpatch.wrap("vendor:simplify", passing), hookpatch.replace("vendor:simplify", None)
    assert refused(TargetRefused, *patches) == (
        "vendor:simplify holds a NoneType, which cannot be called; take hookpatch.replace or hookpatch.derive "
        f"(target vendor:simplify {OURS})"
    )
    assert vendor.simplify is original


def test_wrapper_over_what_was_removed_is_refused(vendor: ModuleType) -> None:
    """The same for a name that a patch inside makes absent."""
    original = vendor.simplify
    patches = hookpatch.wrap("vendor:simplify", passing), hookpatch.remove("vendor:simplify")
    assert refused(TargetRefused, *patches) == (
        f"vendor:simplify holds nothing; take hookpatch.replace or hookpatch.derive (target vendor:simplify {OURS})"
    )
    assert vendor.simplify is original


# --- sessions


@pytest.mark.parametrize("state", ["open", "closed"])
def test_session_opened_again_is_refused(vendor: ModuleType, state: str) -> None:
    """A session is one span; the message says which and in what state."""
    session = hookpatch.active(hookpatch.replace("vendor:speed", 2)).open()
    if state == "closed":
        session.close()
    with pytest.raises(SessionError) as caught:
        session.open()
    assert str(caught.value) == (
        f"<Session of vendor:speed, {state}> cannot be opened again; make a new one with active()"
    )
    session.close()
    assert vendor.speed == 1


def test_session_of_nothing_has_a_name() -> None:
    """The repr is never empty text."""
    assert repr(hookpatch.active()) == "<Session of nothing, new>"


def test_generator_is_not_decorated() -> None:
    """Patches would hold while it is suspended; the message says what to write."""

    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(SessionError) as caught:
        hookpatch.active()(generator)
    assert str(caught.value) == (
        "active() cannot decorate the generator test_generator_is_not_decorated.<locals>.generator: patches would hold "
        "while it is suspended, too; write the block inside it"
    )


# --- warnings, issued for real


def test_patch_that_fails_at_its_modules_import_is_a_warning(make_module: MakeModule) -> None:
    """The import goes well, and the warning has the error's text, as docs/messages.md shows it."""
    with hookpatch.active(hookpatch.wrap("late:speed", passing)) as session:
        with pytest.warns(PatchFailedWarning) as warned:
            late = make_module("late", "limit = 3")
        assert late.limit == 3
        assert [entry.state for entry in session.report()] == ["failed"]
    assert [str(warning.message) for warning in warned] == [shown(PatchFailedWarning)]
    assert shown(HookpatchWarning) == shown(PatchFailedWarning)


def test_patch_that_has_become_unneeded_is_a_warning(vendor: ModuleType, make_distribution: MakeDistribution) -> None:
    """It is applied all the same; the warning is as docs/messages.md shows it."""
    make_distribution("vendor-kit", "1.4")
    patch = hookpatch.replace("vendor:speed", 2, until="vendor-kit>=1.2")
    with pytest.warns(PatchUnneededWarning) as warned, hookpatch.active(patch):
        assert vendor.speed == 2
    assert [str(warning.message) for warning in warned] == [shown(PatchUnneededWarning)]


def test_target_that_has_changed_is_a_warning(vendor: ModuleType, tmp_path: Path) -> None:
    """It is patched all the same; the warning is as docs/messages.md shows it, but for the file's folder."""
    lock = tmp_path / "hookpatch.lock"
    write_lock(Lock((), {}, {"vendor:speed": Locked(Fingerprint("an int", source="0"))}, str(lock)))
    with pytest.warns(DriftWarning) as warned, hookpatch.active(hookpatch.replace("vendor:speed", 2), lock=lock):
        assert vendor.speed == 2
    assert [str(warning.message).replace(f"{tmp_path}/", "") for warning in warned] == [shown(DriftWarning)]


def test_session_that_was_never_opened_is_a_warning() -> None:
    """As docs/messages.md shows it: who forgets the with has patched nothing."""
    with pytest.warns(NeverOpenedWarning) as warned:
        hookpatch.active(hookpatch.replace("vendor:speed", 2))
    assert [str(warning.message) for warning in warned] == [shown(NeverOpenedWarning)]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("jsn:dumps", None),
        ("json.decodr:JSONDecoder", "there is no module json.decodr; did you mean 'decoder'?"),
        ("emial.mime.text:MIMEText", "there is no module emial; did you mean 'email'?"),
    ],
)
def test_module_that_is_misspelt_is_a_warning(address: str, said: str | None) -> None:
    """At the block's end, as docs/messages.md shows it, at the line of the block; in the report it is unused."""
    with pytest.warns(UnknownModuleWarning) as warned, hookpatch.active(hookpatch.inject(address, x=1)) as session:
        pass
    expected = shown(UnknownModuleWarning) if said is None else f"{address} of a patch given to active(): {said}"
    assert [(str(warning.message), warning.filename) for warning in warned] == [(expected, __file__)]
    assert [patch.state for patch in session.report()] == ["unused"]


def test_module_that_may_yet_come_is_no_warning() -> None:
    """One that is there and was not imported, one that nothing is nearly called, one that is not required."""
    patches = [
        hookpatch.inject("json.tool:main", x=1),
        hookpatch.inject("qqxz_of_nobody:x", x=1),
        hookpatch.inject("jsn:dumps", x=1, required=False),
    ]
    with warnings.catch_warnings(), hookpatch.active(*patches) as session:
        warnings.simplefilter("error")
        session.close()
    assert [patch.state for patch in session.report()] == ["unused"] * 3


def test_slot_that_somebody_else_set_is_a_warning(vendor: ModuleType) -> None:
    """What is not ours is left alone; the warning is as docs/messages.md shows it, the reason in the report."""
    with pytest.warns(DisplacedWarning) as warned, hookpatch.active(hookpatch.replace("vendor:speed", 2)) as session:
        vars(vendor)["speed"] = 3
    assert vendor.speed == 3
    assert [str(warning.message) for warning in warned] == [shown(DisplacedWarning)]
    assert [(entry.state, entry.reason) for entry in session.report()] == [
        ("displaced", "somebody else changed vendor:speed meanwhile; it was left alone")
    ]


@pytest.mark.parametrize("kind", EXAMPLES)
def test_errors_survive_pickle(kind: type[HookpatchError]) -> None:
    """An error raised in a worker process keeps its class, its text and its attributes."""
    error = EXAMPLES[kind]
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy).keys() == vars(error).keys()


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
    """In the middle of an address too, however it is written."""
    make_module("vendor", "nested = {'a': {'k': 1}}")
    with pytest.raises(ApplyError) as caught, hookpatch.active(hookpatch.derive(address, str)):
        pass
    assert caught.value.problem == where

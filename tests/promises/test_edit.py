"""``edit`` changes a piece of a function's source and leaves the rest; the end restores the original."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch._engine.lock.fingerprint import of_slot
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch.errors import ConflictError, EditError, PatchError, TargetRefused
from hookpatch.testing import pristine

VENDOR: Final = '''
from __future__ import annotations
import functools

def function(x, eps=1e-5, *, more=2):
    """Doc."""
    # a comment with x + 1 in it
    y = x + 1
    if y > 100: return "many"  # on one line
    return y

def decorator(function):
    @functools.wraps(function)
    def wrapper(*args): return ["decorated", function(*args)]
    return wrapper

@decorator
@decorator
def decorated(x):
    y = x + 1
    return y

@functools.lru_cache
def cached(x):
    return x + 1

@decorator
@functools.lru_cache
def twice(x):
    return x + 1

def around(n):
    count = 0
    def inner(x):
        nonlocal count
        count += 1
        return x + 1 + n * 0
    return inner

closure = around(3)
small = lambda x: x + 1

async def coroutine(x):
    return x + 1

def generator(x):
    yield x + 1

class Base:
    def method(self, x): return 0
    def inherited(self, x):
        return x + 1
    @functools.cache
    def decorated(self, x):
        return x + 1

class Kind(Base):
    __hidden = 1

    def method(self, x):
        return super().method(x) + x + 1

    def private(self, x):
        return x + 1 * self.__hidden

    @classmethod
    def of_class(cls, x):
        return x + 1

    @staticmethod
    def static(x):
        return x + 1

    @property
    def attribute(self):
        return 7 + 1

    class Inner:
        def method(self, x):
            return [y for y in [x + 1]][0]

table = {"f": function}
alias = function
'''


def uncached(function: Any) -> Any:
    function.__wrapped__.cache_clear()
    return function


KINDS: Final = {  # the address, the piece, and what takes its place; then a call
    "function": ("vendor:function", "y = x + 1", "y = x + 2", lambda vendor: vendor.function(7)),
    "closure": ("vendor:closure", "x + 1", "x + 2", lambda vendor: vendor.closure(7)),
    "lambda": ("vendor:small", "x + 1", "x + 2", lambda vendor: vendor.small(7)),
    "coroutine function": ("vendor:coroutine", "x+1", "x + 2", lambda vendor: asyncio.run(vendor.coroutine(7))),
    "generator function": ("vendor:generator", "yield x + 1", "yield x + 2", lambda vendor: next(vendor.generator(7))),
    "method": ("vendor:Kind.method", "+ 1", "+ 2", lambda vendor: vendor.Kind().method(7)),
    "private name": ("vendor:Kind.private", "x + 1", "x + 2", lambda vendor: vendor.Kind().private(7)),
    "inherited": ("vendor:Kind.inherited", "return x + 1", "return x + 2", lambda vendor: vendor.Kind().inherited(7)),
    "class method": ("vendor:Kind.of_class", "x + 1", "x + 2", lambda vendor: vendor.Kind.of_class(7)),
    "static method": ("vendor:Kind.static", "x + 1", "x + 2", lambda vendor: vendor.Kind.static(7)),
    "property": ("vendor:Kind.attribute", "7 + 1", "7 + 2", lambda vendor: vendor.Kind().attribute),
    "inner class": ("vendor:Kind.Inner.method", "[x + 1]", "[x + 2]", lambda vendor: vendor.Kind.Inner().method(7)),
    "registry entry": ("vendor:table['f']", "x + 1", "x + 2", lambda vendor: vendor.table["f"](7)),
    "decorator over a cache": ("vendor:twice", "x + 1", "x + 2", lambda vendor: uncached(vendor.twice)(7)[1]),
    "decorated": ("vendor:decorated", "x + 1", "x + 2", lambda vendor: vendor.decorated(7)[1][1]),
}
REACHES: Final = ("slot", "everywhere")
CELLS: Final = [(kind, reach) for kind in KINDS for reach in REACHES if reach == "everywhere" or "decorat" not in kind]


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


@pytest.mark.parametrize(("kind", "reach"), CELLS)
@pytest.mark.sampled(10)
def test_edited_inside_and_itself_again(vendor: ModuleType, kind: str, reach: Any) -> None:
    address, old, new, call = KINDS[kind]
    with pristine():
        assert call(vendor) == 8
        with hookpatch.active(hookpatch.edit(address, old, new, reach=reach)) as session:
            assert call(vendor) == 9
            assert {entry.state for entry in session.report()} == {"applied"}
        assert call(vendor) == 8


@pytest.mark.parametrize(("kind", "reach"), [cell for cell in CELLS if cell != ("property", "slot")])
@pytest.mark.parametrize("is_edit_first", [True, False])
@pytest.mark.parametrize("is_edit_left", [True, False])
def test_with_a_wrap_in_any_order(
    vendor: ModuleType, kind: str, reach: Any, is_edit_first: bool, is_edit_left: bool
) -> None:
    """The edit lies inside what runs around calls, whichever came first and whichever ends first."""
    address, old, new, call = KINDS[kind]
    calls = []

    def note(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        calls.append(1)
        return wrapped(*args, **kwargs)

    edit, wrap = hookpatch.edit(address, old, new, reach=reach), hookpatch.wrap(address, note, reach=reach)
    with pristine():
        sessions = {patch.verb: hookpatch.active(patch) for patch in ((edit, wrap) if is_edit_first else (wrap, edit))}
        with ExitStack() as stack:
            for session in sessions.values():
                stack.enter_context(session)
            assert (call(vendor), len(calls)) == (9, 1)
            sessions["wrap" if is_edit_left else "edit"].close()
            calls.clear()
            assert (call(vendor), len(calls)) == ((9, 0) if is_edit_left else (8, 1))
        assert call(vendor) == 8


PIECES: Final = {"one": ("y = x + 1", "y = x + 10"), "two": ("'many'", "'few'"), "three": ("return y", "return [y]")}


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("order", [*itertools.permutations(PIECES)])
def test_several_edits_of_one_function(vendor: ModuleType, order: tuple[str, ...], reach: Any) -> None:
    """Edits of different pieces join, in a session or in several sessions with ends in any order."""

    def expected(on: set[str]) -> list[Any]:
        low, many = 1 + (10 if "one" in on else 1), "few" if "two" in on else "many"
        return [[low] if "three" in on else low, many]

    def seen() -> list[Any]:
        return [vendor.function(1), vendor.function(1000)]

    patches = {name: hookpatch.edit("vendor:function", *PIECES[name], reach=reach) for name in order}
    with pristine():
        with hookpatch.active(*patches.values()):
            assert seen() == expected({*order})
        sessions = {name: hookpatch.active(patch).open() for name, patch in patches.items()}
        on = {*order}
        for name in sorted(order):
            assert seen() == expected(on)
            sessions[name].close()
            on.remove(name)
        assert seen() == expected(set())


def test_edits_that_meet_are_a_conflict_that_names_both(
    vendor: ModuleType, make_distribution: Callable[..., Path]
) -> None:
    for name, new in (("one", "y = x + 10"), ("two", "y = x + 20")):
        patch = f"hookpatch.edit('vendor:function', 'y = x + 1', '{new}')"
        source = f"import hookpatch\n@hookpatch.hookimpl\ndef hookpatch_patches():\n    yield {patch}\n"
        make_distribution(f"d-{name}", plugins={name: f"plugin_{name}"}, modules={f"plugin_{name}": source})
    with pristine(), pytest.raises(ConflictError) as raised:
        hookpatch.active("one", "two").open()
    for name in ("one", "two"):
        assert f"plugin '{name}' from d-{name} 1.0" in str(raised.value)


def test_outermost_of_replace_and_edit(vendor: ModuleType) -> None:
    """An edit over a replacement edits the replacement; a derive over an edit gets the edited function."""

    def other(x: int, eps: float = 0, *, more: int = 2) -> int:
        return x + 1 + 100

    with pristine(), hookpatch.active(hookpatch.replace("vendor:function", other)):
        with hookpatch.active(hookpatch.edit("vendor:function", "x + 1", "x + 2", reach="slot")):
            assert vendor.function(7) == 109
        assert vendor.function(7) == 108
    with pristine(), hookpatch.active(hookpatch.edit("vendor:function", "x + 1", "x + 2")):
        with hookpatch.active(
            hookpatch.derive("vendor:function", lambda low: lambda *args, **keywords: [low(*args, **keywords)])
        ):
            assert vendor.function(7) == [9]
        assert vendor.function(7) == 9


def test_everybody_who_has_the_function_has_the_edit(vendor: ModuleType) -> None:
    with hookpatch.active(hookpatch.edit("vendor:function", "x + 1", "x + 2")):
        assert vendor.alias(7) == vendor.table["f"](7) == vendor.function(7) == 9
        assert vendor.alias is vendor.function
    with hookpatch.active(hookpatch.edit("vendor:function", "x + 1", "x + 2", reach="slot")) as session:
        assert (vendor.alias(7), vendor.function(7)) == (8, 9)
        (entry,) = session.report()
        assert "vendor:alias" in entry.stale
    with hookpatch.active(hookpatch.edit("vendor:cached", "x + 1", "x + 2")) as session:
        assert vendor.cached(70) == 72
        (entry,) = session.report()
        decorated, cached = entry.warnings
        assert decorated == "the function inside its decorators is edited"
        assert cached.startswith("a functools.lru_cache around the function keeps results from before the patch")


def test_the_rest_of_the_function_stays(vendor: ModuleType) -> None:
    """An edit keeps name, signature, other defaults, documentation, annotations and shared cells."""
    original = vendor.function
    default = original.__defaults__[0]
    with hookpatch.active(hookpatch.edit("vendor:function", "x + 1", "x + 2", reach="slot")):
        edited = vendor.function
        assert edited is not original
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
            assert getattr(edited, name) == getattr(original, name)
        assert edited.__globals__ is original.__globals__
        assert inspect.signature(edited) == inspect.signature(original)
        assert edited.__defaults__[0] is default
        assert edited.__kwdefaults__ == {"more": 2}
    with hookpatch.active(hookpatch.edit("vendor:closure", "count += 1", "count += 5", reach="slot")):
        vendor.closure(1)
        count = inspect.getclosurevars(vendor.closure).nonlocals["count"]
    vendor.closure(1)
    assert count == 5
    assert inspect.getclosurevars(vendor.closure).nonlocals["count"] == 6


@pytest.mark.parametrize("reach", REACHES)
def test_defaults_in_the_head_are_edited_too(vendor: ModuleType, reach: Any) -> None:
    with hookpatch.active(hookpatch.edit("vendor:function", "more=2", "more=len('four')", reach=reach)):
        assert vendor.function.__kwdefaults__["more"] == 4 or reach == "everywhere"
        assert inspect.signature(vendor.function).parameters["eps"].default == 1e-5
    head = hookpatch.edit(
        "vendor:function",
        diff="@@ -1,2 +1,2 @@\n-def function(x, eps=1e-5, *, more=2):\n+def function(x=5, eps=1e-5, *, more=2):\n",
        reach=reach,
    )
    with hookpatch.active(head):
        assert vendor.function() == 6
    with pytest.raises(TypeError):
        vendor.function()


@pytest.mark.parametrize("reach", REACHES)
def test_source_and_traceback_show_the_edit(vendor: ModuleType, reach: Any) -> None:
    before = inspect.getsource(vendor.function)
    with hookpatch.active(hookpatch.edit("vendor:function", "return 'many'", "raise ValueError(y)", reach=reach)):
        shown = inspect.getsource(vendor.function)
        assert shown == before.replace('return "many"', "raise ValueError(y)")
        with pytest.raises(ValueError) as raised:
            vendor.function(1000)
        (last,) = traceback.extract_tb(raised.value.__traceback__)[-1:]
        assert (last.name, last.line) == ("function", "if y > 100: raise ValueError(y)  # on one line")
        assert "vendor.py, edited by a patch given to active(), " in last.filename
    assert inspect.getsource(vendor.function) == before


def test_super_and_names_of_the_class(vendor: ModuleType) -> None:
    """Zero-argument super() works where the function had none, and private names are those of the class."""
    for reach in REACHES:
        with hookpatch.active(hookpatch.edit("vendor:Kind.private", "x + 1", "super().method(x) + 50", reach=reach)):
            assert vendor.Kind().private(7) == 50
        with hookpatch.active(hookpatch.edit("vendor:Base.method", "0", "self._Base__x", reach=reach)):
            kind = vendor.Kind()
            kind._Base__x = 4
            assert kind.method(7) == 12


def test_what_the_file_is_warned_of_is_not_said_again(write_module: Callable[[str, str], Path]) -> None:
    write_module("escaped", "def function(x):\n    return x, '\\d'\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import escaped  # type: ignore[import-not-found]
    with hookpatch.active(hookpatch.edit("escaped:function", "return x", "return -x", count=1)):
        assert escaped.function(1) == (-1, r"\d")


def test_a_diff_as_git_writes_it(vendor: ModuleType) -> None:
    diff = """
        diff --git a/vendor.py b/vendor.py
        index 123..456 100644
        --- a/vendor.py
        +++ b/vendor.py
        @@ -100,4 +100,5 @@ def something():
             # a comment with x + 1 in it
        -    y = x + 1
        -    if y > 100: return "many"  # on one line
        +    y = x + 1
        +    if y > 200:
        +        return "very many"
             return y
        """
    with hookpatch.active(hookpatch.edit("vendor:function", diff=diff)):
        assert [vendor.function(150), vendor.function(1000)] == [151, "very many"]
    small = "@@ -1 +1 @@\n-return x + 1\n+return x + 2\n"
    with hookpatch.active(hookpatch.edit("vendor:Kind.static", diff=small)):
        assert vendor.Kind.static(7) == 9
    with pytest.raises(EditError, match=r"'return x \+ 7' is not in the source; nearest is line \d+: 'return x \+ 1'"):
        hookpatch.active(
            hookpatch.edit("vendor:Kind.static", diff=small.replace("-return x + 1", "-return x + 7"))
        ).open()


REFUSED: Final = {
    "not there": (
        ("vendor:function", "y = z + 1", "x"),
        r"'y = z . 1' is not in the source; nearest is line 8: 'y = x . 1'",
    ),
    "twice": (("vendor:function", "y", "z"), r"'y' is there 3 times \(line 8, 9, 10\); say count=3"),
    "a part of a name": (("vendor:function", "ep", "z"), "'ep' is not in the source"),
    "a comment": (("vendor:function", "a comment", "z"), "'a comment' is not in the source"),
    "no Python after it": (("vendor:function", "return y", "return ("), r"cannot be read: .* \(line 10"),
    "a name of what is around it": (("vendor:closure", "x + 1", "x + other"), None),
    "another function": (("vendor:function", "def function", "def other"), "must keep the name and the decorators"),
    "inherited with a decorator": (
        ("vendor:Kind.decorated", "x + 1", "x + 2"),
        "is inside a decorator; edit it in the class that defines it",
    ),
    "a comment alone": (("vendor:function", "y = x + 1", "y = (x + 1)  # so"), "changes no code that runs"),
    "an annotation": (("vendor:function", "x, eps", "x: int, eps"), "changes an annotation"),
    "a default that fails": (("vendor:function", "eps=1e-5", "eps=1/0"), "'eps' raised ZeroDivisionError"),
    "no function": (("vendor:table", "f", "g"), "is a dict, which has no Python source"),
    "a C function": (("math:cos", "x", "y"), "has no Python source"),
    "in the slot of a decorated one": (
        ("vendor:decorated", "x + 1", "x + 2"),
        "reach='everywhere' edits the function there",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_edited_is_an_error_that_says_so(vendor: ModuleType, case: str) -> None:
    import math  # noqa: F401 - a target

    target, message = REFUSED[case]
    reach: Any = "slot" if "slot" in case or "C function" in case or "no function" in case else "everywhere"
    session = hookpatch.active(hookpatch.edit(*target, reach=reach))
    with pristine():
        if message is None:  # a global name, looked up at the call
            with session, pytest.raises(NameError):
                vendor.closure(1)
            return
        with pytest.raises(EditError, match=message):
            session.open()


def test_a_file_that_has_changed_since_is_refused(vendor: ModuleType) -> None:
    path = Path(str(vendor.__file__))
    path.write_text("# a new line\n" + path.read_text())
    with pytest.raises(EditError, match="the source of function is not what runs"):
        hookpatch.active(hookpatch.edit("vendor:function", "x + 1", "x + 2")).open()


def test_a_wrap_everywhere_says_that_the_slot_has_a_copy(vendor: ModuleType) -> None:
    """A wrap everywhere over an edit warns of the copy in the slot; in the other order the edit is refused."""
    wrap = hookpatch.wrap("vendor:function", lambda wrapped, instance, args, kwargs: 0, reach="everywhere")
    edit = hookpatch.edit("vendor:function", "x + 1", "x + 2", reach="slot")
    with hookpatch.active(edit), pytest.raises(TargetRefused, match="holds a copy of the function"):
        hookpatch.active(wrap).open()
    with hookpatch.active(wrap), pytest.raises(EditError, match="has changed the function in place"):
        hookpatch.active(edit).open()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("m:f", "x"), "one text is nothing"),
        (("m:f", "x", 3), "one text is an int"),
        (("m:f", " ", "x"), "old is empty"),
        (("m:f", "x", " x"), "old and new are the same"),
        (("m:f", "x", "y", 0), "count=0 is not a number of places"),
        (("m:f", "x", "y", None, "@@"), "takes old and new, or diff="),
        (("m:f", None, None, None, "x"), "stands before the first"),
        (("m:f", None, None, None, "@@ -1 +1 @@\n x"), "a hunk of the diff changes nothing"),
        (("m:f", None, None, None, "@@ -1 +1 @@\n+x"), "and its place is unknown"),
        (("m:f", None, None, None, "@@ x @@\n+x"), "is no head of a hunk"),
    ],
)
def test_bad_input_is_told_where_it_is_written(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(PatchError, match=message):
        hookpatch.edit(*arguments[:3], **dict(zip(("count", "diff"), arguments[3:], strict=False)))


def test_a_child_process_has_it(vendor: ModuleType) -> None:
    program, folder = (
        "import vendor; print(vendor.function(7), vendor.function(7, eps=3))",
        Path(str(vendor.__file__)).parent,
    )
    with hookpatch.active(hookpatch.edit("vendor:function", "x + 1", "x + eps")):
        child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=folder, check=True)
    assert child.stdout == "7.00001 10\n"


def test_a_module_that_comes_later_and_one_that_is_reloaded(write_module: Callable[[str, str], Path]) -> None:
    import importlib

    write_module("later", VENDOR)
    with hookpatch.active(hookpatch.edit("later:function", "x + 1", "x + 2")):
        module = importlib.import_module("later")
        assert module.function(7) == 9
        importlib.reload(module)
        assert module.function(7) == 9
    assert module.function(7) == 8


@pytest.mark.parametrize("reach", REACHES)
def test_plan_why_and_lock_know_it(vendor: ModuleType, reach: Any) -> None:
    """A plan tells whether the piece is there; why shows the pieces; a lock file compares the original's source."""
    edit = hookpatch.edit("vendor:function", "x + 1", "x + 2", reach=reach)
    before = of_slot(AttributeSlot(vendor, "function"))
    (planned,) = [patch for target in hookpatch.plan(edit).targets for patch in target.patches]
    assert planned.finding == "fits"
    absent = hookpatch.edit("vendor:function", "x + 7", "x + 2", reach=reach)
    (unfit,) = [patch for target in hookpatch.plan(absent).targets for patch in target.patches]
    assert unfit.finding == "unfit"
    assert "nearest is line" in str(unfit.reason)
    with hookpatch.active(edit):
        (planned,) = [patch for target in hookpatch.plan(edit).targets for patch in target.patches]
        assert planned.finding == "conflict"
        with pytest.raises(ConflictError) as caught:  # a second session edits the same lines
            hookpatch.active(edit).open()
        assert planned.reason == caught.value.problem
        reports = hookpatch.why("vendor:function").layers
        assert [layer.kind for layer in reports] == ["edit", "original"]
        assert reports[0].name == "\"'x + 1' -> 'x + 2'\""
        assert of_slot(AttributeSlot(vendor, "function")) == before
    inside = hookpatch.edit("vendor:decorated", "x + 1", "x + 2")
    (planned,) = [patch for target in hookpatch.plan(inside).targets for patch in target.patches]
    assert (planned.finding, planned.warnings) == ("fits", ("the function inside its decorators is edited",))

"""Lazily imported names (PEP 810, Python 3.15): hookpatch resolves none, and none keeps a patched value."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from environments import Environment

pytestmark = pytest.mark.skipif(sys.version_info < (3, 15), reason="lazy imports are new in Python 3.15")

VENDOR = """
LIMIT = 3
class Base:
    pass
def f(x=1):
    return "original"
REGISTRY = {"f": f}
"""
USER = """
lazy from vendor import LIMIT, Base, f as renamed
lazy from again import Base as Other
lazy import vendor as v
lazy import unrelated
def use():
    return LIMIT, Base, renamed, Other, v.f
"""
# Ways without the keyword to make `from vendor import ...` lazy.
WAYS = {
    "statement": ([], {}, USER),
    "flag": (["-X", "lazy_imports=all"], {}, USER.replace("lazy ", "")),
    "variable": ([], {"PYTHON_LAZY_IMPORTS": "all"}, USER.replace("lazy ", "")),
    "__lazy_modules__": (
        [],
        {},
        "__lazy_modules__ = {'vendor', 'again', 'unrelated'}\n" + USER.replace("lazy ", ""),
    ),
}
HEAD = """
    import sys, types
    import hookpatch

    class New:
        pass
    def wrapper(wrapped, instance, args, kwargs):
        return "patched"
    def derived(base):
        return type("Derived", (base,), {})
    def is_lazy(module, name):
        return type(vars(module)[name]) is types.LazyImportType
    PATCHES = {
        "limit": lambda reach: hookpatch.replace("vendor:LIMIT", 5),
        "replace": lambda reach: hookpatch.replace("vendor:Base", New, reach=reach),
        "derive": lambda reach: hookpatch.derive("vendor:Base", derived, reach=reach),
        "wrap": lambda reach: hookpatch.wrap("vendor:f", wrapper, reach=reach),
        "inject": lambda reach: hookpatch.inject("vendor:f", x=2, reach=reach),
    }
"""
Run = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a program in a folder with the vendor and its user; return the printed lines."""
    for name, text in {"vendor": VENDOR, "again": "from vendor import Base\n", "unrelated": "print('WOKEN')\n"}.items():
        (tmp_path / f"{name}.py").write_text(text)

    def in_folder(program: str, way: str = "statement") -> list[str]:
        flags, variables, user = WAYS[way]
        (tmp_path / "user.py").write_text(user)
        (tmp_path / "program.py").write_text(textwrap.dedent(HEAD) + textwrap.dedent(program))
        command = [sys.executable, "-B", *flags, "program.py"]
        completed = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env={**_plain_environment(), **variables}
        )
        assert (completed.stderr, completed.returncode) == ("", 0)
        return completed.stdout.splitlines()

    return in_folder


def _plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("HOOKPATCH_", "PYTHON_LAZY"))}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("case", ["limit", "replace", "derive", "wrap", "inject"])
def test_name_that_is_first_used_inside_has_the_original_after_the_end(
    run: Run, case: str, reach: str, way: str
) -> None:
    """A lazy name first used inside has the original afterwards; patch, report, plan and why wake no name."""
    program = f"""
    def main():
        import user
        names = ("LIMIT", "Base", "renamed", "Other")
        str(hookpatch.plan(PATCHES[{case!r}]({reach!r})))
        with hookpatch.active(PATCHES[{case!r}]({reach!r})) as session:
            str(session.report()), str(hookpatch.report()), str(hookpatch.why("vendor:f"))
            assert all(is_lazy(user, name) for name in (*names, "v", "unrelated"))
            user.use()
            assert is_lazy(user, "unrelated")
        import vendor
        used, expected = user.use(), (vendor.LIMIT, vendor.Base, vendor.f, vendor.Base, vendor.f)
        print([one is other for one, other in zip(used, expected)], vendor.LIMIT, vendor.Base.__name__, vendor.f())
        print(*{{patch.state for patch in session.report()}})
        assert is_lazy(user, "unrelated")
    main()
    """
    assert run(program, way) == ["[True, True, True, True, True] 3 Base original", "restored"]


def test_name_that_is_used_inside_one_block_keeps_its_value_in_the_next(run: Run) -> None:
    """A lazy name used in a block keeps its value in the next block, as a bound name does."""
    program = """
    def main():
        import user, vendor
        for value in (5, 7):
            with hookpatch.active(hookpatch.replace("vendor:LIMIT", value)):
                print(user.use()[0], vendor.LIMIT)
            print(user.use()[0], vendor.LIMIT)
    main()
    """
    assert run(program) == ["5 5", "3 3", "3 7", "3 3"]


def test_pristine_why_and_a_look_for_holders_wake_nothing(run: Run) -> None:
    """Neither pristine(), why nor a search for holders wakes a lazy name."""
    program = """
    def main():
        import user, vendor
        from hookpatch.testing import pristine
        with pristine(user, vendor):
            with hookpatch.active(PATCHES["derive"]("everywhere"), PATCHES["wrap"]("slot")) as session:
                str(session.report())
            str(hookpatch.why("user:unrelated")), str(hookpatch.why("user:renamed"))
        print([is_lazy(user, name) for name in ("Base", "renamed", "v", "unrelated")])
    main()
    """
    assert run(program) == ["[True, True, True, True]"]


@pytest.mark.parametrize(
    ("patch", "verb"),
    [
        ("hookpatch.wrap('user:renamed', wrapper)", "wrap"),
        ("hookpatch.inject('user:renamed', x=1)", "inject"),
        ("hookpatch.derive('user:renamed', derived)", "derive"),
        ("hookpatch.replace('user:renamed', wrapper, reach='everywhere')", "replace"),
    ],
)
def test_patch_of_a_name_that_is_still_lazy_is_refused_with_its_source(run: Run, patch: str, verb: str) -> None:
    """A patch of a lazy name is refused, with the source's address; the name stays lazy."""
    program = f"""
    def main():
        import user
        try:
            hookpatch.active({patch}).open()
        except hookpatch.errors.TargetRefused as error:
            print(error.problem)
        print(is_lazy(user, "renamed"))
    main()
    """
    expected = "user:renamed is a lazy import of vendor.f, unused until now; patch vendor:f, where it is defined"
    assert run(program) == [expected, "True"]


@pytest.mark.parametrize("verb", ["replace('user:renamed', wrapper)", "remove('user:renamed')"])
def test_name_that_is_still_lazy_is_exchanged_and_lazy_again(run: Run, verb: str) -> None:
    """The identical lazy object is restored, unused."""
    program = f"""
    def main():
        import user
        before = vars(user)["renamed"]
        with hookpatch.active(hookpatch.{verb}):
            print(vars(user).get("renamed") is before)
        print(vars(user)["renamed"] is before, is_lazy(user, "renamed"))
        print(user.use()[2]())
    main()
    """
    assert run(program) == ["False", "True True", "original"]


@pytest.mark.parametrize("way", WAYS)
def test_module_that_is_first_used_inside_is_patched(run: Run, way: str) -> None:
    """A lazy module first used inside goes through hookpatch's finder."""
    program = """
    def main():
        import user
        with hookpatch.active(PATCHES["wrap"]("slot")) as session:
            print(*(patch.state for patch in session.report()), user.use()[4]())
            print(*(patch.state for patch in session.report()))
        print(user.use()[4](), user.use()[2]())
    main()
    """
    assert run(program, way) == ["waiting patched", "applied", "original original"]


@pytest.mark.parametrize(
    ("answer", "expected"), [(True, ["patched", "original"]), (False, ["WOKEN", "patched", "original"])]
)
def test_filter_that_keeps_our_imports_from_being_lazy_or_makes_them_so(
    run: Run, answer: bool, expected: list[str]
) -> None:
    """Whatever a program's filter says, hookpatch itself is imported and works."""
    program = f"""
    def main():
        sys.set_lazy_imports("all")
        sys.set_lazy_imports_filter(lambda importing, imported, names: {answer})
        import user
        with hookpatch.active(hookpatch.wrap("vendor:f", wrapper)):
            print(user.use()[4]())
        print(user.use()[4]())
    main()
    """
    assert run(program) == expected


@pytest.mark.parametrize("way", ["flag", "variable"])
def test_plugin_asked_for_where_all_imports_are_lazy(environment: Environment, tmp_path: Path, way: str) -> None:
    """With all imports lazy, a plugin's and hookpatch's imports happen at use, even inside other imports."""
    plugin = """
        '''Patch the vendor.'''
        import hookpatch, colorsys
        def wrapper(wrapped, instance, args, kwargs):
            return "patched", colorsys.__name__
        @hookpatch.hookimpl
        def hookpatch_patches():
            yield hookpatch.wrap("vendor:f", wrapper)
    """
    environment.add_plugin("loud", plugin)
    files = {"vendor.py": VENDOR, "script.py": "import vendor\nprint(vendor.f())\n"}
    environment.work_in(tmp_path / "work", files)
    flags, variables, _ = WAYS[way]
    completed = environment.run(*flags, "script.py", HOOKPATCH_PLUGINS="loud", **variables)
    assert (completed.stdout, completed.stderr) == ("('patched', 'colorsys')\n", "")

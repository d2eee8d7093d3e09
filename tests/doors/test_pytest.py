"""The pytest plugin, in real pytest runs: a test with a leftover patch fails, with the patch's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from environments import Environment

pytestmark = pytest.mark.once

pytest_plugins = ["pytester"]

Run = Callable[..., pytest.RunResult]

HEAD = """
import hookpatch, pytest, sys, unittest, vendor

def shout(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs).upper()

def leak(*more):
    return hookpatch.active(hookpatch.wrap("vendor:speak", shout), *more).open()

opened = []
"""

CLEAN = """
def test_next():
    assert vendor.speak() == "vendor"
    assert not hookpatch.report().patches
    assert "hookpatch" not in str(sys.meta_path)
"""

SESSION = "<Session of vendor:speak, open>"
APPLIED = "  applied   wrap    vendor:speak  (active())"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a test file in a pytest of its own, with our plugin and no other, and modules to patch."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # ours is asked for, installed or not

    def run(source: str, conftest: str = "", words: tuple[str, ...] = ()) -> pytest.RunResult:
        pytester.makeconftest(HEAD + conftest)
        pytester.makepyfile(vendor="def speak(): return 'vendor'", later="def speak(): return 'later'")
        pytester.makepyfile(test_it=HEAD + source)
        return pytester.runpytest_subprocess("-p", "hookpatch._pytest", "-W", "error", "--strict-markers", *words)

    return run


def leftover_message(result: pytest.RunResult) -> list[str]:
    """Return the message of the first test with a leftover."""
    start = next(index for index, line in enumerate(result.outlines) if "left patches behind" in line)
    end = next(index for index, line in enumerate(result.outlines[start:], start) if line.startswith(("=", "_")))
    return result.outlines[start:end]


def first(test: str) -> str:
    return f"{test} left patches behind; what can be taken back is taken back now:"


def test_test_that_leaves_patches_fails_and_the_next_starts_clean(run: Run) -> None:
    """The message has the session, its opener, and the state of each patch."""
    source = """
def test_leaves():
    opened.append(leak(hookpatch.wrap("later:speak", shout), hookpatch.remove("vendor:x", required=False)))
"""
    completed = run(source + CLEAN)
    completed.assert_outcomes(passed=2, errors=1)
    assert completed.ret == pytest.ExitCode.TESTS_FAILED
    assert leftover_message(completed) == [
        first("test_leaves"),
        "<Session of vendor:speak, later:speak, vendor:x, open>, opened by the test:",
        APPLIED,
        "  waiting   wrap    later:speak  (active())",
        "  skipped   remove  vendor:x  (active()): vendor has no attribute 'x' "
        "(target vendor:x of a patch given to active())",
    ]


@pytest.mark.parametrize(
    "source",
    [
        "def test_uses():\n    with PATCHED: assert vendor.speak() == 'VENDOR'\n",
        "def test_closes(request): request.addfinalizer(leak().close)\n",
        "@pytest.fixture\ndef on():\n    with PATCHED: yield\ndef test_uses(on): assert vendor.speak() == 'VENDOR'\n",
        "def test_makes(): opened.append(PATCHED)\n",
    ],
)
def test_patch_that_ends_with_its_test_is_no_leak(run: Run, source: str) -> None:
    """In a block, at the test's end, in a fixture of the test; or never opened."""
    completed = run(source.replace("PATCHED", "hookpatch.active(hookpatch.wrap('vendor:speak', shout))") + CLEAN)
    completed.assert_outcomes(passed=2)


def test_fixture_of_the_test_is_named(run: Run) -> None:
    """The message names the fixture that opened the session, not the requesting fixture."""
    source = """
@pytest.fixture
def inner(): opened.append(leak())
@pytest.fixture
def outer(request): return request.getfixturevalue("inner")
def test_leaves(outer): pass
"""
    completed = run(source + CLEAN)
    completed.assert_outcomes(passed=2, errors=1)
    assert leftover_message(completed) == [
        first("test_leaves"),
        f"{SESSION}, opened by the function-scoped fixture 'inner':",
        APPLIED,
    ]


@pytest.mark.parametrize("scope", ["class", "module", "package", "session"])
def test_session_of_a_wider_fixture_may_stay_until_that_ends(run: Run, scope: str) -> None:
    """Tests within a wider fixture's session pass, patched; a module imported meanwhile belongs to the session."""
    source = f"""
@pytest.fixture(scope="{scope}", autouse=True)
def patched():
    session = leak(hookpatch.wrap("later:speak", shout))
    yield
    session.close()
class Test:
    def test_one(self): assert vendor.speak() == "VENDOR"
    def test_two(self):
        import later
        assert later.speak() == "LATER"
    def test_three(self): assert vendor.speak() == "VENDOR"
"""
    run(source).assert_outcomes(passed=3)


def test_wider_fixture_that_leaves_patches_fails_its_last_test(run: Run) -> None:
    """A wider fixture may hold patches until its own end."""
    source = """
@pytest.fixture(scope="class")
def patched():
    opened.append(leak())
    yield
class Test:
    def test_one(self, patched): assert vendor.speak() == "VENDOR"
    def test_two(self, patched): assert vendor.speak() == "VENDOR"
"""
    completed = run(source + CLEAN)
    completed.assert_outcomes(passed=3, errors=1)
    assert leftover_message(completed) == [
        first("test_two"),
        f"{SESSION}, opened by the class-scoped fixture 'patched':",
        APPLIED,
    ]


def test_wider_fixture_that_fails_may_leave_nothing(run: Run) -> None:
    """No code would close the session of a failed fixture."""
    source = """
@pytest.fixture(scope="module")
def patched():
    opened.append(leak())
    raise ValueError("x")
def test_leaves(patched): pass
"""
    completed = run(source + CLEAN)
    completed.assert_outcomes(passed=1, errors=2)
    assert leftover_message(completed) == [first("test_leaves"), f"{SESSION}, opened by the test:", APPLIED]


def test_leak_beside_a_wider_fixture_is_told(run: Run) -> None:
    """Only the test's leak is reported; the fixture's session stays."""
    source = """
@pytest.fixture(scope="module", autouse=True)
def patched():
    with hookpatch.active(hookpatch.replace("vendor:word", 1, add=True), hookpatch.wrap("later:speak", shout)): yield
def test_leaves(): opened.append(leak())
def test_next():
    assert (vendor.speak(), vendor.word) == ("vendor", 1)
"""
    completed = run(source)
    completed.assert_outcomes(passed=2, errors=1)
    assert leftover_message(completed) == [first("test_leaves"), f"{SESSION}, opened by the test:", APPLIED]


def test_setup_functions_count_as_fixtures(run: Run) -> None:
    """setup_module and setUpClass may hold patches for their tests; setUp must restore."""
    source = """
def setup_module(): opened.append(hookpatch.active(hookpatch.replace("vendor:word", 1, add=True)).open())
def teardown_module(): opened[0].close()
class Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.session = hookpatch.active(hookpatch.replace("vendor:other", 2, add=True)).open()
    @classmethod
    def tearDownClass(cls): cls.session.close()
    def setUp(self): self.own = leak()
    def tearDown(self): self.own.close()
    def test_one(self): assert (vendor.speak(), vendor.word, vendor.other) == ("VENDOR", 1, 2)
    def test_two(self): self.test_one()
class TestLeaves(unittest.TestCase):
    def setUp(self): opened.append(leak())
    def test_leaves(self): assert (vendor.speak(), vendor.word) == ("VENDOR", 1)
"""
    completed = run(source)
    completed.assert_outcomes(passed=3, errors=1)
    assert leftover_message(completed)[1:] == [f"{SESSION}, opened by the test:", APPLIED]


@pytest.mark.parametrize(("closes", "outcomes"), [(True, {"passed": 1}), (False, {"passed": 1, "errors": 1})])
def test_session_of_a_hook_may_last_as_long_as_its_test(run: Run, closes: bool, outcomes: dict[str, int]) -> None:
    """Our look is outside the hooks of others."""
    conftest = f"""
@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    opened.append(leak())
    return (yield)
@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown():
    yield
    if {closes}: opened.pop().close()
"""
    run('def test_patched(): assert vendor.speak() == "VENDOR"', conftest).assert_outcomes(**outcomes)


@pytest.mark.parametrize(
    ("source", "outcomes"),
    [
        ("def test_fails(): opened.append(leak()); assert False, 'its own'", {"failed": 1, "errors": 1}),
        ("def test_skips(): opened.append(leak()); pytest.skip('its own')", {"skipped": 1, "errors": 1}),
    ],
)
def test_what_became_of_the_test_itself_stays(run: Run, source: str, outcomes: dict[str, int]) -> None:
    """A failure is not hidden by the leak."""
    completed = run(source + "\n" + CLEAN)
    completed.assert_outcomes(passed=1, **outcomes)
    assert leftover_message(completed)[1:] == [f"{SESSION}, opened by the test:", APPLIED]
    assert "its own" in completed.stdout.str() or "skips" in source


def test_error_of_the_teardown_goes_on_with_a_note(run: Run) -> None:
    """The test has a single error with both causes."""
    source = """
@pytest.fixture
def raises():
    yield
    raise ValueError("its own")
def test_leaves(raises): opened.append(leak())
"""
    completed = run(source + CLEAN)
    completed.assert_outcomes(passed=2, errors=1)
    completed.stdout.fnmatch_lines(
        [
            "E       ValueError: its own",
            f"E       {first('test_leaves')}",
            f"E       {SESSION}, opened by the test:",
            f"E       {APPLIED}",
        ],
        consecutive=True,
    )


def test_several_sessions_are_taken_back_the_last_first(run: Run) -> None:
    """As blocks would end."""
    source = """
def test_leaves():
    opened.append(hookpatch.active(hookpatch.replace("vendor:word", 1, add=True)).open())
    opened.append(leak())
"""
    completed = run(source + CLEAN)
    assert leftover_message(completed) == [
        first("test_leaves"),
        f"{SESSION}, opened by the test:",
        APPLIED,
        "<Session of vendor:word, open>, opened by the test:",
        "  applied   replace vendor:word  (active())",
    ]


def test_patch_that_cannot_be_taken_back_is_told(run: Run) -> None:
    """A foreign value lies over our wrapper; a context manager does not end."""
    source = """
import contextlib
@contextlib.contextmanager
def stubborn(module):
    yield
    raise ValueError("will not end")
def test_leaves():
    word = hookpatch.replace("vendor:word", 1, add=True)
    opened.append(hookpatch.active(word, hookpatch.enter("vendor", stubborn)).open())
    vendor.word = 2
"""
    completed = run(source)
    completed.assert_outcomes(passed=1, errors=1)
    assert leftover_message(completed) == [
        first("test_leaves"),
        "<Session of vendor:word, vendor, open>, opened by the test:",
        "  overwritten replace vendor:word  (active()): other code wrote 2 into vendor:word",
        "  applied   enter   vendor  (active())",
        "  failed    enter   vendor  (active()): could not be restored: ValueError: will not end",
    ]


def test_watch_without_a_session_is_told(run: Run) -> None:
    """Only a defect of hookpatch can leave a watch without a session."""
    source = """
from hookpatch._bootstrap import imports
def test_leaves(): opened.append(imports.watch("nowhere", print))
def test_next(): opened[0].cancel()
"""
    completed = run("import hookpatch._session.session\n" + source)
    completed.assert_outcomes(passed=2, errors=1)
    assert leftover_message(completed) == [first("test_leaves"), "module nowhere is waited for"]


def test_what_lies_beneath_somebody_elses_value_is_told_while_that_stands(run: Run) -> None:
    """monkeypatch puts ours back when the test ends, and the slot is given back; who forgets leaves ours beneath."""
    source = """
from hookpatch.errors import DisplacedWarning
def over(): return "over"
def test_ends(monkeypatch):
    with pytest.warns(DisplacedWarning), hookpatch.active(hookpatch.wrap("vendor:speak", shout)):
        monkeypatch.setattr(vendor, "speak", over)
def test_original(): assert vendor.speak() == "vendor"
def test_leaves():
    with pytest.warns(DisplacedWarning), hookpatch.active(hookpatch.wrap("vendor:speak", shout)):
        opened.append(vendor.speak)
        vendor.speak = over
def test_stays(): assert vendor.speak is over
"""
    completed = run(source)
    completed.assert_outcomes(passed=4, errors=1)
    assert leftover_message(completed) == [
        first("test_leaves"),
        "vendor:speak holds a foreign value, put over a patch that has ended since",
    ]


def test_marked_test_may_leave_patches(run: Run) -> None:
    """Patches of a marked test stay, and do not fail the next test."""
    source = """
@pytest.mark.hookpatch_leaves
def test_leaves(): opened.append(leak())
def test_next(): assert vendor.speak() == "VENDOR"
def test_last(): opened[0].close()
"""
    run(source).assert_outcomes(passed=3)


def test_nothing_of_ours_is_imported_for_tests_that_do_not_patch(run: Run) -> None:
    """Tests without patches import no further file of hookpatch."""
    completed = run("""
@pytest.fixture(scope="module", autouse=True)
def wide(): yield
def test_modules():
    ours = {"hookpatch", "hookpatch.testing", "hookpatch.testing._fixtures", "hookpatch._pytest"}
    assert {name for name in sys.modules if "hookpatch" in name} == ours
def test_next(): test_modules()
""")
    completed.assert_outcomes(passed=2)


LEAVES = HEAD.replace(", vendor", "") + "def test_leaves(): opened.append(leak())\n"


def test_plugin_comes_with_the_wheel_and_can_be_switched_off(environment: Environment, tmp_path: Path) -> None:
    """pytest finds the plugin by its entry point, under the name ``hookpatch``."""
    (tmp_path / "vendor.py").write_text("def speak(): return 'vendor'")
    (tmp_path / "test_it.py").write_text(LEAVES)
    pytest_here = ("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider")
    completed = environment.run(*pytest_here, cwd=tmp_path)
    assert (completed.returncode, completed.stderr) == (1, "")
    assert "test_leaves left patches behind" in completed.stdout
    completed = environment.run(*pytest_here, "-p", "no:hookpatch", cwd=tmp_path)
    assert (completed.returncode, completed.stderr) == (0, "")


def test_session_of_the_environment_stays(environment: Environment, tmp_path: Path) -> None:
    """The environment's session stays, and pytest does not warn of an early import."""
    plugin = """
    import hookpatch
    @hookpatch.hookimpl
    def hookpatch_patches():
        return [hookpatch.wrap("vendor:speak", lambda wrapped, i, args, kwargs: wrapped().upper())]
    """
    environment.add_plugin("loud", plugin)
    (tmp_path / "vendor.py").write_text("def speak(): return 'vendor'")
    (tmp_path / "test_it.py").write_text("def test_patched(): import vendor; assert vendor.speak() == 'VENDOR'\n" * 2)
    completed = environment.run("-m", "pytest", "-q", "-W", "error", cwd=tmp_path, HOOKPATCH_PLUGINS="loud")
    assert (completed.returncode, completed.stderr) == (0, "")


@pytest.mark.parametrize(
    "call", ["leak(hookpatch.wrap('vendor:speek', shout))", "patched('nope')", "hookpatch.why('vendor:speek')"]
)
@pytest.mark.parametrize("words", [(), ("--full-trace",)])
@pytest.mark.sampled(2)
def test_error_of_ours_is_shown_without_our_frames(run: Run, call: str, words: tuple[str, ...]) -> None:
    """A failing test shows the line of the test and the message. ``--full-trace`` shows all frames."""
    completed = run(f"def test_fails(patched):\n    {call}\n", words=words)
    completed.assert_outcomes(failed=1)
    text = completed.stdout.str()
    assert f"   {call}\n" in text
    assert re.search(r"^E   +hookpatch\.errors\.\w+: ", text, re.MULTILINE)
    assert bool(re.search(r"hookpatch/\w+/[\w/]+\.py:\d+", text)) == bool(words)

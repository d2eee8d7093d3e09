"""The fixtures in real pytest runs: when a fixture fails a test, and how the mark hookpatch_releases repeats a test."""

from __future__ import annotations

from pathlib import Path

import pytest
from distributions import build_wheel

pytestmark = pytest.mark.once

pytest_plugins = ["pytester"]

PATCHED = """
    import hookpatch, pytest, vendor

    def test_leaves_a_trace(patched):
        patched(hookpatch.replace("vendor:speak", None))
        vendor.word = 1

    def test_next(patched):
        assert vendor.speak() == "vendor"
        session = patched(hookpatch.replace("vendor:speak", None), children="local")
        assert [patch.state for patch in session.report()] == ["applied"]

    def test_last(): assert vendor.speak() == "vendor"

    def test_what_monkeypatch_takes_back_afterwards_is_no_trace(monkeypatch, patched):
        patched(hookpatch.wrap("vendor:speak", print))
        monkeypatch.setattr(vendor, "speak", None)

    def test_what_monkeypatch_took_back_before_is_none_either(patched, monkeypatch):
        patched(hookpatch.wrap("vendor:speak", print))
        monkeypatch.setattr(vendor, "speak", None)

    @pytest.fixture(scope="module")
    def wide():
        vendor.wide = 1
        yield
        del vendor.wide

    def test_what_a_wider_fixture_takes_back_is_none(wide, patched):
        patched(hookpatch.wrap("vendor:speak", print))
"""

EFFECT = """
    import sys
    sys.modules["torch"] = None
    def test_captured(effect): assert False
"""

RELEASES = """
    import pytest

    pytestmark = pytest.mark.hookpatch_releases("vendor-kit==1.0", "vendor-kit==1.1; python_version < '3'")

    def test_release(release, fresh_process):
        assert release == "vendor-kit==1.0"
        assert fresh_process("import vendor; print(vendor.speak())").check().output == "of 1.0\\n"

    def test_without_asking_for_the_release(fresh_process):
        assert fresh_process("import vendor; print(vendor.speak())").check().output == "of 1.0\\n"

    @pytest.mark.hookpatch_releases(file="releases.txt")
    def test_file(release): assert release in ("vendor-kit==1.0", "other==2")
"""

UNMARKED = """
    def test_release(release, fresh_process): assert release is None
    class Test:
        import pytest
        @pytest.fixture
        def release(self): return "their own"
        def test_own(self, release, fresh_process): assert release == "their own"
"""

NO_PROCESS = "import pytest\n@pytest.mark.hookpatch_releases('kit==1')\ndef test_it(): pass\n"
WRONG = {
    "('kit>=1')": "'kit>=1' names no release (a release is one version of one distribution); write it like "
    "'onnxsim==0.7.3'",
    "(3)": "3 names no release (it is no text); write it like 'onnxsim==0.7.3'",
    "()": "name releases such as 'onnxsim==0.7.3', or file='releases.txt'",
    "(files='x')": "name releases such as 'onnxsim==0.7.3', or file='releases.txt'",
    "(file='none.txt')": "none.txt cannot be read: No such file or directory",
}


def test_fixtures_in_a_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A test that leaves a trace fails; without torch, or with a false condition, pytest reports a skip and why."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    build_wheel(tmp_path, "vendor-kit", "1.0", "vendor", "def speak(): return 'of 1.0'")
    pytester.makepyfile(
        vendor="def speak(): return 'vendor'",
        test_patched=PATCHED,
        test_effect=EFFECT,
        test_releases=RELEASES,
        test_unmarked=UNMARKED,
    )
    pytester.maketxtfile(releases="# the releases\n\nvendor-kit==1.0\nother==2\n")
    folder = f"--hookpatch-releases={tmp_path / 'releases'}"
    result = pytester.runpytest_subprocess(
        "-p", "hookpatch._pytest", "-W", "error", "--strict-markers", "-rs", "-v", folder
    )
    result.assert_outcomes(passed=12, errors=1, skipped=3)
    assert "Watchman" not in result.stdout.str()  # a traceback is of the test's own lines
    result.stdout.fnmatch_lines(
        [
            "test_releases.py::test_release[[]vendor-kit==1.0] PASSED*",
            "E   hookpatch.testing._pristine.NotPristine: 1 not as before:",
            "*  vendor:word was absent, is 1",
            "SKIPPED [[]1] test_effect.py:*: the fixture effect needs torch, which is not installed",
            'SKIPPED [[]2] test_releases.py: vendor-kit==1.1 is for python_version < "3"',
        ]
    )
    assert [path.name for path in (tmp_path / "releases").iterdir()] == ["vendor-kit==1.0"]


def test_mark_that_means_nothing_is_an_error_of_the_collection(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse the mark on a test without fresh_process, which would pass on every release, and a malformed release."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    lines = ["the test asks for no fresh_process, and would run on what is installed alone"]
    pytester.makepyfile(test_0=NO_PROCESS)
    for number, (arguments, message) in enumerate(WRONG.items(), 1):
        text = f"import pytest\n@pytest.mark.hookpatch_releases{arguments}\ndef test_it(fresh_process): pass\n"
        pytester.makepyfile(**{f"test_{number}": text})
        lines.append(message)
    no_summary = "-rN"  # with CI set pytest repeats each line in full
    result = pytester.runpytest_subprocess("-p", "hookpatch._pytest", "--strict-markers", no_summary)
    result.assert_outcomes(errors=6)
    output = result.stdout.str()
    for number, message in enumerate(lines):
        (line,) = [line for line in output.splitlines() if f"hookpatch_releases of test_{number}.py::test_it" in line]
        assert line.endswith(message), line

"""The child process of a plan may crash, hang and print: the user gets a single line."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import hookpatch
from hookpatch import Patch
from hookpatch._inspect.cache import LookOptions
from hookpatch._inspect.plan import Item, plan_of
from hookpatch._inspect.rehearsal import Outcome
from hookpatch._inspect.throwaway import outcomes_of
from hookpatch._session.ledger import Requested

pytestmark = pytest.mark.once

WriteModule = Callable[[str, str], Path]
MakeDistribution = Callable[..., Path]


def items(*patches: Patch) -> list[Item]:
    return [(patch, [Requested(patch)]) for patch in patches]


def looked(*patches: Patch, limit: float = 60) -> list[Outcome]:
    """Return the outcomes of patches, looked at anew."""
    return [outcome for (outcome,) in outcomes_of(items(*patches), {}, None, LookOptions(limit=limit, anew=True))]


def put(module: str) -> Patch:
    return hookpatch.replace(f"{module}:value", 2, add=True)


@pytest.mark.parametrize(
    ("source", "limit", "end"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 60, "was ended by SIGSEGV"),
        ("import os; os._exit(5)", 60, "ended with status 5"),
        ("import time; time.sleep(60)", 2, "took longer than 2 s"),
    ],
)
@pytest.mark.sampled(2)
def test_crash_is_told_in_one_line(write_module: WriteModule, source: str, limit: int, end: str) -> None:
    """The line names the module whose import crashed; later patches are not looked at."""
    write_module("quiet", "value = 1")
    write_module("vendor", source)
    reason = f"the child process that looked {end} while it imported vendor"
    began = time.monotonic()
    assert looked(put("quiet"), put("vendor"), limit=limit) == [Outcome("waiting", reason)] * 2
    assert time.monotonic() - began < 20
    plan = plan_of(items(put("vendor")), {}, None, LookOptions(limit=limit, anew=True))
    assert str(plan) == f"vendor:value  (not imported yet)\n  1  replace  given by hand  not looked at: {reason}"
    assert plan.status == 1


@pytest.mark.ends
def test_process_that_hangs_at_its_end_has_told_all(write_module: WriteModule) -> None:
    """A library's leftover thread costs time, not the result; the library's processes end with the child process."""
    path = write_module(
        "vendor",
        """
        import subprocess, sys, threading, time
        threading.Thread(target=time.sleep, args=(60,)).start()
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        open(__file__ + ".pid", "w").write(str(child.pid))
        value = 1
        """,
    )
    assert [outcome.state for outcome in looked(put("vendor"), limit=4)] == ["applied"]
    pid = int(Path(f"{path}.pid").read_text())
    for _ in range(100):
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        os.kill(pid, signal.SIGKILL)
        pytest.fail("a process that the target started has outlived the look")


def test_output_is_kept_from_the_user(write_module: WriteModule, capfd: pytest.CaptureFixture[str]) -> None:
    """A library's output and warnings are hidden at import, and its input is empty."""
    write_module(
        "vendor",
        """
        import os, sys, warnings
        print("welcome")
        os.system("echo hello; echo hello >&2")
        warnings.warn("old")
        value = sys.stdin.read()
        """,
    )
    assert [outcome.state for outcome in looked(put("vendor"))] == ["applied"]
    assert capfd.readouterr() == ("", "")
    assert "vendor" not in sys.modules


def test_environment_is_that_of_the_user(write_module: WriteModule, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child process has the user's variables, folder and path, without hookpatch's own variables."""
    write_module(
        "vendor",
        f"""
        import os, sys
        assert os.environ["VENDOR_KEY"] == "3" and os.getcwd() == {os.getcwd()!r}
        assert not [name for name in os.environ if name.startswith("HOOKPATCH_")]
        assert sys.path == {sys.path!r}
        value = 1
        """,
    )
    monkeypatch.setenv("VENDOR_KEY", "3")
    monkeypatch.setenv("HOOKPATCH_PLUGINS", "no_such_plugin")
    assert [outcome.state for outcome in looked(put("vendor"))] == ["applied"]


def test_patch_that_cannot_be_sent_is_not_looked_at(write_module: WriteModule) -> None:
    """The others are."""
    write_module("vendor", "value = 1\ndef call(): return 1")
    plan = hookpatch.plan(put("vendor"), hookpatch.wrap("vendor:call", lambda *_: None))
    (first,), (second,) = (target.patches for target in plan)
    assert first.finding == "fits"
    assert second.finding == "not looked at"
    assert str(second.reason).startswith("made of a lambda, which another process does not find")


def test_plugin_that_differs_in_another_process_is_not_looked_at(
    write_module: WriteModule, make_distribution: MakeDistribution
) -> None:
    """The plugin yields more patches in this process than in the child process."""
    write_module("vendor", "def call(): return 1")
    source = """
        import hookpatch, sys
        @hookpatch.hookimpl
        def hookpatch_patches():
            yield from [hookpatch.wrap("vendor:call", print)] * (2 if "pytest" in sys.modules else 1)
        """
    make_distribution("d-odd", plugins={"odd": "plugin_odd"}, modules={"plugin_odd": source})
    plan = hookpatch.plan("odd")
    reasons = {patch.reason for target in plan for patch in target.patches}
    assert reasons == {"in another process it has 1 patches, and here 2"}


def test_nothing_is_imported_where_that_is_not_wanted(write_module: WriteModule) -> None:
    """A patch without a look counts neither as fitting nor as failing."""
    path = write_module("vendor", "open(__file__ + '.imported', 'w').close()\nvalue = 1")
    plan = hookpatch.plan(put("vendor"), imports=False)
    assert [patch.finding for target in plan for patch in target.patches] == ["not looked at"]
    assert plan.status == 1
    assert not Path(f"{path}.imported").exists()
    assert hookpatch.plan(put("vendor")).status == 0
    assert hookpatch.plan(put("vendor"), imports=False).status == 0  # the result is kept


def test_order_is_that_of_the_calls(write_module: WriteModule) -> None:
    """A function changed in place is reached last, in any order of selection."""
    write_module("vendor", "def call(x): return x")
    everywhere = hookpatch.inject("vendor:call", x=1, reach="everywhere")
    plan = hookpatch.plan(everywhere, hookpatch.inject("vendor:call", x=2))
    (target,) = plan
    assert [(patch.place, patch.reach) for patch in target.patches] == [(1, "slot"), (2, "everywhere")]

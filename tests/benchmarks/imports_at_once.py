"""How often threads deadlock that import a hooked package and the hooked submodules at once.

Each run is a separate process: five threads import a package and four modules of the package. Each module imports the
package, and all five are hooked by hookpatch.active or by wrapt.when_imported. A run is a deadlock if the threads have
not ended within five seconds. The import system's own ways out are no deadlock: a half-imported module, and a
_DeadlockError. Python 3.14.10 gives up each blocked run with the error, even if no module is hooked.
usage: python tests/benchmarks/imports_at_once.py [RUNS]
       python tests/benchmarks/imports_at_once.py plain|hookpatch|wrapt RUNS   (in one process)
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

NAMES = ("pkg", *(f"pkg.sub{number}" for number in range(4)))
RUN = "def run():\n    return 'original'\n"
SECONDS = 5


def write(folder: Path) -> None:
    """Write the package. The modules sleep, so the threads meet."""
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").write_text("import time\ntime.sleep(0.002)\nfrom pkg import sub0\n" + RUN)
    for name in NAMES[1:]:
        folder.joinpath(*name.split(".")).with_suffix(".py").write_text(
            "import time\ntime.sleep(0.002)\nimport pkg\n" + RUN
        )


def with_hookpatch() -> AbstractContextManager[object]:
    import hookpatch

    def around(wrapped: Any, instance: object, args: Any, kwargs: Any) -> str:
        return f"patched({wrapped(*args, **kwargs)})"

    return hookpatch.active(*(hookpatch.wrap(f"{name}:run", around) for name in NAMES))


def with_wrapt() -> AbstractContextManager[object]:
    import wrapt

    @wrapt.decorator
    def around(wrapped: Any, instance: object, args: Any, kwargs: Any) -> str:
        return f"patched({wrapped(*args, **kwargs)})"

    def arrived(module: Any) -> None:
        module.run = around(module.run)

    for name in NAMES:
        wrapt.register_post_import_hook(arrived, name)
    return ExitStack()


def once(prefix: str) -> str:
    """Import all modules at once and return the outcome. After a full import every function returns ``prefix``."""
    barrier, failures = threading.Barrier(len(NAMES)), []
    for name in NAMES:
        sys.modules.pop(name, None)

    def load(name: str) -> None:
        barrier.wait()
        try:
            importlib.import_module(name)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=load, args=(name,), daemon=True) for name in NAMES]
    for thread in threads:
        thread.start()
    end = time.monotonic() + SECONDS
    for thread in threads:
        thread.join(max(0, end - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        return "deadlock"
    if any(type(failure).__name__ == "_DeadlockError" for failure in failures):
        return "given up"
    assert failures == [], failures
    assert [sys.modules[name].run() for name in NAMES] == [prefix] * len(NAMES)
    return "ended"


def compare(runs: int) -> None:
    """Print for each tool how many of the given number of new processes deadlock."""
    for tool in TOOLS:
        command = [sys.executable, __file__, tool, "1"]
        printed = [subprocess.run(command, capture_output=True, text=True).stdout.split(",") for _ in range(runs)]
        ended, given_up, deadlocks = (
            sum(int(part.split()[0]) for part in column) for column in zip(*printed, strict=True)
        )
        print(f"{tool}: {deadlocks} deadlocks, {given_up} given up by Python and {ended} ends in {runs} runs")


def run(tool: str, runs: int) -> None:
    """Print how many of the given number of runs in this process end. A deadlock is the last run."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        sys.path.insert(0, folder)
        ends: Counter[str] = Counter()
        while sum(ends.values()) < runs and not ends["deadlock"]:
            with TOOLS[tool]():
                ends[once("original" if tool == "plain" else "patched(original)")] += 1
        print(f"{ends['ended']} ended, {ends['given up']} given up, {ends['deadlock']} deadlock", flush=True)


TOOLS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "plain": ExitStack,
    "hookpatch": with_hookpatch,
    "wrapt": with_wrapt,
}

if __name__ == "__main__":
    words = sys.argv[1:]
    if words and words[0] in TOOLS:
        run(words[0], int(words[1]))
    else:
        compare(int(words[0]) if words else 50)

"""A program that starts child processes in many ways, before, inside and after a block, and prints the results.

usage: python tests/launching.py {environment,block,task,require} LAUNCHER...
Run in a folder with the modules ``vendor`` and ``worker``. Each child process writes the result of the
vendor's function.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from launching_programs import INHERITS, OF_ROOT, PATIENCE, PROGRAMS

import hookpatch

Env: TypeAlias = Mapping[str, str] | None
PYTHON: Final = sys.executable
METHODS: Final = ("fork", "spawn", "forkserver")
PHASES: Final = ("before", "inside", "after")


def write(path: str) -> None:
    """Do the work of a child process."""
    import vendor  # type: ignore[import-not-found]  # beside the worker

    Path(path).write_text(vendor.speak())


def command(path: str) -> list[str]:
    """Return the command of a program with the same work."""
    return [PYTHON, "worker.py", path]


# --- with a given or inherited environment


def _run(path: str, env: Env) -> None:
    subprocess.run(command(path), env=env, check=True)


def _shell(path: str, env: Env) -> None:
    subprocess.run(" ".join(command(path)), shell=True, env=env, check=True)


def _check_output(path: str, env: Env) -> None:
    subprocess.check_output([PYTHON, "-m", "worker", path], env=env)


def _code(path: str, env: Env) -> None:
    subprocess.run([PYTHON, "-c", "import worker", path], env=env, check=True)


def _stdin(path: str, env: Env) -> None:
    subprocess.run([PYTHON, "-", path], input="import worker", text=True, env=env, check=True)


def _by_env(path: str, env: Env) -> None:
    subprocess.run(["/usr/bin/env", *command(path)], env=env, check=True)


def _other_name(path: str, env: Env) -> None:
    subprocess.run(["worker-1", *command(path)[1:]], executable=PYTHON, env=env, check=True)


def _unclosed(path: str, env: Env) -> None:
    subprocess.run(command(path), close_fds=False, env=env, check=True)


def _posix_spawn(path: str, env: Env) -> None:
    os.waitpid(os.posix_spawn(PYTHON, command(path), os.environ if env is None else env), 0)


def _posix_spawnp(path: str, env: Env) -> None:
    os.waitpid(os.posix_spawnp(PYTHON, command(path), os.environ if env is None else env), 0)


def _spawnv(path: str, env: Env) -> None:
    if env is None:
        os.spawnv(os.P_WAIT, PYTHON, command(path))
    else:
        os.spawnve(os.P_WAIT, PYTHON, command(path), env)


def _spawnlp(path: str, env: Env) -> None:
    if env is None:
        os.spawnlp(os.P_WAIT, PYTHON, *command(path))
    else:
        os.spawnlpe(os.P_WAIT, PYTHON, *command(path), env)


def _in_fork(act: Callable[[], object]) -> None:
    child = os.fork()
    if not child:
        try:
            act()
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    os.waitpid(child, 0)


def _exec(path: str, env: Env) -> None:
    words = command(path)
    _in_fork(lambda: os.execv(PYTHON, words) if env is None else os.execve(PYTHON, words, env))


def _execvp(path: str, env: Env) -> None:
    words = [Path(PYTHON).name, *command(path)[1:]]
    os.environ["PATH"] = f"{Path(PYTHON).parent}:{os.environ['PATH']}"
    environment = {} if env is None else {**env, "PATH": os.environ["PATH"]}
    _in_fork(lambda: os.execvp(words[0], words) if env is None else os.execvpe(words[0], words, environment))


def _asyncio_exec(path: str, env: Env) -> None:
    async def start() -> None:
        process = await asyncio.create_subprocess_exec(*command(path), env=env)
        await process.wait()

    asyncio.run(start())


def _asyncio_shell(path: str, env: Env) -> None:
    async def start() -> None:
        process = await asyncio.create_subprocess_shell(" ".join(command(path)), env=env)
        await process.wait()

    asyncio.run(start())


GIVEN: Final[dict[str, Callable[[str, Env], None]]] = {
    "subprocess.run": _run,
    "subprocess, shell=True": _shell,
    "check_output, -m": _check_output,
    "subprocess, -c": _code,
    "subprocess, stdin": _stdin,
    "/usr/bin/env python": _by_env,
    "Popen(executable=)": _other_name,
    "Popen(close_fds=False)": _unclosed,
    "os.posix_spawn": _posix_spawn,
    "os.posix_spawnp": _posix_spawnp,
    "os.spawnv, spawnve": _spawnv,
    "os.spawnlp, spawnlpe": _spawnlp,
    "os.fork, os.execv": _exec,
    "os.fork, os.execvp": _execvp,
    "asyncio, exec": _asyncio_exec,
    "asyncio, shell": _asyncio_shell,
}


# --- with the environment of this process


def _system(path: str) -> None:
    os.system(" ".join(command(path)))


def _popen(path: str) -> None:
    with os.popen(" ".join(command(path))) as pipe:
        pipe.read()


def _pty_spawn(path: str) -> None:
    import pty

    pty.spawn(command(path), lambda _: b"")


def _pty_fork(path: str) -> None:
    import pty

    pid, _ = pty.fork()
    if not pid:
        try:
            os.execv(PYTHON, command(path))
        finally:
            os._exit(1)
    os.waitpid(pid, 0)


def _fork(path: str) -> None:
    _in_fork(lambda: write(path))


def _nohup(path: str) -> None:
    subprocess.run(f"nohup {' '.join(command(path))} >/dev/null 2>&1 &", shell=True, check=True)


def _interpreter(path: str) -> None:
    try:
        interpreters: Any = importlib.import_module("_interpreters")
    except ImportError:
        interpreters = importlib.import_module("_xxsubinterpreters")
    number = interpreters.create()
    try:
        code = f"import sys; sys.argv = ['', {path!r}]; sys.path[:0] = {sys.path!r}; import worker"
        (interpreters.exec if hasattr(interpreters, "exec") else interpreters.run_string)(number, code)
    finally:
        interpreters.destroy(number)


def _process(package: Any, method: str, path: str) -> None:
    process = package.get_context(method).Process(target=write, args=(path,), name=path)
    process.start()
    process.join()


def _pool(package: Any, method: str, path: str) -> None:
    with package.get_context(method).Pool(1) as pool:
        pool.apply(write, (path,))


def _executor(package: Any, method: str, path: str) -> None:
    with ProcessPoolExecutor(1, mp_context=package.get_context(method)) as pool:
        pool.submit(write, path).result()


def _of(package: str, start: Callable[[Any, str, str], None], method: str) -> Callable[[str], None]:
    return lambda path: start(importlib.import_module(package), method, path)


def _loky(path: str) -> None:
    import joblib  # type: ignore[import-untyped]
    from joblib.externals.loky import get_reusable_executor  # type: ignore[import-untyped]

    joblib.Parallel(n_jobs=2)([joblib.delayed(write)(path)])
    get_reusable_executor().shutdown(wait=True)


def _execnet(path: str) -> None:
    import execnet  # type: ignore[import-not-found,import-untyped,unused-ignore]

    gateway = execnet.makegateway(f"popen//python={PYTHON}")
    try:
        code = f"import sys; sys.argv = ['', {path!r}]; sys.path[:0] = {sys.path!r}; import worker"
        gateway.remote_exec(code).waitclose()
    finally:
        gateway.exit()


INHERITED: Final[dict[str, Callable[[str], None]]] = {
    "os.system": _system,
    "os.popen": _popen,
    "pty.spawn": _pty_spawn,
    "pty.fork": _pty_fork,
    "os.fork": _fork,
    "nohup, &": _nohup,
    "a subinterpreter": _interpreter,
    **{f"Process, {method}": _of("multiprocessing", _process, method) for method in METHODS},
    **{f"Pool, {method}": _of("multiprocessing", _pool, method) for method in METHODS},
    **{f"ProcessPoolExecutor, {method}": _of("multiprocessing", _executor, method) for method in METHODS},
}
OF_PACKAGES: Final[dict[str, tuple[str, Callable[[str], None]]]] = {
    **{f"multiprocess, {method}": ("multiprocess", _of("multiprocess", _process, method)) for method in METHODS},
    **{f"multiprocess Pool, {method}": ("multiprocess", _of("multiprocess", _pool, method)) for method in METHODS},
    **{f"billiard, {method}": ("billiard", _of("billiard", _process, method)) for method in METHODS},
    **{f"billiard Pool, {method}": ("billiard", _of("billiard", _pool, method)) for method in METHODS},
    "joblib": ("joblib", _loky),
    "execnet": ("execnet", _execnet),
}


def launchers() -> list[str]:
    """Return the names of all launchers of the running Python."""
    optional = {**OF_PACKAGES, **PROGRAMS}
    packages = [name for name, (package, _) in optional.items() if importlib.util.find_spec(package)]
    return [*GIVEN, *INHERITED, *(name for name in packages if name not in OF_ROOT or os.geteuid() == 0)]


def _ways(name: str, environments: dict[str, dict[str, str]]) -> Iterator[tuple[str, Callable[[str], None]]]:
    """Yield the environments that a launcher can give, by name, each with a function that launches."""
    if name in INHERITED or name in OF_PACKAGES:
        yield "inherited", INHERITED[name] if name in INHERITED else OF_PACKAGES[name][1]
        return
    start = GIVEN[name] if name in GIVEN else PROGRAMS[name][1]
    yield "inherited", lambda path: start(path, None)
    if name in INHERITS:
        return
    yield "{}", lambda path: start(path, {})
    for when in list(environments):
        yield f"copied {when}", lambda path, when=when: start(path, environments[when])  # type: ignore[misc]


def _launch(start: Callable[[str], None], path: Path) -> dict[str, Any]:
    """Start a child process; return the output of the child process, and the error and warnings in the parent."""
    error = ""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            start(str(path))
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    until = time.monotonic() + PATIENCE
    while "nohup" in path.name and not (path.exists() and path.read_text()) and time.monotonic() < until:
        time.sleep(0.01)
    output = path.read_text() if path.exists() else ""
    messages = [
        str(warning.message) for warning in warned if issubclass(warning.category, hookpatch.errors.HookpatchWarning)
    ]
    return {"path": str(path), "said": output, "error": error, "warnings": messages}


def main() -> None:
    """Print each cell as a line of JSON."""
    names, *wanted = sys.argv[1:]
    folder = Path(tempfile.mkdtemp(dir="."))
    block: dict[str, Any] = {
        "block": {},
        "task": {"scope": "task"},
        "require": {"children": "require"},
        "environment": {},
    }[names]
    environments: dict[str, dict[str, str]] = {}
    for phase in PHASES:
        with ExitStack() as stack:
            if phase == "inside" and names != "environment":
                stack.enter_context(hookpatch.active("loud", **block))
            if phase != "after":
                environments[phase] = dict(os.environ)
            for number, launcher in enumerate(wanted):
                for way, start in _ways(launcher, environments):
                    mark = f"{phase}-{number}-{''.join(filter(str.isalnum, way))}-{launcher.partition(',')[0]}"
                    cell = _launch(start, folder / mark.replace("/", "-").replace(" ", "-"))
                    result = {"launcher": launcher, "environment": way, "names": names, "phase": phase, **cell}
                    print(json.dumps(result), flush=True)
    with suppress(ImportError):
        importlib.import_module("multiprocess.forkserver")._forkserver._stop()


if __name__ == "__main__":
    main()

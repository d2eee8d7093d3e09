"""Start a child process by other programs: servers, task queues, runners, archives, and as another user.

Each child process writes the result of the vendor's function into a file. Each function takes an environment; None
means the inherited environment.
"""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

Env: TypeAlias = Mapping[str, str] | None
Start: TypeAlias = Callable[[str, Env], None]
PYTHON: Final = sys.executable
PATIENCE: Final = 300.0  # seconds: a busy machine starts a server in up to a minute
NOBODY: Final = 65534

# The files for the current folder of the programs.
FILES: Final = {
    "served.py": """
import vendor

def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [vendor.speak().encode()]

async def asgi(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": vendor.speak().encode()})
""",
    "queued.py": """
import celery, vendor

folders = {"data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "queue-control"}
options = {**folders, "polling_interval": 0.05}
app = celery.Celery("queued", broker="filesystem://", broker_transport_options=options)

@app.task
def speak(path):
    with open(path, "w") as file:
        file.write(vendor.speak())
""",
    "archived/__main__.py": "import sys; sys.path.insert(0, '.'); import worker",
    "pexed/entered.py": "import sys; sys.path.insert(0, '.'); import worker",
}


def _until(is_so: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _serve(path: str, env: Env, *words: str) -> None:
    """Start a server on a socket beside the file, send a request, and write the answer."""
    address = f"{path}.sock"
    process = subprocess.Popen([PYTHON, *(word.format(address) for word in words)], env=env)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            _until(lambda: client.connect_ex(address) == 0, process)
            client.sendall(b"GET / HTTP/1.0\r\nHost: here\r\n\r\n")
            answer = b"".join(iter(lambda: client.recv(4096), b""))
        Path(path).write_bytes(answer.partition(b"\r\n\r\n")[2])
    finally:
        _end(process)


def _server(*words: str) -> Start:
    return lambda path, env: _serve(path, env, *words)


def _celery(path: str, env: Env) -> None:
    """Queue a task, and start a worker to do the task in a process of its pool."""
    for folder in ("queue", "queue-control"):
        Path(folder).mkdir(exist_ok=True)
    importlib.import_module("queued").app.send_task("queued.speak", [path], ignore_result=True)
    words = ("-A", "queued", "worker", "--pool", "prefork", "--concurrency", "1", "-l", "ERROR", "-n", Path(path).name)
    program = [PYTHON, "-m", "celery", *words, "--without-gossip", "--without-mingle", "--without-heartbeat"]
    process = subprocess.Popen(program, env=env, stdout=subprocess.DEVNULL)
    try:
        _until(lambda: Path(path).exists() and Path(path).read_text(), process)
    finally:
        _end(process)
        for entry in Path("queue").iterdir():
            entry.unlink()


def _uv(path: str, env: Env) -> None:
    uv = importlib.import_module("uv")
    program = Path(str(uv.__file__)).resolve().parents[4] / "bin" / "uv"
    flags = ("--no-project", "--no-config", "--offline", "--no-cache", "--quiet")
    subprocess.run([program, "run", *flags, "--python", PYTHON, "worker.py", path], env=env, check=True)


def _zipapp(path: str, env: Env) -> None:
    archive = Path("archived.pyz")
    if not archive.exists():
        words = ("archived", "--output", str(archive), "--python", PYTHON)
        subprocess.run([PYTHON, "-I", "-m", "zipapp", *words], check=True)
    subprocess.run([f"./{archive}", path], env=env, check=True)


def _pex(path: str, env: Env) -> None:
    archive = Path("archived.pex")
    if not archive.exists():
        words = ("--sources-directory", "pexed", "--entry-point", "entered", "--output-file", str(archive))
        words = (*words, "--python-shebang", PYTHON, "--runtime-pex-root", str(Path("pex-root").absolute()))
        subprocess.run([PYTHON, "-I", "-m", "pex", *words, "--no-pypi"], check=True)
    subprocess.run([f"./{archive}", path], env=env, check=True)


def _other_user(path: str, env: None) -> None:
    """Drop the rights of root in a fork, as servers do: the folder of the report files is another user's now."""
    speak: Callable[[], str] = importlib.import_module("vendor").speak
    with open(path, "w") as file:
        child = os.fork()
        if not child:
            with suppress(BaseException):
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                print(speak(), end="", file=file, flush=True)
            os._exit(0)
        os.waitpid(child, 0)


_GUNICORN: Final = ("-m", "gunicorn", "--log-level", "warning", "--bind", "unix:{}", "served:wsgi")
_UVICORN: Final = ("-m", "uvicorn", "--log-level", "warning", "--uds", "{}", "served:asgi")
_USER: Final = ("--user", str(NOBODY), "--group", str(NOBODY))

# By name: the needed package, or none, and the function to start the program.
PROGRAMS: Final[dict[str, tuple[str, Start]]] = {
    "gunicorn": ("gunicorn", _server(*_GUNICORN)),
    "gunicorn, --preload": ("gunicorn", _server(*_GUNICORN, "--preload")),
    "uvicorn": ("uvicorn", _server(*_UVICORN)),
    "uvicorn, --workers": ("uvicorn", _server(*_UVICORN, "--workers", "2")),
    "celery, prefork": ("celery", _celery),
    "uv run": ("uv", _uv),
    "zipapp": ("zipapp", _zipapp),
    "pex": ("pex", _pex),
    "gunicorn, --user": ("gunicorn", _server(*_GUNICORN, "--preload", *_USER)),
    "os.fork, os.setuid": ("os", _other_user),
}
OF_ROOT: Final = ("gunicorn, --user", "os.fork, os.setuid")
INHERITS: Final = ("celery, prefork", "os.fork, os.setuid")  # the first takes seconds, the second has no program

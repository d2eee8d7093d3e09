"""A server on this machine: no test needs a network."""

from __future__ import annotations

import importlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@pytest.fixture(autouse=True, scope="session")
def _finders() -> None:
    """Import both copies of six before all tests: each adds a finder to ``sys.meta_path``, which tests compare."""
    for name in ("six", "botocore.vendored.six"):
        importlib.import_module(name)


class Answer(BaseHTTPRequestHandler):
    """Answer each request with the path, and keep no log."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts a connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


class Late:
    """A server that refuses connections until a moment after ``open_soon``."""

    def __init__(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer, bind_and_activate=False)
        self.server.server_bind()
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        self.thread = threading.Timer(0.1, self._serve)

    def open_soon(self) -> None:
        """Have the server listen in a tenth of a second."""
        self.thread.start()

    def _serve(self) -> None:
        self.server.server_activate()
        self.server.serve_forever(0.01)


@pytest.fixture
def late() -> Iterator[Late]:
    """A server that does not listen yet."""
    late = Late()
    yield late
    late.server.shutdown()
    late.thread.join()
    late.server.server_close()

"""The plugins of the room web, each with the real package and a server on this machine."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

import hookpatch
from hookpatch.testing import Patched


def test_requests_timeout(patched: Patched, silent: str) -> None:
    """A call without a timeout gets a timeout, through the module and through a session; a given timeout stays."""
    import requests

    patched("requests_timeout", options={"requests_timeout": {"seconds": 0.05}})
    for get in (requests.get, requests.Session().get):
        with pytest.raises(requests.ReadTimeout, match=r"read timeout=0\.05"):
            get(silent)
    with pytest.raises(requests.ReadTimeout, match=r"read timeout=0\.1\b"):
        requests.get(silent, timeout=0.1)


def test_httpx_retries(patched: Patched, late: Any) -> None:
    """A client without retries fails, and a client with retries waits for the server."""
    import httpx

    with pytest.raises(httpx.ConnectError):
        httpx.get(late.address)
    patched("httpx_retries", options={"httpx_retries": {"retries": 5}})
    late.open_soon()
    assert httpx.get(late.address).text == "/"


def test_httpx_retries_of_an_async_client(patched: Patched, late: Any) -> None:
    """The other transport has the patch, too."""
    import httpx

    async def fetch() -> str:
        async with httpx.AsyncClient() as client:
            return (await client.get(late.address)).text

    with pytest.raises(httpx.ConnectError):
        asyncio.run(fetch())
    patched("httpx_retries", options={"httpx_retries": {"retries": 5}})
    late.open_soon()
    assert asyncio.run(fetch()) == "/"


def test_boto_endpoint(patched: Patched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable of the SDK does not override an endpoint in the program, and the plugin does; a resource, too."""
    import boto3

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:1")
    session = boto3.session.Session("key", "secret", region_name="eu-central-1")
    named = {"endpoint_url": "https://s3.example.com"}
    assert session.client("s3", **named).meta.endpoint_url == "https://s3.example.com"
    patched("boto_endpoint", options={"boto_endpoint": {"url": "http://localhost:9000"}})
    assert session.client("s3", **named).meta.endpoint_url == "http://localhost:9000"
    assert session.resource("s3", **named).meta.client.meta.endpoint_url == "http://localhost:9000"


def test_flask_upload_limit(patched: Patched) -> None:
    """An application without a limit refuses a large body; an application with a limit keeps the limit."""
    import flask

    def statuses(**settings: object) -> list[int]:
        app = flask.Flask("shop")
        app.config.update(settings)
        app.add_url_rule("/", view_func=lambda: str(len(flask.request.get_data())), methods=["POST"])
        return [app.test_client().post("/", data=b"x" * size).status_code for size in (10, 2_000, 4_000)]

    assert statuses() == [200, 200, 200]
    patched("flask_upload_limit", options={"flask_upload_limit": {"megabytes": 0.001}})
    assert statuses() == [200, 413, 413]
    assert statuses(MAX_CONTENT_LENGTH=3_000) == [200, 200, 413]


def test_access_log_time(patched: Patched, caplog: pytest.LogCaptureFixture) -> None:
    """The line of a request has an ISO date; at the end the class inherits the method again."""
    import threading
    import urllib.request

    from werkzeug.serving import WSGIRequestHandler, make_server

    def line() -> str:
        caplog.clear()
        server = make_server("127.0.0.1", 0, lambda environ, start: (start("200 OK", []), [b""])[1])
        thread = threading.Thread(target=server.handle_request)
        with caplog.at_level("INFO", "werkzeug"):
            thread.start()
            urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").close()
            thread.join()
        server.server_close()
        return caplog.messages[0]

    with hookpatch.active("access_log_time"):
        assert re.search(r"\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00\]", line())
    assert re.search(r"\[\d\d/\w{3}/\d{4} \d\d:\d\d:\d\d\]", line())
    assert "log_date_time_string" not in vars(WSGIRequestHandler)

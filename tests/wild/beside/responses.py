"""responses: answers to HTTP requests without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import requests
import responses
from requests.adapters import HTTPAdapter

DISTRIBUTION, OWN = "responses", ("responses",)
SOURCES = ("responses:RequestsMock.start", "responses:RequestsMock.stop")


class Patient(HTTPAdapter):
    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return super().send(request, *args, **kwargs)


responses.mock.get("http://127.0.0.1:9/tea", json="hot")
early = HTTPAdapter.send
bound_send = HTTPAdapter().send


def covered() -> tuple[object, str]:
    return HTTPAdapter, "send"


def apply() -> None:
    responses.mock.start()


def undo() -> None:
    responses.mock.stop()


def answers(send: Callable[[requests.PreparedRequest], Any]) -> bool:
    try:
        return send(requests.Request("GET", "http://127.0.0.1:9/tea").prepare()).json() == "hot"
    except requests.ConnectionError:
        return False


def by_a_subclass(request: requests.PreparedRequest) -> Any:
    session = requests.Session()
    session.mount("http://", Patient())
    return session.send(request)


def observe() -> dict[str, bool]:
    return {
        "requests.get": answers(lambda request: requests.get(request.url or "")),
        "an adapter of one's own": answers(by_a_subclass),
        "a name bound before": answers(lambda request: early(HTTPAdapter(), request)),
        "a method bound before": answers(bound_send),
    }

"""OpenTelemetry's instrumentation of requests: a span of each request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import requests
from opentelemetry import trace
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from requests.adapters import BaseAdapter

DISTRIBUTION, OWN = "opentelemetry-instrumentation-requests", ("opentelemetry",)
_HERE = "opentelemetry.instrumentation.requests"
SOURCES = tuple(f"{_HERE}:{name}" for name in ("_instrument", "_uninstrument", "_uninstrument_from"))
BODIES = {"instrumented_send", "traced"}
STATUS = 204


class Spans(trace.TracerProvider, trace.Tracer):
    """Collect the ended spans, each as a name and attributes."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, dict[str, Any]]] = []

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        return self

    def start_span(self, name: str, *args: Any, **kwargs: Any) -> trace.Span:
        raise NotImplementedError

    @contextmanager
    def start_as_current_span(self, name: str, *args: Any, **kwargs: Any) -> Iterator[trace.Span]:
        attributes = dict(kwargs["attributes"])

        class Span(trace.NonRecordingSpan):
            def is_recording(self) -> bool:
                return True

            def set_attribute(self, key: str, value: Any) -> None:
                attributes[key] = value

        with trace.use_span(Span(trace.INVALID_SPAN_CONTEXT)) as span:
            yield span
        self.ended.append((name, attributes))


class Answers(BaseAdapter):
    """Answers without a network."""

    def send(self, request: Any, **kwargs: Any) -> requests.Response:
        response = requests.Response()
        response.status_code, response.request, response.url = STATUS, request, request.url
        return response

    def close(self) -> None:
        pass


class Chatty(requests.Session):
    def send(self, request: Any, **kwargs: Any) -> Any:
        return super().send(request, **kwargs)


def session(kind: type[requests.Session] = requests.Session) -> requests.Session:
    new = kind()
    new.mount("mock://", Answers())
    return new


SPANS = Spans()
trace.set_tracer_provider(SPANS)
instrumentor = RequestsInstrumentor()
early = requests.Session.send
bound_send = session().send


def covered() -> tuple[object, str]:
    return requests.Session, "send"


def apply() -> None:
    instrumentor.instrument(skip_dep_check=True)


def undo() -> None:
    instrumentor.uninstrument()


def has_a_span(act: Callable[[requests.PreparedRequest], object]) -> bool:
    """Return True if a request makes exactly one span, with the right method, address and status."""
    SPANS.ended.clear()
    act(session().prepare_request(requests.Request("GET", "mock://shop/tea")))
    wanted = {"http.method": "GET", "http.url": "mock://shop/tea", "http.status_code": STATUS}
    return [(name, wanted.items() <= attributes.items()) for name, attributes in SPANS.ended] == [("GET", True)]


def observe() -> dict[str, bool]:
    return {
        "Session.send": has_a_span(lambda request: session().send(request)),
        "Session.get": has_a_span(lambda request: session().get(request.url or "")),
        "a subclass": has_a_span(lambda request: session(Chatty).send(request)),
        "a name bound before": has_a_span(lambda request: early(session(), request)),
        "a method bound before": has_a_span(bound_send),
    }

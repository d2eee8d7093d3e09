"""Make a span of each request that requests sends, and hand its context on in the headers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from opentelemetry.instrumentation.utils import is_http_instrumentation_enabled, suppress_http_instrumentation
from opentelemetry.propagate import inject
from opentelemetry.trace import SpanKind, get_tracer

import hookpatch


def traced(wrapped: Callable[..., Any], session: Any, args: Any, kwargs: Any) -> Any:
    if not is_http_instrumentation_enabled():
        return wrapped(*args, **kwargs)
    request = args[0] if args else kwargs["request"]
    attributes = {"http.method": request.method, "http.url": request.url}
    with get_tracer(__name__).start_as_current_span(
        request.method, kind=SpanKind.CLIENT, attributes=attributes
    ) as span:
        inject(request.headers)
        with suppress_http_instrumentation():
            response = wrapped(*args, **kwargs)
        span.set_attribute("http.status_code", response.status_code)
        return response


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    yield hookpatch.wrap("requests.sessions:Session.send", traced, reach="everywhere")

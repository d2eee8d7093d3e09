"""Let greenlets take turns where the standard library would block: gevent's sleep and queues."""

from __future__ import annotations

from collections.abc import Iterator

import gevent.queue

import hookpatch


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    yield hookpatch.replace("time:sleep", gevent.sleep, reach="everywhere", except_in="gevent.*")
    for name in ("SimpleQueue", "PriorityQueue", "LifoQueue", "Queue"):
        yield hookpatch.replace(f"queue:{name}", getattr(gevent.queue, name), reach="everywhere", except_in="gevent.*")

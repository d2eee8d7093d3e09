"""gevent.monkey: greenlets take turns in time.sleep and in queue."""

from __future__ import annotations

import queue
import sys
import time
import types
from collections.abc import Callable

import gevent
import gevent.monkey
import gevent.queue

DISTRIBUTION, OWN = "gevent", ("gevent",)
SOURCES = (
    "gevent.monkey:patch_time.__wrapped__",
    "gevent.monkey:patch_queue.__wrapped__",
    *(f"gevent.monkey.api:{name}" for name in ("patch_item", "patch_module", "_GeventDoPatchRequest")),
    *(f"gevent.monkey._util:{name}" for name in ("_check_availability", "_patch_module")),
    "gevent.monkey._state:_save",
)

shop = types.ModuleType("shop")
exec(
    """
from queue import Queue
from time import sleep
WAYS = {"wait": sleep, "queue": Queue}
def nap(seconds, sleep=sleep):
    sleep(seconds)
class Till:
    rows = Queue
""",
    vars(shop),
)
sys.modules["shop"] = shop


def apply() -> None:
    gevent.monkey.patch_time()
    gevent.monkey.patch_queue()


def undo() -> None:
    """Do nothing: gevent has no undo."""


def takes_turns(wait: Callable[[float], object]) -> bool:
    """Return True if another greenlet runs while the first greenlet waits."""
    order: list[str] = []

    def waits(name: str) -> None:
        order.append(name)
        wait(0.001)
        order.append(name)

    gevent.joinall([gevent.spawn(waits, "a"), gevent.spawn(waits, "b")])
    return order[:2] == ["a", "b"]


def is_filled_by_another(kind: Callable[[], queue.Queue[int]]) -> bool:
    """Return True if another greenlet can put an entry while a greenlet waits."""
    rows = kind()

    def wait() -> object:
        try:
            return rows.get(timeout=0.02)
        except queue.Empty:
            return None

    waiting = gevent.spawn(wait)
    gevent.spawn(rows.put, 1)
    return waiting.get() == 1


def observe() -> dict[str, bool]:
    return {
        "time.sleep": takes_turns(lambda seconds: time.sleep(seconds)),
        "queue.Queue": is_filled_by_another(lambda: queue.Queue()),
        "queue.SimpleQueue": is_filled_by_another(lambda: queue.SimpleQueue()),
        "queue.LifoQueue": is_filled_by_another(lambda: queue.LifoQueue()),
        "a name bound before": takes_turns(shop.sleep) and is_filled_by_another(lambda: shop.Queue()),
        "a mapping": takes_turns(shop.WAYS["wait"]) and is_filled_by_another(lambda: shop.WAYS["queue"]()),
        "a default argument": takes_turns(shop.nap),
        "a class attribute": is_filled_by_another(lambda: shop.Till.rows()),
    }

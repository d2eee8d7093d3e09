"""freezegun: a clock that stands still, in every module with a clock."""

from __future__ import annotations

import datetime
import sys
import time
import types
import uuid

import freezegun
import typing_extensions  # noqa: F401  # the import changes typing

DISTRIBUTION, OWN = "freezegun", ("freezegun",)
SOURCES = (
    "freezegun.api:_freeze_time.start",
    "freezegun.api:_freeze_time.stop",
    *(f"freezegun.api:{name}" for name in ("_get_module_attributes", "_setup_module_cache")),
    *(f"freezegun.api:{name}" for name in ("_get_module_attributes_hash", "_get_cached_module_attributes")),
)
FROZEN = 1326499200.0  # 2012-01-14

shop = types.ModuleType("shop")  # holds clocks from before
exec(
    """
from datetime import datetime
from functools import partial
from time import time
CLOCKS = {"wall": time}
ROW = [time]
PAIR = (time, 1)
LATER = partial(time)
class Till:
    clock = staticmethod(time)
    kind = datetime
def stamp(clock=time):
    return clock()
""",
    vars(shop),
)
sys.modules["shop"] = shop
LATE = "from time import time\nfrom datetime import datetime\n"
sys.modules["late"] = late = types.ModuleType("late")  # executed anew while the clock stands still
exec(LATE, vars(late))

uuid.getnode()  # the uuid module caches the node
freezer = freezegun.freeze_time("2012-01-14")


def covered() -> tuple[object, str]:
    return time, "time"


def apply() -> None:
    freezer.start()


def undo() -> None:
    freezer.stop()


def observe() -> dict[str, bool]:
    if time.time() == FROZEN:
        exec(LATE, vars(late))
    return {
        "time.time": time.time() == FROZEN,
        "datetime.now": datetime.datetime.now().year == 2012,
        "date.today": datetime.date.today().year == 2012,
        "uuid1": (uuid.uuid1().time - 0x01B21DD213814000) // 10**7 == FROZEN,
        "a name bound before": shop.time() == FROZEN and shop.datetime.now().year == 2012,
        "a mapping": shop.CLOCKS["wall"]() == FROZEN,
        "a list": shop.ROW[0]() == FROZEN,
        "a tuple": shop.PAIR[0]() == FROZEN,
        "a partial": shop.LATER() == FROZEN,
        "a class attribute": shop.Till.clock() == FROZEN and shop.Till.kind.now().year == 2012,
        "a default argument": shop.stamp() == FROZEN,
        "a name bound meanwhile": late.time() == FROZEN and late.datetime.now().year == 2012,
    }

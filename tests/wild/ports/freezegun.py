"""Stop the clock at one moment: freezegun's fakes for each clock of the standard library, wherever one is held."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from freezegun import api, config

import hookpatch

MOMENT = datetime(2012, 1, 14)
CLOCKS = ("time", "monotonic", "perf_counter", "localtime", "gmtime", "strftime")
CLOCKS += ("time_ns", "monotonic_ns", "perf_counter_ns")
FAKES = {"datetime:datetime": api.FakeDatetime, "datetime:date": api.FakeDate}
FAKES |= {f"time:{name}": getattr(api, f"fake_{name}") for name in CLOCKS}
NO_CLOCK = ("_generate_time_safe", "_UuidCreate")  # of the system's; without them uuid1 asks time
STATE = {
    "freeze_factories": [api.FrozenDateTimeFactory(MOMENT)],
    "tz_offsets": [timedelta()],
    "ignore_lists": [tuple(config.DEFAULT_IGNORE_LIST)],
    "tick_flags": [False],
}
LEFT_ALONE = ("freezegun.*", *(f"{name}*" for name in config.DEFAULT_IGNORE_LIST))


@contextmanager
def no_last_timestamp(uuid: Any) -> Iterator[None]:
    uuid._last_timestamp = None
    try:
        yield
    finally:
        uuid._last_timestamp = None


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    for name, value in STATE.items():
        yield hookpatch.replace(f"freezegun.api:{name}", value)
    for target, fake in FAKES.items():
        yield hookpatch.replace(target, fake, reach="everywhere", except_in=LEFT_ALONE)
    for name in NO_CLOCK:
        if getattr(uuid, name, None):
            yield hookpatch.replace(f"uuid:{name}", None)
    yield hookpatch.enter("uuid", no_last_timestamp)
    for name, pickled in (("datetime", api.pickle_fake_datetime), ("date", api.pickle_fake_date)):
        yield hookpatch.replace(f"copyreg:dispatch_table[datetime:{name}]", pickled, add=True)

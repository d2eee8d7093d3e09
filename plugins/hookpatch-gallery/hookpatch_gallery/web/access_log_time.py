"""Write ISO dates with a time zone into the access log of werkzeug."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import hookpatch


def iso_date(handler: object) -> str:
    """Return the time of now as the access log shows it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Replace a method that the handler inherits from the standard library."""
    yield hookpatch.replace(
        "werkzeug.serving:WSGIRequestHandler.log_date_time_string",
        iso_date,
        requires="Werkzeug>=2.3,<4",
        why="the access log has local time without its zone, and no setting for the format",
        upstream="https://github.com/pallets/werkzeug/issues/75",
    )

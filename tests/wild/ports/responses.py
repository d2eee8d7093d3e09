"""Answer the requests of requests without a network: responses' registry in place of the adapter's send."""

from __future__ import annotations

from collections.abc import Iterator

import responses

import hookpatch


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    yield hookpatch.replace("requests.adapters:HTTPAdapter.send", responses.mock.unbound_on_send(), reach="everywhere")

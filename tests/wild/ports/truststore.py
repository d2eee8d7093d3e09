"""Verify certificates by the trust store of the system: truststore's context in place of ssl's, wherever it is held."""

from __future__ import annotations

from collections.abc import Iterator

import truststore

import hookpatch


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    yield hookpatch.replace("ssl:SSLContext", truststore.SSLContext, reach="everywhere", except_in="truststore.*")

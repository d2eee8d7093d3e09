"""Put another device's functions in the place of torch.cuda's."""

from __future__ import annotations

from collections.abc import Iterator

import npu  # noqa: F401  # the source; a device's own package is installed

import hookpatch


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    yield hookpatch.replace("torch.cuda:*", source="npu.npu:*", only=callable, reach="everywhere", matches=104)

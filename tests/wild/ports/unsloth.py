"""Write two blanks between the chunks of JSON: one line of the standard library is another."""

from __future__ import annotations

from collections.abc import Iterator

import hookpatch


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    yield hookpatch.edit("json.encoder:JSONEncoder.encode", "''.join(chunks)", "'  '.join(chunks)")

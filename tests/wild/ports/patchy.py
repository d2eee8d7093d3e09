"""Edit five functions by a diff each."""

from __future__ import annotations

from collections.abc import Iterator

import hookpatch

DIFF = "@@ -1,2 +1,2 @@\n-    return 1\n+    return {}\n"
NEW = {"price": "2", "decorated": "2", "cached": "2", "Till.rate": "2", "Till.total": "super().total() + 2"}


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    for name, new in NEW.items():
        yield hookpatch.edit(f"tills:{name}", diff=DIFF.format(new))

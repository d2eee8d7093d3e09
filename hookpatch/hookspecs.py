"""The hooks a plugin can implement, and the marker for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pluggy

from hookpatch._patch import Patch

hookspec: Final = pluggy.HookspecMarker("hookpatch")
hookimpl: Final = pluggy.HookimplMarker("hookpatch")


@hookspec
def hookpatch_patches(options: Any) -> Iterable[Patch]:  # type: ignore[empty-body]  # a hook's declaration has none
    """Yield the plugin's patches.

    Called once for each session that selects the plugin. It must not import its targets.

    Args:
        options: an instance of the plugin module's ``Options`` dataclass; leave it out when there is none.
    """

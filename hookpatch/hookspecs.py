"""The hooks a plugin can implement, and the marker for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pluggy

from hookpatch._patch import Patch
from hookpatch._site import Site

hookspec: Final = pluggy.HookspecMarker("hookpatch")
hookimpl: Final = pluggy.HookimplMarker("hookpatch")


@hookspec
def hookpatch_patches(options: Any) -> Iterable[Patch]:  # type: ignore[empty-body]  # a hook's declaration has none
    """Yield the plugin's patches.

    Called once for each session that selects the plugin. It must not import its targets.

    Args:
        options: an instance of the plugin module's ``Options`` dataclass; leave it out when there is none.
    """


@hookspec
def hookpatch_changed(sites: Sequence[Site]) -> None:
    """Drop what was made from what stood at these sites: compiled code, a cache by class, a table.

    Called when a session has been opened or closed, or one of its modules has been imported or reloaded, for the sites
    of its patches; told are the plugins of all sessions that are open, and of one that closes. The slots hold by then
    what they are to hold.

    Args:
        sites: the sites; of each ``site.slot`` is the place (``owner``, and ``name`` or ``index``), ``site.original``
            what was there before all patches, ``site.stands`` what stands there now and ``site.stood`` all that is
            known to have stood there.
    """


@hookspec
def hookpatch_commands(app: Any) -> None:
    """Add the plugin's own commands: what ``hookpatch NAME ...`` runs, NAME being the plugin's.

    Called when that is typed, and never else. The plugin's module is imported wherever its patches are selected: what
    the commands alone need is imported in here.

    Args:
        app: a ``typer.Typer`` of the plugin's own; ``app.command("diff")(diff)`` makes ``hookpatch NAME diff``. An only
            command that bears the plugin's name is ``hookpatch NAME`` itself.
    """

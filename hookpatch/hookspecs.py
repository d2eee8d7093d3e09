"""The hooks of a plugin, and the marker of their implementations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pluggy

if TYPE_CHECKING:
    from hookpatch._engine.patch.patch import Patch
    from hookpatch._engine.site.site import Site

hookspec: Final = pluggy.HookspecMarker("hookpatch")
hookimpl: Final = pluggy.HookimplMarker("hookpatch")


@hookspec
def hookpatch_patches(options: Any) -> Iterable[Patch]:  # type: ignore[empty-body]  # a hook's declaration has none
    """Yield the plugin's patches.

    Called once for each session that selects the plugin. The plugin must not import its targets.

    Args:
        options: an instance of the plugin module's ``Options`` dataclass; leave it out when there is none.
    """


@hookspec
def hookpatch_changed(sites: Sequence[Site]) -> None:
    """Drop compiled code, caches by class and tables made from earlier values of these sites.

    Called after a session has opened or closed, or after an import or reload of a module of its targets. Called for the
    plugins of all open sessions and of the closing session. The slots have their new values.

    Args:
        sites: the sites of the session's patches. Each has ``site.slot`` (its ``owner``, and ``name`` or ``index``);
            ``site.original``, the value before all patches; ``site.value``, the value now; ``site.known_values``, all
            values known so far.
    """


@hookspec
def hookpatch_report(patches: Sequence[Patch]) -> Iterable[str]:  # type: ignore[empty-body]  # as above
    """Yield lines for the report: what the plugin's patches have done in this process until now.

    Called for each report that has a patch of the plugin, also after the end of its session; the lines are printed
    below the first of these patches, as *notes*.

    Args:
        patches: the plugin's patches in the report, of one session or of several; leave it out if not needed. A patch's
            ``change`` is the wrapper that the plugin has given.
    """


@hookspec
def hookpatch_commands(app: Any) -> None:
    """Add the plugin's own commands, for ``hookpatch NAME ...`` with the name of the plugin.

    Called for such a command line alone. The plugin's module is imported wherever its patches are selected: import in
    this function what the commands alone need.

    Args:
        app: a ``typer.Typer`` of the plugin's own; ``app.command("diff")(diff)`` makes ``hookpatch NAME diff``. An only
            command with the plugin's name is ``hookpatch NAME`` itself.
    """


@hookspec
def hookpatch_run(value: str, run: Any) -> int:  # type: ignore[empty-body]  # a hook's declaration has none
    """Run a program in the plugin's own way, for ``hookpatch run --OPTION VALUE``, and return the exit status.

    The distribution declares the option: ``OPTION = "NAME"`` in the entry point group ``hookpatch.run_options``, with
    the name of the plugin.

    Args:
        value: the value of the option.
        run: the program. ``run.plain(options)`` runs it unpatched, ``run.patched(options)`` as ``hookpatch run`` does;
            ``options`` are further plugins, with their options. ``run.target`` has the program's words, ``run.option``
            is the option, and ``run.write_line`` writes a line to stderr.
    """

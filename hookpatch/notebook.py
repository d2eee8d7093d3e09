"""The magics of ``%load_ext hookpatch``: switch plugins on and off in a notebook.

``%hookpatch on NAME...``, ``%hookpatch off [NAME...]``; ``%hookpatch`` for a table; ``%%hookpatch NAME...`` for a cell;
``%hookpatch audit`` for the patches of any author.
"""

from __future__ import annotations

import html
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final, final

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from hookpatch._bootstrap.installed import Installed, find, installed
from hookpatch._inspect.audit.audit import audit
from hookpatch._inspect.audit.finding import Audit
from hookpatch._processes.active import active
from hookpatch._session.session import Session, report
from hookpatch.errors import HookpatchError, MissingPlugin

_USAGE: Final = (
    "%hookpatch on NAME..., %hookpatch off [NAME...], %hookpatch for a table, %hookpatch audit, "
    "%%hookpatch NAME... for a cell"
)


def load(shell: Any) -> None:
    """Add the magics to an IPython shell, once."""
    if _magics_of(shell) is None:
        shell.register_magics(HookpatchMagics(shell))


def unload(shell: Any) -> None:
    """Switch off the plugins switched on by the magics."""
    if (magics := _magics_of(shell)) is not None:
        magics.off([])


def _magics_of(shell: Any) -> HookpatchMagics | None:
    magics = shell.magics_manager.registry.get(HookpatchMagics.__name__)
    return magics if isinstance(magics, HookpatchMagics) else None


@final
@magics_class
class HookpatchMagics(Magics):
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._on: Final[dict[Installed, Session]] = {}

    @line_cell_magic
    def hookpatch(self, line: str, cell: str | None = None) -> PatchTable | Audit | None:
        """Switch plugins on or off, show what is patched, or run the cell with plugins on.

        ``%hookpatch on NAME...``, ``%hookpatch off [NAME...]``, ``%hookpatch``, ``%hookpatch audit``,
        ``%%hookpatch NAME...``.
        """
        words = shlex.split(line)
        try:
            if cell is not None:
                self._run_cell(words, cell)
                return None
            if words[:1] == ["on"] and words[1:]:
                self.on(words[1:])
            elif words[:1] == ["off"]:
                self.off(words[1:])
            elif words == ["audit"]:
                return audit()
            elif words:
                raise UsageError(f"hookpatch: '{line}' is unknown; write {_USAGE}")
        except HookpatchError as error:
            raise UsageError(f"hookpatch: {error}") from None
        return PatchTable(self._on)

    def on(self, names: Sequence[str]) -> None:
        """Switch plugins on, all or none; plugins already on stay on."""
        waiting = [plugin for name in names if (plugin := find(name, "%hookpatch on")) not in self._on]
        with ExitStack() as undo:
            opened: dict[Installed, Session] = {}
            put_off = 0  # plugins in a row
            while waiting:
                plugin = waiting.pop(0)
                try:
                    if plugin not in opened:
                        opened[plugin] = undo.enter_context(active(f"{plugin.name}@{plugin.distribution}"))
                    put_off = 0
                except MissingPlugin:  # each plugin has a session: the needed plugin may come later in the list
                    waiting.append(plugin)
                    put_off += 1
                    if put_off == len(waiting):
                        raise
            undo.pop_all()
        self._on.update(opened)

    def off(self, names: Sequence[str]) -> None:
        """Switch plugins off, all of them if no name is given."""
        plugins = [find(name, "%hookpatch off") for name in names] or list(self._on)
        for plugin in plugins:
            if plugin not in self._on:
                raise UsageError(f"hookpatch: '{plugin.name}' was not switched on by %hookpatch on")
        with ExitStack() as closing:  # all of them, even if a close fails
            for plugin in plugins:
                closing.callback(self._on.pop(plugin).close)

    def _run_cell(self, names: Sequence[str], cell: str) -> None:
        if not names:
            raise UsageError(f"hookpatch: name plugins; write {_USAGE}")
        shell: Any = self.shell
        with active(*names):
            result = shell.run_cell(cell)
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            vars(error)["_render_traceback_"] = list  # already shown; raised for the runner of the notebook
            raise error


@final
class PatchTable:
    """A table of the installed plugins, on or off, and the state of each patch, when the table was made."""

    def __init__(self, on: dict[Installed, Session]) -> None:
        rows = [("plugin", "", "patch", "")]
        plugins = installed()
        patches = report().patches
        for plugin in plugins:
            own = [patch for patch in patches if patch.plugin == plugin.name]
            state = "on" if plugin in on or own else "off"
            rows += [(plugin.name, state, patch.target, patch.state) for patch in own] or [(plugin.name, state, "", "")]
        names = {plugin.name for plugin in plugins}
        without_plugin = [patch for patch in patches if patch.plugin not in names]
        self._rows: Final = rows + [
            (patch.plugin or "active()", "on", patch.target, patch.state) for patch in without_plugin
        ]

    def __repr__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self._rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in self._rows]
        return "\n".join(lines) if len(lines) > 1 else "no plugins are installed, and nothing is patched"

    def _repr_html_(self) -> str:
        """Return the table as HTML, for the notebook."""
        head, *rows = [[html.escape(text) for text in row] for row in self._rows]
        if not rows:
            return f"<p>{html.escape(repr(self))}</p>"
        titles = "".join(f'<th style="text-align: left">{text}</th>' for text in head)
        lines = ["".join(f'<td style="text-align: left">{text}</td>' for text in row) for row in rows]
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"

"""Write a selection into environment variables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from hookpatch._bootstrap import environment as _environment
from hookpatch._bootstrap.environment import COUNT, OPTIONS, PLUGINS, REPORT
from hookpatch._bootstrap.json import written
from hookpatch._bootstrap.selection import Selection, merged, options_asked, plugins_asked
from hookpatch.errors import SettingError


def variables(selection: Selection, report: str | None = None, count: bool = False) -> dict[str, str]:
    """Return the environment variables of a selection; raise SettingError for an option that is no JSON value."""
    of_selection = {PLUGINS: ",".join(selection.names)}
    if selection.options:
        try:
            of_selection[OPTIONS] = written(selection.options)
        except (TypeError, ValueError) as error:
            raise SettingError("options", f"an environment variable takes what JSON can hold: {error}") from None
    if report is not None:
        of_selection[REPORT] = os.path.abspath(report)
    if count:
        of_selection[COUNT] = "1"
    return of_selection


def environment_with(
    names: Iterable[str],
    options: Mapping[str, Mapping[str, Any]],
    report: str | None = None,
    count: bool = False,
    first: Iterable[str] = (),
) -> dict[str, str]:
    """Return a copy of the environment with more plugins: ``first``, the requested plugins, and ``names`` last."""
    requested = plugins_asked()[0]
    plugins = [*first, *requested, *names]
    added = variables(Selection(plugins, merged(plugins, options_asked(), options), ""), report, count)
    if len(plugins) == len(requested) and not _environment.split_names(_environment.read(PLUGINS)):
        del added[PLUGINS]  # all plugins are of the configuration: messages must name the configuration
    return {**_environment.as_first(), **added}

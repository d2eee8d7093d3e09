"""A selection written as environment variables: how a process that is started is asked for plugins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from hookpatch import _environment
from hookpatch._environment import COUNT, OPTIONS, PLUGINS, REPORT
from hookpatch._json import written
from hookpatch._selection import Selection, merged, options_asked, plugins_asked
from hookpatch.errors import SettingError


def variables(selection: Selection, report: str | None = None, count: bool = False) -> dict[str, str]:
    """Return the variables that ask for a selection.

    Raises:
        SettingError: an option is none that JSON can hold.
    """
    found = {PLUGINS: ",".join(selection.names)}
    if selection.options:
        try:
            found[OPTIONS] = written(selection.options)
        except (TypeError, ValueError) as error:
            raise SettingError("options", f"an environment variable takes what JSON can hold: {error}") from None
    if report is not None:
        found[REPORT] = os.path.abspath(report)
    if count:
        found[COUNT] = "1"
    return found


def environment_with(
    names: Iterable[str],
    options: Mapping[str, Mapping[str, Any]],
    report: str | None = None,
    count: bool = False,
    first: Iterable[str] = (),
) -> dict[str, str]:
    """Return a copy of the environment that asks for these plugins too: ``first``, what it asks for, ``names``."""
    asked = plugins_asked()[0]
    wanted = [*first, *asked, *names]
    found = variables(Selection(wanted, merged(wanted, options_asked(), options), ""), report, count)
    if len(wanted) == len(asked) and not _environment.split_names(_environment.read(PLUGINS)):
        del found[PLUGINS]  # they are those of the configuration, which messages are to name
    return {**_environment.as_first(), **found}

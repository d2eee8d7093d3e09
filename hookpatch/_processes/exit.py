"""Report at the end of a program which patches were never applied, were overwritten, or called too seldom.

A program cannot change its exit status at the end: plain ``python`` shows a line on stderr alone. ``hookpatch run``
reads the note written here of missing calls and misspelt modules, and exits with status 70.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from typing import Final

from hookpatch._bootstrap import environment, imports, selection
from hookpatch._bootstrap.interrupts import ErrorsOfCode
from hookpatch._bootstrap.stderr import of_this_process, write_line
from hookpatch._session.findings.shortfalls import (
    misspelt,
    never_applied,
    never_called,
    overwritten,
    too_few_calls,
    too_few_matches,
)
from hookpatch._session.ledger import Key
from hookpatch._session.session import Session
from hookpatch.errors import CallsError, NeverCalledWarning, SettingError, for_stderr

_OFF: Final = ("waiting", "unused", "skipped", "failed")


def write_calls(session: Session) -> None:
    """Write the calls of a session's patches to stderr, and the required patches never called."""
    counted = [patch for patch in session.report() if patch.calls]
    lines = (f"{patch.target} ({patch.plugin}): {patch.calls_in_words}" for patch in counted)
    write_line(*lines, speaker=of_this_process())
    warnings = map(NeverCalledWarning, never_called(session.entries))
    write_line(*map(for_stderr, warnings), kind="warning", speaker=of_this_process())


def write_shortfalls(session: Session) -> None:
    """Write to stderr which patches were never applied, were overwritten, or called less often than they require.

    With a folder for reports the calls in all processes of the run count that have written report files.
    """
    ends = selection.on_error() == "exit"
    if ends and session.has_failed:
        return  # the program was ended by that failure, with a message
    folder = environment.report_folder()
    elsewhere = _elsewhere(folder) if folder is not None else {}
    missed = too_few_calls(session.entries, elsewhere)
    write_line(*never_applied(session.entries, elsewhere), kind="warning", speaker=of_this_process())
    write_line(*overwritten(session.entries), kind="warning", speaker=of_this_process())
    messages = (for_stderr(CallsError([problem])) for problem in missed)
    write_line(*messages, kind="error" if ends else "warning", speaker=of_this_process())
    few = [] if elsewhere else too_few_matches(session.entries)  # another process may have had the modules
    write_line(*few, kind="error" if ends else "warning", speaker=of_this_process())
    missed += few
    missed += misspelt([entry for entry in session.entries if entry.request.key not in elsewhere])
    if ends and missed and (note := environment.read(environment.CALLS_MISSED)):
        with ErrorsOfCode(OSError), open(note, "w", encoding="utf-8") as file:  # its reader may be gone
            file.write("\n".join(missed))


def _elsewhere(folder: str) -> dict[Key, int]:
    """Return the patches applied in other processes of the run, with the number of their calls."""
    calls: Counter[Key] = Counter()
    with suppress(SettingError, ImportError):  # no report file could be written; a subinterpreter cannot have msgspec
        with imports.for_ourselves():
            from hookpatch._processes.run_report import receipts  # few runs leave reports
        for process in receipts(folder, environment.report_root()[1]):
            is_me = (process.host, process.pid) == (environment.host(), os.getpid())
            for patch in process.patches if not is_me else ():
                if patch.state not in _OFF:
                    key = patch.plugin, patch.distribution, patch.verb, patch.rule or patch.target
                    calls[key] += sum((patch.calls or {}).values())
    return dict(calls)

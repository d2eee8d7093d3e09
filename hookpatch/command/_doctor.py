"""``hookpatch doctor``: print the findings on the interpreter, the variables and each plugin."""

from __future__ import annotations

import typer

from hookpatch._inspect.doctor import Finding, findings
from hookpatch.command._app import AsJson, print_json, print_text
from hookpatch.command._tables import FOLD, NO_WRAP, Cell, print_table


def doctor(json: AsJson = False) -> None:
    """Check this installation; name each fault with its remedy.

    Says whether hookpatch is on, where each setting comes from, and what each plugin would do.

    Imports the installed plugins, and applies no patch. Ends with status 1 if a fault is found.

    Example: hookpatch doctor
    """
    results = list(findings())
    wrong = sum(finding.mend is not None for finding in results)
    if json:
        print_json({"status": int(wrong > 0), "findings": [finding._asdict() for finding in results]})
    else:
        print_table({"": NO_WRAP, "checked": NO_WRAP, "result": FOLD}, map(_row, results))
        print_text(f"{wrong} problem{'s' * (wrong > 1)}" if wrong else "all is well")
    if wrong:
        raise typer.Exit(1)


def _row(finding: Finding) -> tuple[Cell, Cell, Cell]:
    about, found = [(finding.about, "")], [(finding.found, "")]
    if finding.mend is None:
        return [("ok", "green")], about, found
    return [("fix", "bold red")], about, [*found, (f"-> {finding.mend}", "yellow")]

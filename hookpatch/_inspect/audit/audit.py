"""List the patches in the running process: ``hookpatch.audit()``."""

from __future__ import annotations

from time import perf_counter

from hookpatch._inspect.audit.compare import Comparison, our_sites
from hookpatch._inspect.audit.finding import Audit
from hookpatch._inspect.audit.rebuilt import rebuilt
from hookpatch._inspect.audit.recorder import running


def audit() -> Audit:
    """Return the patches in this process, whoever made them, those of hookpatch too.

    In a program that ``hookpatch audit`` runs, the notes from the program's start are compared. Elsewhere the values
    are compared with the source of their modules, and some patches are not found. Imports, calls and changes nothing
    of the program.

    Returns:
        The findings, by address. ``str()`` gives a table, and a notebook shows one.

    Raises:
        Nothing: a module without a readable source is left out.
    """
    if running:
        return running[0].audit()
    begun = perf_counter()
    snapshot = rebuilt({site.slot.key for site in our_sites()})
    noted = perf_counter()
    findings = Comparison(snapshot, {}, {}).findings()
    return Audit(tuple(findings), False, len(snapshot.modules), (noted - begun, perf_counter() - noted))

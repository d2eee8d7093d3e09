"""List the patches in the running process: ``hookpatch.audit()``."""

from __future__ import annotations

from time import perf_counter

from hookpatch._inspect.audit.compare import Comparison, our_sites
from hookpatch._inspect.audit.finding import Audit
from hookpatch._inspect.audit.recorder import running
from hookpatch._inspect.audit.running.rebuilt import rebuilt


def audit() -> Audit:
    """Return all patches in this process: foreign patches, and the patches of hookpatch.

    Under ``hookpatch audit``, values are compared with notes made since the program's start. Elsewhere values are
    compared with the source of the module, and some patches are not found. Imports, calls and changes nothing of the
    program.

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
    findings = Comparison(snapshot, {}).findings()
    return Audit(tuple(findings), False, len(snapshot.modules), (noted - begun, perf_counter() - noted))

"""Patches for code you cannot edit: named, installable, reversible.

``with hookpatch.active("fuse_qkv_off"): ...`` holds a plugin's patches for a block; the nine verbs ``wrap``,
``inject``, ``default``, ``replace``, ``derive``, ``remove``, ``edit``, ``enter`` and ``transform`` declare patches
without a plugin.

Importing this package imports no other file: each name is fetched at its first use. A process has a single copy of the
package: a second import, after a purge of sys.modules or from another folder, returns the first copy.

PYTEST_DONT_REWRITE: pytest would warn that hookpatch, imported at interpreter start, is too early for a rewrite.
"""

import sys

TYPE_CHECKING = False  # as in typing, without the import: this file runs at interpreter start
if TYPE_CHECKING:
    from hookpatch import errors, testing
    from hookpatch._engine.patch.patch import (
        Patch,
        default,
        derive,
        edit,
        enter,
        inject,
        remove,
        replace,
        transform,
        wrap,
    )
    from hookpatch._engine.patch.target import Target
    from hookpatch._inspect.audit.audit import audit
    from hookpatch._inspect.audit.finding import Audit, AuditFinding
    from hookpatch._inspect.plan import Plan, PlannedPatch, PlannedTarget, plan
    from hookpatch._inspect.slot.report import LayerReport, SlotReport
    from hookpatch._inspect.slot.why import why
    from hookpatch._plugins.relations import Relations
    from hookpatch._processes.active import active, environment
    from hookpatch._processes.run_report import ProcessReport, RunReport, receipts
    from hookpatch._session.report import PatchReport, Report
    from hookpatch._session.session import Session, report
    from hookpatch.hookspecs import hookimpl

__all__ = [
    "Audit",
    "AuditFinding",
    "LayerReport",
    "Patch",
    "PatchReport",
    "Plan",
    "PlannedPatch",
    "PlannedTarget",
    "ProcessReport",
    "Relations",
    "Report",
    "RunReport",
    "Session",
    "SlotReport",
    "Target",
    "active",
    "audit",
    "default",
    "derive",
    "edit",
    "enter",
    "environment",
    "errors",
    "hookimpl",
    "inject",
    "plan",
    "receipts",
    "remove",
    "replace",
    "report",
    "testing",
    "transform",
    "why",
    "wrap",
]

__version__ = "0.1.0"

_HOME = {
    name: home
    for home, names in {
        "_engine.patch.patch": "Patch default derive edit enter inject remove replace transform wrap",
        "_engine.patch.target": "Target",
        "_inspect.audit.audit": "audit",
        "_inspect.audit.finding": "Audit AuditFinding",
        "_inspect.plan": "Plan PlannedPatch PlannedTarget plan",
        "_inspect.slot.report": "LayerReport SlotReport",
        "_inspect.slot.why": "why",
        "_plugins.relations": "Relations",
        "_processes.active": "active environment",
        "_processes.run_report": "ProcessReport RunReport receipts",
        "_session.report": "PatchReport Report",
        "_session.session": "Session report",
        "hookspecs": "hookimpl",
    }.items()
    for name in names.split()
}


if not TYPE_CHECKING:  # a type checker would take any name for a public one

    def __getattr__(name: str) -> object:
        """Return a public name, imported from its file (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module 'hookpatch' has no attribute '{name}'")
        from importlib import import_module  # not at the top: start-up cost

        _open_postponed()
        if name not in _HOME:
            return import_module(f"hookpatch.{name}")
        import_module("hookpatch._bootstrap.imports")  # first: loads the other files with builtins of their own
        value = getattr(import_module(f"hookpatch.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def _open_postponed() -> None:
    """Open the session that was put off at interpreter start, if any."""
    if "_startup" in globals():
        globals()["_startup"].open_postponed()


def load_ipython_extension(shell: object) -> None:
    """Add the magics ``%hookpatch`` and ``%%hookpatch``, for ``%load_ext hookpatch``."""
    from hookpatch.notebook import load  # imports IPython

    _open_postponed()
    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Switch off the plugins switched on by the magics, for ``%unload_ext hookpatch``."""
    from hookpatch.notebook import unload

    unload(shell)


def __dir__() -> list[str]:
    """List the public names, fetched or not."""
    return [*__all__, "__version__"]


def _keep_first_copy() -> None:
    """Make the import return the first copy of this package in this process: the first copy knows the open sessions.

    sys holds the first copy: a purge of sys.modules does not reach sys, and each subinterpreter has a sys of its own.
    ``imports`` does the same for the other files.
    """
    this = sys.modules.get("hookpatch")
    if this is None or vars(this) is not globals():
        return  # executed under another name: all other files come from the first copy
    is_second = "_hookpatch" in vars(sys)
    first, names = vars(sys).setdefault("_hookpatch", (this, {**globals()}))
    if not is_second:
        return
    second, is_reload = _words(), this is first
    vars(first).update(names)  # a reload has set all names anew
    sys.modules["hookpatch"] = first
    if is_reload or second != first._words():
        from hookpatch.errors import SecondCopyWarning, warn

        warn(SecondCopyWarning(second, first._words(), is_reload), past=["_pytest"])  # pytest has a loader


def _words() -> str:
    """Return in words which copy of hookpatch this is."""
    return f"hookpatch {__version__} from {__file__}"


_keep_first_copy()

"""Patches for code you cannot edit: named, installable, reversible.

``with hookpatch.active("fuse_qkv_off"): ...`` holds a plugin's patches for a block; the six verbs ``wrap``,
``inject``, ``replace``, ``derive``, ``remove`` and ``enter`` declare patches without a plugin.

Importing this package imports nothing else: each name is fetched when it is first used.

PYTEST_DONT_REWRITE: pytest would warn that it cannot where the start-up file has imported us before it.
"""

TYPE_CHECKING = False  # what typing.TYPE_CHECKING is, without the import: this file runs at interpreter start
if TYPE_CHECKING:
    from hookpatch import errors, testing
    from hookpatch._active import active, environment
    from hookpatch._patch import Patch, derive, enter, inject, remove, replace, wrap
    from hookpatch._plan import Plan, PlannedPatch, PlannedTarget, plan
    from hookpatch._receipts import ProcessReport, RunReport, receipts
    from hookpatch._relations import Relations
    from hookpatch._report import PatchReport, Report
    from hookpatch._session import Session, report
    from hookpatch._slot_report import LayerReport, SlotReport
    from hookpatch._target import Target
    from hookpatch._why import why
    from hookpatch.hookspecs import hookimpl

__all__ = [
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
    "derive",
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
    "why",
    "wrap",
]

__version__ = "0.1.0"

_HOME = {
    "LayerReport": "_slot_report",
    "Patch": "_patch",
    "PatchReport": "_report",
    "Plan": "_plan",
    "PlannedPatch": "_plan",
    "PlannedTarget": "_plan",
    "ProcessReport": "_receipts",
    "Relations": "_relations",
    "Report": "_report",
    "RunReport": "_receipts",
    "Session": "_session",
    "SlotReport": "_slot_report",
    "Target": "_target",
    "active": "_active",
    "derive": "_patch",
    "enter": "_patch",
    "environment": "_active",
    "hookimpl": "hookspecs",
    "inject": "_patch",
    "plan": "_plan",
    "receipts": "_receipts",
    "remove": "_patch",
    "replace": "_patch",
    "report": "_session",
    "why": "_why",
    "wrap": "_patch",
}


if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of ours

    def __getattr__(name: str) -> object:
        """Fetch a public name from the file that defines it (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module 'hookpatch' has no attribute '{name}'")
        from importlib import import_module  # not at the top: start-up cost

        _open_now()
        if name not in _HOME:
            return import_module(f"hookpatch.{name}")
        value = getattr(import_module(f"hookpatch.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def _open_now() -> None:
    """Open what the interpreter's start has put off, if it was started with plugins."""
    if "_startup" in globals():
        globals()["_startup"].open_now()


def load_ipython_extension(shell: object) -> None:
    """Add the magics ``%hookpatch`` and ``%%hookpatch``: what ``%load_ext hookpatch`` calls."""
    from hookpatch.notebook import load  # it needs IPython

    _open_now()
    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Switch off what the magics switched on: what ``%unload_ext hookpatch`` calls."""
    from hookpatch.notebook import unload  # likewise

    unload(shell)


def __dir__() -> list[str]:
    """List the public names, fetched or not."""
    return [*__all__, "__version__"]

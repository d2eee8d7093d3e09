"""Every public name stays in the module of its import."""

from __future__ import annotations

import subprocess
import sys

import pytest

PUBLIC = {
    "hookpatch": """
        Audit AuditFinding LayerReport Patch PatchReport Plan PlannedPatch PlannedTarget ProcessReport Relations Report
        RunReport Session SlotReport Target active audit default derive edit enter environment errors hookimpl inject
        load_ipython_extension plan receipts remove replace report testing transform
        unload_ipython_extension why wrap __version__
    """,
    "hookpatch.errors": """
        AmbiguousPlugin ApplyError BypassError BypassWarning CallsError ConflictError ConflictingPlugins
        DisplacedWarning DriftError DriftWarning EditError HookpatchError HookpatchWarning LateWarning MissingPlugin
        NeverCalledWarning NeverOpenedWarning NewPluginError NotAllowed NotCarriedError NotCarriedWarning OptionsError
        OrderError OutlivedWarning PatchError PatchFailedWarning PatchUnneededWarning PluginError RequirementError
        RestoreError SecondCopyWarning SelectionError SessionError SettingError SignatureError TargetNotFound
        TargetRefused TargetSyntaxError UnknownCommand UnknownMessage UnknownModuleWarning UnknownPlugin for_stderr
    """,
    "hookpatch.testing": """
        Effect EffectCell EffectFailed EffectOf Finished FreshProcess NotApplied NotPristine Patched ProgramFailed
        effect pristine
    """,
    "hookpatch.hookspecs": """
        hookimpl hookpatch_changed hookpatch_commands hookpatch_patches hookpatch_report hookpatch_run hookspec
    """,
    "hookpatch.command": "app main",
    "hookpatch.notebook": "load unload",
}


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_can_be_imported(module: str) -> None:
    """Each public name can be the first import of a program."""
    if module == "hookpatch.notebook":
        pytest.importorskip("IPython")
    names = ", ".join(PUBLIC[module].split())
    completed = subprocess.run(
        [sys.executable, "-c", f"from {module} import {names}"], capture_output=True, text=True, check=False
    )
    assert (completed.returncode, completed.stderr) == (0, "")


@pytest.mark.parametrize("module", ["hookpatch", "hookpatch.testing"])
def test_no_public_name_is_missing_here(module: str) -> None:
    """The lists above have all names declared by these modules."""
    declared = set(__import__(module, fromlist=["__all__"]).__all__)
    assert declared <= set(PUBLIC[module].split())

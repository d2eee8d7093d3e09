"""onnxsim_skip on the real onnxsim: the passes named are skipped, and a name it does not have is an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import onnx
import onnxsim
import onnxsim.onnx_simplifier
import pytest
from packaging.version import Version

import hookpatch
from hookpatch import errors

pytestmark = pytest.mark.model

FUSED = {"Relu": 1, "MatMul": 1, "Split": 1, "Sum": 1}
APART = {"Relu": 1, "MatMul": 3, "Sum": 1}

PLUGIN = "options of plugin 'onnxsim_skip' (hookpatch-onnxsim 0.1.0): "
ONNXSIM = f"onnxsim {metadata.version('onnxsim')} has no pass "
NOW = "; 'HOOKPATCH_DISABLE=1 python -m hookpatch_onnxsim' lists the passes of onnxsim"


def skip(*passes: str, also: Sequence[str] = (), scope: str = "process") -> hookpatch.Session:
    return hookpatch.active("onnxsim_skip", *also, options={"onnxsim_skip": {"passes": passes}}, scope=scope)


@pytest.fixture
def simplified(
    projections: onnx.ModelProto, ops: Callable[[onnx.ModelProto], Counter[str]]
) -> Callable[[], Counter[str]]:
    """Simplify the projections, and count the remaining nodes."""
    return lambda: ops(onnxsim.simplify(projections)[0])


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    return subprocess.run([sys.executable, *command], env={**clean, **variables}, capture_output=True, text=True)


def test_passes_named_are_skipped(simplified: Callable[[], Counter[str]]) -> None:
    """The passes of the options are skipped."""
    with skip("fuse_qkv") as session:
        assert simplified() == APART
    assert [(patch.verb, patch.state) for patch in session.report()] == [("enter", "restored"), ("wrap", "restored")]
    with skip("eliminate_identity"):
        assert simplified() == FUSED
        with skip("fuse_qkv", "fuse_qkv"):
            assert simplified() == APART
        assert simplified() == FUSED


def test_together_with_another_plugin(simplified: Callable[[], Counter[str]]) -> None:
    """Two plugins compose on the same function."""
    with skip("eliminate_identity", also=["fuse_qkv_off"]):
        assert simplified() == APART
    assert simplified() == FUSED


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["FuseQKV"], "'FuseQKV' (did you mean 'fuse_qkv'?)"),
        (["fuse-bn-into-conv"], "'fuse-bn-into-conv' (did you mean 'fuse_bn_into_conv'?)"),
        (["fuse_qkv", "all", "fuse_qvk", "all"], "'all' and no pass 'fuse_qvk' (did you mean 'fuse_qkv'?)"),
    ],
)
def test_wrong_name_is_refused_on_entering(
    simplified: Callable[[], Counter[str]], names: list[str], problem: str
) -> None:
    """With onnxsim imported the error has the unknown names, and no patch is applied."""
    code = onnxsim.simplify.__code__
    session = skip(*names, also=["fuse_qkv_off"])
    with pytest.raises(errors.OptionsError) as caught, session:
        pass
    assert str(caught.value) == f"{PLUGIN}{ONNXSIM}{problem}{NOW}"
    assert onnxsim.simplify.__code__ is code
    assert simplified() == FUSED
    assert next(patch.state for patch in session.report()) == "failed"


def test_wrong_name_ends_a_program_when_it_imports_onnxsim() -> None:
    """A program patched from the environment ends with a line and status 78, at the import of onnxsim."""
    completed = run(
        "-c",
        "print('before'); import onnxsim; print('after')",
        HOOKPATCH_PLUGINS="onnxsim_skip",
        HOOKPATCH_OPTIONS=json.dumps({"onnxsim_skip": {"passes": ["FuseQKV"]}}),
    )
    assert (completed.returncode, completed.stdout) == (78, "before\n")
    message = f"{PLUGIN}{ONNXSIM}'FuseQKV' (did you mean 'fuse_qkv'?){NOW}"
    assert completed.stderr == f"hookpatch: error: {message} [hookpatch explain OptionsError]\n"


LATE = """
import sys, warnings
import hookpatch

def skip(*passes): return hookpatch.active("onnxsim_skip", options={"onnxsim_skip": {"passes": passes}})

with skip("fuse_qkv", "FuseQKV") as session:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import onnxsim
    print(*[warning.message for warning in caught if issubclass(warning.category, hookpatch.errors.HookpatchWarning)])
    print(*[node.op_type for node in onnxsim.simplify(sys.argv[1])[0].graph.node])
for patch in session.report(): print(patch.verb, patch.state)
"""


def test_wrong_name_in_a_block_before_onnxsim_is_imported_is_a_warning(
    projections: onnx.ModelProto, tmp_path: Path
) -> None:
    """The import is not ours to end: it warns, and none of the passes is skipped, as the warning says."""
    onnx.save(projections, tmp_path / "m.onnx")
    completed = run("-c", LATE, str(tmp_path / "m.onnx"))
    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout.splitlines() == [
        f"not patched: {PLUGIN}{ONNXSIM}'FuseQKV' (did you mean 'fuse_qkv'?){NOW}",
        "Relu MatMul Split Sum",
        "enter failed",
        "wrap restored",
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (None, "'passes' must be given"),
        ({"onnxsim_skip": {"passes": []}}, "'passes' is empty; name the passes to skip, or leave the plugin out"),
        ({"onnxsim_skip": {"passes": "fuse_qkv"}}, "Expected 'array', got 'str' - at 'passes'"),
        ({"onnxsim_skip": {"passes": ["fuse_qkv", 3]}}, "Expected 'str', got 'int' - at 'passes[1]'"),
    ],
)
def test_options_that_say_nothing_are_refused(options: dict[str, dict[str, object]] | None, problem: str) -> None:
    """Refuse at once: no list, an empty list, a list without names."""
    with pytest.raises(errors.OptionsError) as caught:
        hookpatch.active("onnxsim_skip", options=options)
    assert str(caught.value) == f"{PLUGIN}{problem}; it takes passes: list[str]"


def test_scope_task_is_refused() -> None:
    """Refuse scope="task", since the check of the names is for the process."""
    with pytest.raises(errors.TargetRefused) as caught, skip("fuse_qkv", scope="task"):
        pass
    assert str(caught.value) == (
        "scope='task' is for wrap, inject, default, and replace with callers=: a call belongs to a task, but "
        "enter changes the value for all tasks; take scope='process', or wrap the calling function (target "
        "onnxsim.onnx_simplifier of plugin 'onnxsim_skip' from hookpatch-onnxsim 0.1.0)"
    )


def test_all_passes_that_the_release_runs_are_known(simplified: Callable[[], Counter[str]], installed: Version) -> None:
    """Before the first model too, when the lists of onnxsim itself lack some: `python -m hookpatch_onnxsim`."""
    completed = run("-m", "hookpatch_onnxsim")
    assert (completed.returncode, completed.stderr) == (0, "")
    listed = completed.stdout.split()
    assert listed == sorted(set(listed))
    simplified()  # registers the late passes
    extension = onnxsim.onnx_simplifier.C
    lists = [getattr(extension, name) for name in dir(extension) if name.endswith("_optimizers")]
    assert len(lists) == (0 if installed < Version("0.6.3") else 1 if installed < Version("0.8") else 2)
    assert {name for names in lists for name in names()} <= set(listed)
    assert ("fuse_matmul_add_bias_into_gemm_batched" in listed) == (installed >= Version("0.7.1"))
    assert ("rewrite_where" in listed) == (installed >= Version("0.6"))
    assert len(listed) == {"0.4.36": 38, "0.6.5": 39, "0.7.3": 45, "0.8.1": 174}[str(installed)]


def test_plugins_import_neither_onnx_nor_onnxsim() -> None:
    """Plugins load at the interpreter's start, and leave the import of the target to the program."""
    completed = run(
        "-c",
        "import sys; print([m for m in ('onnx', 'onnxsim', 'torch', 'numpy') if m in sys.modules])",
        HOOKPATCH_PLUGINS="fuse_qkv_off,onnxsim_skip,linear_kept",
        HOOKPATCH_OPTIONS=json.dumps({"onnxsim_skip": {"passes": ["fuse_qkv"]}}),
    )
    assert (completed.returncode, completed.stdout) == (0, "[]\n")
    lines = completed.stderr.splitlines()
    assert len(lines) == 4  # onnxsim_skip has two patches
    assert all(line.endswith("was never applied: the program did not import onnxsim.onnx_simplifier") for line in lines)

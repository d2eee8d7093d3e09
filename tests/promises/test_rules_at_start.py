"""Rules of plugins from the environment, in child processes, and under hookpatch run."""

from __future__ import annotations

from pathlib import Path

import pytest
from environments import Environment

import hookpatch

pytestmark = pytest.mark.once

PLUGIN = """
    '''Mark what norms return.'''
    import hookpatch

    def marked(wrapped, instance, args, kwargs):
        return f"<{{wrapped(*args, **kwargs)}}>"

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap("{address}", marked{options})
"""
ZOO = {
    "zoo/__init__.py": "",
    "zoo/models/__init__.py": "",
    **{f"zoo/models/{name}/__init__.py": "" for name in ("ape", "bee")},
    **{
        f"zoo/models/{name}/modeling_{name}.py": f"class {name.title()}Norm:\n    def forward(self): return {name!r}\n"
        for name in ("ape", "bee")
    },
    "script.py": "from zoo.models.ape.modeling_ape import ApeNorm\nprint(ApeNorm().forward())\n",
    "nothing.py": "import sys; print([name for name in sys.modules if name.startswith(('zoo', 'pluggy'))])\n",
}
ADDRESS = "zoo.models.*.modeling_*:*Norm.forward"


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """Make an environment with the zoo beside its programs."""
    environment.work_in(tmp_path / "work", ZOO)
    return environment


@pytest.mark.parametrize("address", [ADDRESS, "zoo.models.ape.modeling_ape:*Norm.forward"])
@pytest.mark.parametrize("waits_for", ["", "zoo", "zoo.models.*.modeling_*"])
def test_a_plugin_with_a_rule(waits_for: str, address: str, home: Environment) -> None:
    """A plugin with a rule loads with and without waits_for, which may be a pattern; no other module is imported."""
    home.add_plugin("marks", PLUGIN.format(address=address, options=""), waits_for=waits_for)
    completed = home.run("script.py", HOOKPATCH_PLUGINS="marks")
    assert (completed.stdout, completed.stderr, completed.returncode) == ("<ape>\n", "", 0)
    completed = home.run("nothing.py", HOOKPATCH_PLUGINS="marks")
    assert ("pluggy" in completed.stdout, "zoo" in completed.stdout) == (not waits_for, False)
    assert "was never applied: the program did not import zoo" in completed.stderr


def test_a_rule_outside_of_what_its_plugin_waits_for_is_refused(home: Environment) -> None:
    """Refuse a pattern wider than the awaited pattern."""
    home.add_plugin(
        "marks", PLUGIN.format(address="zoo.*:*Norm.forward", options=""), waits_for="zoo.models.*.modeling_*"
    )
    completed = home.run("script.py", HOOKPATCH_PLUGINS="marks")
    assert completed.returncode == 78
    assert "which is not in 'zoo.models.*.modeling_*', the modules named by its distribution" in completed.stderr


@pytest.mark.parametrize(
    ("address", "options", "status", "message"),
    [
        (ADDRESS, ", matches=1", 0, ""),
        (ADDRESS, ", matches=2", 70, "matches 1 slot, and must match 2"),
        (ADDRESS, ", matches=2, required=False", 0, ""),
        (
            ADDRESS.replace("forward", "forwrd"),
            "",
            70,
            "zoo.models.ape.modeling_ape:ApeNorm.forward does not match forwrd",
        ),
        ("zoo.models.ape.modeling_ape:*Nrm.forward", "", 78, "matches nothing, and must match at least 1"),
    ],
)
def test_too_few_matches_under_run(address: str, options: str, status: int, message: str, home: Environment) -> None:
    """The end of the program tells, with status 70; of a plain module the import does, with status 78."""
    home.add_plugin("marks", PLUGIN.format(address=address, options=options))
    completed = home.run("-m", "hookpatch", "run", "-p", "marks", "script.py")
    assert (completed.returncode, message in completed.stderr) == (status, True), completed.stderr
    assert ("warning" in completed.stderr or "error" in completed.stderr) == bool(message)


CHILD = """
    import subprocess, sys
    import hookpatch
    from marking import marked

    rule = hookpatch.wrap("zoo.models.*.modeling_*:*Norm.forward", marked, only=callable)
    with hookpatch.active(rule, children="require"):
        print(subprocess.run([sys.executable, "script.py"], capture_output=True, text=True).stdout, end="")
"""


def test_a_rule_goes_to_child_processes(home: Environment) -> None:
    """A block hands its rule on, with the predicate."""
    (home.folder / "marking.py").write_text(
        "def marked(wrapped, instance, args, kwargs):\n    return f'<{wrapped(*args, **kwargs)}>'\n"
    )
    (home.folder / "parent.py").write_text(CHILD.replace("\n    ", "\n"))
    completed = home.run("parent.py")
    assert (completed.stdout, completed.stderr) == ("<ape>\n", "")


def test_a_lambda_as_predicate_stays_here() -> None:
    """As a lambda as a wrapper does: with the reason."""
    rule = hookpatch.replace("zoo.*:limit", 1, only=lambda value: True)
    with pytest.raises(hookpatch.errors.NotCarriedError, match="cannot be pickled"):
        hookpatch.active(rule, children="require")

"""Relations between plugins of independent distributions: needs, conflicts, before and after."""

from __future__ import annotations

import contextvars
import random
import textwrap
import zipfile
from collections.abc import Callable
from functools import partial
from itertools import permutations
from pathlib import Path
from types import ModuleType

import pytest
from distributions import build_wheel
from environments import Environment

import hookpatch
from hookpatch.errors import ConflictingPlugins, MissingPlugin, OrderError, PatchError, PluginError, SelectionError

pytestmark = pytest.mark.once

MakeModule = Callable[..., ModuleType]
MakeDistribution = Callable[..., Path]
Install = Callable[..., None]

TAGGING = """
    '''Tag what vendor.call returns.'''
    import hookpatch

    RELATIONS = hookpatch.Relations({relations})

    def tag(wrapped, instance, args, kwargs):
        return ["{name}", *wrapped(*args, **kwargs)]

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap("vendor:call", tag{facts})
    """


def tagging(name: str, relations: str = "", facts: str = "") -> str:
    """Return the source of a plugin whose wrapper puts the plugin's name before the result of ``vendor.call``."""
    return TAGGING.format(name=name, relations=relations, facts=f", {facts}" if facts else "")


@pytest.fixture
def vendor(make_module: MakeModule) -> ModuleType:
    """Make a module whose ``call`` returns the names of the wrappers around the call, the outermost first."""
    return make_module("vendor", "def call(): return []\n")


@pytest.fixture
def install(vendor: ModuleType, make_distribution: MakeDistribution) -> Install:
    """Install plugins, each in a distribution of its own: by name, with the declared relations."""

    def all_of(**relations: str) -> None:
        for name, declared in relations.items():
            module = f"plugin_{name}"
            make_distribution(f"d-{name}", plugins={name: module}, modules={module: tagging(name, declared)})

    return all_of


# --- a place among others


@pytest.mark.parametrize("selected", list(permutations("abc")), ids="".join)
def test_place_of_a_plugin_is_that_of_its_patches(
    install: Install, vendor: ModuleType, selected: tuple[str, ...]
) -> None:
    """A declaration by either of two plugins decides, in any order of selection."""
    install(a="after='c'", b="before=['C']", c="")
    with hookpatch.active(*selected):
        assert vendor.call() == ["b", "c", "a"]


def test_patch_may_declare_more(make_distribution: MakeDistribution, vendor: ModuleType) -> None:
    """Declarations of a patch and of the patch's plugin both hold."""
    for name, relations, facts in [("a", "", ""), ("b", "after='a'", "before='c'"), ("c", "", "")]:
        make_distribution(
            f"d-{name}", plugins={name: f"plugin_{name}"}, modules={f"plugin_{name}": tagging(name, relations, facts)}
        )
    with hookpatch.active("c", "b", "a"):
        assert vendor.call() == ["a", "b", "c"]


def test_cycle_through_packages_names_each_declaration(install: Install, vendor: ModuleType) -> None:
    """The same text whatever was selected first."""
    install(a="before='b'", b="before='c'", c="before='a'")
    messages = set()
    for selected in permutations("abc"):
        with pytest.raises(OrderError) as caught:
            hookpatch.active(*selected).open()
        messages.add(str(caught.value))
        assert vendor.call() == []
    assert messages == {
        "the patches on vendor:call cannot be put in order: a before b before c before a; plugin 'a' from d-a 1.0 "
        "declares before='b', plugin 'b' from d-b 1.0 declares before='c', plugin 'c' from d-c 1.0 declares "
        "before='a'; drop a declaration, or leave a plugin out"
    }


def test_name_at_distribution_means_one_of_two(make_distribution: MakeDistribution, vendor: ModuleType) -> None:
    """In every declaration, as wherever a plugin is named."""
    for kit in "xyz":
        relations = "after='trim@kit-y', before='trim@Kit_X', needs='trim@kit-x', conflicts='trim@kit-w'"
        source = tagging(kit, relations if kit == "z" else "")
        make_distribution(f"kit-{kit}", plugins={"trim": f"trim_{kit}"}, modules={f"trim_{kit}": source})
    with hookpatch.active("trim@kit-x", "trim@kit-y", "trim@kit-z"):
        assert vendor.call() == ["y", "z", "x"]
    with pytest.raises(MissingPlugin, match="needs plugin 'trim@kit-x', which was not asked for"):
        hookpatch.active("trim@kit-y", "trim@kit-z").open()


@pytest.mark.parametrize("installs", [20, pytest.param(100, marks=pytest.mark.ends)])
def test_three_packages_compose_as_declared_on_each_of_many_shuffled_installs(
    environment: Environment, tmp_path: Path, installs: int
) -> None:
    """Unpack wheels in any order, into a shared folder or into separate folders, and select in any order."""
    built = tmp_path / "built"
    built.mkdir()
    declared = {"zinc": "before='iron'", "iron": "", "acid": "after='iron'"}
    wheels = [
        build_wheel(built, f"kit-{name}", "1.0", f"plugin_{name}", tagging(name, relations), {name: f"plugin_{name}"})
        for name, relations in declared.items()
    ]
    wheels.append(build_wheel(built, "vendor-kit", "1.0", "vendor", "def call(): return []"))
    chance = random.Random(9)
    program = "import vendor; print(*vendor.call())"
    selections = set()
    for number in range(installs):
        site = tmp_path / f"site{number}"
        chance.shuffle(wheels)
        folders = [site / str(place) if number % 2 else site for place in range(len(wheels))]
        for wheel, folder in zip(wheels, folders, strict=True):
            zipfile.ZipFile(wheel).extractall(folder)
        path = ":".join(map(str, dict.fromkeys(folders)))
        selected = ",".join(chance.sample([*declared], 3))
        selections.add(selected)
        completed = environment.run("-c", program, HOOKPATCH_PLUGINS=selected, PYTHONPATH=path)
        assert (completed.stdout, completed.stderr) == ("zinc iron acid\n", ""), (number, selected)
    assert len(selections) == 6


# --- needs


def test_plugin_without_the_one_it_needs_is_refused(install: Install, vendor: ModuleType) -> None:
    """No unnamed plugin is switched on, and no patch stays applied."""
    install(a="needs='B'", b="")
    with pytest.raises(MissingPlugin) as caught:
        hookpatch.active("a").open()
    assert str(caught.value) == (
        "plugin 'a' of d-a 1.0 (asked for by active()) needs plugin 'B', which was not asked for; name 'B', too"
    )
    assert isinstance(caught.value, SelectionError)
    assert vendor.call() == []
    with hookpatch.active("a", "b") as session:
        assert vendor.call() == ["a", "b"]
    assert [patch.state for patch in session.report()] == ["restored"] * 2


def test_refused_session_is_closed(install: Install) -> None:
    """A refused session is closed, and no ResourceWarning comes later."""
    install(a="needs='b'", b="")
    session = hookpatch.active("a")
    with pytest.raises(MissingPlugin):
        session.open()
    assert repr(session) == "<Session of a, closed>"


@pytest.mark.parametrize(
    ("needs", "way"),
    [
        ("b", "which is not installed; install its distribution, and select the plugin"),
        ("b@kit-b", "which is not installed; pip install kit-b, and select the plugin"),
    ],
)
def test_needed_plugin_that_is_not_installed(install: Install, needs: str, way: str) -> None:
    """The message names the missing plugin, and the distribution to install if declared."""
    install(a=f"needs={needs!r}")
    with pytest.raises(MissingPlugin) as caught:
        hookpatch.active("a").open()
    assert str(caught.value).endswith(f"needs plugin '{needs}', {way}")


def test_needed_plugin_may_be_on_already(install: Install, vendor: ModuleType) -> None:
    """A needed plugin may be open in any session; checked when the session opens."""
    install(a="needs='b'", b="")
    session = hookpatch.active("a")
    with hookpatch.active("b"), session:
        assert vendor.call() == ["a", "b"]
    with pytest.raises(MissingPlugin):
        hookpatch.active("a").open()


def test_needed_plugin_is_on_in_its_task_alone(install: Install) -> None:
    """A session with scope="task" counts in its own task alone."""
    install(a="needs='b'", b="")
    outside = contextvars.copy_context()
    with hookpatch.active("b", scope="task"):
        hookpatch.active("a").open().close()
        with pytest.raises(MissingPlugin):
            outside.run(hookpatch.active("a").open)


@pytest.mark.launcher
def test_notebook_switches_on_what_is_needed_first(install: Install, vendor: ModuleType) -> None:
    """In a notebook each plugin has its own session; all open or none, even with mutual needs."""
    from hookpatch.notebook import HookpatchMagics

    install(a="needs='b'", b="", c="needs='d'", d="needs='c'")
    magics = HookpatchMagics(None)
    magics.on(["a", "b"])
    assert vendor.call() == ["a", "b"]
    magics.off([])
    for names in (["a"], ["b", "c", "d"]):
        with pytest.raises(MissingPlugin):
            magics.on(names)
        assert vendor.call() == []


def test_environment_looks_at_what_is_needed(install: Install) -> None:
    """Where the variables go nobody else is on."""
    install(a="needs='b'", b="")
    with hookpatch.active("b"), pytest.raises(MissingPlugin) as caught:
        hookpatch.environment("a")
    assert caught.value.asked_by == "environment()"
    assert hookpatch.environment("a", "b") == {"HOOKPATCH_PLUGINS": "a,b"}


# --- conflicts


@pytest.mark.parametrize("selected", ["ab", "ba"])
def test_plugins_in_conflict_are_refused(install: Install, vendor: ModuleType, selected: str) -> None:
    """A declaration by either plugin is enough; the message names both."""
    install(a="conflicts=['b', 'c']", b="")
    with pytest.raises(ConflictingPlugins) as caught:
        hookpatch.active(*selected).open()
    assert str(caught.value) == (
        "plugin 'a' of d-a 1.0 and plugin 'b' of d-b 1.0 (asked for by active()) cannot be on together: 'a' declares "
        "conflicts='b'; select one of them"
    )
    assert vendor.call() == []
    with hookpatch.active("a"):
        assert vendor.call() == ["a"]


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_plugin_that_is_on_is_in_conflict_with_one_that_comes(install: Install, vendor: ModuleType, order: str) -> None:
    """A declaration by either plugin is enough; the earlier session stays open."""
    install(a="conflicts='b'", b="")
    first, second = order
    with hookpatch.active(first):
        with pytest.raises(ConflictingPlugins, match=f"'{first}' is on; switch it off, or leave the other out"):
            hookpatch.active(second).open()
        assert vendor.call() == [first]
    with hookpatch.active(second):
        assert vendor.call() == [second]


def test_plugin_is_in_no_conflict_with_itself(install: Install, vendor: ModuleType) -> None:
    """A shared name means the other plugins; the same plugin may be open twice."""
    install(a="conflicts='a'")
    with hookpatch.active("a"), hookpatch.active("a"):
        assert vendor.call() == ["a", "a"]


def test_environment_looks_at_conflicts(install: Install) -> None:
    """The environment refuses conflicts before the start of a pool of workers."""
    install(a="conflicts='b'", b="")
    with pytest.raises(ConflictingPlugins):
        hookpatch.environment("a", "b")


# --- the declaration


def test_relations_are_frozen_words() -> None:
    """A name or several names, kept as a tuple."""
    relations = hookpatch.Relations(needs="a", before=["b", "c"])
    assert (relations.needs, relations.conflicts, relations.before, relations.after) == (("a",), (), ("b", "c"), ())
    assert repr(relations) == "Relations(before=('b', 'c'), needs=('a',))"
    for declare in (hookpatch.Relations, partial(hookpatch.remove, "m:f")):
        with pytest.raises(PatchError) as caught:
            declare(before=["c", "a, b"])
        assert str(caught.value).endswith(
            "before= takes a plugin's name or several, not 'a, b'; write before=['a', 'b']"
        )
    with pytest.raises(PatchError) as caught:
        hookpatch.Relations(needs=3)  # type: ignore[arg-type]  # the guard serves users without a type checker
    assert str(caught.value) == "Relations(): needs= takes a plugin's name or several, not 3"


def test_misspelt_relation_is_an_error_of_the_plugin(make_distribution: MakeDistribution) -> None:
    """Python refuses an unknown keyword of the call."""
    make_distribution("d", plugins={"a": "plugin_a"}, modules={"plugin_a": tagging("a", "need='b'")})
    with pytest.raises(PluginError, match=r"raised TypeError when it was loaded: .*'need'"):
        hookpatch.active("a")


def test_relations_are_found_by_what_they_are(make_distribution: MakeDistribution) -> None:
    """Relations are found by their class, not by name; two in a module are refused."""
    renamed = tagging("a", "needs='b'").replace("RELATIONS", "beside")
    twice = f"{textwrap.dedent(renamed)}\nmore = hookpatch.Relations(needs='c')\n"
    make_distribution(
        "d", plugins={"a": "plugin_a", "two": "plugin_two"}, modules={"plugin_a": renamed, "plugin_two": twice}
    )
    with pytest.raises(MissingPlugin):
        hookpatch.active("a").open()
    with pytest.raises(PluginError) as caught:
        hookpatch.active("two")
    assert str(caught.value) == "plugin 'two' (d 1.0) has several hookpatch.Relations; merge them"


# --- in other processes


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """Make an environment with plugins that need or exclude each other; some wait for the vendor's module."""
    for name, relations, waits_for in [("a", "needs='b'", ""), ("late", "needs='b'", "vendor"), ("b", "", "vendor")]:
        environment.add_plugin(name, tagging(name, relations), waits_for=waits_for)
    environment.add_plugin("alone", tagging("alone", "conflicts='b'"))
    environment.work_in(tmp_path / "work", {"vendor.py": "def call(): return []\n"})
    return environment


CALL = "print('begun', flush=True); import vendor; print(*vendor.call())"


def test_program_is_refused_for_what_it_lacks(home: Environment) -> None:
    """A program is refused before its first line, or just before the awaited vendor's module runs."""
    script = home.python.parent / "hookpatch"
    missing = "of {0}-dist 1.0 (asked for by {1}) needs plugin 'b', which was not asked for; {2}"
    early = missing.format("a", "HOOKPATCH_PLUGINS=a", "write HOOKPATCH_PLUGINS=a,b [hookpatch explain MissingPlugin]")
    late = missing.format(
        "late", "HOOKPATCH_PLUGINS=late", "write HOOKPATCH_PLUGINS=late,b [hookpatch explain MissingPlugin]"
    )
    completed = home.run("-c", CALL, HOOKPATCH_PLUGINS="a")
    assert (completed.stdout, completed.stderr, completed.returncode) == (
        "",
        f"hookpatch: error: plugin 'a' {early}\n",
        78,
    )
    completed = home.run("-c", CALL, HOOKPATCH_PLUGINS="late")
    assert (completed.stdout, completed.stderr, completed.returncode) == (
        "begun\n",
        f"hookpatch: error: plugin 'late' {late}\n",
        78,
    )
    for names in ("late,b", "b,a"):
        assert home.run("-c", CALL, HOOKPATCH_PLUGINS=names).stdout == f"begun\n{names.replace(',', ' ')}\n"
    run = home.run(script, "run", "-p", "a", "-c", CALL)
    message = missing.format("a", "-p", "add -p b [hookpatch explain MissingPlugin]")
    assert (run.stdout, run.stderr, run.returncode) == ("", f"hookpatch: error: plugin 'a' {message}\n", 78)
    assert home.run(script, "run", "-p", "a", "-c", CALL, HOOKPATCH_PLUGINS="b").stdout == "begun\nb a\n"
    run = home.run(script, "run", "-p", "alone", "-c", CALL, HOOKPATCH_PLUGINS="b")
    assert "plugin 'b' of b-dist 1.0 (asked for by -p) cannot be on together" in run.stderr
    doctor = home.run(script, "doctor", HOOKPATCH_PLUGINS="alone,b", COLUMNS="400")
    assert "'alone' declares conflicts='b'; select one of them" in doctor.stdout
    assert "correct the list" in doctor.stdout


def test_block_takes_what_it_needs_along(home: Environment) -> None:
    """A child process has both plugins; or neither, with an error, if one cannot be loaded."""
    home.add_plugin("broken", "import os; assert 'BREAK' not in os.environ" + textwrap.dedent(tagging("broken")))
    home.add_plugin("relies", tagging("relies", "needs='broken'"))
    program = f"""
        import os, subprocess, sys, hookpatch
        command = [sys.executable, "-c", {CALL!r}]
        with hookpatch.active("a", "b"):
            subprocess.run(command)
        with hookpatch.active("b"), hookpatch.active("a"):
            subprocess.run(command)
        with hookpatch.active("relies", "broken"):
            subprocess.run(command, env={{**os.environ, "BREAK": "1"}})
        """
    completed = home.run("-c", textwrap.dedent(program))
    assert completed.stdout == "begun\na b\nbegun\na b\nbegun\n\n"
    assert "runs without plugin 'broken' (broken-dist 1.0) raised AssertionError" in completed.stderr
    assert "runs without plugin 'relies' of relies-dist 1.0" in completed.stderr
    assert "needs plugin 'broken', which was not asked for" in completed.stderr

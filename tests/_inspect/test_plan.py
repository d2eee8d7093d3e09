"""plan(): list the patches in their order, and whether each fits, without importing a target."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import random
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from environments import Environment

import hookpatch
from hookpatch import Plan
from hookpatch._engine.patch.module_lookup import Presence, presence_of
from hookpatch._inspect.plan import Finding
from hookpatch.errors import ConflictingPlugins, MissingPlugin, OrderError, SettingError, UnknownPlugin

pytestmark = pytest.mark.once

MakeModule = Callable[..., ModuleType]
WriteModule = Callable[[str, str], Path]
MakeDistribution = Callable[..., Path]
Install = Callable[..., None]

PLUGIN = """
    '''Patch the vendor's module.'''
    import hookpatch

    RELATIONS = hookpatch.Relations({relations})

    def tag(wrapped, instance, args, kwargs):
        return ["{name}", *wrapped(*args, **kwargs)]

    def wrap(**facts):
        return hookpatch.wrap("vendor:call", tag, **facts)

    def put(**facts):
        return hookpatch.replace("vendor:value", "{name}", **facts)

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield from [{patches}]
    """

# Prints a line in each process that imports the module.
VENDOR = """
    import os
    open(f"{__file__}.imported-by-{os.getpid()}", "w").close()
    value = speed = 1
    def call(): return []
    """

# The import prints a line.
LOUD = "open(__file__ + '.imported', 'w').close(); raise AssertionError('imported')"


COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def source(name: str, patches: str, relations: str = "") -> str:
    """Return the source of a plugin with these expressions as patches."""
    return PLUGIN.format(name=name, patches=patches, relations=relations)


@pytest.fixture
def install(make_distribution: MakeDistribution) -> Install:
    """Install plugins, each in a distribution of its own: by name, with the expressions to yield."""

    def all_of(relations: Mapping[str, str] = {}, **patches: str) -> None:
        for name, yielded in patches.items():
            text = source(name, yielded, relations.get(name, ""))
            make_distribution(f"d-{name}", plugins={name: f"plugin_{name}"}, modules={f"plugin_{name}": text})

    return all_of


@pytest.fixture
def vendor(write_module: WriteModule, make_distribution: MakeDistribution) -> Iterator[Path]:
    """Install the vendor's module; a plan does not import the module in this process."""
    make_distribution("vendor-kit", "1.4")
    path = write_module("vendor", VENDOR)
    yield path
    assert not path.with_name(f"vendor.py.imported-by-{os.getpid()}").exists()


def chain(plan: Plan) -> list[tuple[int | None, str | None, str]]:
    """Return the patches on the only target: place, plugin and finding."""
    (target,) = plan
    return [(patch.place, patch.plugin, patch.finding) for patch in target.patches]


# --- the order


def test_outermost_is_first(install: Install, vendor: Path) -> None:
    """Order by declaration, then by selection; each place has the owner and the verb."""
    install({"c": "before='b'"}, a="wrap()", b="wrap(reach='everywhere')", c="wrap(required=False)")
    plan = hookpatch.plan("a", "b", "c")
    assert chain(plan) == [(1, "a", "fits"), (2, "c", "fits"), (3, "b", "fits")]
    assert plan.status == 0
    (target,) = plan
    (_, c, b) = target.patches
    assert (c.distribution, c.verb, c.required, b.reach) == ("d-c 1.0", "wrap", False, "everywhere")
    assert str(plan) == (
        "vendor:call  (not imported yet)\n"
        "  1  wrap  a from d-a 1.0  fits\n"
        "  2  wrap  c from d-c 1.0  fits\n"
        "  3  wrap, everywhere  b from d-b 1.0  fits"
    )


def test_what_is_planned_is_what_happens(install: Install, make_module: MakeModule) -> None:
    """For any selection and declaration the planned chain equals the chain of a call, and plan and run refuse alike."""
    vendor = make_module("vendor", "def call(): return []")
    chance = random.Random(3)
    names = [f"p{number}" for number in range(6)]
    declared = {
        name: f"{chance.choice(['before', 'after'])}={chance.sample(names, chance.randrange(3))}" for name in names
    }
    install(declared, **dict.fromkeys(names, "wrap()"))
    refused = 0
    for _ in range(60):
        selected = chance.sample(names, chance.randrange(1, 6))
        plan = hookpatch.plan(*selected)
        if plan.status:
            refused += 1
            with pytest.raises(OrderError) as caught:
                hookpatch.active(*selected).open()
            (target,) = plan
            assert str(caught.value) in [patch.reason for patch in target.patches]
        else:
            with hookpatch.active(*selected):
                assert [name for _, name, _ in chain(plan)] == vendor.call()
    assert 0 < refused < 60


def test_conflict_is_told_of_the_one_that_comes_second(install: Install, vendor: Path) -> None:
    """The second patch would be refused, or skipped if not required."""
    install(a="put()", b="put()", c="put(required=False)")
    plan = hookpatch.plan("a", "b", "c")
    assert chain(plan) == [(1, "a", "fits"), (None, "b", "conflict"), (None, "c", "skipped")]
    (target,) = plan
    assert target.patches[1].reason == (
        "plugin 'a' from d-a 1.0 also puts a value into the same slot (replace); select only one of the two, or "
        "declare the order with before= or after="
    )
    assert (plan.status, hookpatch.plan("a", "c").status) == (2, 1)


def test_cycle_is_printed_with_who_declares_it(install: Install, vendor: Path) -> None:
    """Through packages, in full."""
    install({"a": "before='b'", "b": "before='a'"}, a="wrap()", b="wrap()")
    plan = hookpatch.plan("b", "a")
    assert chain(plan) == [(1, "b", "fits"), (None, "a", "conflict")]
    cycle = (
        "a before b before a; plugin 'a' from d-a 1.0 declares before='b', plugin 'b' from d-b 1.0 declares before='a'"
    )
    assert cycle in str(plan)


def test_addresses_are_compared_as_they_are_written(install: Install, vendor: Path) -> None:
    """Two addresses of the same slot stay apart before the import; targets come in the order of selection."""
    install(a="wrap()", b="hookpatch.wrap('alias:call', tag)", c="hookpatch.enter('vendor', lambda module: None)")
    plan = hookpatch.plan("b", "a", "c")
    assert [target.target for target in plan] == ["alias:call", "vendor:call", "vendor"]


def test_what_is_entered_is_entered_as_selected(make_module: MakeModule) -> None:
    """It lies in no slot and is in nobody's way; patches given by hand are planned, too."""
    make_module("vendor", "")
    plan = hookpatch.plan(hookpatch.enter("vendor", nullcontext), hookpatch.enter("vendor", nullcontext))
    assert chain(plan) == [(1, None, "fits"), (2, None, "fits")]
    assert str(plan).splitlines()[1] == "  1  enter  given by hand  fits"


# --- findings of the guards


@pytest.mark.parametrize(
    ("facts", "finding", "status", "reason"),
    [
        ("requires='vendor-kit>=1,<2'", "fits", 0, None),
        (
            "requires='vendor-kit>=2'",
            "unfit",
            2,
            "made for vendor-kit>=2, but vendor-kit 1.4 is installed; install a fitting one, or a newer release of the "
            "plugin",
        ),
        ("requires='other>=2', required=False", "skipped", 1, "made for other>=2, but it is not installed; install it"),
    ],
)
def test_versions_are_compared(
    install: Install, vendor: Path, facts: str, finding: str, status: int, reason: str | None
) -> None:
    """Compare with the installed version, without an import."""
    install(a=f"wrap({facts})")
    plan = hookpatch.plan("a")
    (target,) = plan
    (patch,) = target.patches
    assert (patch.finding, patch.reason, plan.status) == (finding, reason, status)
    assert (patch.place is None) == (finding != "fits")


def test_patch_that_is_not_needed_any_more_is_a_warning(install: Install, vendor: Path) -> None:
    """A patch whose until= is met gets a warning, and would be applied."""
    install(a="wrap(until='vendor-kit>=1.2', why='it is slow', upstream='https://example.org/1')")
    plan = hookpatch.plan("a")
    (target,) = plan
    (patch,) = target.patches
    assert (patch.finding, plan.status) == ("fits", 0)
    assert patch.warnings == ("not needed from vendor-kit>=1.2 on, and vendor-kit 1.4 is installed",)
    assert (patch.why, patch.upstream) == ("it is slow", "https://example.org/1")
    assert str(plan).splitlines()[-1] == f"     warning: {patch.warnings[0]}"


@pytest.mark.parametrize("outer", ["inject", "default"])
@pytest.mark.parametrize("inner", ["wrap", "replace", "derive", "edit"])
def test_a_given_argument_outside_of_any_patch(outer: str, inner: str, make_module: MakeModule) -> None:
    """The plan of an imported module has both patches in their order, without a word of lost arguments."""
    make_module("vendor", "def call(wide=0): return wide")
    giving = {"inject": hookpatch.inject, "default": hookpatch.default}[outer]("vendor:call", wide=1)
    patch = {
        "wrap": lambda: hookpatch.wrap("vendor:call", lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs)),
        "replace": lambda: hookpatch.replace("vendor:call", lambda wide=0: wide),
        "derive": lambda: hookpatch.derive("vendor:call", lambda below: lambda wide=0: below(wide)),
        "edit": lambda: hookpatch.edit("vendor:call", "return wide", "return -wide"),
    }[inner]()
    ((given, other),) = [target.patches for target in hookpatch.plan(giving, patch)]
    assert [(row.place, row.verb, row.warnings) for row in (given, other)] == [(1, outer, ()), (2, inner, ())]


def test_target_that_is_imported_is_looked_at(make_module: MakeModule) -> None:
    """Signatures of an imported target are compared; an object without an address always."""
    module = make_module("vendor", "def call(deep): return []\nfor_c = len")
    replacement = hookpatch.replace("vendor:call", lambda: None)
    at_hand = hookpatch.inject(hookpatch.Target.attribute(module, "call"), wide=1, required=False)
    plan = hookpatch.plan(replacement, at_hand, hookpatch.inject("vendor:missing", wide=1))
    called, missing = plan
    assert [patch.finding for patch in called.patches] == ["unfit", "skipped"]
    assert "what replace puts at vendor:call takes ()" in str(called.patches[0].reason)
    assert called.patches[1].reason == "vendor:call takes no argument 'wide'; it takes deep"
    assert missing.patches[0].reason == "vendor has no attribute 'missing'"
    assert (called.imported, called.in_words, plan.status) == (True, "imported already", 2)


def test_objects_at_hand_that_look_alike_are_two_targets() -> None:
    """Both are a dict with a key."""
    first, second = ({"key": 1} for _ in range(2))
    patches = [
        hookpatch.replace(hookpatch.Target.item(mapping, "key"), 2, add=True) for mapping in (first, second, first)
    ]
    plan = hookpatch.plan(*patches)
    assert [len(target.patches) for target in plan] == [2, 1]
    assert {target.in_words for target in plan} == {"an object without an address"}


def test_what_is_patched_is_planned_as_it_was(make_module: MakeModule) -> None:
    """An open session does not change the plan, and the plan does not change the session's values."""
    vendor = make_module("vendor", "def call(deep): return deep")
    patch = hookpatch.wrap("vendor:call", lambda wrapped, instance, args, kwargs: -wrapped(*args), expects="deep")
    with hookpatch.active(patch) as session:
        stands = vendor.call
        assert chain(hookpatch.plan(patch)) == [(1, None, "fits")]
        assert (vendor.call is stands, vendor.call(3)) == (True, -3)
        assert [entry.state for entry in session.report()] == ["applied"]


# --- where the module is


def test_target_that_is_not_installed_is_planned(install: Install) -> None:
    """A patch of a missing module would wait: a warning, not an error; the order is planned all the same."""
    install(a="wrap(requires='vendor-kit>=1')", b="wrap(before='a')")
    plan = hookpatch.plan("a", "b")
    assert chain(plan) == [(1, "b", "absent"), (2, "a", "absent")]
    (target,) = plan
    assert (target.installed, target.imported, target.distribution, plan.status) == (False, False, None, 1)
    missing = "there is no module vendor here; a module beside a program's script is found when the script runs"
    assert [patch.reason for patch in target.patches] == [
        missing,
        f"{missing}; made for vendor-kit>=1, but it is not installed; install it",
    ]


def test_module_is_found_without_importing_its_package(write_module: WriteModule) -> None:
    """A module is found without importing its package; a near name is proposed."""
    path = write_module("kit.inner.deep", LOUD)
    for package in (path.parent.parent, path.parent):
        (package / "__init__.py").write_text(LOUD)
    assert presence_of("kit.inner.deep") == Presence(installed=True)
    hint = "; did you mean 'kit.inner.deep'?"
    missing = f"there is no module kit.inner.deap{hint}"
    assert presence_of("kit.inner.deap") == Presence(installed=False, missing=missing, hint=hint)
    assert presence_of("kit.outer.deep").missing == "there is no module kit.outer"
    assert presence_of("kit.inner.deep.more") == Presence(installed=None)
    assert not [name for name in sys.modules if name.startswith("kit")]
    assert not [*path.parents[2].rglob("*.imported")]


def test_imported_package_tells_where_its_modules_are(make_module: MakeModule, tmp_path: Path) -> None:
    """An imported package may have added folders; an imported module counts as installed."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "added.py").write_text(LOUD)
    make_module("kit.plain", "")
    sys.modules["kit"].__path__.append(str(tmp_path / "more"))
    assert presence_of("kit.added") == Presence(installed=True)
    assert presence_of("kit.plain") == Presence(installed=True, imported=True)
    assert presence_of("os.path") == Presence(installed=True, imported=True)
    assert presence_of("kit.plain.more") == Presence(installed=None)


def test_folders_without_an_init_are_packages(folder: Path) -> None:
    """The folders of a nested namespace package are known only after the import of the outer package."""
    (folder / "outer" / "inner").mkdir(parents=True)
    (folder / "outer" / "plain.py").write_text(LOUD)
    (folder / "outer" / "inner" / "plain.py").write_text(LOUD)
    importlib.invalidate_caches()
    assert presence_of("outer.plain") == Presence(installed=True)
    assert presence_of("outer.missing").installed is False
    assert presence_of("outer.inner.plain") == Presence(installed=None)
    importlib.import_module("outer")
    assert presence_of("outer.inner.plain") == Presence(installed=True)
    assert not [*folder.rglob("*.imported")]


# --- the selection


def test_plugin_that_patches_nothing_is_named(install: Install, vendor: Path) -> None:
    """A plan names a plugin without patches."""
    install(do_nothing="", b="wrap()")
    plan = hookpatch.plan("do_nothing", "b", "Do-Nothing")
    assert plan.idle == ("do_nothing",)
    assert str(plan).splitlines()[-1] == "do_nothing patches nothing"
    assert str(hookpatch.plan()) == "no patches"


def test_what_cannot_be_selected_cannot_be_planned(install: Install, vendor: Path) -> None:
    """plan() refuses the same selections as active(); open sessions count."""
    install(
        {"a": "needs='b'", "c": "conflicts='b'"}, a="wrap()", b="hookpatch.wrap('never_imported:call', tag)", c="wrap()"
    )
    with pytest.raises(MissingPlugin, match="name 'b', too"):
        hookpatch.plan("a")
    with hookpatch.active("b"):
        assert chain(hookpatch.plan("a")) == [(1, "a", "fits")]
        with pytest.raises(ConflictingPlugins):
            hookpatch.plan("c")
    with pytest.raises(UnknownPlugin):
        hookpatch.plan("d")
    for wrong in ({"what": 3}, {"options": 3}):
        with pytest.raises(SettingError, match=r"^plan\(\): "):
            hookpatch.plan(*filter(None, [wrong.get("what")]), options=wrong.get("options"))  # type: ignore[arg-type]


def test_plan_inside_a_block_that_child_processes_must_have(install: Install, vendor: Path) -> None:
    """The process that a plan looks in is hookpatch's own, and plain on purpose: neither refused nor warned of."""
    install({}, a="wrap()", b="hookpatch.wrap('never_imported:call', tag)")
    with hookpatch.active("b", children="require"):
        assert chain(hookpatch.plan("a")) == [(1, "a", "fits")]


# --- no import, no change

LOOK = """
    import json, sys
    import hookpatch
    from hookpatch._bootstrap import imports
    from hookpatch._inspect import plan as _plan
    from hookpatch._plugins import host
    from hookpatch._engine.patch import versions
    from hookpatch._engine.site import sites
    before = set(sys.modules)
    plan = hookpatch.plan(*{names}, options={options})
    new = sorted(set(sys.modules) - before)
    finders = [type(finder).__name__ for finder in sys.meta_path]
    print(json.dumps({{"new": new, "status": plan.status, "targets": [one.target for one in plan], "chain":
        [[patch.plugin for patch in one.patches] for one in plan], "versions": [one.version for one in plan],
        "patched": [str(site.slot) for site in sites.patched()],
        "watched": [wish.module for wish in imports.pending()]}}))
    """


def plan_in_new_process(*names: str, options: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Plan in a new interpreter; return the result and all imported modules."""
    code = textwrap.dedent(LOOK.format(names=names, options=dict(options)))
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(completed.stdout)
    return answer


@pytest.mark.model
def test_real_libraries_are_not_imported() -> None:
    """Plugins for onnxsim and torch: of theirs, the modules of the plugins alone."""
    names = ["fuse_qkv_off", "linear_kept", "onnxsim_skip", "symbolic_functions", "rmsnorm_node", "gelu_node"]
    answer = plan_in_new_process(*names, options={"onnxsim_skip": {"passes": ["fuse_qkv"]}})
    packages = {name.partition(".")[0] for name in answer["new"]}
    assert not packages & {"onnxsim", "onnx", "torch", "numpy", "transformers", "onnxruntime", "onnxscript"}
    assert {"hookpatch_onnxsim", "hookpatch_onnx"} <= packages
    assert answer["targets"][:2] == ["onnxsim.onnx_simplifier:simplify", "onnxsim.onnx_simplifier"]
    assert answer["chain"][0] == ["fuse_qkv_off", "linear_kept", "onnxsim_skip"]
    assert (answer["patched"], answer["watched"], answer["status"]) == ([], [], 0)
    assert all(answer["versions"])


# --- the command


def test_schema_is_documented() -> None:
    """Every name in the JSON, and every finding, stands in docs/design.md, in the section of the plan."""
    page = (Path(__file__).parents[2] / "docs" / "design.md").read_text()
    section = page.partition("## The plan\n")[2].partition("\n## ")[0]
    kinds = (hookpatch.Plan, hookpatch.PlannedTarget, hookpatch.PlannedPatch)
    names = {"status", *(field.name for kind in kinds for field in dataclasses.fields(kind))}
    assert not {name for name in names if f"`{name}`" not in section}
    assert not {finding for finding in get_args(Finding) if f"*{finding}*" not in section}


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """Make an environment with plugins and their target, whose import prints a line."""
    for name, patches in {
        "a": "wrap(), put()",
        "b": "wrap(before='a')",
        "late": "hookpatch.wrap('nowhere.deep:call', tag)",
        "twin": "put()",
        "old": "wrap(requires='vendor-kit>=2', until='a-dist>=1')",
    }.items():
        environment.add_plugin(name, source(name, patches))
    environment.add_plugin("tuned", TUNED)
    (environment.site_packages / "vendor.py").write_text(textwrap.dedent(VENDOR))
    info = environment.site_packages / "vendor-1.4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vendor\nVersion: 1.4\n")
    (info / "RECORD").write_text("vendor.py,,\n")
    environment.work_in(tmp_path / "work", {"a file": ""})
    return environment


TUNED = """
    from dataclasses import dataclass
    import hookpatch

    @dataclass(frozen=True)
    class Options:
        speed: int

    @hookpatch.hookimpl
    def hookpatch_patches(options):
        yield hookpatch.replace("vendor:speed", options.speed, why=f"speed {options.speed}")
    """

AT_80 = """\
vendor:call  vendor 1.4, not imported yet
  1  a     wrap                fits  a-dist 1.0
  -  old   wrap                does not fit  old-dist 1.0
     made for vendor-kit>=2, but it is not installed; install it
     not needed from a-dist>=1 on, and a-dist 1.0 is installed
vendor:value  vendor 1.4, not imported yet
  1  a     replace             fits  a-dist 1.0
  -  twin  replace             conflicts  twin-dist 1.0
     plugin 'a' from a-dist 1.0 also puts a value into the same slot (replace);
     select only one of the two, or declare the order with before= or after=
"""


def test_command_prints_the_plan(home: Environment) -> None:
    """The output is plain in a pipe, folded and coloured in a terminal; the status is the worst finding's."""
    script = home.python.parent / "hookpatch"
    completed = home.run(script, "plan", "a", "b")
    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout == (
        "vendor:call  (vendor 1.4, not imported yet)\n"
        "  1  wrap  b from b-dist 1.0  fits\n"
        "  2  wrap  a from a-dist 1.0  fits\n"
        "vendor:value  (vendor 1.4, not imported yet)\n"
        "  1  replace  a from a-dist 1.0  fits\n"
    )
    completed = home.run(script, "plan", HOOKPATCH_PLUGINS="a,b", HOOKPATCH_OPTIONS="{}", COLUMNS="40")
    assert (completed.stdout.count("\n"), completed.returncode) == (5, 0)  # no line is folded in a pipe
    completed = home.run(script, "plan", "late", HOOKPATCH_DISABLE="1")
    assert completed.stderr == "hookpatch: warning: HOOKPATCH_DISABLE is set: none of these patches would be applied\n"
    assert completed.returncode == 1
    terminal = home.run(script, "plan", "a", "old", "twin", COLUMNS="80", FORCE_COLOR="1", TERM="xterm")
    plain = "".join(f"{line.rstrip()}\n" for line in COLOURS.sub("", terminal.stdout).splitlines())
    assert (plain, terminal.returncode) == (AT_80, 2)
    assert COLOURS.search(terminal.stdout)
    completed = home.run(script, "plan")
    assert completed.stderr == (
        "hookpatch: error: hookpatch plan: no plugin is named, and neither HOOKPATCH_PLUGINS nor a configuration "
        "names one; write it like 'hookpatch plan fuse_qkv_off' [hookpatch explain SettingError]\n"
    )
    assert completed.returncode == 78


@pytest.mark.ends
def test_command_prints_json(home: Environment) -> None:
    """The JSON has the documented names; options count, also those of the environment."""
    script = home.python.parent / "hookpatch"
    completed = home.run(script, "plan", "tuned", "-o", "tuned.speed=3", "--json")
    patch = {"place": 1, "plugin": "tuned", "distribution": "tuned-dist 1.0", "verb": "replace", "reach": "slot"}
    patch |= {"required": True, "finding": "fits", "reason": None, "warnings": [], "why": "speed 3", "upstream": None}
    patch["callers"] = []
    target = {"target": "vendor:speed", "module": "vendor", "distribution": "vendor", "version": "1.4"}
    target |= {"installed": True, "imported": False, "patches": [patch]}
    assert json.loads(completed.stdout) == {"status": 0, "targets": [target], "idle": []}
    variables = {"HOOKPATCH_PLUGINS": "tuned", "HOOKPATCH_OPTIONS": '{"tuned": {"speed": 4}}'}
    assert '"why": "speed 4"' in home.run(script, "plan", "--json", **variables).stdout
    assert '"why": "speed 5"' in home.run(script, "plan", "--json", "-o", "tuned.speed=5", **variables).stdout
    assert '"why": "speed 4"' in home.run(script, "plan", "tuned", "--json", **variables).stdout
    completed = home.run(script, "plan", "tuned")
    assert "options of plugin 'tuned' (tuned-dist 1.0): 'speed' must be given" in completed.stderr

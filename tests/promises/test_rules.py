"""Rules: a patch for many slots. Each match, present or to come, is a patch of its own, restored at the end."""

from __future__ import annotations

import contextlib
import importlib
import math
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch._bootstrap import imports
from hookpatch._engine.rules.match import matches_in
from hookpatch.errors import (
    ApplyError,
    CallsError,
    ConflictError,
    LateWarning,
    MatchesError,
    PatchError,
    PatchFailedWarning,
    TargetRefused,
    TooFewMatchesWarning,
)

VENDOR = """
import os
from ruled_other import elsewhere, Elsewhere

LIMIT = 3
__version__ = "1"

class ANorm:
    eps = 1
    def forward(self): return "A"
    @classmethod
    def made(cls): return "made " + cls.__name__
    @staticmethod
    def plain(): return "plain"

class BNorm:
    def forward(self): return "B"

class CNorm(BNorm):
    pass

class Other:
    def forward(self): return "O"

class Base:
    def run(self): return "base"

class Middle(Base):
    pass

class Sub(Middle):
    def run(self): return "sub " + super().run()

def get_a(): return "a"
def get_b(): return "b"
get_c = get_a

class Registry(dict): pass
TABLE = {"a": get_a, 3: get_b, ANorm: get_a, ("x", 1): LIMIT}
ENTRIES = [get_a, get_b]
"""
OTHER = """
def elsewhere(): return "elsewhere"
class Elsewhere:
    def forward(self): return "E"
"""
SOURCE = """
def get_a(): return "from a"
def get_b(): return "from b"
forward = "no function"
"""


def louder(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Mark the result of a call."""
    return f"<{wrapped(*args, **kwargs)}>"


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType], write_module: Callable[[str, str], Path]) -> Any:
    """The module to patch."""
    write_module("ruled_other", OTHER)
    write_module("ruled_source", SOURCE)
    return make_module("ruled_vendor", VENDOR)


def rows(report: hookpatch.Report) -> list[tuple[str, str]]:
    """Return the addresses and states of the matches; the rule itself is the first row."""
    first, *matches = report
    assert all(row.rule == first.target for row in matches)
    return [(row.target.removeprefix("ruled_vendor:"), row.state) for row in matches]


def own(owner: Any) -> dict[str, Any]:
    """Return what a class, a module or a mapping holds itself, to compare by identity and in order."""
    return dict(owner if isinstance(owner, dict) else vars(owner))


MATCHES = {
    "*Norm.forward": ["ANorm.forward", "BNorm.forward"],
    "*Norm.f*": ["ANorm.forward", "BNorm.forward"],
    "get_*": ["get_a", "get_b", "get_c"],
    "*_a": ["get_a"],
    "ANorm.*": ["ANorm.eps", "ANorm.forward", "ANorm.made", "ANorm.plain"],
    "Base+.run": ["Base.run", "Sub.run"],
    "*Base+.r*": ["Base.run", "Sub.run"],
    "Middle+.run": ["Sub.run"],
    "TABLE[*]": ["TABLE['a']", "TABLE[3]", "TABLE[ruled_vendor:ANorm]", "TABLE[('x', 1)]"],
    "ENTRIES[*]": ["ENTRIES[0]", "ENTRIES[1]"],
    "T*[*]": ["TABLE['a']", "TABLE[3]", "TABLE[ruled_vendor:ANorm]", "TABLE[('x', 1)]"],
    "*where*": [],  # defined elsewhere
    "o*": [],  # an imported module
    "*version*": [],  # two underscores at both ends
    "L*": ["LIMIT"],
}


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("way", MATCHES)
@pytest.mark.sampled(10)
def test_a_rule_stands_for(way: str, is_there: bool, vendor: Any) -> None:
    """Each kind of address, the module there or to come: each match once, in order, and exactly restored."""
    if not is_there:
        del sys.modules["ruled_vendor"]
    before = [own(owner) for owner in (vendor, vendor.ANorm, vendor.BNorm, vendor.Base, vendor.Sub, vendor.TABLE)]
    with hookpatch.active(hookpatch.replace(f"ruled_vendor:{way}", "new", matches=">=0")) as session:
        module: Any = importlib.import_module("ruled_vendor")
        matches = rows(session.report())
        assert matches == [(address, "applied") for address in MATCHES[way]]
        count = len(MATCHES[way])
        assert session.report().patches[0].state == ("applied" if count else "waiting")
        for address, _ in matches:
            slot = hookpatch.why(f"ruled_vendor:{address}")
            assert [layer.by for layer in slot] == ["hookpatch", "module"]
    assert {state for _, state in rows(session.report())} <= {"restored"}
    if is_there:
        assert module is vendor
        after = [own(owner) for owner in (vendor, vendor.ANorm, vendor.BNorm, vendor.Base, vendor.Sub, vendor.TABLE)]
        assert [[*map(id, namespace.values())] for namespace in after] == [
            [*map(id, namespace.values())] for namespace in before
        ]
        assert [[*namespace] for namespace in after] == [[*namespace] for namespace in before]


VERBS: dict[str, tuple[Callable[[str], hookpatch.Patch], Any]] = {
    "wrap": (lambda to: hookpatch.wrap(to, louder), ("<A>", "<B>", "O")),
    "replace": (lambda to: hookpatch.replace(to, lambda self: "new"), ("new", "new", "O")),
    "derive": (lambda to: hookpatch.derive(to, lambda old: lambda self: f"derived {old(self)}"), None),
    "edit": (lambda to: hookpatch.edit(to, "return", "return 'edited ' +"), ("edited A", "edited B", "O")),
    "everywhere": (lambda to: hookpatch.wrap(to, louder, reach="everywhere"), ("<A>", "<B>", "O")),
}


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_takes_a_rule(verb: str, vendor: Any) -> None:
    """Each verb acts on each match as on a single slot."""
    declare, expected = VERBS[verb]
    with hookpatch.active(declare("ruled_vendor:*Norm.forward"), children="local"):
        answers = tuple(cls().forward() for cls in (vendor.ANorm, vendor.BNorm, vendor.Other))
    assert answers == (expected or ("derived A", "derived B", "O"))
    assert tuple(cls().forward() for cls in (vendor.ANorm, vendor.BNorm, vendor.Other)) == ("A", "B", "O")


def test_inject_default_and_remove_take_a_rule(make_module: Callable[[str, str], Any]) -> None:
    """Arguments go to each match; removed names are back at their places."""
    module = make_module(
        "ruled_calls", "def get_a(x=0): return x\ndef get_b(x=0): return -x\ntable = {'a': 1, 'b': 2}\n"
    )
    with hookpatch.active(hookpatch.inject("ruled_calls:get_*", x=3)):
        assert (module.get_a(), module.get_b()) == (3, -3)
    with hookpatch.active(hookpatch.default("ruled_calls:get_*", x=3)):
        assert (module.get_a(), module.get_b(1)) == (3, -1)
    with hookpatch.active(hookpatch.remove("ruled_calls:table[*]")):
        assert module.table == {}
    assert [*module.table.items()] == [("a", 1), ("b", 2)]


def test_each_level_that_is_called_runs_the_wrapper(vendor: Any) -> None:
    """Each called level runs the wrapper, with ``super().run()``; an inheriting class once."""
    with hookpatch.active(hookpatch.wrap("ruled_vendor:Base+.run", louder)):
        assert (vendor.Sub().run(), vendor.Middle().run()) == ("<sub <base>>", "<base>")
    assert vendor.Sub().run() == "sub base"


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_a_class_made_anew(reach: Any, vendor: Any) -> None:
    """A class statement run again, as in a notebook, makes another class of the same name: it is patched at a look."""

    def make() -> type:
        class Made(vendor.Base):  # type: ignore[misc]  # mypy has no name for the base
            def run(self) -> str:
                return "made"

        Made.__qualname__ = "Made"
        Made.__module__ = "ruled_vendor"
        vendor.Made = Made
        return Made

    classes = [make()]
    with hookpatch.active(hookpatch.wrap("ruled_vendor:Base+.run", louder, reach=reach), children="local") as session:
        for _ in range(2):
            classes.append(make())
            with pytest.warns(LateWarning):
                session.report()
            assert [cls().run() for cls in classes] == ["<made>"] * len(classes)  # type: ignore[attr-defined]
    assert [cls().run() for cls in classes] == ["made"] * 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_a_module_of_a_subclass_reloaded_twice(
    reach: Any, vendor: Any, write_module: Callable[[str, str], Path]
) -> None:
    """The classes of each execution, of which instances may be alive, run the wrapper once a call."""
    write_module("ruled_late", "from ruled_vendor import Base\nclass Late(Base):\n    def run(self): return 'late'")
    module: Any = importlib.import_module("ruled_late")
    with hookpatch.active(hookpatch.wrap("ruled_vendor:Base+.run", louder, reach=reach), children="local") as session:
        classes = [module.Late]
        for _ in range(3):
            classes.append(importlib.reload(module).Late)
            session.report()
        assert [cls().run() for cls in classes] == ["<late>"] * 4
    assert [cls().run() for cls in classes] == ["late"] * 4
    del sys.modules["ruled_late"]


@pytest.mark.parametrize("is_there", [True, False])
def test_in_place_a_function_with_two_names_is_patched_once(is_there: bool, vendor: Any) -> None:
    """``get_c`` is ``get_a``: with reach="everywhere" the wrapper runs once a call."""
    if not is_there:
        del sys.modules["ruled_vendor"]
    with hookpatch.active(hookpatch.wrap("ruled_vendor:get_*", louder, reach="everywhere")):
        module: Any = importlib.import_module("ruled_vendor")
        assert (module.get_a(), module.get_b(), module.get_c(), module.TABLE["a"]()) == ("<a>", "<b>", "<a>", "<a>")
    assert (module.get_a(), module.get_c()) == ("a", "a")


def test_a_task_alone(vendor: Any) -> None:
    """scope="task" holds for each match: another thread does not see the patch."""
    heard: list[str] = []
    is_on = threading.Event()
    thread = threading.Thread(target=lambda: is_on.wait(10) and heard.append(vendor.get_a()))
    thread.start()
    with hookpatch.active(hookpatch.wrap("ruled_vendor:get_*", louder), scope="task"):
        assert vendor.get_a() == "<a>"
        is_on.set()
        thread.join()
    assert heard == ["a"]


# --- later imports


@pytest.fixture
def models(write_module: Callable[[str, str], Path]) -> list[str]:
    """Return the names of three modules of a package, not imported, each with two norms."""
    names = [f"ruled_zoo.models.{name}.modeling_{name}" for name in ("ape", "bee", "cat")]
    for package in ("ruled_zoo", "ruled_zoo.models", *(name.rpartition(".")[0] for name in names)):
        write_module(f"{package}.__init__", "")
    for name in names:
        write_module(name, f"class {name[-3:].title()}Norm:\n    def forward(self): return {name[-3:]!r}\n")
    write_module("ruled_zoo.models.ape.configuration_ape", "class ConfigNorm:\n    def forward(self): return 'no'\n")
    return names


RULE = "ruled_zoo.models.*.modeling_*:*Norm.forward"


@pytest.mark.parametrize("before", range(4))
def test_modules_imported_before_and_after(before: int, models: list[str]) -> None:
    """A pattern of modules takes modules imported before entering, and modules imported inside."""
    for name in models[:before]:
        importlib.import_module(name)
    with hookpatch.active(hookpatch.wrap(RULE, louder)) as session:
        assert len([*session.report()]) == 1 + before
        loaded = [importlib.import_module(name) for name in [*models, "ruled_zoo.models.ape.configuration_ape"]]
        answers = [getattr(module, name)().forward() for module in loaded for name in vars(module) if "Norm" in name]
        assert answers == ["<ape>", "<bee>", "<cat>", "no"]
        assert [row.state for row in session.report()] == ["applied"] * 4
    assert [loaded[0].ApeNorm().forward(), loaded[2].CatNorm().forward()] == ["ape", "cat"]
    assert imports.pending() == []


def test_a_module_that_is_executed_anew_is_patched_anew(models: list[str]) -> None:
    """A reload makes new classes: the old match is a row, the new match another."""
    module: Any = importlib.import_module(models[0])
    path = Path(str(module.__file__))
    with hookpatch.active(hookpatch.wrap(RULE, louder)) as session:
        path.write_text(path.read_text() + "class NewNorm:\n    def forward(self): return 'new'\n")
        importlib.invalidate_caches()
        importlib.reload(module)
        assert (module.ApeNorm().forward(), module.NewNorm().forward()) == ("<ape>", "<new>")
        assert {row.target.rpartition(":")[2] for row in session.report()} == {
            "*Norm.forward",
            "ApeNorm.forward",
            "NewNorm.forward",
        }
    assert (module.ApeNorm().forward(), module.NewNorm().forward()) == ("ape", "new")


@pytest.mark.parametrize("verb", ["wrap", "inject", "replace", "derive", "edit"])
@pytest.mark.parametrize("end", ["+.run", "*.run"])
def test_a_method_that_a_reload_takes_away(verb: str, end: str, write_module: Callable[[str, str], Path]) -> None:
    """A class that inherits the method after a reload is no match any longer, and gets nothing."""
    base = "class Base:\n    def run(self, x='x'): return 'made' + x\n"
    path = write_module("ruled_late", base + "class Late(Base):\n    def run(self, x='x'): return 'made' + x\n")
    module: Any = importlib.import_module("ruled_late")
    change: Any = {
        "wrap": (louder,),
        "inject": ({"x": "y"},),
        "replace": (lambda self, x="x": "new",),
        "derive": (lambda below: lambda self, x="x": f"<{below(self)}>",),
        "edit": ("'made'", "'edited'"),
    }[verb]
    address = "ruled_late:Base+.run" if end == "+.run" else "ruled_late:*.run"
    with hookpatch.active(getattr(hookpatch, verb)(address, *change), children="local"):
        path.write_text(base + "class Late(Base): later = True\n")
        importlib.invalidate_caches()
        importlib.reload(module)
        assert "run" not in vars(module.Late)
        assert module.Late().run() == module.Base().run() != "madex"
    assert module.Late().run() == "madex"
    del sys.modules["ruled_late"]


def test_a_subclass_in_a_module_that_comes(vendor: Any, write_module: Callable[[str, str], Path]) -> None:
    """A subclass in a module outside the rule is found at the end of the import."""
    write_module(
        "ruled_below", "import ruled_vendor\nclass Below(ruled_vendor.Base):\n    def run(self): return 'below'\n"
    )
    with hookpatch.active(hookpatch.wrap("ruled_vendor:Base+.run", louder)) as session:
        below: Any = importlib.import_module("ruled_below")
        assert below.Below().run() == "<below>"
        assert [row.target for row in session.report()][-1] == "ruled_below:Below.run"
    assert below.Below().run() == "below"


def test_what_no_import_tells_of_is_patched_at_the_next_look(vendor: Any) -> None:
    """A class made inside, and an added name or entry, are patched at the next report, with a LateWarning."""
    rules = [
        hookpatch.wrap("ruled_vendor:Base+.run", louder),
        hookpatch.replace("ruled_vendor:TABLE[*]", "new"),
        hookpatch.wrap("ruled_vendor:get_*", louder),
    ]
    with hookpatch.active(*rules, children="local") as session:

        class Late(vendor.Base):  # type: ignore[misc]  # the fixture is Any
            def run(self) -> str:
                return "late"

        vendor.TABLE["later"] = "old"
        vendor.get_later = lambda: "later"
        assert (Late().run(), vendor.TABLE["later"], vendor.get_later()) == ("late", "old", "later")
        with pytest.warns(LateWarning) as caught:
            report = session.report()
        late = "applied late: it appeared without an import, after the session was opened"
        assert [row.target for row in report if row.warnings == (late,)] == [
            f"{__name__}:test_what_no_import_tells_of_is_patched_at_the_next_look.<locals>.Late.run",
            "ruled_vendor:TABLE['later']",
        ]
        assert len(caught) == 2
        assert (Late().run(), vendor.TABLE["later"]) == ("<late>", "new")
    assert (Late().run(), vendor.TABLE["later"]) == ("late", "old")


def test_an_open_rule_is_not_found_by_a_module_that_does_not_match(models: list[str], vendor: Any) -> None:
    """The finder leaves the spec of any other module alone."""
    with hookpatch.active(hookpatch.wrap(RULE, louder)):
        [finder] = imports.finders(ours=True)
        assert finder.find_spec("ruled_other") is None  # type: ignore[attr-defined]  # a finder
        assert finder.find_spec("ruled_zoo.models.ape") is None  # type: ignore[attr-defined]  # likewise


def test_threads_that_import_at_once(vendor: Any, write_module: Callable[[str, str], Path]) -> None:
    """Threads importing at once look at all subclasses: a match is patched once, and restored."""
    names = [f"ruled_thread_{number}" for number in range(8)]
    for name in names:
        source = "".join(f"class C{number}(Base):\n    def run(self): return 'c'\n" for number in range(20))
        write_module(name, f"from ruled_vendor import Base\n{source}")
    with hookpatch.active(hookpatch.wrap("ruled_vendor:Base+.run", louder)) as session:
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        threads = [threading.Thread(target=importlib.import_module, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
        classes: list[Any] = [getattr(sys.modules[name], f"C{number}") for name in names for number in range(20)]
        assert {cls().run() for cls in classes} == {"<c>"}
        addresses = [row.target for row in session.report()]
        assert len(addresses) == len({*addresses}) == 1 + 2 + len(classes)
    assert {cls().run() for cls in classes} == {"c"}


def test_a_module_out_of_sys_modules(vendor: Any, write_module: Callable[[str, str], Path]) -> None:
    """Python takes a module out of sys.modules at the end of an import: another thread patches a class of it."""
    begun, executed, taken_out, put_back = (threading.Event() for _ in range(4))

    def stop_in_gap(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_name == "_load_unlocked" and executed.is_set() and "ruled_gap" not in sys.modules:
            taken_out.set()
            put_back.wait(60)
        return stop_in_gap

    def import_it() -> None:
        sys.settrace(stop_in_gap)
        importlib.import_module("ruled_gap")

    def factory(run: Any) -> Any:
        if run.__qualname__ == "D.run":  # the patch of C is the next, and is claimed by this thread
            executed.set()
            assert taken_out.wait(60)
        return lambda self: f"<{run(self)}>"

    thread = threading.Thread(target=import_it)
    vendor.wait = lambda: begun.set() or executed.wait(60)
    vendor.start = lambda: thread.start() or begun.wait(60)
    method = "    def run(self): return 'c'\n"
    write_module("ruled_gap", f"from ruled_vendor import Base, wait\nclass C(Base):\n{method}wait()\n")
    write_module("ruled_beside", f"from ruled_vendor import Base, start\nclass D(Base):\n{method}start()\n")
    with hookpatch.active(hookpatch.derive("ruled_vendor:Base+.run", factory)):
        importlib.import_module("ruled_beside")
        assert "ruled_gap" not in sys.modules
        put_back.set()
        thread.join()
        made = sys.modules["ruled_gap"].C()
        assert made.run() == "<c>"
    assert made.run() == "c"


@pytest.mark.parametrize("target", ["__main__:Base+.run", "__main__:Base+().run"])
def test_a_module_of_c_is_imported_in_the_block(target: str) -> None:
    """On Python 3.11 the class ``_socket.socket`` has no ``__mro__`` before a look: the import raised TypeError."""
    program = f"""
import hookpatch, sys
class Base:
    def run(self): return "run"
with hookpatch.active(hookpatch.wrap({target!r}, lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs))):
    assert "_socket" not in sys.modules
    import _socket
"""
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (completed.returncode, completed.stderr) == (0, "")


# --- how many


ENTERING = {
    "1": "*Norm.forward matches 2 slots, and must match 1: ruled_vendor:ANorm.forward, ruled_vendor:BNorm.forward",
    "<2": "*Norm.forward matches 2 slots, and must match at most 1: "
    "ruled_vendor:ANorm.forward, ruled_vendor:BNorm.forward",
    "3": "*Norm.forward matches 2 slots, and must match 3; near: ruled_vendor:CNorm.forward is inherited",
    ">=3,<5": (
        "*Norm.forward matches 2 slots, and must match at least 3 and at most 4; "
        "near: ruled_vendor:CNorm.forward is inherited"
    ),
}


@pytest.mark.parametrize("allowed", ["2", ">=1", "==2", "<=2", ">1,<3", ">=0"])
def test_a_number_that_is_met(allowed: str, vendor: Any) -> None:
    """The block runs."""
    matches = int(allowed) if allowed.isdigit() else allowed
    with hookpatch.active(hookpatch.wrap("ruled_vendor:*Norm.forward", louder, matches=matches)):
        assert vendor.ANorm().forward() == "<A>"


@pytest.mark.parametrize("is_required", [True, False])
@pytest.mark.parametrize("allowed", ENTERING)
def test_a_number_that_is_not_met_at_entering(allowed: str, is_required: bool, vendor: Any) -> None:
    """The session is refused with the near misses; an optional rule is skipped with the same reason."""
    matches = int(allowed) if allowed.isdigit() else allowed
    rule = hookpatch.wrap("ruled_vendor:*Norm.forward", louder, matches=matches, required=is_required)
    problem = f"ruled_vendor:{ENTERING[allowed]}"
    single = hookpatch.wrap("ruled_vendor:get_a", louder)
    if is_required:
        with pytest.raises(MatchesError) as caught, hookpatch.active(single, rule):
            pass
        assert caught.value.problem == problem
    else:
        with hookpatch.active(single, rule) as session:
            assert (vendor.get_a(), vendor.ANorm().forward()) == ("<a>", "A")
            [_, row] = session.report()
            assert (row.state, row.reason) == (
                "skipped",
                f"{problem} (target {rule.address} of a patch given to active())",
            )
    assert vendor.get_a() == "a"


def test_too_many_as_modules_come(models: list[str]) -> None:
    """A match beyond the number is not patched, with a warning; earlier matches keep the patch."""
    with hookpatch.active(hookpatch.wrap(RULE, louder, matches="<=1")) as session:
        first: Any = importlib.import_module(models[0])
        with pytest.warns(PatchFailedWarning, match="matches 2 slots, and must match at most 1") as caught:
            second: Any = importlib.import_module(models[1])
        assert len(caught) == 1
        assert (first.ApeNorm().forward(), second.BeeNorm().forward()) == ("<ape>", "bee")
        assert [row.state for row in session.report()] == ["failed", "applied"]
    assert first.ApeNorm().forward() == "ape"


def test_too_few_at_the_end(models: list[str]) -> None:
    """The end judges the number for a pattern of modules; without an import only a given number."""
    with pytest.warns(TooFewMatchesWarning) as caught, hookpatch.active(hookpatch.wrap(RULE, louder, matches=3)):
        importlib.import_module(models[0])
    assert [str(warning.message) for warning in caught] == [
        f"{RULE} matches 1 slot, and must match 3 (of a patch given to active())"
    ]
    nowhere = hookpatch.wrap("ruled_nowhere.*:*Norm.forward", louder, matches=3)
    with pytest.warns(TooFewMatchesWarning, match="matches nothing, and must match 3"), hookpatch.active(nowhere):
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with hookpatch.active(hookpatch.wrap("ruled_nowhere.*:*Norm.forward", louder)) as session:
            pass
    [row] = session.report()
    assert (row.state, row.reason) == ("unused", "no module of ruled_nowhere.* was imported")


NEAR = {
    "ruled_vendor:*norm.forward": "ruled_vendor:ANorm.forward does not match *norm",
    "ruled_vendor:*Norm.forwrd": "ruled_vendor:ANorm.forward does not match forwrd",
    "ruled_vendor:CNor*.forward": "ruled_vendor:CNorm.forward is inherited",
    "ruled_vendor:elsewh*": "ruled_vendor:elsewhere is defined in ruled_other",
}


@pytest.mark.parametrize("address", NEAR)
def test_near_misses_are_told(address: str, vendor: Any) -> None:
    """A near miss matches in all parts but one: another name, an inherited name, an alias."""
    with pytest.raises(MatchesError) as caught, hookpatch.active(hookpatch.wrap(address, louder)):
        pass
    assert f"near: {NEAR[address]}" in caught.value.problem


def test_a_near_module_is_told(models: list[str]) -> None:
    """All but the module part matches in another module of the package."""
    importlib.import_module("ruled_zoo.models.ape.configuration_ape")
    importlib.import_module(models[0])
    rule = hookpatch.wrap("ruled_zoo.models.*.modeling_*:Config*.forward", louder)
    with pytest.warns(TooFewMatchesWarning) as caught, hookpatch.active(rule):
        pass
    assert "near: ruled_zoo.models.ape.configuration_ape:ConfigNorm.forward is in another module" in str(
        caught[0].message
    )


# --- from a module to another


def test_names_of_one_module_onto_another(vendor: Any) -> None:
    """``*`` takes the same name; a name that the source lacks is told, and left alone."""
    rule = hookpatch.replace("ruled_vendor:get_*", source="ruled_source:get_*")
    with hookpatch.active(rule) as session:
        source: Any = sys.modules["ruled_source"]
        assert vendor.get_a is source.get_a
        assert vendor.get_b is source.get_b
        assert vendor.get_c() == "a"
        assert session.report().patches[0].reason == (
            "matches 2 slots; no match: ruled_vendor:get_c is missing in the source: ruled_source:get_c"
        )
    assert (vendor.get_a(), vendor.get_b()) == ("a", "b")
    with pytest.raises(MatchesError, match="matches 2 slots, and must match 3; near: ruled_vendor:get_c is missing in"):
        hookpatch.active(hookpatch.replace("ruled_vendor:get_*", source="ruled_source:get_*", matches=3)).open()


def test_a_single_source_for_all(vendor: Any) -> None:
    """An address without ``*`` gives each match the same value."""
    with hookpatch.active(hookpatch.replace("ruled_vendor:get_*", source="ruled_source:get_a")):
        assert (vendor.get_a(), vendor.get_b(), vendor.get_c()) == ("from a",) * 3


def test_entries_of_a_source(vendor: Any, make_module: Callable[[str, str], Any]) -> None:
    """``[*]`` takes the same key."""
    make_module("ruled_table", "TABLE = {'a': 'other a', 3: 'other 3'}\n")
    with hookpatch.active(hookpatch.replace("ruled_vendor:TABLE[*]", source="ruled_table:TABLE[*]")):
        assert (vendor.TABLE["a"], vendor.TABLE[3], vendor.TABLE["x", 1]) == ("other a", "other 3", 3)
    assert vendor.TABLE["a"] is vendor.get_a


def test_a_source_that_imports_the_package_of_the_target(write_module: Callable[[str, str], Path]) -> None:
    """The source waits for the end of the package's import, instead of a half import."""
    write_module("ruled_torch.__init__", "from ruled_torch import cuda\nREADY = True\n")
    write_module("ruled_torch.cuda", "def sync(): return 'cuda'\n")
    write_module("ruled_npu", "import ruled_torch\nassert ruled_torch.READY\ndef sync(): return 'npu'\n")
    with hookpatch.active(hookpatch.replace("ruled_torch.cuda:*", source="ruled_npu:*", only=callable)):
        module: Any = importlib.import_module("ruled_torch")
        assert module.cuda.sync() == "npu"
    assert module.cuda.sync() == "cuda"


def test_a_source_that_does_not_exist_is_refused(vendor: Any) -> None:
    """The message has the missing source."""
    with pytest.raises(ApplyError, match=r"the source ruled_nowhere:\* cannot be imported: No module named"):
        hookpatch.active(hookpatch.replace("ruled_vendor:*", source="ruled_nowhere:*", only=callable)).open()


def test_a_hundred_names_at_once(make_module: Callable[[str, str], Any]) -> None:
    """Replace and restore 104 names, as of torch.cuda."""
    names = [f"name_{number}" for number in range(104)]
    module = make_module("ruled_cuda", "".join(f"def {name}(): return 'cuda'\n" for name in names) + "LIMIT = 1\n")
    make_module("ruled_npu", "".join(f"def {name}(): return 'npu'\n" for name in names) + "LIMIT = 2\n")
    before = own(module)
    with hookpatch.active(
        hookpatch.replace("ruled_cuda:*", source="ruled_npu:*", only=callable, matches=104)
    ) as session:
        assert ({getattr(module, name)() for name in names}, module.LIMIT) == ({"npu"}, 1)
        assert len([*session.report()]) == 105
    assert own(module) == before
    assert [*own(module)] == [*before]


# --- with other patches


def test_only_takes_the_original_value(vendor: Any) -> None:
    """only= gets the original value, also beneath another patch; its error refuses the session."""
    values: list[Any] = []

    def only(value: object) -> bool:
        values.append(value)
        return callable(value)

    original = vendor.get_a
    rule = hookpatch.wrap("ruled_vendor:get_*", louder, only=only)
    with hookpatch.active(hookpatch.wrap("ruled_vendor:get_a", louder)), hookpatch.active(rule, children="local"):
        assert vendor.get_a() == "<<a>>"
    assert set(values) == {original, vendor.get_b}
    with pytest.raises(ApplyError, match="only= raised ZeroDivisionError for ruled_vendor:get_a"):
        hookpatch.active(hookpatch.wrap("ruled_vendor:get_*", louder, only=lambda value: 1 / 0)).open()
    assert vendor.get_a is original


def test_a_conflict_names_the_rule(vendor: Any) -> None:
    """The conflict of a rule with a single address names the rule."""
    single = hookpatch.replace("ruled_vendor:get_b", louder, check_signature=False, why="a test")
    rule = hookpatch.replace("ruled_vendor:get_*", louder, check_signature=False, why="a test")
    for patches in ((rule, single), (single, rule)):
        with pytest.raises(ConflictError) as caught, hookpatch.active(*patches):
            pass
        assert "replace by the rule ruled_vendor:get_*" in caught.value.problem
    assert vendor.get_b() == "b"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_rule_and_a_single_wrapper(order: tuple[int, int], vendor: Any) -> None:
    """Of a rule and a single patch the first lies outermost."""

    def other(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        return f"({wrapped(*args, **kwargs)})"

    patches = [hookpatch.wrap("ruled_vendor:get_*", louder), hookpatch.wrap("ruled_vendor:get_a", other)]
    with hookpatch.active(*(patches[index] for index in order), children="local"):
        assert (vendor.get_a(), vendor.get_b()) == (("<(a)>", "(<a>)")[order[0]], "<b>")


def test_a_rule_over_a_rule(vendor: Any) -> None:
    """Sessions with rules overlap, and end in any order."""
    first = hookpatch.active(hookpatch.wrap("ruled_vendor:get_*", louder)).open()
    second = hookpatch.active(hookpatch.wrap("ruled_vendor:*_a", louder)).open()
    assert (vendor.get_a(), vendor.get_b()) == ("<<a>>", "<b>")
    first.close()
    assert (vendor.get_a(), vendor.get_b()) == ("<a>", "b")
    second.close()
    assert (vendor.get_a(), vendor.get_b()) == ("a", "b")


def test_a_session_is_entered_again(models: list[str]) -> None:
    """The matches of the second time are found anew."""
    session = hookpatch.active(hookpatch.wrap(RULE, louder))
    for count, name in enumerate(models):
        with session:
            module = importlib.import_module(name)
            assert len([*session.report()]) == count + 2
            assert [getattr(module, name)().forward()[0] for name in vars(module) if "Norm" in name] == ["<"]


def test_a_match_that_does_not_fit_refuses_all(vendor: Any) -> None:
    """A required rule is all or nothing; an optional rule leaves out the match, with the reason."""
    with pytest.raises(
        TargetRefused,
        match=r"ruled_vendor:ANorm\.eps holds an int, which cannot be called; only=callable leaves out such values",
    ):
        hookpatch.active(hookpatch.wrap("ruled_vendor:ANorm.*", louder)).open()
    assert vendor.ANorm.plain() == "plain"
    with hookpatch.active(hookpatch.wrap("ruled_vendor:ANorm.*", louder, required=False)) as session:
        assert (vendor.ANorm.plain(), vendor.ANorm.made(), vendor.ANorm.eps) == ("<plain>", "<made ANorm>", 1)
        assert dict(rows(session.report())) == {
            "ANorm.eps": "skipped",
            "ANorm.forward": "applied",
            "ANorm.made": "applied",
            "ANorm.plain": "applied",
        }


def test_required_calls_are_of_all_matches(vendor: Any) -> None:
    """A call of any match counts as a call of the rule."""
    with hookpatch.active(hookpatch.wrap("ruled_vendor:get_*", louder, required_calls=2)) as session:
        vendor.get_a()
        vendor.get_b()
    assert [row.state for row in session.report()] == ["restored"] * 4
    rule = hookpatch.wrap("ruled_vendor:get_*", louder, required_calls=2)
    with pytest.raises(CallsError, match="called once"), hookpatch.active(rule):
        vendor.get_a()


def test_nothing_lazy_wakes(make_module: Callable[[str, str], Any]) -> None:
    """A module's __getattr__, a property on the way and the code of a metaclass are not asked."""
    make_module(
        "ruled_lazy",
        "class Meta(type):\n"
        "    def __getattr__(cls, name): raise AssertionError(name)\n"
        "class ANorm(metaclass=Meta):\n"
        "    pass\n"
        "class Holder:\n"
        "    @property\n"
        "    def inner(self): raise AssertionError('run')\n"
        "holder = Holder()\n"
        "def __getattr__(name): raise AssertionError(name)\n",
    )
    for address in ("*Norm.forward", "hold*.inner.x", "other*.x"):
        with hookpatch.active(hookpatch.replace(f"ruled_lazy:{address}", 1, required=False)) as session:
            assert [row.state for row in session.report()] == ["waiting"]


def test_an_attribute_of_each_entry(make_module: Callable[[str, str], Any]) -> None:
    """An entry that is an instance has the attributes of its class: each instance gets a value of its own."""
    module = make_module(
        "ruled_entries",
        "class Norm:\n    def forward(self): return 'norm'\n"
        "norms = {'a': Norm(), 'b': Norm(), 'c': 3, 'd': Norm}\nother = Norm()\nnorms['b'].forward = lambda: 'own'",
    )
    before = [dict(vars(norm)) for norm in (module.norms["a"], module.norms["b"], module.other)]
    with hookpatch.active(hookpatch.wrap("ruled_entries:norms[*].forward", louder)) as session:
        answers = [norm.forward() for norm in (module.norms["a"], module.norms["b"], module.other, module.Norm())]
        assert answers == ["<norm>", "<own>", "<norm>", "<norm>"]  # the class is an entry, too
        assert session.report().patches[0].reason == (  # 'a' has the class's patch, and runs the patch once
            "matches 2 slots; no match: ruled_entries:norms['a'].forward is inherited, "
            "ruled_entries:norms['c'].forward is not there"
        )
    assert [dict(vars(norm)) for norm in (module.norms["a"], module.norms["b"], module.other)] == before


@pytest.mark.model
@pytest.mark.parametrize("way", ["layers[*].forward", "layers._modules[*].forward", "blocks[*][*].forward"])
def test_the_submodules_of_a_torch_module(way: str, make_module: Callable[[str, str], Any]) -> None:
    """``[*]`` takes each submodule of a ModuleList or Sequential, found where torch keeps it."""
    module = make_module(
        "ruled_model",
        "from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layers = nn.ModuleList([nn.Identity(), nn.Identity()])\n"
        "        self.blocks = nn.ModuleList([nn.Sequential(nn.Identity()), nn.Sequential(nn.Identity())])\n"
        "model = Net()",
    )
    parts = [*module.model.layers, *(block[0] for block in module.model.blocks)]
    namespaces = [own(part) for part in parts]
    with hookpatch.active(hookpatch.wrap(f"ruled_model:model.{way}", louder, matches=2), children="local") as session:
        changed = [part(1) for part in parts]
        slots = [hookpatch.why(row.target) for row in session.report().patches[1:]]
        assert [slot.layers[0].state for slot in slots] == ["applied", "applied"]
        assert changed == (["<1>", "<1>", 1, 1] if "layers" in way else [1, 1, "<1>", "<1>"])
    assert [own(part) for part in parts] == namespaces
    assert [part(1) for part in parts] == [1] * 4


def test_names_may_be_added(vendor: Any) -> None:
    """With add=True each owner gets the name."""
    with hookpatch.active(hookpatch.replace("ruled_vendor:*the*.scale", 2, add=True)):
        assert vendor.Other.scale == 2
    assert "scale" not in vars(vendor.Other)


def test_why_names_the_rule_and_its_slots(vendor: Any) -> None:
    """why shows the rule beside a match's patch, and the slots of a rule."""
    report = hookpatch.why("ruled_vendor:*Norm.forward")
    slots = "ruled_vendor:ANorm.forward, ruled_vendor:BNorm.forward"
    assert (report.layers, report.note) == ((), f"stands for {slots} here; ask for one slot")
    with hookpatch.active(hookpatch.wrap("ruled_vendor:*Norm.forward", louder)):
        patch, original = hookpatch.why("ruled_vendor:BNorm.forward")
        assert (patch.note, original.note) == ("by the rule ruled_vendor:*Norm.forward", None)


# --- declared wrongly

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "matches of one": (
        lambda: hookpatch.wrap("m:a", louder, matches=1),
        "matches= is for a rule, and m:a has no '*' and",
    ),
    "only of one": (
        lambda: hookpatch.wrap("m:a", louder, only=callable),
        "only= is for a rule or for instances, and m:a has no '*', no '+'",
    ),
    "a bound": (lambda: hookpatch.wrap("m:*", louder, matches="many"), "matches='many' is neither a number nor a text"),
    "no number": (lambda: hookpatch.wrap("m:*", louder, matches=">3,<3"), "matches='>3,<3' allows no number"),
    "negative": (lambda: hookpatch.wrap("m:*", louder, matches=-1), "matches=-1 is neither a number nor a text"),
    "true": (lambda: hookpatch.wrap("m:*", louder, matches=True), "matches=True is neither a number nor a text"),
    "only": (lambda: hookpatch.wrap("m:*", louder, only=3), "only= is an int, not a function"),  # type: ignore[arg-type]
    "both": (lambda: hookpatch.replace("m:*", 1, source="n:*"), "takes a value or source=, not both"),  # type: ignore[call-overload]
    "neither": (lambda: hookpatch.replace("m:*"), "takes a value or source=, not neither"),  # type: ignore[call-overload]
    "more stars": (lambda: hookpatch.replace("m:*", source="n.*:*"), "source='n.*:*' has more '*' than m:*"),
    "instances": (
        lambda: hookpatch.replace("m:*", source="n:C().x"),
        "source='n:C().x' has a sign that stands for no name",
    ),
    "enter": (
        lambda: hookpatch.enter("m", contextlib.nullcontext, matches=1),
        "takes no matches=: enter has a single module",
    ),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_told_where_it_is_declared(case: str) -> None:
    """Each mistake has its own message, at the declaration."""
    declare, problem = WRONG[case]
    with pytest.raises(PatchError) as caught:
        declare()
    assert caught.value.problem.startswith(problem)


# --- a foreign library


@pytest.fixture(scope="session")
def llama() -> Any:
    """Import a module of transformers, which installs its own finder."""
    return importlib.import_module("transformers.models.llama.modeling_llama")


@pytest.mark.model
def test_all_norms_of_transformers(llama: Any) -> None:
    """Of models imported before and inside."""
    import torch

    first, original = llama, vars(llama.LlamaRMSNorm)["forward"]
    calls: list[str] = []

    def noted(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        calls.append(type(instance).__name__)
        return wrapped(*args, **kwargs)

    rule = hookpatch.wrap("transformers.models.*.modeling_*:*RMSNorm.forward", noted)
    with hookpatch.active(rule, children="local") as session:
        second: Any = importlib.import_module("transformers.models.gemma.modeling_gemma")
        for norm in (first.LlamaRMSNorm(8), second.GemmaRMSNorm(8)):
            norm(torch.ones(1, 8))
        states = {row.target.rpartition(":")[2]: row.state for row in session.report()}
        assert {"LlamaRMSNorm.forward", "GemmaRMSNorm.forward"} <= states.keys()
        assert {*states.values()} == {"applied"}
    assert calls == ["LlamaRMSNorm", "GemmaRMSNorm"]
    assert vars(first.LlamaRMSNorm)["forward"] is original


def test_functions_of_c(make_module: Callable[..., ModuleType]) -> None:
    """Of the functions of C those are the module's own that the module assigns, unless the rule matches their home."""
    text = "from math import floor, ceil as up\nfrom operator import *\nimport math\nroot = math.sqrt\n"
    text += "try:\n    from math import cbrt as power\nexcept ImportError:\n    power = math.exp\n"
    text += "globals()['made'] = math.sin\nfloor = floor\n"
    make_module("of_c", text)
    rule = hookpatch.wrap("of_c:*", lambda wrapped, instance, args, kwargs: ["wrapped", wrapped(*args)], only=callable)
    with hookpatch.active(rule, children="local") as session:
        module = importlib.import_module("of_c")
        assert module.root(4) == ["wrapped", 2.0]
        assert [row.target for row in session.report()] == ["of_c:*", "of_c:root"]
    assert module.root is math.sqrt
    (match,) = matches_in(hookpatch.Target("*:ro*"), "of_c", module)
    assert match.problem == "is defined in math"

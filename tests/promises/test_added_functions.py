"""``wrap`` with ``add=`` makes a function where a name is absent: the wrapper gets the object and has its values."""

from __future__ import annotations

import importlib
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from snapshot import Snapshot

import hookpatch
from hookpatch._inspect.check import check, lockable
from hookpatch._session.ledger import Requested
from hookpatch.errors import ApplyError, PatchError, TargetNotFound, TargetRefused

VENDOR: Final = """
class Base: pass
class Frame(Base): pass
class Sub(Frame): pass
frame, sub, table = Frame(), Sub(), {}
"""
TOOL: Final = """
import dataclasses
@dataclasses.dataclass
class Tool:
    jobs: int
    def run(self, wrapped, instance, args, kwargs): return self.jobs, instance, args, kwargs
    def on(self, wrapped, instance, args, kwargs): return [self.jobs, wrapped(*args, **kwargs)]
tool = Tool(4)
"""
# The kind of place: the address, a call, the object that the wrapper gets, the error without the patch.
PLACES: Final[dict[str, tuple[str, str, str, type[Exception]]]] = {
    "function": ("run", "run(1, a=2)", "None", AttributeError),
    "method": ("Frame.run", "frame.run(1, a=2)", "frame", AttributeError),
    "method of a subclass's object": ("Frame.run", "sub.run(1, a=2)", "sub", AttributeError),
    "method called on the class": ("Frame.run", "Frame.run(frame, 1, a=2)", "frame", AttributeError),
    "object": ("frame.run", "frame.run(1, a=2)", "frame", AttributeError),
    "entry": ("table['run']", "table['run'](1, a=2)", "None", KeyError),
    "class method": ("Frame.__class_getitem__", "Frame.__class_getitem__(1, a=2)", "Frame", AttributeError),
    "special method": ("Frame.__call__", "frame(1, a=2)", "frame", AttributeError),
}


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> Any:
    """The module to patch."""
    return make_module("added_functions_vendor", VENDOR)


@pytest.fixture
def tool(make_module: Callable[[str, str], ModuleType]) -> Any:
    """An object at hand."""
    return make_module("added_functions_tool", TOOL).tool


def _patch(address: str, wrapper: Any, add: Any = True) -> hookpatch.Patch:
    return hookpatch.wrap(f"added_functions_vendor:{address}", wrapper, add=add)


@pytest.mark.parametrize("add", [True, "absent"])
@pytest.mark.parametrize("place", PLACES)
def test_the_wrapper_has_the_object_and_its_values(place: str, add: Any, vendor: Any, tool: Any) -> None:
    """Plan, report and check say that the patch fits; after the end nothing is left, and a kept function raises."""
    address, call, instance, error = PLACES[place]
    snapshot, patch = Snapshot(vendor), _patch(address, tool.run, add)
    ((planned,),) = [target.patches for target in hookpatch.plan(patch)]
    assert (planned.finding, planned.reason) == ("fits", None)
    assert [target.status for target in check([Requested(patch)])] == ["fits"]
    assert lockable([Requested(patch)])[1] == []
    with hookpatch.active(patch, children="local") as session:
        assert eval(call, vars(vendor)) == (4, eval(instance, vars(vendor)), (1,), {"a": 2})
        assert [(row.state, row.reason, row.warnings) for row in session.report()] == [("applied", None, ())]
        assert [layer.by for layer in hookpatch.why(f"added_functions_vendor:{address}").layers] == ["hookpatch"]
        kept = eval(call.partition("(")[0], vars(vendor))
    assert snapshot.changed() == []
    with pytest.raises(TypeError if place == "special method" else error):
        kept(1)
    message = "is added by a patch: without the patch there is nothing to call"
    with hookpatch.active(_patch(address, tool.on, add), children="local"), pytest.raises(error, match=message):
        eval(call, vars(vendor))
    assert snapshot.changed() == []


def test_a_base_class_gets_the_name_later(vendor: Any, tool: Any) -> None:
    """``wrapped`` is what the next base class has at the call, as ``super()`` in a class statement."""
    with hookpatch.active(_patch("Frame.run", tool.on), children="local"):
        with hookpatch.active(_patch("Base.run", lambda *call: "base"), children="local"):
            assert vendor.frame.run() == vendor.sub.run() == [4, "base"]
        with pytest.raises(AttributeError):
            vendor.frame.run()


def test_subscription_of_several_classes(vendor: Any) -> None:
    """Each class of a family answers a subscription once; without a base's answer the class itself is the result."""

    def getitem(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        try:
            return wrapped(*args), "from base"
        except AttributeError:
            return instance

    with hookpatch.active(_patch("{Frame,Base}.__class_getitem__", getitem), children="local"):
        assert vendor.Base[int] is vendor.Base
        assert vendor.Sub[int] == (vendor.Sub, "from base")


@pytest.mark.parametrize("add", [True, "absent"])
def test_an_existing_function(add: Any, vendor: Any, tool: Any) -> None:
    """``True`` runs around an existing or inherited function, ``"absent"`` leaves the function alone."""
    vendor.Base.run = lambda self: "own"
    for address in ("Base.run", "Frame.run", "frame.run"):
        with hookpatch.active(_patch(address, tool.on, add), children="local") as session:
            assert vendor.frame.run() == ([4, "own"] if add is True else "own")
            assert [row.reason for row in session.report()] == [None if add is True else "not needed: already there"]


def test_a_child_process_and_pickle(vendor: Any, tool: Any) -> None:
    """A program started inside has the new method; the method is pickled by its name."""
    code = "import added_functions_vendor as v; print(v.frame.run(1)[::2])"
    with hookpatch.active(_patch("Frame.run", tool.run), children="require"):
        folder = Path(str(vendor.__file__)).parent
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
        assert pickle.loads(pickle.dumps(vendor.Frame.run)) is vendor.Frame.run
    assert (done.stdout, done.stderr) == ("(4, (1,))\n", "")


def test_a_module_that_comes_later_and_is_executed_anew(write_module: Callable[[str, str], Path], tool: Any) -> None:
    """A name that the module has after all is wrapped."""
    path = write_module("added_functions_later", "")
    with hookpatch.active(hookpatch.wrap("added_functions_later:run", tool.on, add=True)):
        module: Any = importlib.import_module("added_functions_later")
        with pytest.raises(AttributeError):
            module.run()
        path.write_text("def run(): return 'own'")
        importlib.invalidate_caches()
        importlib.reload(module)
        assert module.run() == [4, "own"]
    assert module.run() == "own"


KINDS: Final = ("replace", "add", "absent", "wrap", "derive", "remove", "inject")


def _of_kind(kind: str, tag: int, address: str) -> hookpatch.Patch:
    target = f"added_functions_vendor:{address}"
    if kind == "replace":
        return hookpatch.replace(target, lambda *args, **kwargs: [tag], add=True)
    if kind == "derive":
        return hookpatch.derive(target, lambda below: lambda *args, **kwargs: [tag, *below(*args, **kwargs)])
    if kind == "remove":
        return hookpatch.remove(target)
    if kind == "inject":
        return hookpatch.inject(target, y=tag)
    add: Any = {"add": True, "absent": "absent", "wrap": False}[kind]
    return hookpatch.wrap(target, lambda wrapped, instance, args, kwargs: [tag, *wrapped(*args, **kwargs)], add=add)


def _modelled(layers: list[tuple[str, int]], value: list[Any] | None) -> list[Any] | None:
    """Return the result of a call through layers, the innermost first; None for an absent name, "error" for a raise."""
    for kind, tag in layers:
        if kind == "replace":
            value = [tag]
        elif kind == "remove":
            value = None
        elif kind in ("add", "absent") and value is None:
            value = [tag, "error"]
        elif value is not None and kind in ("add", "wrap", "derive"):
            value = [tag, *value]
    return value


def _seen(vendor: Any, probe: str) -> list[Any] | None:
    try:
        function = eval(probe, vars(vendor))
    except (NameError, AttributeError, KeyError):
        return None
    try:
        result: list[Any] = function(1)
    except (AttributeError, KeyError) as error:
        return ["error" if "is added by a patch" in str(error) else error]
    return result


@pytest.mark.filterwarnings("ignore::hookpatch.errors.HookpatchWarning")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=[pytest.mark.ends, pytest.mark.once]) for seed in range(1, 8))]
)
@pytest.mark.parametrize("address", ["run", "Frame.run", "frame.run", "table['run']"])
def test_any_order_of_beginnings_and_ends(address: str, seed: int, vendor: Any) -> None:
    """Sessions of seven kinds on one name: the call and a row are those of the model at each step; nothing is left."""
    chosen, probe = random.Random(f"{address} {seed}"), address.replace("Frame", "frame")
    base: list[Any] | None = None
    if seed % 2:
        base = ["base"]
        function = "lambda *args, **kwargs: ['base']"
        exec(f"{address} = {function}", vars(vendor))
    snapshot = Snapshot(vendor)
    for _ in range(3):
        live: list[tuple[str, int, hookpatch.Session]] = []
        for tag in range(9):
            if live and chosen.random() < 0.4:
                live.pop(chosen.randrange(len(live)))[2].close()
            else:
                kind = chosen.choice(KINDS)
                below = _modelled([layer[:2] for layer in live], base)
                try:
                    opened = hookpatch.active(_of_kind(kind, tag, address), children="local").open()
                except ApplyError:
                    assert below is None
                    assert kind in ("wrap", "derive", "inject", "remove")
                    continue
                live.append((kind, tag, opened))
            expected = _modelled([layer[:2] for layer in live], base)
            assert _seen(vendor, probe) == (["error"] if expected and "error" in expected else expected)
            for kind, tag_of, session in chosen.sample(live, min(1, len(live))):  # a report takes a look at all objects
                inside = [layer[:2] for layer in takewhile(lambda layer, tag=tag_of: layer[1] != tag, live)]
                is_needless = kind == "absent" and _modelled(inside, base) is not None
                assert [row.reason == "not needed: already there" for row in session.report()] == [is_needless]
        chosen.shuffle(live)
        for _, _, session in live:
            session.close()
        assert snapshot.changed(address) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"add": "missing"}, "add= is 'missing', and none of True, False and 'absent'"),
        ({"expects": "x"}, "takes add= or expects=, not both: a new name has no parameters yet"),
        ({"callers": "x"}, "takes add= or callers=, not both: a new name has no callers yet"),
        ({"reach": "everywhere"}, "takes add= for one slot: no other place holds an absent name"),
    ],
)
def test_a_mistake_is_told_where_it_is_declared(options: dict[str, Any], problem: str) -> None:
    """Each mistake has its own message."""
    with pytest.raises(PatchError) as caught:
        hookpatch.wrap("m:f", lambda *call: None, **{"add": True, **options})
    assert caught.value.problem == problem


def test_what_cannot_be_added_is_refused(vendor: Any, tool: Any) -> None:
    """Instances share the methods of their class, and a name is there for all tasks; a wrap without add= needs one."""
    with pytest.raises(PatchError, match=r"a new method belongs to the class; write m:Class\.run"):
        hookpatch.wrap("m:Class().run", tool.run, add=True)
    with pytest.raises(TargetRefused, match="add= adds a name for all tasks; take scope='process'"):
        hookpatch.active(_patch("Frame.run", tool.run), scope="task").open()
    with pytest.raises(TargetNotFound, match="has no attribute 'run'"):
        hookpatch.active(_patch("Frame.run", tool.run, add=False)).open()


MODULES: Final = {"json.no_such_part": False, "no_such_top.part": False, "no_such_top": False, "chunk_of_mine": True}


@pytest.mark.parametrize("is_package_there", [True, False])
@pytest.mark.parametrize("module", MODULES)
def test_a_module_that_is_not_installed(
    module: str, is_package_there: bool, write_module: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that an import would find is there, imported or not: ``add="absent"`` in sys.modules adds others."""
    path = write_module("chunk_of_mine", "NAME = 'real'")
    monkeypatch.syspath_prepend(str(path.parent))
    stub, reason = ModuleType(module), "not needed: already there" if MODULES[module] else None
    patches = [hookpatch.replace(f"sys:modules['{module}']", stub, add="absent")]
    if is_package_there and "top." in module:
        patches.insert(0, hookpatch.replace("sys:modules['no_such_top']", ModuleType("no_such_top"), add="absent"))
    ((planned,),) = [target.patches for target in hookpatch.plan(patches[-1])]
    assert planned.reason == reason
    with hookpatch.active(*patches, children="local") as session:
        with hookpatch.active(patches[-1], children="local") as inside:  # computes the slot anew
            assert [row.reason for row in inside.report()] == ["not needed: already there"]
        assert [row.reason for row in session.report()][-1] == reason
        if "." not in module:
            assert (importlib.import_module(module) is stub) == (reason is None)
    assert (module in sys.modules) == (MODULES[module])
    sys.modules.pop(module, None)

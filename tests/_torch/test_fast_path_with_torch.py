"""A session opened again on the fast path, in a process with torch imported: all of torch sees the patches."""

from __future__ import annotations

import importlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
from shared_targets import SEED, switching_often

import hookpatch
from hookpatch import Patch, active
from hookpatch._bootstrap.interrupts import unwritten
from hookpatch._engine.site.sites import all_sites
from hookpatch.errors import BypassError

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
]

SOURCE = """\
import torch
limit = 3.0
def scale(x): return x * 2
def triple(x): return x * 3
def speak(word="x"): return f"vendor {word}"
class Layer(torch.nn.Module):
    def forward(self, x): return scale(x) + limit
class Plain:
    def __init__(self): self.factor = 2
    def run(self, x): return x * 2
    @staticmethod
    def static(x): return x * 2
size = len
class Small(torch.nn.Module):
    def forward(self, x): return scale(x)
class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.plain = Layer(), Plain()
    def forward(self, x): return self.layer(x) + self.plain.run(x) + torch.nn.functional.relu(x)
"""


def imported(name: str) -> Any:
    return sys.modules[name]


def more(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs) + 100


PATCHES: dict[str, Callable[[], Patch]] = {
    "wrap": lambda: hookpatch.wrap("torch_vendor:scale", more),
    "replace": lambda: hookpatch.replace("torch_vendor:scale", imported("torch_vendor").triple),
    "replace a value": lambda: hookpatch.replace("torch_vendor:limit", 9.0),
    "a method of a module": lambda: hookpatch.wrap("torch_vendor:Layer.forward", more),
    "a method": lambda: hookpatch.wrap("torch_vendor:Plain.run", more),
    "a function of torch": lambda: hookpatch.wrap("torch.nn.functional:relu", more),
}
# Of torch, where hookpatch's own patches may be while a block is open.
PLACES = (
    *(("torch.fx._symbolic_trace", "Tracer"), ("torch.jit._recursive", None), ("torch._jit_internal", None)),
    *(("torch.fx.graph", None), ("torch.nn.functional", None), ("multiprocessing.popen_spawn_posix", "Popen")),
)


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> Iterator[Any]:
    import torch

    importlib.import_module("multiprocessing.popen_spawn_posix")
    torch._dynamo.reset()  # what other tests have compiled
    module: Any = make_module("torch_vendor", SOURCE)
    module.x = torch.ones(2)
    yield module
    torch._dynamo.reset()


def values() -> list[dict[str, Any]]:
    """Return the attributes of all places, among them those of hookpatch's own patches."""
    owners = [
        vars(sys.modules[module]) if cls is None else vars(vars(sys.modules[module])[cls]) for module, cls in PLACES
    ]
    return [{name: value for name, value in owner.items() if name != "__warningregistry__"} for owner in owners]


def changed(before: list[dict[str, Any]]) -> set[str]:
    pairs = zip(before, values(), strict=True)
    return {
        name for was, current in pairs for name in was.keys() | current.keys() if was.get(name) is not current.get(name)
    }


@pytest.mark.parametrize("children", ["local", "inherit"])
@pytest.mark.parametrize("name", PATCHES)
def test_each_time_is_as_the_first(vendor: Any, name: str, children: Any) -> None:
    """The patches on torch and on multiprocessing come and go with the block; from the third time on the fast path."""
    call, before = vendor.Whole(), values()
    session, plain = active(PATCHES[name](), children=children), call(vendor.x).tolist()
    fast, places, results = [], [], []
    for _ in range(5):
        with session:
            fast.append(session._is_fast)
            places.append(changed(before))
            results.append(call(vendor.x).tolist())
        assert call(vendor.x).tolist() == plain
        assert changed(before) == set()
    assert results == [results[0]] * 5
    assert results[0] != plain
    assert places == [places[0]] * 5
    assert ("_launch" in places[0]) is (children == "inherit")
    assert fast[2:] == [True] * 3


def scripted(model: Any, x: Any) -> str:
    """Return the result of a scripted module; for a patch past which TorchScript would go the error."""
    try:
        return str(imported("torch").jit.script(imported("torch_vendor").Small())(x))
    except BypassError as error:
        return str(error)


LOOKS: dict[str, Callable[[Any, Any], Any]] = {
    "fx": lambda model, x: imported("torch").fx.symbolic_trace(model)(x).tolist(),
    "script": scripted,
    "report": lambda model, x: {(row.target, row.state) for row in hookpatch.report()},
}


@pytest.mark.parametrize("is_session_new", [False, True])
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PATCHES)
def test_block_without_notes(vendor: Any, name: str, look: str, is_session_new: bool) -> None:
    """The patches on torch come without notes, too: who looks at these first sees the same as in a block with notes."""
    before, call = values(), vendor.Whole()
    with active(PATCHES[name](), children="local"):
        inside, patched = changed(before), LOOKS[look](call, vendor.x)
    imported("torch").jit._recursive.concrete_type_store.__init__()  # what a look has compiled
    imported("torch").jit._state._jit_caching_layer.clear()
    patch = PATCHES[name]()
    session = active(patch, children="local")
    for _ in range(3):
        with active(patch, children="local") if is_session_new else session:
            pass
    for _ in range(2):
        with active(patch, children="local") if is_session_new else session:
            assert unwritten
            assert changed(before) == inside
        assert not unwritten
        assert changed(before) == set()
    with session:
        assert LOOKS[look](call, vendor.x) == patched
    assert changed(before) == set()


CAPTURES: dict[str, Callable[[Any, Any], Any]] = {
    "compile": lambda model, x: imported("torch").compile(model, backend="eager"),
    "export": lambda model, x: imported("torch").export.export(model, (x,), strict=True).module(),
    "fx": lambda model, x: imported("torch").fx.symbolic_trace(model),
    "jit.trace": lambda model, x: imported("torch").jit.trace(model, (x,)),
}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("name", PATCHES)
def test_captures_see_the_patch_each_time(vendor: Any, name: str, capture: str) -> None:
    """Captured inside and outside, before and after blocks on the fast path; compiled code follows the patch."""
    model, session = vendor.Whole(), active(PATCHES[name](), children="local")
    plain = model(vendor.x).tolist()
    for _ in range(3):
        with session:
            patched, is_fast = model(vendor.x).tolist(), session._is_fast
    assert is_fast
    assert patched != plain
    captures: list[Callable[..., Any]] = []

    def look(expected: list[float]) -> None:
        captures.append(CAPTURES[capture](model, vendor.x))
        for function in captures if capture == "compile" else captures[-1:]:
            assert function(vendor.x).tolist() == expected

    for _ in range(2):
        with session:
            look(patched)
        look(plain)
        with session:
            pass
        look(plain)
        with session:
            look(patched)
            look(patched)


def test_module_that_imports_torch_later(make_module: Callable[[str, str], ModuleType]) -> None:
    """Once a module has imported torch, fx reads the parameters of its patched functions."""
    import torch

    late: Any = make_module("late_vendor", "def scale(x): return x * 2")
    session, tracer = active(hookpatch.wrap("late_vendor:scale", more), children="local"), torch.fx.Tracer
    plain, fast, places = tracer.create_args_for_root, [], []
    for imports in (False, False, True, True):
        if imports:
            late.torch = torch
        with session:
            fast.append(session._is_fast)
            places.append(tracer.create_args_for_root is not plain)
            if imports:
                assert torch.fx.symbolic_trace(late.scale)(torch.ones(2)).tolist() == [102, 102]
        assert tracer.create_args_for_root is plain
    assert places == [False, False, True, True]
    assert fast[1::2] == [True, True]


def test_fast_path_is_free_again_after_the_captures(vendor: Any) -> None:
    """While torch keeps compiled code, a block takes locks; without compiled code no more."""
    import torch

    session = active(PATCHES["wrap"](), children="local")
    for _ in range(3):
        with session:
            assert vendor.scale(vendor.x).tolist() == [102, 102]
    function = torch.compile(vendor.Layer(), backend="eager")
    fast = []
    for _ in range(2):
        with session:
            fast.append(session._is_fast)
            assert function(vendor.x).tolist() == [105, 105]
        assert function(vendor.x).tolist() == [5, 5]
    torch._dynamo.reset()
    for _ in range(2):
        with session:
            fast.append(session._is_fast)
    assert fast == [True, False, True, True]


def test_scripted_inside(vendor: Any) -> None:
    """A function scripted inside a block on the fast path is patched, and a function scripted outside is not."""
    import torch

    session = active(PATCHES["replace"](), children="local")
    for _ in range(3):
        with session:
            pass
    for _ in range(2):
        with session:
            assert torch.jit.script(vendor.Small())(vendor.x).tolist() == [3, 3]
        assert torch.jit.script(vendor.Small())(vendor.x).tolist() == [2, 2]


def test_other_block_on_torch_beside(vendor: Any) -> None:
    """Two sessions need the same patches on torch: the patches stay until both sessions have ended, in any order."""
    before = values()
    wrapping, of_method = (active(PATCHES[name](), children="local") for name in ("wrap", "a method of a module"))
    for _ in range(3):
        with wrapping, of_method:
            inside = changed(before)
    for first, second in ((wrapping, of_method), (of_method, wrapping)):
        first.open()
        second.open()
        assert changed(before) == inside
        first.close()
        assert "create_args_for_root" in changed(before)
        second.close()
        assert changed(before) == set()


@pytest.mark.filterwarnings("ignore::hookpatch.errors.NeverCalledWarning")
@pytest.mark.parametrize("children", ["local", "inherit"])
def test_blocks_that_begin_at_once(vendor: Any, children: Any) -> None:
    """Each block waits for the patches on torch and on multiprocessing, although another thread applies these just now.

    A block with locks and one without, of each of two targets.
    """
    before = values()
    expected = {"create_args_for_root"} | ({"_launch"} if children == "inherit" else set())
    barrier, lacking = threading.Barrier(4), []

    def enter(name: str, count: bool) -> None:
        for _ in range(100):
            patch = PATCHES[name]()
            barrier.wait(60)
            with active(patch, children=children, count=count):
                if not expected <= changed(before):
                    lacking.append(name)

    with switching_often(SEED), ThreadPoolExecutor(4) as pool:
        pairs = itertools.product(("a method of a module", "a function of torch"), (False, True))
        for done in [pool.submit(enter, *pair) for pair in pairs]:
            done.result()
    assert lacking == []
    assert changed(before) == set()


def test_foreign_value_over_a_patch_on_torch(vendor: Any) -> None:
    """Other code overwrites hookpatch's own patch inside the block: it is left alone, and told of, as ever."""
    import torch

    session = active(PATCHES["wrap"](), children="local")
    for _ in range(3):
        with session:
            pass
    original = torch.fx.Tracer.create_args_for_root
    try:
        with pytest.warns(hookpatch.errors.DisplacedWarning), session:
            torch.fx.Tracer.create_args_for_root = more  # type: ignore[assignment, method-assign]
        assert torch.fx.Tracer.create_args_for_root is more
    finally:
        torch.fx.Tracer.create_args_for_root = original  # type: ignore[method-assign]
    with session:
        assert vendor.scale(vendor.x).tolist() == [102, 102]
    assert torch.fx.Tracer.create_args_for_root is original


NEW: dict[str, Callable[[Any], Patch]] = {
    "static method": lambda vendor: hookpatch.replace("torch_vendor:Plain.static", staticmethod(vendor.triple)),
    "C function": lambda vendor: hookpatch.replace("torch_vendor:size", vendor.triple),
    "class": lambda vendor: hookpatch.replace("torch_vendor:Plain", type("Plain", (vendor.Plain,), {})),
    "function": lambda vendor: hookpatch.replace("torch_vendor:scale", vendor.triple),
    "value": lambda vendor: hookpatch.replace("torch_vendor:limit", 9.0),
}


@pytest.mark.parametrize("name", NEW)
def test_new_patch_leaves_torch_as_before(vendor: Any, name: str) -> None:
    """The first block of a patch restores the functions of torch, whatever the target held."""
    before, kept, fast = values(), [], []
    for _ in range(3):
        with active(NEW[name](vendor), children="local") as session:
            kept += [site for site in all_sites() if "torch_vendor" in str(site.slot)]
            fast.append(session._is_fast)
            imported("torch").fx.symbolic_trace(vendor.Whole())
        assert changed(before) == set()
    assert fast[-1]
    assert kept  # a site that nobody keeps takes the needs of torch with it

"""Foreign code patches a method and its base class around a session that patches the inherited method.

Each order of beginnings and ends is run once more without the session: after the session's end both have equal states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations, product
from types import FunctionType, ModuleType
from typing import Any, Final
from unittest import mock

import pytest

import hookpatch
from hookpatch._engine.site.sites import patched

METHODS: Final = {
    "function": "def f(self): return 'f',",
    "classmethod": "@classmethod\n            def f(cls): return 'f',",
    "staticmethod": "@staticmethod\n            def f(): return 'f',",
    "object": "f = Called()",
}
# S, s: the session opens, closes. C, c and B, b: foreign code patches the child and the base class, and restores it.
# K: a name of the module keeps the method of the child.
ORDERS: Final = [
    "".join(order)
    for steps in ("SsCc", "SsKCc", "SsBb", "SsBbK", "SsBbCc")
    for order in permutations(steps)
    if all(order.index(start) < order.index(end) for start, end in ("Ss", "Cc", "Bb", "SK") if {start, end} <= {*order})
]


# Our wrapper of another callable than a function calls the value that was found when the session opened.
WITHOUT_KEPT: Final = [order for order in ORDERS if not {"B", "K"} <= {*order}]


def _ours(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return ("S", *wrapped(*args, **kwargs))


def _new_value(cls: Any, mark: str) -> Any:
    """Return a foreign wrapper of the method of a class, of the method's kind."""
    raw = next(vars(base)["f"] for base in cls.__mro__ if "f" in vars(base))
    before = cls.f

    def foreign(*args: Any) -> Any:
        return (mark, *before(*args))

    if type(raw) is FunctionType:
        return foreign
    if isinstance(raw, classmethod):
        return classmethod(lambda cls: foreign())
    return staticmethod(lambda *args: foreign())


def _patched_by(tool: str, cls: Any, mark: str, module: Any) -> Callable[[], object]:
    """Patch the method of a class with a foreign tool, which a name of the module keeps; return the undo."""
    new = _new_value(cls, mark)
    if tool == "mock":
        patcher = mock.patch.object(cls, "f", new)
        patcher.start()
        setattr(module, f"tool_{mark}", patcher)
        return patcher.stop
    if tool == "monkeypatch":
        monkeypatch = pytest.MonkeyPatch()
        monkeypatch.setattr(cls, "f", new)
        setattr(module, f"tool_{mark}", monkeypatch)
        return monkeypatch.undo
    kept = {"before": vars(cls).get("f")}
    setattr(module, f"tool_{mark}", kept)
    cls.f = new

    def undo() -> None:
        if kept["before"] is None:
            del cls.f
        else:
            cls.f = kept["before"]

    return undo


def _anew(module: ModuleType) -> ModuleType:
    """Make the classes of the module anew, and delete the names of an earlier run."""
    for name in [name for name in vars(module) if name.startswith(("tool_", "kept"))]:
        delattr(module, name)
    module.make()
    return module


def _run(module: Any, order: str, tool: str, reach: Any) -> Iterator[dict[str, Any]]:
    """Run the steps of an order; yield the answers after each. No reach: no session."""
    child, base = module.Child(), module.Base()
    undo: dict[str, Callable[[], object]] = {}
    for step in order:
        if step in "BC":
            undo[step.lower()] = _patched_by(tool, module.Base if step == "B" else module.Child, step, module)
        elif step == "K":
            module.kept = child.f
        elif step == "S" and reach is not None:
            patch = hookpatch.wrap("heirs:Child.f", _ours, reach=reach)
            undo["s"] = hookpatch.active(patch, children="local").open().close
        elif step != "S" and step in undo:
            undo[step]()
        kept = module.kept() if hasattr(module, "kept") else None
        yield {"child": child.f(), "base": base.f(), "kept": kept}
    hookpatch.report()  # a look: foreign code may have written our wrapper back
    yield {"child": child.f(), "own": vars(module.Child).get("f"), "is first": vars(module.Base)["f"] is module.first}


CELLS: Final = [
    pytest.param(kind, tool, marks=() if tool == "mock" else [pytest.mark.ends, pytest.mark.once])
    for kind, tool in product(METHODS, ("mock", "monkeypatch", "by hand"))
]


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize(("kind", "tool"), CELLS)
@pytest.mark.filterwarnings("ignore::hookpatch.errors.HookpatchWarning")
@pytest.mark.sampled(3)
def test_an_inherited_method_is_as_without_the_session(
    make_module: Callable[[str, str], ModuleType], kind: str, tool: str, reach: Any
) -> None:
    """No class gets a method that the class inherited, and a kept method is not that of foreign code that came later.

    A wrapper of ours in foreign hands finds the method of the base class at each call: a second right answer.
    """
    source = f"""
    class Called:
        def __call__(self):
            return "f",

    def make():
        class Base:
            {METHODS[kind]}

        class Child(Base):
            pass

        globals().update(Base=Base, Child=Child, first=vars(Base)["f"])
    """
    module = make_module("heirs", source)
    wrong = []
    for order in WITHOUT_KEPT if kind == "object" else ORDERS:
        expected = [*_run(_anew(module), order, tool, None)]
        states = [*_run(_anew(module), order, tool, reach)]
        for number in range(order.index("s"), len(states)):
            state, wanted = states[number], expected[number]
            late = {"child", "kept"} if "B" in order and number < len(order) else set()
            different = {key for key in wanted if state[key] != wanted[key]}
            if different - late or (state.get("kept") != wanted.get("kept") and state["kept"] != state["child"]):
                wrong.append((order, number, state, wanted))
    assert wrong == []
    assert patched() == []


HELD: Final = {
    "K.of_c": "operator.itemgetter(0)",
    "K.of_partial": "functools.partial(lambda: 1)",
    "Heir.of_c": "operator.itemgetter(0)",
    "Heir.of_function": "lambda: 1",
}


@pytest.mark.parametrize("method", [staticmethod, classmethod])
@pytest.mark.parametrize("address", HELD)
def test_a_kept_static_or_class_method_is_the_original_again(
    make_module: Callable[[str, str], ModuleType], address: str, method: type
) -> None:
    """Foreign code that keeps the method itself got the function inside: written back, it was bound to the object."""
    cls, name = address.split(".")
    module: Any = make_module(
        "heirs",
        f"""
        import functools, operator

        class K:
            {name} = {method.__name__}({HELD[address]})

        class Heir(K):
            pass
        """,
    )
    original, owner = vars(module.K)[name], vars(module)[cls]
    patch = hookpatch.wrap(f"heirs:{address}", _ours, reach="everywhere")
    with hookpatch.active(patch, children="local"):
        module.kept = vars(owner)[name]
        module.function = module.kept.__func__
        assert module.kept is not original
    assert module.kept is original
    assert module.function is original.__func__
    assert (name in vars(owner)) is (cls == "K")

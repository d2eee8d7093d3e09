"""The public API as users write programs with it. Not run: mypy --strict reads the file."""

from __future__ import annotations

from ast import NodeTransformer
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import hookpatch
from hookpatch import errors, testing


def louder(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs)


def typed(wrapped: Callable[[str], int], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    return wrapped(*args, **kwargs) + 1


def other(wrapped: Callable[[str], int], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return str(wrapped(*args, **kwargs))


def short(wrapped: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs)


def subclass(original: type[Any]) -> type[Any]:
    return original


def span(module: ModuleType) -> AbstractContextManager[object]:
    return nullcontext()


patches: list[hookpatch.Patch] = [
    hookpatch.replace("m:Class().value", 1, of=object()),
    hookpatch.derive("m:Class+()", subclass, of="m:model", only=callable),
    hookpatch.wrap(
        "m:f", louder, reach="everywhere", requires="m>=1", required=False, before="other", after=["a", "b"]
    ),
    hookpatch.wrap("m:f", louder, expects=("model", "deep"), requires=["m>=1", "n<2"]),
    hookpatch.wrap("m:f", louder, required_calls=1),
    hookpatch.wrap("m:f", louder, add=True),
    hookpatch.wrap("m:Class.new", louder, add="absent", required=False),
    hookpatch.inject("m:f", argument=1, why="it forgets", until="m>=2"),
    hookpatch.inject("m:f", {"before": 3}),
    hookpatch.default("m:f", argument=1, reach="everywhere"),
    hookpatch.edit("m:f", "x = 1", "x = 2", count=2, reach="slot"),
    hookpatch.edit(hookpatch.Target("m:f"), diff="@@ -1 +1 @@", why="it forgets"),
    hookpatch.default("m:f", {"after": 3}, required=False),
    hookpatch.wrap("m:f", louder, callers="shop.*"),
    hookpatch.edit("m", "x = 1", "x = 2", keep=True),
    hookpatch.edit("m", diff="@@ -1 +1 @@", reload=True, required=False),
    hookpatch.transform("m.n", str.upper, keep=True, why="it shouts"),
    hookpatch.transform("m.n", NodeTransformer().visit, ast=True, reload=True),
    hookpatch.wrap("m.*:*Norm.forward", louder, matches=3, only=callable),
    hookpatch.remove("m:table[*]", matches=">=1,<3"),
    hookpatch.replace("m:*", source="n:*", only=callable),
    hookpatch.replace("m:{a,b}", len, add="absent"),
    hookpatch.replace("m:f", source="n:g", add=True),
    hookpatch.replace("m:f", len, callers=["shop.*", "cart"]),
    hookpatch.replace(hookpatch.Target.item({}, "key"), 1, upstream="https://example.org"),
    hookpatch.derive(hookpatch.Target("m:REGISTRY['key']"), subclass),
    hookpatch.remove(hookpatch.Target.attribute(object(), "name")),
    hookpatch.enter("m", span),
]


mistakes: list[hookpatch.Patch] = [
    hookpatch.wrap("m:f", typed),
    hookpatch.wrap("m:f", other),  # type: ignore[misc]  # the callers get a str instead of an int
    hookpatch.wrap("m:f", short),  # type: ignore[arg-type]  # the function has no parameter for the instance
]


relations = hookpatch.Relations(needs="other", conflicts=["a", "b"], before=("c",), after="d")
nothing: tuple[str, ...] = hookpatch.Relations().needs


@hookpatch.hookimpl
def hookpatch_patches(options: Any) -> Iterator[hookpatch.Patch]:
    yield from patches


@hookpatch.active("plugin", *patches, options={"plugin": {"passes": ["a"]}})
def decorated(number: int) -> str:
    return str(number)


def use() -> None:
    text: str = decorated(3)
    with hookpatch.active("plugin") as session:
        report: hookpatch.Report = session.report()
        states: list[str] = [patch.state for patch in report]
    planned: hookpatch.Plan = hookpatch.plan("plugin", *patches, options={"plugin": {"passes": ["a"]}})
    orders: list[int | None] = [patch.place for target in planned for patch in target.patches]
    print(planned.status, planned.to_json(), orders)
    slot: hookpatch.SlotReport = hookpatch.why("m:f")
    places: list[str | None] = [layer.place for layer in slot]
    print(places, slot.to_json())
    opened: hookpatch.Session = hookpatch.active().open()
    try:
        opened.close()
    except errors.RestoreError as error:
        failures: tuple[Exception | ExceptionGroup[Exception], ...] = error.exceptions
        print(text, states, failures, hookpatch.report().to_json())

    # mypy reports an unknown name, although the package imports names at first use.
    print(hookpatch.unpatch)  # type: ignore[attr-defined]  # the test itself


def test_plugin(
    patched: testing.Patched, fresh_process: testing.FreshProcess, effect: testing.EffectOf, release: str | None
) -> None:
    session: hookpatch.Session = patched("plugin", *patches, options={"plugin": {"passes": ["a"]}}, pristine=[dict])
    finished: testing.Finished = fresh_process(
        "import m", "plugin", options={"plugin": {"passes": ["a"]}}, args=["--small"], env={"A": "b"}, release=release
    ).check()
    status: int = fresh_process(Path("program.py"), timeout=10).status
    states = [patch.state for process in finished.report for patch in process.patches]
    print(session.report(), finished.output, finished.errors, status, states)
    result: testing.Effect = effect(abs, 1, what="plugin", modes=["eager"]).check()
    silent = [cell.mode for cell in result.cells if cell.state == "silent"]
    print(result, silent, dict(result.left_out), testing.effect(abs, what=hookpatch.active("plugin")))
    with testing.pristine(dict, order=True):
        pass
    try:
        finished.check()
    except testing.ProgramFailed as error:
        print(error.problems, error.output)
    except (testing.NotApplied, testing.NotPristine, testing.EffectFailed):
        raise

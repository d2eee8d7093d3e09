"""Mistakes of users that type checkers find, and the two that they cannot find. Not run.

A checker fails on a suppression without an error. So mypy and pyright find each suppressed line: sixteen mistakes of
eighteen. The last two lines are the other two.
"""

from __future__ import annotations

from typing import Any

import hookpatch
from hookpatch import testing


def short(wrapped: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs)


def other(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs)


def no_factory() -> int:
    return 1


hookpatch.wrap("m:f", short)  # type: ignore[arg-type]
hookpatch.wrap("m:f")  # type: ignore[call-arg]
hookpatch.wrap("m:f", other, reach="everwhere")  # type: ignore[arg-type]
hookpatch.wrap("m:f", other, require="m>=1")  # type: ignore[call-arg]
hookpatch.wrap("m:f", other, required="no")  # type: ignore[arg-type]
hookpatch.wrap("m:f", other, add="missing")  # type: ignore[arg-type]
hookpatch.replace("m:f")  # type: ignore[call-overload]
hookpatch.replace("m:f", 1, add="missing")  # type: ignore[call-overload]
hookpatch.derive("m:f", no_factory)  # type: ignore[arg-type]
hookpatch.edit("m:f", 1, "x")  # type: ignore[call-overload]
hookpatch.enter("m", no_factory)  # type: ignore[arg-type]
hookpatch.active(1)  # type: ignore[arg-type]
hookpatch.active("p", scope="thread")  # type: ignore[arg-type]
hookpatch.plan("p", option={})  # type: ignore[call-arg]


def test_it(patched: testing.Patched) -> None:
    patched("p").reports()  # type: ignore[attr-defined]


hookpatch.active("p").open().report().to_jsn()  # type: ignore[attr-defined]

# Types know neither the form of an address nor the parameters of the target. The first line is refused when the patch
# is made, the second when the plan or the session looks at the target.
hookpatch.wrap("m.f", other)
hookpatch.inject("m:f", whyy="it forgets")

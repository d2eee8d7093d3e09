"""Many patches with reach="everywhere": the work of each does not grow with the number, and none misses a holder."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from call_counting import calls_in

import hookpatch

WriteModule = Callable[..., Path]
FEW, MANY = 20, 80
# Functions are changed in place; of other callables the holders are looked for.
TARGETS: Final = {
    "function": "def f{0}(x): return x",
    "partial": "f{0} = partial(identity, {0})",
}
WRAPPERS: Final = "def around{0}(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)"


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("moment", ["opened", "imported"])
def test_the_work_for_a_patch_does_not_grow_with_the_number_of_patches(
    write_module: WriteModule, kind: str, moment: str
) -> None:
    """Each patch has a wrapper of its own; counted are calls of Python functions, by a session or by an import."""
    counts = []
    for count in (FEW, MANY):
        module, wrappers = f"many_{kind}_{moment}_{count}", f"wrappers_{kind}_{moment}_{count}"
        lines = ["from functools import partial", "def identity(number, x): return x"]
        write_module(module, "\n".join([*lines, *(TARGETS[kind].format(number) for number in range(count))]))
        write_module(wrappers, "\n".join(WRAPPERS.format(number) for number in range(count)))
        around = vars(importlib.import_module(wrappers))
        patches = [
            hookpatch.wrap(f"{module}:f{number}", around[f"around{number}"], reach="everywhere")
            for number in range(count)
        ]
        session = hookpatch.active(*patches, children="local")
        if moment == "opened":
            importlib.import_module(module)
            with session:
                pass  # warm: the first proxy imports wrapt
            counts.append(calls_in(session.open))
        else:
            session.open()
            counts.append(calls_in(lambda name=module: importlib.import_module(name)))
        assert {patch.state for patch in session.report()} == {"applied"}
        session.close()
    assert counts[1] < counts[0] * MANY / FEW * 1.3


HELD: Final = "from functools import partial\nf, g = partial(int, '7'), partial(int, '8')\nnumber = 1\n"


def test_a_module_imported_while_a_session_opens(write_module: WriteModule) -> None:
    """The session has looked for holders before the import: it looks again, for objects and holders of the module."""
    write_module("held_before", HELD)
    write_module("imported_amid", "from held_before import f, g\nfrom operator import sub\n")
    before = importlib.import_module("held_before")

    def derive(number: int) -> int:
        importlib.import_module("imported_amid")
        return number + 1

    patches = [
        *(hookpatch.wrap(f"imported_amid:{name}", _tenfold, reach="everywhere") for name in "fg"),
        hookpatch.derive("held_before:number", derive),
        *(hookpatch.wrap(f"operator:{name}", _tenfold, reach="everywhere") for name in ("add", "sub")),
    ]
    with hookpatch.active(*patches):
        amid = importlib.import_module("imported_amid")
        assert [before.f(), before.g(), amid.f(), amid.g(), before.number, amid.sub(3, 1)] == [70, 80, 70, 80, 2, 20]
    assert [before.f(), before.g(), amid.f(), amid.g(), before.number, amid.sub(3, 1)] == [7, 8, 7, 8, 1, 2]


def test_a_search_for_several_patches_ends_with_the_import(write_module: WriteModule) -> None:
    """The patches of an imported module share a search; one does not fit, and the session keeps no holder."""
    write_module("held_before", HELD)
    write_module("imported_later", "from held_before import f, g\n")
    before = importlib.import_module("held_before")
    fitting = [hookpatch.wrap(f"imported_later:{name}", _tenfold, reach="everywhere") for name in "fg"]
    missing = hookpatch.wrap("imported_later:no_such", _tenfold, reach="everywhere", required=False)
    with hookpatch.active(fitting[0], missing, fitting[1]) as session:
        later = importlib.import_module("imported_later")
        assert [before.f(), before.g(), later.f(), later.g()] == [70, 80, 70, 80]
        assert session._ledger.holders is None
    assert [before.f(), before.g(), later.f(), later.g()] == [7, 8, 7, 8]


def _tenfold(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs) * 10

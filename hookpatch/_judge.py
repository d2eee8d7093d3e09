"""Whether a patch has its effect in captured code: captured before, inside or after it, called inside or after."""

from __future__ import annotations

import contextlib
import difflib
import io
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final, TypeAlias

import torch
from torch.utils import _pytree

from hookpatch._active import active
from hookpatch._capture import CAPTURES, Capture
from hookpatch._effect import TIMES, CellState, Effect, EffectCell
from hookpatch._patch import Patch
from hookpatch._session import Session
from hookpatch.errors import HookpatchError, SettingError

Call: TypeAlias = Callable[[], Any]  # one call of something captured, with the inputs
Test: TypeAlias = Callable[[Any], bool]  # whether a result is the one that is expected

_ASKED_BY: Final = "effect()"


def effect_of(
    model: Any,
    inputs: tuple[Any, ...],
    what: str | Patch | Session | Iterable[str | Patch],
    modes: Iterable[str] | None,
) -> Effect:
    """Return what a patch does under each mode; see ``hookpatch.testing.effect``."""
    __tracebackhide__ = True  # a failing test shows its own lines and its model's, not these
    if isinstance(what, Session):
        session = what
    else:
        session = active(*((what,) if isinstance(what, (str, Patch)) else what), children="local")
        session.close()  # a pattern for others, which may be refused before there is one
    names = _names(modes)
    plain, patched = _in_eager_mode(_call(model, inputs), session.anew())
    cells: list[EffectCell] = []
    left_out: dict[str, str] = {}
    for name in names:
        with quiet():
            found = _cells(
                name,
                partial(_captured, CAPTURES[name], model, inputs),
                session.anew(),
                partial(_close, expected=plain),
                partial(_close, expected=patched),
            )
        if not isinstance(found, str):
            cells += found
        elif modes is not None:
            raise SettingError(_ASKED_BY, f"mode '{name}' was asked for, and cannot be tried: {found}")
        else:
            left_out[name] = found
    return Effect(session.names, tuple(cells), left_out)


def _in_eager_mode(call: Call, session: Session) -> tuple[Any, Any]:
    """Return what a model gives plain and patched.

    Raises:
        SettingError: nothing could be told by that.
    """
    __tracebackhide__ = True
    with quiet():
        plain, again = call(), call()
    if not _close(again, plain):
        raise SettingError(_ASKED_BY, "the model gives other numbers at each call; put it into eval()")
    with session, quiet():
        patched = call()
        report = session.report()
    if _close(patched, plain):
        said = "the patch changes nothing of what the model gives in eager mode, so nothing could be told"
        raise SettingError(_ASKED_BY, f"{said}; {'; '.join(f'{patch.target} is {patch.state}' for patch in report)}")
    return plain, patched


def _cells(
    mode: str, capture: Callable[[], Call], session: Session, plain: Test, patched: Test
) -> list[EffectCell] | str:
    """Return the cells of one mode, or why there are none."""
    if (missing := CAPTURES[mode].missing) is not None:
        return missing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            before = capture()
            result = before()
        except Exception as error:
            return f"torch cannot capture it unpatched: {_line(error)}"
    if not plain(result):
        return "torch gives other numbers than in eager mode, unpatched as well"
    return judged(mode, before, capture, session, plain, patched, CAPTURES[mode].keeps)


def _names(modes: Iterable[str] | None) -> list[str]:
    __tracebackhide__ = True
    if modes is None:
        return [name for name, capture in CAPTURES.items() if not capture.is_slow]
    names = [modes] if isinstance(modes, str) else list(modes)
    for name in names:
        if name not in CAPTURES:
            near = difflib.get_close_matches(name, CAPTURES, 1)
            meant = f"; did you mean '{near[0]}'?" if near else ";"
            raise SettingError(_ASKED_BY, f"no mode '{name}'{meant} there are {', '.join(CAPTURES)}")
    return names


def _captured(capture: Capture, model: Any, inputs: tuple[Any, ...]) -> Call:
    return _call(capture.make(model, _copied(inputs)), inputs)


def _call(run: Callable[..., Any], inputs: tuple[Any, ...]) -> Call:
    return lambda: run(*_copied(inputs))


def _copied(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return inputs that a model may change in place."""

    def copied(one: Any) -> Any:
        return one.detach().clone().requires_grad_(one.requires_grad) if isinstance(one, torch.Tensor) else one

    found: tuple[Any, ...] = _pytree.tree_map(copied, inputs)
    return found


def _close(result: Any, expected: Any) -> bool:
    """Tell whether two results are the same numbers, but for what rounding makes of them; the form is not compared."""
    ours, theirs = _numbers(result), _numbers(expected)
    return len(ours) == len(theirs) and all(
        one.shape == other.shape and torch.allclose(one, other, rtol=1e-3, atol=1e-5 * _largest(other), equal_nan=True)
        for one, other in zip(ours, theirs, strict=True)
    )


def _numbers(result: Any) -> list[torch.Tensor]:
    leaves = (leaf for leaf in _pytree.tree_leaves(result) if isinstance(leaf, (torch.Tensor, bool, int, float)))
    found = [torch.as_tensor(leaf).detach().cpu() for leaf in leaves]
    return [one if one.is_complex() else one.double() for one in found]


def _largest(numbers: torch.Tensor) -> float:
    finite = numbers[torch.isfinite(numbers)].abs()
    return float(finite.max()) if finite.numel() else 1.0


def judged(
    mode: str,
    before: Call,
    capture: Callable[[], Call],
    patch: AbstractContextManager[object],
    plain: Test,
    patched: Test,
    keeps: bool,
    tool: str = "hookpatch",
    neighbour: Callable[[Call], Any] | None = None,
) -> list[EffectCell]:
    """Return what comes of one mode at all moments.

    Args:
        mode: its name.
        before: what was captured before the patch.
        capture: captures the same anew.
        patch: is entered and left.
        plain: tells what unpatched eager mode gives.
        patched: tells what patched eager mode gives.
        keeps: True for an artifact that keeps what it captured.
        tool: who patches: an error or a warning that names it is *loud*.
        neighbour: makes a call elsewhere at the same time, where the patch is not to hold; None not to try that.
    """
    cells: list[EffectCell] = []
    inside: list[Call] = []

    def captured_inside() -> Any:
        inside.append(capture())
        return inside[0]()

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")

        def judge(captured: str, called: str, result: Call, right: Test, kept: Test | None) -> None:
            state, said = _judge(result, right, kept if keeps else None, heard, tool)
            if state == "silent" and opening and "inside" in (captured, called):
                state, said = "loud", opening[0]  # it was said when the patch was applied
            cells.append(EffectCell(mode, captured, called, state, said))

        try:
            patch.__enter__()
        except Exception as error:
            return [EffectCell(mode, *time, "loud", _line(error)) for time in TIMES]
        opening = _said(heard, tool)
        try:
            judge("before", "inside", before, patched, plain)
            judge("inside", "inside", captured_inside, patched, None)
            if inside and neighbour is not None:
                judge("inside", "neighbour", lambda: neighbour(inside[0]), plain, patched)
        finally:
            patch.__exit__(None, None, None)
        if inside:
            judge("inside", "after", inside[0], plain, patched)
        judge("after", "after", lambda: capture()(), plain, None)
    return cells


def _judge(
    result: Call, right: Test, kept: Test | None, heard: list[warnings.WarningMessage], tool: str
) -> tuple[CellState, str | None]:
    heard.clear()
    try:
        found = result()
    except Exception as error:
        is_loud = isinstance(error, HookpatchError) or f"by {tool}" in f"{error}"
        return "loud" if is_loud else "broken", _line(error)
    said = _said(heard, tool)
    if right(found):
        return "right", None
    if said:
        return "loud", said[0]
    if kept is not None and kept(found):
        return "product", None
    return "silent", f"it gives {_pytree.tree_map(_shown, found)}"


def _said(heard: list[warnings.WarningMessage], tool: str) -> list[str]:
    return [str(one.message) for one in heard if tool in f"{one.category.__module__} {one.message}"]


def _shown(one: Any) -> Any:
    return one.detach().cpu().flatten()[:4].tolist() if isinstance(one, torch.Tensor) else one


def _line(error: Exception) -> str:
    """Return an error in one line: torch's have many."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 200 else f"{text[:197]}..."


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what torch says of its own accord off the terminal, and forget what it compiled."""
    level, traces = logging.root.manager.disable, logging.getLogger("torch.__trace")
    logging.disable(logging.ERROR)
    traces.addFilter(_none)  # torch hands it records whatever is disabled, and pytest shows them below a failure
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        traces.removeFilter(_none)
        logging.disable(level)
        torch.compiler.reset()


def _none(record: logging.LogRecord) -> bool:
    return False

"""Try a patch in captured code: capture before, inside or after the patch, call inside or after."""

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

from hookpatch._engine.patch.patch import Patch
from hookpatch._processes.active import active
from hookpatch._session.session import Session
from hookpatch.errors import HookpatchError, SettingError
from hookpatch.testing._capture_modes import CAPTURES
from hookpatch.testing._effect import TIMES, CellState, Effect, EffectCell

Call: TypeAlias = Callable[[], Any]  # calls a captured model with the inputs
Test: TypeAlias = Callable[[Any], bool]  # returns True for the expected result

_ASKED_BY: Final = "effect()"


def effect_of(
    model: Any,
    inputs: tuple[Any, ...],
    patches: str | Patch | Session | Iterable[str | Patch],
    modes: Iterable[str] | None,
) -> Effect:
    """Return the effect of a patch in each mode; see ``hookpatch.testing.effect``."""
    __tracebackhide__ = True  # a failing test shows its own lines and its model's, not these
    if isinstance(patches, Session):
        session = patches
    else:
        session = active(*((patches,) if isinstance(patches, (str, Patch)) else patches), children="local")
        session.close()  # it may stay unopened
    names = _names(modes)
    plain, patched = _in_eager_mode(_call(model, inputs), session)
    cells: list[EffectCell] = []
    left_out: dict[str, str] = {}
    for name in names:
        tests = partial(_close, expected=plain), partial(_close, expected=patched)
        with quiet():
            result = _cells(name, model, inputs, session, *tests)
        if not isinstance(result, str):
            cells += result
        elif modes is not None:
            raise SettingError(_ASKED_BY, f"mode '{name}' was asked for, and cannot be tried: {result}")
        else:
            left_out[name] = result
    return Effect(session.names, tuple(cells), left_out)


def _in_eager_mode(call: Call, session: Session) -> tuple[Any, Any]:
    """Return the model's results without and with the patch; refuse a model or a patch that allows no comparison."""
    __tracebackhide__ = True
    with quiet():
        plain, again = call(), call()
    if not _close(again, plain):
        raise SettingError(_ASKED_BY, "the model gives other numbers at each call; put it into eval()")
    with session, quiet():
        patched = call()
        report = session.report()
    if _close(patched, plain):
        problem = "the patch changes no number of the model in eager mode, so no mode could be compared"
        raise SettingError(_ASKED_BY, f"{problem}; {'; '.join(f'{patch.target} is {patch.state}' for patch in report)}")
    return plain, patched


def _cells(
    mode: str, model: Any, inputs: tuple[Any, ...], session: Session, plain: Test, patched: Test
) -> list[EffectCell] | str:
    """Return the cells of one mode, or the reason why the mode cannot be tried."""
    if (missing := CAPTURES[mode].missing) is not None:
        return missing

    def capture() -> Call:
        return _call(CAPTURES[mode].make(model, _copied(inputs)), inputs)

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
        is_on_cuda = torch.cuda.is_available()
        return [
            name for name, capture in CAPTURES.items() if not capture.is_slow and (is_on_cuda or not capture.on_cuda)
        ]
    names = [modes] if isinstance(modes, str) else list(modes)
    for name in names:
        if name not in CAPTURES:
            near = difflib.get_close_matches(name, CAPTURES, 1)
            meant = f"; did you mean '{near[0]}'?" if near else ";"
            raise SettingError(_ASKED_BY, f"no mode '{name}'{meant} there are {', '.join(CAPTURES)}")
    return names


def _call(run: Callable[..., Any], inputs: tuple[Any, ...]) -> Call:
    return lambda: run(*_copied(inputs))


def _copied(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return copies of the inputs: a model may change its inputs in place."""

    def copied(leaf: Any) -> Any:
        return leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf

    copies: tuple[Any, ...] = _pytree.tree_map(copied, inputs)
    return copies


def _close(result: Any, expected: Any) -> bool:
    """Return True if two results have the same numbers within rounding; containers are not compared."""
    numbers, expected_numbers = _numbers(result), _numbers(expected)
    return len(numbers) == len(expected_numbers) and all(
        a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-5 * _largest(b), equal_nan=True)
        for a, b in zip(numbers, expected_numbers, strict=True)
    )


def _numbers(result: Any) -> list[torch.Tensor]:
    leaves = (leaf for leaf in _pytree.tree_leaves(result) if isinstance(leaf, (torch.Tensor, bool, int, float)))
    tensors = [torch.as_tensor(leaf).detach().cpu() for leaf in leaves]
    return [tensor if tensor.is_complex() else tensor.double() for tensor in tensors]


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
    """Return the cells of one mode.

    Args:
        before: calls the model captured before the patch; ``capture`` captures the model again.
        patch: the session; entered and exited once.
        plain: tests for the result of unpatched eager mode, ``patched`` of patched eager mode.
        keeps: True if the captured model never changes.
        tool: the patching tool; an error or a warning with the tool's name is *loud*.
        neighbour: runs a call in another task or thread, where the patch must not hold; None to skip.
    """
    cells: list[EffectCell] = []
    inside: list[Call] = []

    def captured_inside() -> Any:
        inside.append(capture())
        return inside[0]()

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")

        def judge(captured: str, called: str, call: Call, right: Test, product: Test | None) -> None:
            state, message = _judge(call, right, product if keeps else None, heard, tool)
            if state == "silent" and opening and "inside" in (captured, called):
                state, message = "loud", opening[0]  # hookpatch warned when the patch was applied
            cells.append(EffectCell(mode, captured, called, state, message))

        try:
            patch.__enter__()
        except Exception as error:
            return [EffectCell(mode, *time, "loud", _line(error)) for time in TIMES]
        opening = _warnings_of(tool, heard)
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
    call: Call, right: Test, product: Test | None, heard: list[warnings.WarningMessage], tool: str
) -> tuple[CellState, str | None]:
    heard.clear()
    try:
        result = call()
    except Exception as error:
        is_loud = isinstance(error, HookpatchError) or f"by {tool}" in f"{error}"
        return "loud" if is_loud else "broken", _line(error)
    texts = _warnings_of(tool, heard)
    if right(result):
        return "right", None
    if texts:
        return "loud", texts[0]
    if product is not None and product(result):
        return "product", None
    return "silent", f"it gives {_pytree.tree_map(_shown, result)}"


def _warnings_of(tool: str, heard: list[warnings.WarningMessage]) -> list[str]:
    return [str(warning.message) for warning in heard if tool in f"{warning.category.__module__} {warning.message}"]


def _shown(leaf: Any) -> Any:
    return leaf.detach().cpu().flatten()[:4].tolist() if isinstance(leaf, torch.Tensor) else leaf


def _line(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 200 else f"{text[:197]}..."


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the output of torch, and reset its compiler at the end."""
    traces = logging.getLogger("torch.__trace")
    before = logging.root.manager.disable, traces.disabled
    logging.disable(logging.ERROR)
    traces.disabled = True  # torch passes records to the logger past disable(), and pytest prints the records
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before[0])
        traces.disabled = before[1]
        torch.compiler.reset()

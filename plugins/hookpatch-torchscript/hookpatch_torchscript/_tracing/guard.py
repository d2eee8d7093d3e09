"""Compare a trace with its original on inputs other than the example."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, final

import torch
from hookpatch_probe.changes import Change, applied, words
from hookpatch_probe.compare import Tolerance, difference
from hookpatch_probe.example import Example, Run, Tensors, flat
from hookpatch_probe.quiet import quiet
from hookpatch_probe.search import Disagreement as Found
from hookpatch_probe.search import Refusal, Search, is_random
from hookpatch_probe.seed import SEED, seeded

from hookpatch_torchscript._source.lookup import name_of, place_of
from hookpatch_torchscript._tracing.baked import Errors, baked, nodes
from hookpatch_torchscript._tracing.copies import Original, Traced
from hookpatch_torchscript._tracing.lost_branch import SCANNED, LostBranches
from hookpatch_torchscript._values.verdict import Baked, Disagreement, Lost, Verdict

PROBES: Final = 64
_MODE: Final = "trace"
_KEPT: Final = (
    "state kept from call to call (a counter, a cache) is a constant in the trace: keep the state in a buffer"
)
_SECONDS: Final = 12.0  # of the processor in this thread, after which no further input is tried
_LOOKED_AT: Final = 6  # disagreements whose deciding lines are searched


@final
@dataclass(frozen=True)
class Call:
    """A traced call: the original with its example.

    Attributes:
        called: the module, function or bound method.
        args: a copy of the positional arguments.
        kwargs: a copy of the keyword arguments.
    """

    called: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def example(self) -> Example:
        """Return the arguments with their tensors separated."""
        return Example(self.called, self.args, self.kwargs)


def guard(
    traced: Any,
    original: Callable[..., Any],
    example_inputs: Any = (),
    *,
    example_kwarg_inputs: Mapping[str, Any] | None = None,
    method: str = "forward",
    probes: int = PROBES,
    rtol: float | None = None,
    atol: float | None = None,
) -> Verdict:
    """Compare a result of torch.jit.trace with its original, on inputs other than the example.

    Only copies are run, with one seed: parameters, buffers, modes and the random state do not change.

    Args:
        traced: a traced module or function, loaded from a file or not.
        original: the module or function.
        example_inputs: a tensor or a tuple, as for torch.jit.trace.
        example_kwarg_inputs: keyword arguments, as for torch.jit.trace.
        method: the traced method, for a module of torch.jit.trace_module.
        probes: how many inputs may be tried; reducing a disagreeing input is not counted.
        rtol: the tolerance relative to each element; None for the usual tolerance of the type.
        atol: the absolute tolerance; None for ``rtol`` times the greatest magnitude of the answer.

    Returns:
        The verdict, which ``print`` shows.
    """
    args = tuple(example_inputs) if isinstance(example_inputs, tuple | list) else (example_inputs,)
    called = original if method == "forward" else getattr(original, method)
    return compared(traced, Call(called, args, example_kwarg_inputs or {}), method, probes, Tolerance(rtol, atol))


def compared(traced: Any, call: Call, method: str, probes: int, tolerance: Tolerance) -> Verdict:
    """Return the verdict; if nothing can be compared, the verdict says why, and no error is raised."""
    place = place_of(type(call.called) if isinstance(call.called, torch.nn.Module) else call.called)
    name = type(call.called).__name__ if isinstance(call.called, torch.nn.Module) else name_of(call.called)
    with _alone():
        try:
            original = Original(call.called)
            search = _searched(traced, call, original, method, probes, tolerance)
            if isinstance(search, str):
                return Verdict(name, place, unchecked=search, scanned=SCANNED)
            tried, refused = search.tried, search.refused
            disagreements = _disagreements_to_report(search, call, original)
        except Exception as error:  # any error: the program must not fail
            return Verdict(name, place, unchecked=f"{type(error).__name__}: {_first(error)}", scanned=SCANNED)
    return Verdict(name, place, tried, refused, tuple(disagreements), scanned=SCANNED)


def _searched(
    traced: Any, call: Call, original: Original, method: str, probes: int, tolerance: Tolerance
) -> Search | str:
    """Return a finished search, or why nothing can be compared."""
    example = call.example()
    if not example.tensors:
        return "the example holds no tensor"
    ours = Traced(traced, method, original)

    def eager(tensors: Tensors) -> list[torch.Tensor]:
        args, kwargs = example.arguments(tensors)
        return flat(original.fresh()(*args, **kwargs))

    def recorded(tensors: Tensors) -> list[torch.Tensor]:
        args, kwargs = example.arguments(tensors)
        return [tensor.clone() for tensor in flat(ours(*args, **kwargs))]

    if _differs(eager, eager, example.tensors, tolerance):
        return "the original answers one input in two ways, with the same seed"
    if is_random(eager, example) and _differs(eager, recorded, example.tensors, tolerance):
        return (
            "the model draws random numbers, and the trace draws others with the same seed; trace the model in eval "
            "mode"
        )
    end = time.thread_time() + _SECONDS  # not of the clock: a busy machine would leave out inputs

    def spent(tried: int) -> bool:
        return tried >= probes or time.thread_time() > end

    search = Search(example, eager, {_MODE: recorded}, spent, tolerance, apart=False)
    search.run()
    return search


def _disagreements_to_report(search: Search, call: Call, original: Original) -> list[Disagreement]:
    """Return the disagreements: of those with one deciding line, the smallest found."""
    candidates: list[Found | Refusal] = [*search.disagreements, *search.refusals]
    of_example = [candidate for candidate in candidates if not candidate.changes]
    branches = _Branches(search, call)
    by_key: dict[object, Disagreement] = {}
    for candidate in islice(sorted(of_example or candidates, key=lambda candidate: len(candidate.changes)), _LOOKED_AT):
        if _differs(search.eager, search.eager, applied(candidate.changes, search.example.tensors), search.tolerance):
            continue
        key = branches.key(candidate.changes)
        if key in by_key:
            continue
        smaller = search.smaller(_MODE, candidate.changes) if candidate.changes else candidate.changes
        if smaller != candidate.changes and branches.key(smaller) != key:
            smaller = candidate.changes
        by_key[key] = _disagreement(search, branches.lost(smaller), original, smaller)
    return list(by_key.values())


@final
class _Branches:
    """The branches that decide disagreements: the example runs once, and each other input once."""

    def __init__(self, search: Search, call: Call) -> None:
        self._search: Final = search
        self._branches: Final = LostBranches(call.called, lambda: search.eager(search.example.tensors))
        self._known: Final[dict[tuple[Change, ...], Lost | None]] = {(): Lost(None, "", _KEPT)}

    def lost(self, changes: tuple[Change, ...]) -> Lost | None:
        """Return the branch that the trace has lost."""
        if changes not in self._known:
            tensors = self._search.example.tensors
            self._known[changes] = self._branches.of(lambda: self._search.eager(applied(changes, tensors)))
        return self._known[changes]

    def key(self, changes: tuple[Change, ...]) -> object:
        """Return the key of a disagreement: the line that decided, or the kind of change."""
        if SCANNED:
            branch = self.lost(changes)
            return None if branch is None else branch.place
        return tuple(change.size is None for change in changes[:1])


def _disagreement(search: Search, branch: Lost | None, original: Original, changes: tuple[Change, ...]) -> Disagreement:
    example, tensors = search.example, applied(changes, search.example.tensors)
    args, kwargs = example.arguments(tensors)
    fields: dict[str, Any] = {
        "words": words(changes),
        "args": args,
        "kwargs": kwargs,
        "shapes": tuple(
            f"{name}: {_type(tensor)}" for name, tensor in zip(example.names_of(tensors), tensors, strict=True)
        ),
        "seed": SEED,
        "lost": branch,
        "baked": tuple(_baked(original, example, tensors)),
    }
    with seeded():
        eager = search.eager(tensors)
    try:
        with seeded():
            traced = search.runs[_MODE](tensors)
    except Exception as error:
        return Disagreement(**fields, eager=f"shape {[list(tensor.shape) for tensor in eager]}", traced=_first(error))
    where = difference(eager, traced, search.tolerance)
    assert where is not None
    return Disagreement(
        **fields,
        eager=where.eager,
        traced=where.other,
        output=where.output,
        at=where.at,
        by=where.by,
        count=where.count,
    )


def _baked(original: Original, example: Example, tensors: Tensors) -> list[Baked]:
    """Return the constants that differ in a trace of an input; none if the input cannot be traced."""
    try:
        with seeded(), Errors() as errors:
            original.fresh()(*example.arguments(tensors)[0], **example.arguments(tensors)[1])
        if errors.raised:  # and caught by the model
            return []
        with seeded():
            of_example = nodes(original.fresh(), *example.arguments(example.tensors))
        with seeded():
            return baked(of_example, nodes(original.fresh(), *example.arguments(tensors)))
    except Exception:  # torch refuses the trace, or has moved the function that is called
        return []


def _differs(first_run: Run, second_run: Run, tensors: Tensors, tolerance: Tolerance) -> bool:
    with seeded():
        first = first_run(tensors)
    try:
        with seeded():
            return difference(first, second_run(tensors), tolerance) is not None
    except Exception:
        return True


def _type(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _first(error: Exception) -> str:
    """Return the first line of an error; of TorchScript's interpreter, the last."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1] if "TorchScript interpreter" in lines[0] else lines[0]


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Keep the program's random state, gradient mode, output and warnings unaffected by the runs."""
    gradient = torch.is_grad_enabled()
    with quiet(), seeded(), torch.inference_mode(False), torch.set_grad_enabled(gradient):
        yield

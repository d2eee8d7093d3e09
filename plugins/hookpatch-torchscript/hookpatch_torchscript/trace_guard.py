"""Compare each trace of torch.jit.trace with the model on inputs other than the example; report each difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import hookpatch


@dataclass(frozen=True)
class Options:
    """How a trace is compared, and what becomes of a disagreement.

    Attributes:
        rtol: how near is the same, relative to each element; without it 1e-3, for double 1e-6, for half more.
        atol: the same absolute; without it ``rtol`` times the greatest magnitude of the answer.
        probes: how many inputs are tried for each trace.
        fail: true to have a disagreement be an error, and nothing traced.
    """

    rtol: float | None = None
    atol: float | None = None
    probes: int = 64
    fail: bool = False


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Compare what each call of torch.jit.trace and torch.jit.trace_module returns."""
    from hookpatch_torchscript._tracing.trace_calls import compared_calls

    yield from compared_calls(options.probes, options.rtol, options.atol, options.fail)

"""Skip optimizer passes of one's choice at every call of onnxsim.simplify."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from types import ModuleType
from typing import Final

import hookpatch
from hookpatch.errors import OptionsError
from hookpatch_onnxsim._passes import RELEASES, SIMPLIFIER, skip_passes
from hookpatch_onnxsim._release import passes_of

IGNORED: Final = "https://github.com/onnxsim/onnxsim/issues/278"  # an unknown name is silently ignored


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        passes: names of the passes to skip, as ``python -m hookpatch_onnxsim`` prints them.
    """

    passes: list[str]

    def __post_init__(self) -> None:
        if not self.passes:
            raise ValueError("'passes' is empty; name the passes to skip, or leave the plugin out")


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Skip the chosen passes at every call of onnxsim.simplify, once onnxsim is imported and has all passes.

    onnxsim ignores the name of an unknown pass, so hookpatch compares the names with the passes of onnxsim: when the
    session opens, or when the program imports onnxsim later. No pass is skipped before the comparison.
    """
    skipped: list[str] = []

    @contextmanager
    def checked(simplifier: ModuleType) -> Iterator[None]:
        _check(options.passes, passes_of(simplifier))
        skipped[:] = options.passes
        yield
        skipped.clear()

    why = "onnxsim ignores the name of an unknown pass"
    yield hookpatch.enter(SIMPLIFIER, checked, requires=RELEASES, why=why, upstream=IGNORED)
    yield skip_passes(skipped, why="these passes are not wanted", upstream=IGNORED)


def _check(passes: Sequence[str], names: frozenset[str]) -> None:
    """Refuse names of passes that onnxsim does not have.

    Raises:
        OptionsError: onnxsim lacks a named pass.
    """
    unknown = [name for name in dict.fromkeys(passes) if name not in names]
    if unknown:
        release = f"onnxsim {metadata.version('onnxsim')}"
        origin = f"hookpatch-onnxsim {metadata.version('hookpatch-onnxsim')}"
        missing = " and no pass ".join(f"'{name}'{_nearest(name, names)}" for name in unknown)
        advice = "'HOOKPATCH_DISABLE=1 python -m hookpatch_onnxsim' lists the passes of onnxsim"
        raise OptionsError("onnxsim_skip", origin, f"{release} has no pass {missing}; {advice}")


def _nearest(name: str, names: frozenset[str]) -> str:
    """Return `` (did you mean 'fuse_qkv'?)`` for the known name nearest to ``FuseQKV``, else nothing."""
    import difflib  # imported by the failing path alone

    squeezed = {candidate.replace("_", ""): candidate for candidate in sorted(names)}
    near = difflib.get_close_matches("".join(filter(str.isalnum, name.lower())), squeezed, n=1)
    return f" (did you mean '{squeezed[near[0]]}'?)" if near else ""

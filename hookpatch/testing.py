"""For tests of patches and plugins: that a patch leaves no trace, holds in unmodified programs and in captured code.

pytest has ``patched``, ``fresh_process`` and ``effect`` as fixtures wherever hookpatch is installed; what they give is
here, for annotations and for other runners.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hookpatch._effect import Effect, EffectCell, EffectFailed, EffectOf
from hookpatch._fresh_process import Finished, FreshProcess, ProgramFailed
from hookpatch._patched import NotApplied, Patched
from hookpatch._pristine import NotPristine, pristine

if TYPE_CHECKING:
    from hookpatch._patch import Patch
    from hookpatch._session import Session

__all__ = [
    "Effect",
    "EffectCell",
    "EffectFailed",
    "EffectOf",
    "Finished",
    "FreshProcess",
    "NotApplied",
    "NotPristine",
    "Patched",
    "ProgramFailed",
    "effect",
    "pristine",
]


def effect(
    model: Any, /, *inputs: Any, what: str | Patch | Session | Iterable[str | Patch], modes: Iterable[str] | None = None
) -> Effect:
    """Return what a patch does under each of torch's ways to capture code, compared with what it does in eager mode.

    In each mode the model is captured before the patch, inside and after it, and called inside and after; see
    ``EffectCell.state`` for what can come of it. ``effect(...).check()`` fails a test.

    Args:
        model: a module, or a function of tensors; it gives the same numbers at each call, and the patch changes them.
        *inputs: what it is called with.
        what: the plugin or patch, or several that are on together; or a session that ``active`` returned and that is
            not open, which may have options and a scope.
        modes: some of ``eager``, ``compile``, ``compile fullgraph``, ``inductor``, ``export``, ``export strict``,
            ``jit.trace``, ``jit.script``, ``onnx`` and ``onnx torchscript``. The default is all but ``inductor``; those
            that cannot be tried are left out, and the table says why.

    Raises:
        SettingError: the patch changes nothing in eager mode; the model gives other numbers at each call; a mode that
            was named is none, or cannot be tried.
        ImportError: torch is not installed.
    """
    __tracebackhide__ = True
    from hookpatch._judge import effect_of  # it imports torch

    return effect_of(model, inputs, what, modes)

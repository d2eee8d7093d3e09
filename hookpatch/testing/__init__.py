"""Test that a patch leaves no trace, and that a patch works in unmodified programs and in captured code.

pytest has the fixtures ``patched``, ``fresh_process`` and ``effect`` wherever hookpatch is installed. The package has
their classes and errors, for annotations and for other test runners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hookpatch._engine.patch.patch import Patch
    from hookpatch._session.session import Session
    from hookpatch.testing._effect import Effect, EffectCell, EffectFailed, EffectOf
    from hookpatch.testing._fresh_process import Finished, FreshProcess, ProgramFailed
    from hookpatch.testing._patched import NotApplied, Patched
    from hookpatch.testing._pristine import NotPristine, pristine

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

# Imported on first use: each pytest run imports the package for its fixtures.
_HOME = {
    **dict.fromkeys(("Effect", "EffectCell", "EffectFailed", "EffectOf"), "_effect"),
    **dict.fromkeys(("Finished", "FreshProcess", "ProgramFailed"), "_fresh_process"),
    **dict.fromkeys(("NotApplied", "Patched"), "_patched"),
    **dict.fromkeys(("NotPristine", "pristine"), "_pristine"),
}


if not TYPE_CHECKING:  # with a module __getattr__ a type checker accepts any name

    def __getattr__(name: str) -> object:
        """Import a public name from its file (PEP 562)."""
        if name not in _HOME:
            raise AttributeError(f"module 'hookpatch.testing' has no attribute '{name}'")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"hookpatch.testing.{_HOME[name]}"), name)
        return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return list(__all__)


def effect(
    model: Any, /, *inputs: Any, what: str | Patch | Session | Iterable[str | Patch], modes: Iterable[str] | None = None
) -> Effect:
    """Compare the effect of a patch in each capture mode of torch with the effect in eager mode.

    Each mode captures the model before, inside and after the patch, and calls the captured model inside and after;
    ``EffectCell.state`` lists the possible results. ``effect(...).check()`` fails a test.

    Args:
        model: a module, or a function of tensors; returns the same numbers at each call unless patched.
        *inputs: the arguments of the model.
        what: a plugin or patch, or several for one session; or a session from ``active``, not open, with options and
            scope of its own.
        modes: some of ``eager``, ``compile``, ``compile fullgraph``, ``inductor``, ``export``, ``export strict``,
            ``jit.trace``, ``jit.script``, ``fx``, ``make_fx``, ``onnx`` and ``onnx torchscript``. Default: all but
            ``inductor``; the table gives the reason for each mode that is left out.

    Raises:
        SettingError: the patch changes no number in eager mode; the model returns other numbers at each call; a mode
            does not exist, or cannot be tried.
        ImportError: torch is not installed.
    """
    __tracebackhide__ = True
    from hookpatch.testing._capture_matrix import effect_of  # imports torch

    return effect_of(model, inputs, what, modes)

"""How often a layer was called, and what captured it: counted where asked for, at no cost elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final, Literal, TypeAlias, final

from hookpatch import _imports
from hookpatch._patch import Wrapper

Mode: TypeAlias = Literal["eager", "compile", "export", "trace", "script"]
MODES: Final[tuple[Mode, ...]] = ("eager", "compile", "export", "trace", "script")

on_first_call: Final[list[Callable[[], None]]] = []  # who hears that a patch has received its first call in a mode


@final
class Tally:
    """The calls of one layer. In *eager* mode each call counts; else each time that something captured one.

    What is captured by ``torch.compile`` counts nothing when it runs: that would be a guard, or a graph break.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Final[Counter[tuple[int, Mode]]] = Counter()  # by thread, so that none of two at once is lost

    def note(self) -> None:
        """Count a call that is being made."""
        self.captured(_mode())

    def captured(self, mode: Mode) -> None:
        """Count a call that is being captured in a mode."""
        key = get_ident(), mode
        self._counts[key] += 1
        if self._counts[key] == 1:  # of this thread
            for tell in on_first_call:
                tell()

    def around(self, wrapper: Wrapper) -> Wrapper:
        """Return a wrapper that counts its calls here."""

        def counting(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: Any) -> Any:
            self.note()
            return wrapper(wrapped, instance, args, kwargs)

        return counting

    @property
    def calls(self) -> dict[str, int]:
        """The calls by mode, those modes left out that saw none."""
        counts = list(self._counts.items())
        sums: dict[str, int] = {mode: sum(count for (_, other), count in counts if other == mode) for mode in MODES}
        return {mode: count for mode, count in sums.items() if count}


def too_few(calls: int, required: int) -> str:
    """Return in words that a patch has received fewer calls than it requires."""
    done = "never called" if not calls else "called once" if calls == 1 else f"called {calls} times"
    return f"applied, {done}" + (f" (required_calls={required})" if required else "")


def _mode() -> Mode:
    """Return what a call in Python is made for."""
    torch: Any = _imports.loaded("torch")
    if torch is None:
        return "eager"
    if torch.jit.is_tracing():
        return "trace"
    return "export" if torch.compiler.is_exporting() else "eager"

"""Who stands in a slot, layer by layer, for a person and for a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, final

By: TypeAlias = Literal["hookpatch", "somebody", "module"]


@final
@dataclass(frozen=True, slots=True)
class LayerReport:
    """One thing that stands in a slot, or lies beneath what stands there. Frozen.

    Attributes:
        by: who put it there: ``"hookpatch"``; ``"module"``, in whose source it is; ``"somebody"`` else.
        kind: of ours the verb, or ``"ended"`` for what a session has left there; else what it is, such as
            ``wrapt.FunctionWrapper``, ``functools.wraps``, ``unittest.mock.MagicMock``; at the bottom ``"original"``.
        name: what runs, or stands there: ``module:name``, or a short text for a value.
        place: where that is defined, as ``file:line``; None where nobody can tell.
        plugin: of ours the plugin's name, None for a patch given to ``active``.
        distribution: the plugin's distribution with its version, None likewise.
        session: of ours the number of the session: the first that was opened in this process is 1.
        arguments: of ``inject`` the arguments that it gives, by name, in words.
        reached: False for what no call gets to: it lies beneath a value, or beneath what does not tell what it calls.
        note: what else is known of it; a guess says that it is one.
    """

    by: By
    kind: str
    name: str
    place: str | None = None
    plugin: str | None = None
    distribution: str | None = None
    session: int | None = None
    arguments: dict[str, str] | None = None
    reached: bool = True
    note: str | None = None

    @property
    def title(self) -> str:
        """What it is and who put it there, in words."""
        beneath = "" if self.reached else "  (not reached)"
        if self.kind == "ended":
            return f"left there by hookpatch{beneath}"
        if self.by == "hookpatch":
            who = "active()" if self.plugin is None else f"plugin '{self.plugin}' from {self.distribution}"
            of = "" if self.session is None else f" by {who}, session {self.session}"
            return f"{self.kind}{of}{beneath}"
        if self.by == "module":
            return f"the original{beneath}" if self.kind == "original" else f"{self.kind} by its own module{beneath}"
        return f"{self.kind} by somebody else{beneath}"

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in (self.arguments or {}).items())
        what = given or self.name
        lines = [self.title, f"    {what}" + (f" at {self.place}" if self.place else "")]
        return "\n".join([*lines, *([f"    {self.note}"] if self.note else [])])


@final
@dataclass(frozen=True, slots=True)
class SlotReport:
    """Who stands in a slot. Frozen; iterating gives the layers, its text tells them, the outermost first.

    Attributes:
        target: the address.
        imported: False if its module is not imported in this process; there are no layers then.
        layers: what stands there, and what lies beneath it, the outermost first; the original is the last.
        note: what is to be known of the address itself.
    """

    target: str
    imported: bool
    layers: tuple[LayerReport, ...]
    note: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON."""
        from hookpatch._json import written  # as in _report.py

        return written(self.to_dict(), indent=2)

    def __iter__(self) -> Iterator[LayerReport]:
        return iter(self.layers)

    def __str__(self) -> str:
        head = f"{self.target}: {self.note}" if self.note else self.target
        return "\n".join([head, *("  " + str(layer).replace("\n", "\n  ") for layer in self.layers)])

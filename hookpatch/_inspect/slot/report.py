"""The result of ``why()``: the layers of a slot, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, final

By: TypeAlias = Literal["hookpatch", "somebody", "module"]


@final
@dataclass(frozen=True, slots=True)
class LayerReport:
    """One layer of a slot: a patch, a foreign wrapper or the original. Frozen.

    Attributes:
        by: the author of the layer: ``"hookpatch"``; ``"module"``, the slot's own module; else ``"somebody"``.
        kind: the verb of a patch, or ``"ended"`` for a wrapper whose session has ended; else the wrapper's type, such
            as ``wrapt.FunctionWrapper``, ``functools.wraps``, ``unittest.mock.MagicMock``; ``"original"`` at the end.
        name: the function that runs, as ``module:name``, or a short text for a value.
        place: the definition, as ``file:line``; None if unknown.
        plugin: the plugin's name; None for foreign layers and for a patch given to ``active``.
        distribution: the plugin's distribution with its version; None without a plugin.
        session: the number of the session, counted from 1 in each process; None for foreign layers.
        arguments: the arguments that ``inject`` passes: texts by name; None for other verbs.
        reached: False if no call gets to the layer: an outer layer calls no inner layer, or hides its callee.
        note: further facts; of an overwritten patch the reason that the report gives.
        state: the state of a patch as in the report: ``"applied"``, ``"overwritten"`` or ``"failed"``; None for others.
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
    state: str | None = None

    @property
    def title(self) -> str:
        """Return the kind and the author of the layer in words."""
        suffix = "  (overwritten)" if self.state == "overwritten" else "" if self.reached else "  (not reached)"
        if self.kind == "ended":
            return f"left by hookpatch after the end{suffix}"
        if self.by == "hookpatch":
            owner = "active()" if self.plugin is None else f"plugin '{self.plugin}' from {self.distribution}"
            session = "" if self.session is None else f" by {owner}, session {self.session}"
            return f"{self.kind}{session}{suffix}"
        if self.by == "module":
            return f"the original{suffix}" if self.kind == "original" else f"{self.kind} by its own module{suffix}"
        return f"{self.kind} by somebody else{suffix}"

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in (self.arguments or {}).items())
        place = f" at {self.place}" if self.place else ""
        lines = [self.title, f"    {arguments or self.name}{place}"]
        return "\n".join([*lines, *([f"    {self.note}"] if self.note else [])])


@final
@dataclass(frozen=True, slots=True)
class SlotReport:
    """The layers of a slot. Frozen; iterating gives the layers, ``str()`` their lines, the outermost first.

    Attributes:
        target: the address.
        imported: False if the module is not imported in the current process; ``layers`` is empty then.
        layers: the layers, the outermost first, the original last.
        note: facts about the address.
    """

    target: str
    imported: bool
    layers: tuple[LayerReport, ...]
    note: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes by name, as in the JSON schema."""
        return asdict(self)

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON."""
        from hookpatch._bootstrap.json import written  # needed for JSON only

        return written(self.to_dict(), indent=2)

    def __iter__(self) -> Iterator[LayerReport]:
        return iter(self.layers)

    def __str__(self) -> str:
        head = f"{self.target}: {self.note}" if self.note else self.target
        return "\n".join([head, *("  " + str(layer).replace("\n", "\n  ") for layer in self.layers)])

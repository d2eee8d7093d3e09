"""What became of the parts of a model that a plugin is for: which are nodes, and which are not, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, final

from hookpatch_onnx.errors import NodeError

if TYPE_CHECKING:
    import onnx_ir as ir  # imports numpy

Find: TypeAlias = Callable[["ir.Model"], Mapping[str, str]]  # the parts that are left in a model, each with the reason

_MOST: Final = 3  # parts that are named, and the others counted


@final
@dataclass(slots=True)
class Receipt:
    """The account of one plugin in one export. Kept for the report.

    Attributes:
        plugin: the plugin's name.
        kind: what the plugin is for, in words: "norm-like modules".
        is_strict: True if a part that is no node ends the export.
        find: finds the parts that are left in the exported model, by what they compute.
        marked: the parts that are to become nodes.
        made: the parts that are nodes; a part that is called twice counts twice.
        missed: the parts that are none, each with the reason.
        remarks: what else a user should know, a clause each.
        refused: what to do if ``onnx.checker`` refuses a node of the plugin; empty if that is unexpected.
    """

    plugin: str
    kind: str
    is_strict: bool = False
    find: Find | None = None
    marked: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    missed: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    refused: str = ""

    def miss(self, parts: Mapping[str, str]) -> None:
        """Note parts that do not become nodes, unless they are known."""
        for part, reason in parts.items():
            self.missed.setdefault(part, reason)

    def close(self, model: ir.Model) -> None:
        """Look for what is left in the exported model.

        Raises:
            NodeError: something is, and the plugin is strict.
        """
        seen = {*self.made, *self.missed}
        self.miss({part: "was not called by its forward" for part in self.marked if part not in seen})
        if self.find is not None:
            self.miss(self.find(model))
        if self.is_strict and self.missed:
            part, reason = next(iter(self.missed.items()))
            more = f"; and {len(self.missed) - 1} more" if len(self.missed) > 1 else ""
            raise NodeError(self.plugin, part, f"is no node: {reason}{more}; strict=false exports it as it is")

    def __str__(self) -> str:
        done, left = len(self.made), len(self.missed)
        named = [f"{part} {reason}" for part, reason in list(self.missed.items())[:_MOST]]
        more = f", and {left - _MOST} more" if left > _MOST else ""
        tail = f"; {left} not: {', '.join(named)}{more}" if left else ""
        return "; ".join([f"{done} of {done + left} {self.kind} became nodes{tail}", *self.remarks])


_receipts: Final[dict[str, list[str]]] = {}  # of this process, by plugin
_KEPT: Final = 20  # a program may export without end


def keep(receipts: Iterable[Receipt]) -> None:
    """Keep the receipts of an export for the report."""
    for receipt in receipts:
        kept = _receipts.setdefault(receipt.plugin, [])
        kept.append(str(receipt))
        del kept[:-_KEPT]


def kept(plugin: str) -> list[str]:
    """Return the receipts of a plugin, one line for each export, the last twenty."""
    return list(_receipts.get(plugin, ()))


def inlined(what: str, otherwise: str) -> str:
    """Return the remark on a function with a body, which a tool may take apart again."""
    return f"onnxruntime's quant_pre_process inlines the body of {what}: quantize without it, or {otherwise}"

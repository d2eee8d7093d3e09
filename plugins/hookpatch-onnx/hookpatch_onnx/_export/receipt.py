"""The receipt of a plugin for an export: the parts exported as nodes, and the other parts, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final
from weakref import WeakKeyDictionary

import hookpatch
from hookpatch_onnx.errors import NodeError

if TYPE_CHECKING:
    import onnx_ir as ir  # imports numpy

Wrapper: TypeAlias = Callable[..., Any]
# From a model and the first name of each module to the parts left in the model, each with the reason.
Find: TypeAlias = Callable[["ir.Model", Mapping[str, str]], Mapping[str, str]]

_NOT_CALLED: Final = "was not called by its forward, or only in a branch or loop of torch.cond and the like"
_UNUSED: Final = "is called, but the model does not use its result"
BRANCH: Final = "a branch or loop"  # where torch names no module
_MOST: Final = 3  # parts named; the others are counted


@final
@dataclass(slots=True)
class Receipt:
    """The account of a plugin in an export. Kept for the report.

    Attributes:
        plugin: the plugin's name.
        kind: the parts of interest to the plugin, in words: "norm-like modules".
        is_strict: True if a part left without a node ends the export.
        find: finds the parts left in the exported model, by computation.
        marked: the parts chosen to become nodes.
        made: the parts exported as nodes; a part called twice counts twice.
        missed: the parts not exported as nodes, each with the reason.
        remarks: other facts for the user, a clause each.
        compares: True if the model is compared with a second, plain export.
        refused: the remedy if ``onnx.checker`` refuses a node of the plugin; empty if a refusal is unexpected.
    """

    plugin: str
    kind: str
    is_strict: bool = False
    find: Find | None = None
    marked: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    missed: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    compares: bool = False
    refused: str = ""

    def miss(self, parts: Mapping[str, str]) -> None:
        """Note parts without a node, and skip known parts."""
        for part, reason in parts.items():
            self.missed.setdefault(part, reason)

    def close(self, model: ir.Model, names: Mapping[str, str], called: Container[str]) -> None:
        """Look for parts left in the exported model; ``names`` has the first name of each module.

        A part in a branch is taken for a part that is not in ``called``, which is named by then.

        Raises:
            NodeError: a part is left, and the plugin is strict.
        """
        accounted = {*self.made, *self.missed}
        left = [part for part in self.marked if part not in accounted]
        not_called = [part for part in left if part not in called]
        self.miss({part: _UNUSED if part in called else _NOT_CALLED for part in left})
        if self.find is not None:
            found = self.find(model, names)
            in_branches = [part for part in found if part.startswith(BRANCH)]
            named = in_branches[max(0, len(in_branches) - len(not_called)) :]
            self.miss({part: reason for part, reason in found.items() if part not in named})
        if self.is_strict and self.missed:
            part, reason = next(iter(self.missed.items()))
            ending = f"; and {len(self.missed) - 1} more" if len(self.missed) > 1 else ""
            raise NodeError(
                self.plugin, part, f"is no node: {reason}{ending}; strict=false exports the module without the node"
            )

    def __str__(self) -> str:
        node_count, missed_count = len(self.made), len(self.missed)
        named = [f"{part} {reason}" for part, reason in list(self.missed.items())[:_MOST]]
        ending = f", and {missed_count - _MOST} more" if missed_count > _MOST else ""
        tail = f"; {missed_count} not: {', '.join(named)}{ending}" if missed_count else ""
        return "; ".join([f"{node_count} of {node_count + missed_count} {self.kind} became nodes{tail}", *self.remarks])


_receipts: Final[WeakKeyDictionary[Wrapper, list[str]]] = WeakKeyDictionary()  # by the wrapper of a plugin's patch
_KEPT: Final = 20  # a program may export without end


def keep(receipt: Receipt, wrapper: Wrapper) -> None:
    """Keep the receipt of an export for the reports on a patch of torch.onnx.export, which has this wrapper."""
    texts = _receipts.setdefault(wrapper, [])
    texts.append(str(receipt))
    del texts[:-_KEPT]


def receipts_of(patches: Iterable[hookpatch.Patch]) -> list[str]:
    """Return the receipts of patches, a line for each export, the last twenty of each session."""
    wrappers = dict.fromkeys(patch.change for patch in patches)
    return [text for wrapper in wrappers for text in _receipts.get(wrapper, ())]


def inlined(functions: str, otherwise: str) -> str:
    """Return the remark on a function with a body: a tool may inline the body."""
    return f"onnxruntime's quant_pre_process inlines the body of {functions}: quantize without it, or {otherwise}"

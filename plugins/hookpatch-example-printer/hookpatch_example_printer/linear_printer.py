"""Print the shape of each Linear's weight and bias: another printer in the vendor's registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hookpatch


def with_shapes(printer: type[Any]) -> type[Any]:
    """Return a subclass of the vendor's printer for Linear that prints shapes.

    hookpatch calls the factory after the import of the vendor's module, so the plugin imports neither vendor nor torch.
    """

    class LinearShapePrinter(printer):  # type: ignore[misc]  # the vendor's class is known at run time only
        def print_module_info(self) -> None:
            bias = "no bias" if self.module.bias is None else f"bias {list(self.module.bias.shape)}"
            print(f"Linear {self.name}: weight {list(self.module.weight.shape)}, {bias}")

    return LinearShapePrinter


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Put the subclass into the vendor's registry."""
    yield hookpatch.derive(
        "third_party_api:PRINT_BY_MODULE_TYPE[torch.nn:Linear]",
        with_shapes,
        why="the vendor's line says neither whether there is a bias nor how the weight lies",
        upstream="no issue: this vendor is an example",
    )

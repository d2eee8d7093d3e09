"""Keep a layer in effect after its instance has died: ``m.Class().of_class`` outlives the instance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import CellType
from typing import Any, Final, final
from weakref import ref

from hookpatch._engine.calls.trampoline import pass_through
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.site import Site
from hookpatch._engine.slots.slot import inner


@final
class Outliving:
    """The layers of dead instances whose wrappers other code holds.

    Lives as long as the lifecycle of a patch of instances. An entry goes when the wrapper dies.
    """

    def __init__(self) -> None:
        # By wrapper, with the links of the wrapper. GIL: each change is one operation.
        self._layers: Final[dict[int, tuple[ref[Any], Layer, list[CellType]]]] = {}
        # The site of the last dead instance: plugins are notified of the end of its patch.
        self.sites: Sequence[Site] = ()

    def keep_layer(self, site: Site, layer: Layer, has_ended: bool) -> None:
        """Keep a layer in effect until its wrapper dies or the session ends. Called by the collector, anywhere."""
        self.sites = (site,)
        wrapper = inner(site.value)
        layer.notes = None
        if has_ended or not layer.wraps:
            layer.end()
            return
        number = id(wrapper)
        links = [link for stand_in in site.stand_ins for link in stand_in.links_alone(layer)]
        self._layers[number] = ref(wrapper, partial(_drop_entry, self._layers, number)), layer, links

    def end_layers(self) -> None:
        """Pass calls through from now on."""
        for _, layer, links in [*self._layers.values()]:
            layer.end()
            for link in links:
                link.cell_contents = pass_through, link.cell_contents[1], None
        self._layers.clear()


def _drop_entry(layers: dict[int, Any], number: int, _: object) -> None:
    layers.pop(number, None)

"""Write an HTML file with both graphs side by side; a browser needs no network and no other file."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any, Final

from hookpatch_onnx._compare.compare import Comparison
from hookpatch_onnx._measure.measured import Measured
from hookpatch_onnx._picture.drawing import drawing_of
from hookpatch_onnx.errors import PictureError

_SCRIPTS: Final = ("layout.js", "panes.js", "panels.js", "main.js")
_LIBRARIES: Final = ("cytoscape", "dagre")


def page_of(comparison: Comparison, measured: Measured | None = None) -> str:
    """Return the page.

    Args:
        comparison: the comparison.
        measured: the distances, if the weights were read or the models were run.

    Raises:
        PictureError: hookpatch-onnx was built without the drawing libraries.
    """
    folder = files("hookpatch_onnx._picture").joinpath("page")
    texts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "page.css", *_SCRIPTS)}
    try:
        libraries = "\n".join(_library(name) for name in _LIBRARIES)
    except FileNotFoundError as error:
        raise PictureError(
            "the page cannot be drawn",
            f"{error.filename} is missing; install hookpatch-onnx again, which fetches the file from npm",
        ) from None
    parts = {
        "{title}": html.escape(f"{comparison.before} → {comparison.after}"),
        "{style}": texts["page.css"],
        "{data}": json.dumps(data_of(comparison, measured), ensure_ascii=False).replace("<", "\\u003c"),
        "{libraries}": libraries,
        "{script}": '"use strict";\n' + "\n".join(texts[name] for name in _SCRIPTS),
    }
    page = texts["page.html"]
    pieces = []
    for mark, text in parts.items():  # in the order of the template: inserted text is not searched for marks
        before, _, page = page.partition(mark)
        pieces += [before, text]
    return "".join([*pieces, page])


def data_of(comparison: Comparison, measured: Measured | None = None) -> dict[str, Any]:
    """Return the data of the page, in types of JSON, with the drawing of each graph."""
    before, after = comparison.patches
    return {
        "before": comparison.before,
        "after": comparison.after,
        "patches": [patch for patch in after if patch not in before],
        "ops": comparison.ops(),
        "model": list(comparison.model),
        "graphs": [
            {**drawing_of(graph, None if index else measured), "isEmpty": graph.is_empty}
            for index, graph in enumerate(comparison.graphs)
        ],
        **({} if measured is None else _numbers(measured)),
    }


def _numbers(measured: Measured) -> dict[str, Any]:
    weights = {
        "words": measured.weights.words,
        "changes": [
            {
                "kind": change.kind,
                "name": change.name,
                "type": change.type,
                "distance": change.distance and change.distance.words,
            }
            for change in measured.weights.changes
        ],
    }
    outputs = [
        {"name": name, "effect": measure.effect, "words": measure.words}
        for name, measure in (measured.outputs or {}).items()
    ]
    return {"weights": weights, "run": {"seed": measured.seed, "inputs": measured.inputs, "outputs": outputs}}


def _library(name: str) -> str:
    """Return a drawing library as HTML, with the licence: every copy must include the licence."""
    folder = files("hookpatch_onnx._picture").joinpath("page", "libraries")
    licence = folder.joinpath(f"{name}.LICENSE").read_text(encoding="utf-8").replace("--", "- -")
    script = folder.joinpath(f"{name}.js").read_text(encoding="utf-8").replace("</script", "<\\/script")
    return f"<!-- {name}\n{licence}-->\n<script>{script}</script>"

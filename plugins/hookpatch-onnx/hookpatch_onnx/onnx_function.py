"""Classes of one's own export as one node each, with their body as an ONNX local function."""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import hookpatch
from hookpatch_onnx._export.during_export import during_export, loaded
from hookpatch_onnx._export.export import Export
from hookpatch_onnx._export.receipt import Receipt, inlined, receipts_of
from hookpatch_onnx.errors import NodeError

NAME: Final = "onnx_function"

_WORD: Final = re.compile(r"(?:(?P<domain>[\w.]+)::)?(?P<name>\w+)=(?P<address>(?P<module>[^:=\s]+):(?P<path>[\w.]+))")


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        functions: ``NAME=module:Class`` or ``domain::NAME=module:Class``: instances of the class become nodes of the
            name. The domain is the first part of the module's name if none is given.
        strict: whether an instance left without a node, or a class without instances, ends the export with an error.
        compare: whether a second, plain export is made, and compared with the model outside of the nodes.
    """

    functions: list[str]
    strict: bool = False
    compare: bool = False

    def __post_init__(self) -> None:
        for word in self.functions:
            if _WORD.fullmatch(word) is None:
                raise ValueError(f"'{word}' cannot be read; write NAME=module:Class or domain::NAME=module:Class")


def mark_modules(export: Export, options: Options) -> Iterator[hookpatch.Patch]:
    """Mark each call of an instance of the classes as a region."""
    wanted: dict[type, tuple[str, str]] = {}
    receipt = Receipt(NAME, "instances", options.strict, compares=options.compare)
    for word in options.functions:
        parts = _WORD.fullmatch(word)
        assert parts is not None  # as Options has seen to
        if (kind := _class_at(parts["module"], parts["path"])) is not None:
            wanted[kind] = (parts["domain"] or parts["module"].partition(".")[0], parts["name"])
        else:
            receipt.miss({parts["address"]: "has no instance: its module was not imported"})
    modules = dict(export.modules(NAME))
    instances = {name: module for name, module in modules.items() if type(module) in wanted}
    export.want(NAME, bool(instances))
    for kind in wanted.keys() - {type(module) for module in instances.values()}:
        receipt.miss({_address(kind): "has no instance in the model"})
    for name, module in modules.items():
        if name not in instances and (kind := next((kind for kind in wanted if isinstance(module, kind)), None)):
            receipt.miss({_part(name, module): f"is of a subclass of {_address(kind)}; name that class, too"})
    receipt.marked += (_part(name, module) for name, module in instances.items())
    if instances:
        receipt.remarks.append(inlined("these functions", "keep them for another runtime"))
    export.account(receipt)
    for name, module in instances.items():
        yield hookpatch.wrap(
            hookpatch.Target.attribute(module, "forward"),
            _forward(export, name, *wanted[type(module)]),
            why="torch exports the computation node by node",
        )


def _class_at(module_name: str, path: str) -> type | None:
    """Return the class at an address; None if the module is not imported: the model has no instance.

    Raises:
        NodeError: the module or class is missing, or the class is no torch.nn.Module.
    """
    import torch  # imported by now

    address = f"{module_name}:{path}"
    if (module := loaded(module_name)) is None:
        if importlib.util.find_spec(module_name) is None:
            raise NodeError(NAME, address, f"is not there: no module '{module_name}' can be imported")
        return None
    resolved: Any = module
    for name in path.split("."):
        if not hasattr(resolved, name):
            near = difflib.get_close_matches(
                name, [candidate for candidate, value in vars(resolved).items() if _is_class(value)], 1
            )
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise NodeError(NAME, address, f"is not there: {module_name} has no '{path}'{hint}")
        resolved = getattr(resolved, name)
    if not isinstance(resolved, type) or not issubclass(resolved, torch.nn.Module):
        raise NodeError(NAME, address, "is no subclass of torch.nn.Module; only modules become functions")
    return resolved


def _address(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _part(name: str, module: object) -> str:
    return f"{name} ({_address(type(module))})" if name else _address(type(module))


def _is_class(value: object) -> bool:
    return isinstance(value, type)


def _forward(export: Export, part: str, domain: str, name: str) -> Callable[..., Any]:
    from hookpatch_onnx._export.region import Region, is_in_operator, run_marked
    from hookpatch_onnx._nodes.function import put_function

    def forward(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_in_operator():
            return wrapped(*args, **kwargs)
        label = _part(part, instance)
        weights = [own for own, _ in [*instance.named_parameters(), *instance.named_buffers()]]
        build = partial(put_function, domain=domain, name=name, part=label, weights=weights)
        return run_marked(export, Region(NAME, label, build, module=part), wrapped, args, kwargs)

    return forward


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Take part in each call of torch.onnx.export."""
    why = "the nodes of a class are scattered over the graph, and no tool can tell them from the rest"
    upstream = "https://github.com/pytorch/pytorch/issues/154319"
    yield during_export(NAME, partial(mark_modules, options=options), why, upstream)


@hookpatch.hookimpl
def hookpatch_report(patches: Sequence[hookpatch.Patch]) -> list[str]:
    """Return a line for each export: how many instances became nodes, and the names of the others."""
    return receipts_of(patches)

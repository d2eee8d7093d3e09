"""Show torch.fx a patched function with the original's parameters. fx reads parameters from a function's code."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter, Signature
from types import FunctionType
from typing import Any, Final, cast

from hookpatch._engine.calls.signatures import PACKED
from hookpatch._engine.calls.trampoline import is_changed_in_place, is_trampoline, needs_the_call
from hookpatch._engine.site.sites import site_of
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch.errors import BypassError

_TRACE: Final = "torch.fx.symbolic_trace"
_CALL: Final = "__hookpatch_call__"


def trace(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    """Have fx trace a patched function by its original's parameters; a wrapper of ``Tracer.create_args_for_root``.

    Raises:
        BypassError: the function collects arguments, and fx gives all of ``*args`` as one input; or a ``default`` is
            on, and fx gives every argument; or a patch asks for the caller, and fx is the caller; or the model itself
            has a patched method, and fx takes the method of the class.
    """

    def create(root_fn: Any, is_module: bool, concrete_args: Any = None) -> Any:
        name = instance.traced_func_name
        own_layers = site_of(AttributeSlot(instance.root, name)).layers if is_module else ()
        # A patch of instances is in the class, too, where fx finds the patch.
        passed = [layer.patch.address for layer in own_layers if not layer.patch.is_of_instances]
        if passed:
            problem = f"the tracer takes {name} of the class, past the patch of this model"
            way = f"patch 'module:Class().{name}' with of=, or trace the model outside of the block"
            raise BypassError(passed[0], _TRACE, f"{problem}; {way}")
        unwrapped = inspect.unwrap(root_fn)
        if type(unwrapped) is FunctionType and (is_trampoline(unwrapped) or is_changed_in_place(unwrapped)):
            parameters = inspect.signature(unwrapped).parameters.values()
            if not isinstance(concrete_args, tuple) and any(parameter.kind in PACKED for parameter in parameters):
                problem = "the tracer passes collected arguments as one input; trace the function outside of the block"
                raise BypassError(f"{unwrapped.__module__}:{unwrapped.__qualname__}", _TRACE, problem)
            if need := needs_the_call(unwrapped):
                problem = f"{need}; trace the function outside of the block"
                raise BypassError(f"{unwrapped.__module__}:{unwrapped.__qualname__}", _TRACE, problem)
            root_fn = _with_parameters([*parameters], like=unwrapped, call=root_fn)
        return wrapped(root_fn, is_module, concrete_args)

    return create(*args, **kwargs)


def _with_parameters(parameters: list[Parameter], like: FunctionType, call: Callable[..., Any]) -> FunctionType:
    """Return a function of some parameters that passes all arguments to ``call``, named and annotated as ``like``."""
    bare = [parameter.replace(annotation=Parameter.empty, default=Parameter.empty) for parameter in parameters]
    forms: dict[Any, str] = {
        Parameter.VAR_POSITIONAL: "*{0}",
        Parameter.VAR_KEYWORD: "**{0}",
        Parameter.KEYWORD_ONLY: "{0}={0}",
    }
    arguments = ", ".join(forms.get(parameter.kind, "{0}").format(parameter.name) for parameter in parameters)
    space: dict[str, Any] = {_CALL: call}
    exec(f"def forward{Signature(bare)}: return {_CALL}({arguments})", space)
    function = cast(FunctionType, space["forward"])
    function.__name__, function.__annotations__ = like.__name__, like.__annotations__
    vars(function)["__signature__"] = Signature(parameters)  # fx reads defaults here
    return function

"""The functions of torch that are patched during torch.jit.script, and limits if torch lacks a function."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import hookpatch
from hookpatch_torchscript._scripting.recorder import Recorder

_OF_TORCH: Final = {  # the wrapper of each function, by address
    "torch.jit._recursive:check_module_initialized": Recorder.check,
    "torch.jit._recursive:get_module_concrete_type": Recorder.concrete_type,
    "torch._C:ConcreteModuleTypeBuilder": Recorder.builder,
    "torch.jit._check:AttributeTypeIsSupportedChecker.check": Recorder.attributes,
    "torch.jit._recursive:create_script_module_impl": Recorder.module,
    "torch.jit._recursive:make_stub": Recorder.read,
    "torch.jit._recursive:create_methods_and_properties_from_stubs": Recorder.methods,
    "torch.jit._recursive:create_hooks_from_stubs": Recorder.hooks,
    "torch.jit._recursive:compile_unbound_method": Recorder.called,
    "torch.jit._recursive:try_compile_fn": Recorder.reached,
    "torch.jit._script:_recursive_compile_class": Recorder.reached,
    "torch.jit._script:_compile_and_register_class": Recorder.script_class,
}
_LAST_PYTHON: Final = (3, 13)  # the last version with support for torch.jit


def patches(recorder: Recorder) -> list[hookpatch.Patch]:
    """Return the patches that record torch's calls. Functions missing in the installed torch are left out."""
    why = "records the steps of torch.jit.script for script_explain"
    present = [(address, tell) for address, tell in _OF_TORCH.items() if _exists(address)]
    return [hookpatch.wrap(address, _bound(recorder, tell), required=False, why=why) for address, tell in present]


def limits(version: str, python: tuple[int, ...] = sys.version_info[:2]) -> list[str]:
    """Return a line for each function missing in torch, and a line for a Python without TorchScript.

    Args:
        version: the version of torch.
        python: the version of Python.
    """
    lines = []
    if python[:2] > _LAST_PYTHON:
        lines.append(f"torch {version} does not support torch.jit on Python {python[0]}.{python[1]}: it may break")
    missing = [address for address in _OF_TORCH if not _exists(address)]
    return lines + [
        f"torch {version} lacks the function {address}: its steps are missing from the explanation"
        for address in missing
    ]


def _exists(address: str) -> bool:
    module, _, path = address.partition(":")
    try:
        attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError):
        return False
    return True


def _bound(recorder: Recorder, tell: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper that calls a recorder; an error of the recorder itself is recorded, and torch goes on."""

    def wrapper(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        outcome: list[tuple[Any, BaseException | None]] = []

        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                outcome.append((wrapped(*args, **kwargs), None))
            except BaseException as error:
                outcome.append((None, error))
                raise
            return outcome[0][0]

        try:
            return tell(recorder, wrapped if inspect.isclass(wrapped) else run, instance, args, kwargs)
        except Exception as error:
            if outcome and outcome[0][1] is error:
                raise
            recorder.stumbled(error)
            if not outcome:
                return wrapped(*args, **kwargs)
            result, raised = outcome[0]
            if raised is not None:
                raise raised from None
            return result
        finally:
            outcome.clear()  # else a raised error and the error's traceback would form a reference cycle

    return wrapper

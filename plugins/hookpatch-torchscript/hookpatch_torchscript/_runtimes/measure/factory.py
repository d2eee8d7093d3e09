"""Call a factory, ``module:function`` or ``file.py:function``, with a batch size: it makes a model and inputs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import torch
from hookpatch_probe.named import NotNamed, kinds, named

from hookpatch_torchscript._runtimes.measure.reason import reason

HOW: Final = "write module:function or path/to/file.py:function"


@final
@dataclass(frozen=True, slots=True)
class Built:
    """A model with its arguments.

    Attributes:
        model: the model.
        inputs: the positional arguments.
        keywords: the keyword arguments.
    """

    model: torch.nn.Module
    inputs: tuple[Any, ...]
    keywords: Mapping[str, Any]


class FactoryError(Exception):
    """A factory is not found, or does not make a model and inputs; the message has the remedy."""


def build(word: str, batch: int) -> Built:
    """Return the model and inputs of a named factory for a batch size.

    Raises:
        FactoryError: the factory is not found, cannot be imported or called, or returns another type.
    """
    factory = _factory_named(word)
    if not callable(factory) or isinstance(factory, torch.nn.Module | type):
        kind = f"the class {factory.__name__}" if isinstance(factory, type) else f"of type {type(factory).__name__}"
        raise FactoryError(f"is {kind}; name a function that takes a batch size and returns (model, inputs)")
    try:
        inspect.signature(factory).bind(batch)
    except TypeError:
        wrong = f"{factory.__name__}{inspect.signature(factory)}"
        raise FactoryError(
            f"{wrong} cannot be called with a batch size alone; write def {factory.__name__}(batch)"
        ) from None
    try:
        returned = factory(batch)
    except (Exception, SystemExit) as error:
        raise FactoryError(f"called with {batch} it raised {reason(error)}; correct the function") from error
    return _checked(returned)


def _checked(returned: Any) -> Built:
    model, inputs, keywords = (
        (*returned, {})[:3] if isinstance(returned, tuple) and len(returned) in (2, 3) else (None, None, {})
    )
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    right = isinstance(inputs, tuple) and isinstance(keywords, Mapping)
    if not isinstance(model, torch.nn.Module) or not right:
        raise FactoryError(f"returned {kinds(returned)}; return (model, inputs) or (model, inputs, keywords)")
    return Built(model, inputs, keywords)


def _factory_named(word: str) -> Any:
    try:
        return named(word)
    except NotNamed as lack:
        if lack.error is not None:
            raise _unimportable(lack.error) from lack.error
        if lack.lack == "word":
            raise FactoryError(f"names no factory; {HOW}") from None
        hint = f"did you mean '{lack.near}'?" if lack.near else HOW
        raise FactoryError(f"{lack.problem}; {hint}") from None


def _unimportable(error: BaseException) -> FactoryError:
    advice = (
        "install what is missing" if isinstance(error, ImportError) else "correct the module until python can import it"
    )
    return FactoryError(f"cannot be imported: {reason(error)}; {advice}")

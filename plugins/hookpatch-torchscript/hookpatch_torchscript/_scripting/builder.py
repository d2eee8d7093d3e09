"""Record each attribute that torch adds to a ConcreteModuleTypeBuilder."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from hookpatch_torchscript._mends.rule import Failed
from hookpatch_torchscript._mends.rules import RULES
from hookpatch_torchscript._values.record import Attribute, KnownBy, Module

_MANY: Final = 4  # how many element types of a list are named


@lru_cache(maxsize=4)
def recording(builder: type) -> type:
    """Return a subclass of torch's builder that records each attribute in a module's row before adding it.

    The constructor takes ``(module, row, *arguments of the builder)``.
    """

    class Recording(builder):  # type: ignore[misc]  # a class of C, known at run time
        def __init__(self, module: Any, row: Module, *args: Any) -> None:
            super().__init__(*args)
            self.module, self.row, self.annotated = module, row, _annotated(module)

        def note(self, name: str, kind: Any, known_by: KnownBy, problem: str | None = None) -> None:
            value = vars(self.module).get(name, getattr(self.module, name, None))
            type_words = None if kind is None else str(kind)
            self.row.attributes.append(Attribute(name, type_in_words(value), type_words, known_by, problem))

        def add_attribute(self, name: str, kind: Any, is_parameter: bool, is_buffer: bool) -> None:
            origin: KnownBy = "annotation" if name in self.annotated else "inferred"
            self.note(name, kind, "parameter" if is_parameter else "buffer" if is_buffer else origin)
            super().add_attribute(name, kind, is_parameter, is_buffer)

        def add_constant(self, name: str, value: Any) -> None:
            self.note(name, type_in_words(value), "constant")
            super().add_constant(name, value)

        def add_failed_attribute(self, name: str, hint: str) -> None:
            self.note(name, None, "failed", _reason(name, hint))
            super().add_failed_attribute(name, hint)

        def add_function_attribute(self, name: str, kind: Any, value: Any) -> None:
            self.note(name, kind, "function")
            super().add_function_attribute(name, kind, value)

        def add_builtin_function(self, name: str, symbol: str) -> None:
            self.note(name, symbol, "builtin function")
            super().add_builtin_function(name, symbol)

        def add_ignored_attributes(self, names: Any) -> None:
            for name in names:
                self.note(name, None, "ignored by the user")
            super().add_ignored_attributes(names)

    return Recording


def _reason(name: str, hint: str) -> str:
    """Return why an attribute has no type: the problem of a matching rule, else torch's hint."""
    failed = Failed(f"Module has no attribute '{name}' {hint}", name, lambda _found, _parameter: name, "")
    for rule in RULES:
        if (groups := rule.match(failed)) is not None:
            return rule.problem.format(expression=name, **groups)
    return " ".join(hint.split())


def described(module: Any, row: Module) -> None:
    """Record the names of a module's parameters, buffers and submodules in its row."""
    row.parameters = list(getattr(module, "_parameters", ()))
    row.buffers = list(getattr(module, "_buffers", ()))
    row.modules = list(getattr(module, "_modules", ()))


def type_in_words(value: Any) -> str:
    """Return the Python type of a value; of a list, tuple or dict, with the types of the elements."""
    import torch  # imported by now

    if value is None:
        return "None"
    if isinstance(value, torch.Tensor):
        kind = type(value).__name__
        if torch.nn.parameter.is_lazy(value):
            return kind
        return f"{kind} {str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if type(value) in (list, tuple):
        return f"{type(value).__name__}[{_union(value)}]" if value else f"{type(value).__name__}, empty"
    if type(value) is dict:
        return f"dict[{_union(value)}, {_union(value.values())}]" if value else "dict, empty"
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _union(values: Any) -> str:
    import torch  # imported by now

    names = list(
        dict.fromkeys("Tensor" if isinstance(value, torch.Tensor) else type(value).__qualname__ for value in values)
    )
    return " | ".join(names if len(names) <= _MANY else [*names[:_MANY], "..."])


def _annotated(module: Any) -> frozenset[str]:
    """Return the attributes whose types torch takes from annotations, as ``infer_concrete_type_builder`` does."""
    from torch.jit import Attribute as Declared
    from torch.jit import _recursive

    find = getattr(_recursive, "get_annotations", None)
    annotated = set(find(module)) if find is not None else set(getattr(type(module), "__annotations__", ()))
    annotated |= {name for name, value in vars(module).items() if isinstance(value, Declared)}
    return frozenset(annotated - {"forward"})

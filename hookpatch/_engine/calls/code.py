"""Code objects for our functions: compiled from text, with the name and place of another function's code."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache, partial
from types import CodeType, FunctionType, MappingProxyType, MethodType
from typing import Any, Final, final

from hookpatch._bootstrap.interrupts import is_interrupt


def inner(code: CodeType, name: str) -> CodeType:
    """Return the code of a named function inside other code, with all instructions on the function's first line.

    Tracebacks show the function in the file of the original, with foreign line numbers. From Python 3.14 on the code of
    an annotated function is beside the code of ``__annotate__`` (PEP 649).
    """
    (function,) = (const for const in code.co_consts if isinstance(const, CodeType) and const.co_name == name)
    units = len(function.co_code) // 2
    # An entry of the line table for up to eight units each: kind 13 (a line without columns), no line further down.
    entries = (bytes([0x80 | 13 << 3 | min(units - unit, 8) - 1, 0]) for unit in range(0, units, 8))
    return function.replace(co_linetable=b"".join(entries))


def placed(code: CodeType, like: FunctionType, source: CodeType) -> CodeType:
    """Return code with the name of a function and the place of its source, for inspect.getsource.

    Code for a coroutine or generator function is marked as such for inspect, and runs at the call: it returns what the
    function returns. Python makes a coroutine by an instruction at the start of the code, not by the mark.
    """
    flags = code.co_flags | like.__code__.co_flags & _MARKS
    place = source.co_filename, source.co_firstlineno
    return with_place(code, like.__name__, like.__qualname__, *place, flags)


@lru_cache(maxsize=1024)
def with_place(code: CodeType, name: str, qualname: str, file: str, line: int, flags: int) -> CodeType:
    """Return code with another name and place: the same object each time, since torch.compile caches by code.

    Every field is an argument: two codes can be equal in different places.
    """
    return code.replace(
        co_name=name,
        co_qualname=qualname,
        co_filename=file,
        co_firstlineno=line,
        co_flags=flags,
    )


def running(code: CodeType) -> CodeType:
    """Return code without the marks of a coroutine or generator function."""
    place = code.co_name, code.co_qualname, code.co_filename, code.co_firstlineno
    return with_place(code, *place, code.co_flags & ~_MARKS)


def shape_of(like: FunctionType) -> str | None:
    """Return the kind of a coroutine or generator function; None for any other function."""
    # By the code, not by inspect: a merely marked function (inspect.markcoroutinefunction) runs when called.
    flags = like.__code__.co_flags & _ALL_SHAPES
    return next(shape for flag, shape in _SHAPES.items() if flags & flag) if flags else None


_SHAPES: Final = {
    inspect.CO_COROUTINE: "coroutine",
    inspect.CO_ASYNC_GENERATOR: "async generator",
    inspect.CO_GENERATOR: "generator",
}
_ALL_SHAPES: Final = sum(_SHAPES)
_MARKS: Final = _ALL_SHAPES | inspect.CO_ITERABLE_COROUTINE


# What a patched function does, compiled from text, after the link has been read once. A method is bound by __get__:
# torch.compile cannot trace types.MethodType.
_FUNCTION: Final = """
  return wrapper(below, None, args, kwargs)
"""
_METHOD: Final = """
  if bind is None:
   return wrapper(below, None, args, kwargs)
  try:  # faster than a test for arguments
   instance = args[0]
  except IndexError:
   pass
  else:
   if instance is None:  # nothing binds a function to None
    return wrapper(below, None, args, kwargs)
   return wrapper(bind(instance), instance, args[tail], kwargs)
  if kwargs.get(first) is None:  # called on the class, without an object or with a default
   return wrapper(below, None, args, kwargs)
  instance = kwargs.pop(first)  # called as Class.method(self=object)
  return wrapper(bind(instance), instance, (), kwargs)
"""


@cache
def trampoline_code(binds: bool) -> CodeType:
    """Return the code of a function that calls the wrapper of a link; the link is in the cell ``__hookpatch__``.

    ``binds``: the first argument is the object or class of a method call; the cells ``first`` and ``tail`` follow.
    """
    cells = ("__hookpatch__", "first", "tail") if binds else ("__hookpatch__",)
    return _compiled(binds, cells)


@cache
def in_place(binds: bool, cells: int) -> CodeType:
    """Return the code of a function changed in place: the keyword default ``__hookpatch__`` is the link, and more.

    A function with cells takes only code with as many free variables. The interpreter crashes on code with free
    variables unknown to the compiler. A cell may have any name, and Dynamo keeps cells and other variables in one dict.
    """
    names = [f"cell{number:06}" for number in range(cells)]
    mention = f"if 0: {', '.join(names)}" if names else ""
    items = "first, tail, _" if binds else "_"
    code = _compiled(binds, names, ", __hookpatch__=None", mention, items)
    return code.replace(co_varnames=tuple(map(_unlike_a_cell, code.co_varnames))) if names else code


def _unlike_a_cell(name: str) -> str:
    return name if name == "__hookpatch__" else f"__hookpatch_{name}__"


def _compiled(binds: bool, cells: Iterable[str], parameter: str = "", mention: str = "", items: str = "") -> CodeType:
    """Return the code of a function that reads a link; ``items``: names of the items after the link's three."""
    head = f"def make({', '.join(cells)}):\n def trampoline(*args{parameter}, **kwargs):\n  {mention}\n"
    link = f"  wrapper, below, {'bind' if binds else '_'}, {items}".rstrip(", ")
    text = f"{head}{link} = __hookpatch__\n{_METHOD if binds else _FUNCTION}"
    return inner(inner(compile(text, "<hookpatch>", "exec"), "make"), "trampoline")


@final
class Signature(inspect.Signature):
    """The signature of a function, read at the first look: few programs look, and reading is half of a copy's cost.

    At the first look the object becomes a plain inspect.Signature.
    """

    __slots__ = ()

    def __init__(self, like: FunctionType) -> None:
        self._parameters: Any = like  # in a slot of inspect.Signature, to keep the class exchangeable

    def __getattribute__(self, name: str) -> Any:
        like = object.__getattribute__(self, "_parameters")
        # Not read by another thread yet; maybe a proxy of a function. GIL: two threads set the same, in turn.
        if type(like) is not MappingProxyType:
            read = _read(like)
            self._return_annotation: Any = read.return_annotation
            self._parameters = read.parameters
        self.__class__ = inspect.Signature  # type: ignore[assignment]  # of the same layout
        return getattr(self, name)


LRU_CACHE: Final[type] = type(lru_cache(len))


def decorated(value: Any) -> Iterator[FunctionType]:
    """Yield a function and the functions inside, as ``functools.wraps`` leads to them. No foreign code runs."""
    seen: set[int] = set()  # __wrapped__ may lead round in a circle
    while type(value) is FunctionType and id(value) not in seen:
        seen.add(id(value))
        yield value
        value = vars(value).get("__wrapped__")


def signature_without_annotations(callee: Any) -> inspect.Signature:
    """Return the signature of a callee without evaluating the annotations: no foreign code runs.

    Raises:
        TypeError, ValueError: the callee has no signature.
    """
    shown = vars(callee).get("__signature__") if type(callee) is FunctionType else None
    if type(shown) is Signature:
        callee = object.__getattribute__(shown, "_parameters")
    return _unevaluated(callee)


if sys.version_info >= (3, 14):
    from annotationlib import Format

    def _unevaluated(callee: Any) -> inspect.Signature:
        return inspect.signature(_without_annotations(callee), annotation_format=Format.STRING)

    def _without_annotations(callee: Any) -> Any:
        """Return a callable with the same parameters: even for text inspect would evaluate annotations."""
        if type(callee) is MethodType:
            return MethodType(_without_annotations(callee.__func__), callee.__self__)
        if type(callee) is partial:
            return partial(_without_annotations(callee.func), *callee.args, **callee.keywords)
        if type(callee) is not FunctionType or "__signature__" in vars(callee):
            return callee
        if "__wrapped__" in vars(callee):
            return _without_annotations(callee.__wrapped__)
        name, defaults, closure = callee.__name__, callee.__defaults__, callee.__closure__
        like = FunctionType(callee.__code__, callee.__globals__, name, defaults, closure)
        like.__kwdefaults__ = callee.__kwdefaults__
        return like

    def _read(like: FunctionType) -> inspect.Signature:
        try:
            return inspect.signature(like)
        except Exception as error:  # an annotation that cannot be evaluated: a name that only type checkers import
            if is_interrupt(error):
                raise
            return inspect.signature(like, annotation_format=Format.FORWARDREF)

else:
    _unevaluated = _read = inspect.signature

"""Code objects for our functions: compiled from text, with the name and place of another function's code."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
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


def as_collected(code: CodeType) -> CodeType:
    """Return a trampoline's code as code of two parameters: the tuple and the dict of collected arguments."""
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | _MARKS)
    return with_place(code, code.co_name, code.co_qualname, code.co_filename, code.co_firstlineno, flags, parameters=2)


def placed(code: CodeType, like: FunctionType, source: CodeType) -> CodeType:
    """Return code with the name of a function and the place of its source, for inspect.getsource.

    Code for a coroutine or generator function is marked as such for inspect, and runs at the call: it returns what the
    function returns. Python makes a coroutine by an instruction at the start of the code, not by the mark.
    """
    flags = code.co_flags | like.__code__.co_flags & _MARKS
    place = source.co_filename, source.co_firstlineno
    return with_place(code, like.__name__, like.__qualname__, *place, flags, code.co_argcount)


@lru_cache(maxsize=1024)
def with_place(code: CodeType, name: str, qualname: str, file: str, line: int, flags: int, parameters: int) -> CodeType:
    """Return code with another name and place: the same object each time, since torch.compile caches by code.

    Every field is an argument: two codes can be equal in different places.
    """
    return code.replace(
        co_name=name,
        co_qualname=qualname,
        co_filename=file,
        co_firstlineno=line,
        co_flags=flags,
        co_argcount=parameters,
    )


def running(code: CodeType) -> CodeType:
    """Return code without the marks of a coroutine or generator function."""
    place = code.co_name, code.co_qualname, code.co_filename, code.co_firstlineno
    return with_place(code, *place, code.co_flags & ~_MARKS, code.co_argcount)


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


@cache
def in_place(cells: int) -> CodeType:
    """Return the code, for a number of cells, of a function that passes all arguments on to ``__hookpatch__``.

    Compiled from text: a function with cells takes only code with as many free variables. The interpreter crashes on
    code with free variables unknown to the compiler. ``__hookpatch__`` is a keyword default.
    """
    names = [f"cell{number:06}" for number in range(cells)]
    mention = f"if 0: {', '.join(names)}" if names else ""
    text = (
        f"def make({', '.join(names)}):\n def trampoline(*args, __hookpatch__=None, **kwargs):\n  {mention}\n"
        "  return __hookpatch__(args, kwargs)"
    )
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

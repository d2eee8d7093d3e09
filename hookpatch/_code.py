"""Code of functions of ours: compiled from a text, and given the name and the place of another function's."""

from __future__ import annotations

import inspect
from functools import cache, lru_cache
from textwrap import dedent, indent
from types import CodeType, FunctionType
from typing import Final


def inner(code: CodeType) -> CodeType:
    """Return the code of the one function that code defines, as if all of it stood in the function's first line.

    It is shown in the file of another function, where its own lines are none of its own.
    """
    (function,) = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    units = len(function.co_code) // 2
    # An entry for up to eight units each: of the kind that has a line and no columns, none further down.
    entries = (bytes([0x80 | 13 << 3 | min(units - at, 8) - 1, 0]) for at in range(0, units, 8))
    return function.replace(co_linetable=b"".join(entries))


def as_collected(code: CodeType) -> CodeType:
    """Return a trampoline's code as that of a function of two parameters: the arguments as they were collected."""
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return with_place(code, code.co_name, code.co_qualname, code.co_filename, code.co_firstlineno, flags, parameters=2)


def placed(code: CodeType, like: FunctionType, source: CodeType) -> CodeType:
    """Return code with a function's name and the place of other code, where inspect.getsource finds the text."""
    flags = code.co_flags | like.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE  # types.coroutine: awaitable
    place = source.co_filename, source.co_firstlineno
    return with_place(code, like.__name__, like.__qualname__, *place, flags, code.co_argcount)


@lru_cache(maxsize=1024)
def with_place(code: CodeType, name: str, qualname: str, file: str, line: int, flags: int, parameters: int) -> CodeType:
    """Return code with another name and place: the same object each time, by which torch.compile knows it again.

    All of it is named, for two codes are equal wherever they stand.
    """
    return code.replace(
        co_name=name,
        co_qualname=qualname,
        co_filename=file,
        co_firstlineno=line,
        co_flags=flags,
        co_argcount=parameters,
    )


def shape_of(like: FunctionType) -> str | None:
    """Return which text in _BODIES a function needs that does not run when it is called, None for one that does."""
    # By its code and not by inspect: a function that is only marked (inspect.markcoroutinefunction) runs when called.
    flags = like.__code__.co_flags & _ALL_SHAPES
    return next(shape for flag, shape in _SHAPES.items() if flags & flag) if flags else None


_SHAPES: Final = {
    inspect.CO_COROUTINE: "coroutine",
    inspect.CO_ASYNC_GENERATOR: "async generator",
    inspect.CO_GENERATOR: "generator",
}

_ALL_SHAPES: Final = sum(_SHAPES)

_BODIES: Final = {
    None: "return __hookpatch__(args, kwargs)",  # as they are: not taken apart and collected once more
    "coroutine": "return await __hookpatch__(*args, **kwargs)",
    "generator": "return (yield from __hookpatch__(*args, **kwargs))",
    # PEP 525 has no `yield from` for these: values, exceptions and the end are handed on one by one.
    "async generator": """
        inner = __hookpatch__(*args, **kwargs)
        try:
            item = await anext(inner)
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:
                    item = await inner.athrow(error)
                else:
                    item = await (anext(inner) if sent is None else inner.asend(sent))
        except StopAsyncIteration:
            return
    """,
}


@cache
def from_text(shape: str | None, cells: int | None) -> CodeType:
    """Return the code of a function that hands its arguments on to ``__hookpatch__``.

    From a text, because a function takes only code with as many free variables as it has cells, and the interpreter
    crashes on code whose free variables were only declared: the compiler has to see them.

    Args:
        shape: a key of _BODIES.
        cells: how many cells the function has that is changed in place, ``__hookpatch__`` being a keyword default;
            None when it is new, ``__hookpatch__`` being its one cell.
    """
    names = [f"cell{number:06}" for number in range(cells)] if cells is not None else ["__hookpatch__"]
    parameters = "*args, **kwargs" if cells is None else "*args, __hookpatch__=None, **kwargs"
    kind = "async def" if shape in ("coroutine", "async generator") else "def"
    seen = f"if 0: {', '.join(names)}" if names else ""
    text = f"def make({', '.join(names)}):\n {kind} trampoline({parameters}):\n  {seen}\n{_indented(_BODIES[shape])}"
    return inner(inner(compile(text, "<hookpatch>", "exec")))


def _indented(body: str) -> str:
    return indent(dedent(body), "  ")

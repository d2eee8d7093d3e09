"""What stands in a slot for a Python function: a plain function that looks like it.

A plain one, not a proxy: torch.compile, torch.export and pickle look through proxies or choke on them, and a call
costs a third. It stays the same object while layers come and go, for somebody may hold it. What it does lies in one
cell, read once a call, so that a call in another thread sees the layers of before or of after and no mixture.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import cache, lru_cache
from textwrap import dedent, indent
from types import CellType, CodeType, FunctionType
from typing import Any, ClassVar, Final, TypeAlias, final
from weakref import WeakKeyDictionary

from hookpatch import _torchscript

Wrapper: TypeAlias = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]
Link: TypeAlias = tuple[Wrapper, Any]  # a wrapper, and what it wraps


def pass_through(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call what is wrapped: the wrapper of a trampoline that has no layer left."""
    return wrapped(*args, **kwargs)


# The cell in which a function of ours finds what it calls, and the keyword default of one that is changed in place.
HOOK: Final = "__hookpatch__"

# What makes inspect.unwrap, TorchScript and Dynamo look through a function, past its wrapper.
_SEE_THROUGH: Final = frozenset({"__wrapped__", "_torchdynamo_orig_callable"})


@final
class Trampoline:
    """A plain function that looks like another and calls a wrapper around it. Lives as long as somebody holds it.

    Attributes:
        function: the function to put into the slot.
    """

    __slots__ = ("__weakref__", "_binds", "_collected", "_link", "_plain", "function")

    _all: ClassVar[WeakKeyDictionary[Trampoline, None]] = WeakKeyDictionary()

    def __init__(self, like: FunctionType, below: Callable[..., Any], binds: bool) -> None:
        """Make one that passes through.

        Args:
            like: the function whose name, signature and kind (async, generator) it takes over.
            below: what it calls.
            binds: True when its first argument is the object or class that it is called on.
        """
        self._binds: Final = binds
        self._link: Final = CellType((pass_through, below.__get__ if binds else below))
        first = like.__code__.co_varnames[0] if like.__code__.co_argcount else ""
        cells = {HOOK: self._link, "first": CellType(first)}
        code = _METHOD if binds else _FUNCTION
        begin = _copy(code, like, tuple(cells[name] for name in code.co_freevars))
        shape = _shape(like)
        self.function: Final = begin if shape is None else _copy(_code(shape, None), like, (CellType(begin),))
        vars(self.function).update(_torchscript.attributes(like, self._link, tell_captured, binds))
        self._plain: Final = self.function.__code__
        self._collected: FunctionType | None = None
        self._all[self] = None

    @classmethod
    def links(cls) -> list[object]:
        """Return the tuples in which trampolines keep what they call: holders of the original that are no names."""
        return [one._link.cell_contents for one in (weak() for weak in cls._all.keyrefs()) if one is not None]

    @property
    def collected(self) -> FunctionType:
        """What does the same, called with a tuple of arguments and a dict of those by keyword: by what has both."""
        if self._collected is None:
            function = self.function
            self._collected = FunctionType(
                _as_collected(function.__code__), function.__globals__, function.__name__, None, function.__closure__
            )
        return self._collected

    def point(self, wrapper: Wrapper, below: Callable[..., Any], owner: str = "") -> None:
        """From now on call ``wrapper`` around ``below``, in a frame that names the wrapper's owner."""
        self._link.cell_contents = (wrapper, below.__get__ if self._binds else below)
        if owner:
            name_frames(self.function, self.function.__name__, owner)
        elif self.function.__code__ is not self._plain:
            self.function.__code__ = self._plain
        if self._collected is not None:
            self._collected.__code__ = _as_collected(self.function.__code__)


def is_trampoline(function: FunctionType) -> bool:
    """Tell whether a function is a trampoline's."""
    return HOOK in function.__code__.co_freevars


def tell_captured(link: CellType) -> None:
    """Have the wrappers that a link leads to count that TorchScript has captured them."""
    while True:
        wrapper, below = link.cell_contents
        if (tally := getattr(wrapper, "tally", None)) is not None:
            tally.captured("script")
        function = getattr(below, "__self__", below)  # bound it is the function's __get__
        if type(function) is not FunctionType or not is_trampoline(function):
            return
        link = (function.__closure__ or ())[function.__code__.co_freevars.index(HOOK)]


def name_frames(function: FunctionType, name: str, owner: str) -> None:
    """Have tracebacks and profiles tell whose patch runs in a function's calls."""
    # In the code's name, where it costs a call nothing: a note on the error would change what is not ours.
    shown, code = f"{name} [hookpatch: {owner}]", function.__code__
    if code.co_name != shown:
        place = code.co_qualname, code.co_filename, code.co_firstlineno
        function.__code__ = _with(code, shown, *place, code.co_flags, code.co_argcount)


# The code of a trampoline: taken out of these, which are never called.


def _function(__hookpatch__: Link) -> Callable[..., Any]:
    def trampoline(*args: Any, **kwargs: Any) -> Any:
        wrapper, below = __hookpatch__
        return wrapper(below, None, args, kwargs)

    return trampoline


def _method(__hookpatch__: Link, first: str) -> Callable[..., Any]:
    def trampoline(*args: Any, **kwargs: Any) -> Any:
        # Bound by __get__ and not by types.MethodType, which torch.compile cannot trace.
        wrapper, bind = __hookpatch__
        if not args:
            if first not in kwargs:
                return bind.__self__(**kwargs)  # called without its object: the TypeError is the original's own
            args = (kwargs.pop(first),)  # called as Class.method(self=object)
        return wrapper(bind(args[0]), args[0], args[1:], kwargs)

    return trampoline


def _inner(code: CodeType) -> CodeType:
    """Return the code of the one function that code defines, as if all of it stood in the function's first line.

    It is shown in the file of another function, where its own lines are none of its own.
    """
    (inner,) = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    units = len(inner.co_code) // 2
    # An entry for up to eight units each: of the kind that has a line and no columns, none further down.
    entries = (bytes([0x80 | 13 << 3 | min(units - at, 8) - 1, 0]) for at in range(0, units, 8))
    return inner.replace(co_linetable=b"".join(entries))


def _as_collected(code: CodeType) -> CodeType:
    """Return a trampoline's code as that of a function of two parameters: the arguments as they were collected."""
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return _with(code, code.co_name, code.co_qualname, code.co_filename, code.co_firstlineno, flags, parameters=2)


_FUNCTION: Final = _inner(_function.__code__)
_METHOD: Final = _inner(_method.__code__)


def can_stand_in(function: FunctionType, value: object) -> bool:
    """Tell whether a function can be changed inside to call another: one that does not run when it is called cannot
    become one that does (Python forbids to change that)."""
    shape = _shape(function)
    return shape is None or (isinstance(value, FunctionType) and _shape(value) == shape)


def _shape(like: FunctionType) -> str | None:
    """Return which text in _BODIES a function needs that does not run when it is called, None for one that does."""
    # By its code and not by inspect: a function that is only marked (inspect.markcoroutinefunction) runs when called.
    return next((shape for flag, shape in _SHAPES.items() if like.__code__.co_flags & flag), None)


_SHAPES: Final = {
    inspect.CO_COROUTINE: "coroutine",
    inspect.CO_ASYNC_GENERATOR: "async generator",
    inspect.CO_GENERATOR: "generator",
}


def _copy(code: CodeType, like: FunctionType, closure: tuple[CellType, ...]) -> FunctionType:
    """Return a function of this code that looks like another."""
    # A decorated function has its text and the names in its annotations from there.
    source = inspect.unwrap(like) if "__wrapped__" in vars(like) else like
    if not isinstance(source, FunctionType):
        source = like
    code = _placed(code, like, source.__code__)
    copy = FunctionType(code, source.__globals__, like.__name__, like.__defaults__, closure)
    _dress(copy, like)
    for name in _SEE_THROUGH & vars(copy).keys():
        del vars(copy)[name]
    vars(copy)["__signature__"] = _Unread(like)
    return copy


@final
class _Unread(inspect.Signature):
    """The signature of a function, until somebody looks at it: few do, and to read it is half of what a copy costs.

    At the first look it becomes a plain one.
    """

    __slots__ = ()

    def __init__(self, like: FunctionType) -> None:
        self._parameters: Any = like  # kept in a place of the plain one's, so that it can become one

    def __getattribute__(self, name: str) -> Any:
        like = object.__getattribute__(self, "_parameters")
        if type(like) is FunctionType:  # no other thread has been here
            read = inspect.signature(like)
            self._return_annotation: Any = read.return_annotation
            self._parameters = read.parameters
        self.__class__ = inspect.Signature  # type: ignore[assignment]  # of the same layout
        return getattr(self, name)


def _placed(code: CodeType, like: FunctionType, source: CodeType) -> CodeType:
    """Return code with a function's name and the place of other code, where inspect.getsource finds the text."""
    flags = code.co_flags | like.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE  # types.coroutine: awaitable
    place = source.co_filename, source.co_firstlineno
    return _with(code, like.__name__, like.__qualname__, *place, flags, code.co_argcount)


@lru_cache(maxsize=1024)
def _with(code: CodeType, name: str, qualname: str, file: str, line: int, flags: int, parameters: int) -> CodeType:
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


def _dress(copy: FunctionType, like: FunctionType) -> None:
    """Give a function the names, annotations and attributes of another."""
    defaults = like.__kwdefaults__
    if defaults is not None and HOOK in defaults:  # it is changed in place at this moment
        defaults = {name: value for name, value in defaults.items() if name != HOOK} or None
    copy.__kwdefaults__ = defaults
    copy.__module__, copy.__qualname__, copy.__doc__ = like.__module__, like.__qualname__, like.__doc__
    copy.__annotations__ = like.__annotations__
    if sys.version_info >= (3, 12):
        copy.__type_params__ = like.__type_params__
    copy.__dict__.update(vars(like))


# --- the same inside a function that is changed in place


@final
class Swap:
    """What is put into a Python function to change it in place: other code, and the trampoline that the code calls.

    The trampoline comes to the code as a keyword default, not as a global of the function's module, which would be
    gone for a coroutine that is awaited after the end, and not as a constant, which torch.compile refuses.

    Attributes:
        code: the code.
        keyword_defaults: the keyword defaults.
        attributes: what it bears meanwhile unless it has an attribute of that name.
    """

    __slots__ = ("attributes", "code", "keyword_defaults")

    def __init__(self, like: FunctionType, trampoline: Trampoline) -> None:
        names, shape = like.__code__.co_freevars, _shape(like)
        self.code: Final = _placed(_code(shape, len(names)).replace(co_freevars=names), like, like.__code__)
        called = trampoline.collected if shape is None else trampoline.function
        self.keyword_defaults: Final = {**(like.__kwdefaults__ or {}), HOOK: called}
        borne = {"__signature__", *_torchscript.ATTRIBUTES}
        self.attributes: Final = {name: value for name, value in vars(trampoline.function).items() if name in borne}


def as_it_was(function: FunctionType, code: CodeType) -> FunctionType:
    """Return a function that does what another did with this code, and looks like it."""
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    _dress(copy, function)
    return copy


# --- code for functions that do not run when they are called, and for functions that are changed in place

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
def _code(shape: str | None, cells: int | None) -> CodeType:
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
    return _inner(_inner(compile(text, "<hookpatch>", "exec")))


def _indented(body: str) -> str:
    return indent(dedent(body), "  ")

"""What stands in a slot for a Python function: a plain function that looks like it.

A plain one, not a proxy: torch.compile, torch.export and pickle look through proxies or choke on them, and a call
costs a third. It stays the same object while layers come and go, for somebody may hold it. What it does lies in one
cell, read once a call, so that a call in another thread sees the layers of before or of after and no mixture.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, Final, TypeAlias, cast, final

Wrapper: TypeAlias = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]
_Maker: TypeAlias = Callable[[Any], Callable[..., Any]]
Link: TypeAlias = tuple[Wrapper, Callable[..., Any]]  # a wrapper, and what it wraps


def pass_through(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call what is wrapped: the wrapper of a trampoline that has no layer left."""
    return wrapped(*args, **kwargs)


@final
class Trampoline:
    """A plain function that looks like another and calls a wrapper around it. Lives as long as somebody holds it.

    Attributes:
        function: the function to put into the slot.
    """

    __slots__ = ("_link", "function")

    def __init__(self, like: FunctionType, below: Callable[..., Any], binds: bool) -> None:
        """Make one that passes through.

        Args:
            like: the function whose name, signature and kind (async, generator) it takes over.
            below: what it calls.
            binds: True when its first argument is the object or class that it is called on.
        """
        self._link: Final = CellType((pass_through, below))
        begin = _copy(_method if binds else _function, like, self._link)
        shape = _shape(like)
        self.function: Final = begin if shape is None else _copy(shape, like, CellType(begin))

    def point(self, wrapper: Wrapper, below: Callable[..., Any]) -> None:
        """From now on call ``wrapper`` around ``below``."""
        self._link.cell_contents = (wrapper, below)


def _function(link: Link) -> Callable[..., Any]:
    def trampoline(*args: Any, **kwargs: Any) -> Any:
        wrapper, below = link
        return wrapper(below, None, args, kwargs)

    return trampoline


def _method(link: Link, bind: type[MethodType] = MethodType) -> Callable[..., Any]:
    def trampoline(*args: Any, **kwargs: Any) -> Any:
        wrapper, below = link
        if not args:
            return below(**kwargs)  # called without its object: the TypeError is the original's own
        return wrapper(bind(below, args[0]), args[0], args[1:], kwargs)

    return trampoline


def _coroutine(begin: Callable[..., Any]) -> Callable[..., Any]:
    async def trampoline(*args: Any, **kwargs: Any) -> Any:
        return await begin(*args, **kwargs)

    return trampoline


def _generator(begin: Callable[..., Any]) -> Callable[..., Any]:
    def trampoline(*args: Any, **kwargs: Any) -> Any:
        return (yield from begin(*args, **kwargs))

    return trampoline


def _async_generator(begin: Callable[..., Any]) -> Callable[..., Any]:
    # PEP 525 has no `yield from` for these: values, exceptions and the end are handed on one by one.
    async def trampoline(*args: Any, **kwargs: Any) -> Any:
        inner = begin(*args, **kwargs)
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

    return trampoline


def _shape(like: FunctionType) -> _Maker | None:
    """Return the maker for a function that does not run when it is called, None for one that does."""
    if inspect.iscoroutinefunction(like):
        return _coroutine
    if inspect.isasyncgenfunction(like):
        return _async_generator
    return _generator if inspect.isgeneratorfunction(like) else None


def _copy(make: _Maker, like: FunctionType, first: CellType) -> FunctionType:
    """Return what ``make`` makes, over this cell, with the name, signature and globals of ``like``.

    The globals are its own too, so that typing.get_type_hints finds the names in its annotations.
    """
    template = cast(FunctionType, make(None))
    assert template.__closure__ is not None  # each maker closes over its first argument
    link = cast(FunctionType, make).__code__.co_varnames[0]
    closure = tuple(
        first if name == link else cell
        for name, cell in zip(template.__code__.co_freevars, template.__closure__, strict=True)
    )
    code = template.__code__.replace(co_name=like.__code__.co_name, co_qualname=like.__code__.co_qualname)
    copy = FunctionType(code, like.__globals__, like.__name__, like.__defaults__, closure)
    _dress(copy, like)
    # Not __wrapped__: TorchScript and inspect.unwrap would look through it, past the wrapper.
    copy.__signature__ = inspect.signature(like)  # type: ignore[attr-defined]  # PEP 362: inspect reads it
    return copy


def _dress(copy: FunctionType, like: FunctionType) -> None:
    """Give a function the names, annotations and attributes of another."""
    copy.__kwdefaults__ = like.__kwdefaults__
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
        signature: what ``inspect.signature`` is to answer meanwhile.
    """

    __slots__ = ("code", "keyword_defaults", "signature")

    def __init__(self, like: FunctionType, trampoline: FunctionType) -> None:
        template = _IN_PLACE[_shape(like)]
        self.code: Final = template.__code__.replace(
            co_name=like.__code__.co_name,
            co_qualname=like.__code__.co_qualname,
            co_freevars=like.__code__.co_freevars,  # a function takes only code with as many as it has cells
        )
        self.keyword_defaults: Final = {**(like.__kwdefaults__ or {}), "__hookpatch__": trampoline}
        self.signature: Final = inspect.signature(like)


def as_it_was(function: FunctionType, code: CodeType) -> FunctionType:
    """Return a function that does what another did with this code, and looks like it."""
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    _dress(copy, function)
    return copy


def _call(*args: Any, __hookpatch__: Any = None, **kwargs: Any) -> Any:
    return __hookpatch__(*args, **kwargs)


async def _call_coroutine(*args: Any, __hookpatch__: Any = None, **kwargs: Any) -> Any:
    return await __hookpatch__(*args, **kwargs)


def _call_generator(*args: Any, __hookpatch__: Any = None, **kwargs: Any) -> Any:
    return (yield from __hookpatch__(*args, **kwargs))


async def _call_async_generator(*args: Any, __hookpatch__: Any = None, **kwargs: Any) -> Any:
    # Kept in step with _async_generator, which says why: code that is put into a function cannot call a template.
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


_IN_PLACE: Final[dict[Any, Any]] = {
    None: _call,
    _coroutine: _call_coroutine,
    _generator: _call_generator,
    _async_generator: _call_async_generator,
}

"""What stands in a slot for a Python function: a plain function that looks like it.

A plain one, not a proxy: torch.compile, torch.export and pickle look through proxies or choke on them, and a call
costs a third. It stays the same object while layers come and go, for somebody may hold it. What it does lies in one
cell, read once a call, so that a call in another thread sees the layers of before or of after and no mixture.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any, Final, TypeAlias, final
from weakref import ReferenceType, ref

from hookpatch import _torchscript
from hookpatch._code import as_collected, from_text, inner, placed, shape_of, with_place
from hookpatch._signature import Signature

Wrapper: TypeAlias = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]
# A wrapper, what it wraps, and what binds that to the object of a call: None if the wrapper asks for no object.
Link: TypeAlias = tuple[Wrapper, Callable[..., Any], Callable[[Any], Callable[..., Any]] | None]


def pass_through(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call what is wrapped: the wrapper of a trampoline that has no layer left."""
    return wrapped(*args, **kwargs)


# The cell in which a function of ours finds what it calls, and the keyword default of one that is changed in place.
HOOK: Final = "__hookpatch__"

# What makes inspect.unwrap, TorchScript and Dynamo look through a function, past its wrapper.
_SEE_THROUGH: Final = ("__wrapped__", "_torchdynamo_orig_callable")


@final
class Trampoline:
    """A plain function that looks like another and calls a wrapper around it. Lives as long as somebody holds it.

    Attributes:
        function: the function to put into the slot.
    """

    __slots__ = ("__weakref__", "_binds", "_collected", "_link", "_plain", "function")

    def __init__(self, like: FunctionType, below: Callable[..., Any], binds: bool) -> None:
        """Make one that passes through.

        Args:
            like: the function whose name, signature and kind (async, generator) it takes over.
            below: what it calls.
            binds: True when its first argument is the object or class that it is called on.
        """
        self._binds: Final = binds
        self._link: Final = CellType((pass_through, below, None))
        if binds:  # the cells in the order of co_freevars: that of their names
            first = like.__code__.co_varnames[0] if like.__code__.co_argcount else ""
            begin = _copy(_METHOD, like, (self._link, CellType(first), _REST))
        else:
            begin = _copy(_FUNCTION, like, (self._link,))
        shape = shape_of(like)
        self.function: Final = begin if shape is None else _copy(from_text(shape, None), like, (CellType(begin),))
        vars(self.function).update(_torchscript.attributes(like, self._link, tell_captured, binds))
        self._plain: Final = self.function.__code__
        self._collected: FunctionType | None = None
        _all.add(ref(self, _forget))

    @staticmethod
    def links() -> list[object]:
        """Return the tuples in which trampolines keep what they call: holders of the original that are no names."""
        return [one._link.cell_contents for one in (weak() for weak in _all.copy()) if one is not None]

    @property
    def link(self) -> CellType:
        """The cell in which it finds the wrapper, and what that wraps."""
        return self._link

    @property
    def collected(self) -> FunctionType:
        """What does the same, called with a tuple of arguments and a dict of those by keyword: by what has both."""
        if self._collected is None:
            function = self.function
            self._collected = FunctionType(
                as_collected(function.__code__), function.__globals__, function.__name__, None, function.__closure__
            )
        return self._collected

    def point(
        self, wrapper: Wrapper, below: Callable[..., Any], owner: str = "", asks_for_object: bool = False
    ) -> None:
        """From now on call a wrapper around what it wraps.

        Args:
            wrapper: the wrapper.
            below: what it wraps.
            owner: whom the frame names.
            asks_for_object: True if it gets the object of a method's call, and the method bound to that: a quarter of
                such a call is spent on it, and a wrapper that only hands arguments on gets them with the object first.
        """
        self._link.cell_contents = (wrapper, below, below.__get__ if asks_for_object and self._binds else None)
        if owner:
            name_frames(self.function, self.function.__name__, owner)
        elif self.function.__code__ is not self._plain:
            self.function.__code__ = self._plain
        if self._collected is not None:
            self._collected.__code__ = as_collected(self.function.__code__)


_all: Final[set[ReferenceType[Trampoline]]] = set()
_forget: Final = _all.discard  # once for all: each time that it is asked for it is another object


def is_trampoline(function: FunctionType) -> bool:
    """Tell whether a function is a trampoline's."""
    return HOOK in function.__code__.co_freevars


def link_of(function: FunctionType) -> CellType:
    """Return the cell in which a trampoline's function finds the wrapper, and what that wraps."""
    link = _cells(function)[HOOK]
    # One that does not run when it is called hands on to one that does.
    return link_of(link.cell_contents) if type(link.cell_contents) is FunctionType else link


def beneath_link(function: FunctionType) -> Any:
    """Return what a trampoline's function calls when the wrapper calls what it wraps, not bound to an object."""
    link = _cells(function)[HOOK]
    if type(link.cell_contents) is FunctionType:
        return beneath_link(link.cell_contents)
    return link.cell_contents[1]


def _cells(function: FunctionType) -> dict[str, CellType]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def tell_captured(link: CellType) -> None:
    """Have the wrappers that a link leads to count that TorchScript has captured them."""
    while True:
        wrapper, function, _ = link.cell_contents
        if (tally := getattr(wrapper, "tally", None)) is not None:
            tally.captured("script")
        if type(function) is not FunctionType or not is_trampoline(function):
            return
        link = (function.__closure__ or ())[function.__code__.co_freevars.index(HOOK)]


def name_frames(function: FunctionType, name: str, owner: str) -> None:
    """Have tracebacks and profiles tell whose patch runs in a function's calls."""
    # In the code's name, where it costs a call nothing: a note on the error would change what is not ours.
    shown, code = f"{name} [hookpatch: {owner}]", function.__code__
    if code.co_name != shown:
        place = code.co_qualname, code.co_filename, code.co_firstlineno
        function.__code__ = with_place(code, shown, *place, code.co_flags, code.co_argcount)


# The code of a trampoline: taken out of these, which are never called.


def _function(__hookpatch__: Link) -> Callable[..., Any]:
    def trampoline(*args: Any, **kwargs: Any) -> Any:
        wrapper, below, _ = __hookpatch__
        return wrapper(below, None, args, kwargs)

    return trampoline


def _method(__hookpatch__: Link, first: str, rest: slice) -> Callable[..., Any]:
    def trampoline(*args: Any, **kwargs: Any) -> Any:
        # Bound by __get__ and not by types.MethodType, which torch.compile cannot trace.
        wrapper, below, bind = __hookpatch__
        if bind is None:
            return wrapper(below, None, args, kwargs)
        try:  # to ask first whether there are any would cost each call
            instance = args[0]
        except IndexError:
            pass
        else:
            return wrapper(bind(instance), instance, args[rest], kwargs)
        if first not in kwargs:
            return below(**kwargs)  # called without its object: the TypeError is the original's own
        instance = kwargs.pop(first)  # called as Class.method(self=object)
        return wrapper(bind(instance), instance, (), kwargs)

    return trampoline


_FUNCTION: Final = inner(_function.__code__)
_METHOD: Final = inner(_method.__code__)
_REST: Final = CellType(slice(1, None))  # made once, not with each call


def can_stand_in(function: FunctionType, value: object) -> bool:
    """Tell whether a function can be changed inside to call another: one that does not run when it is called cannot
    become one that does (Python forbids to change that)."""
    shape = shape_of(function)
    return shape is None or (isinstance(value, FunctionType) and shape_of(value) == shape)


def _copy(code: CodeType, like: FunctionType, closure: tuple[CellType, ...]) -> FunctionType:
    """Return a function of this code that looks like another."""
    source = like
    if "__wrapped__" in vars(like):
        # A decorated function has its text and the names in its annotations from there.
        inside = inspect.unwrap(like)
        source = inside if isinstance(inside, FunctionType) else like
    code = placed(code, like, source.__code__)
    copy = FunctionType(code, source.__globals__, like.__name__, like.__defaults__, closure)
    _dress(copy, like)
    attributes = vars(copy)
    for name in _SEE_THROUGH:
        attributes.pop(name, None)
    if not isinstance(attributes.get("__signature__"), inspect.Signature):
        attributes["__signature__"] = Signature(like)
    return copy


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


_BORNE: Final = frozenset({"__signature__", *_torchscript.ATTRIBUTES})


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
        names, shape = like.__code__.co_freevars, shape_of(like)
        code = from_text(shape, len(names))
        self.code: Final = placed(code.replace(co_freevars=names) if names else code, like, like.__code__)
        called = trampoline.collected if shape is None else trampoline.function
        self.keyword_defaults: Final = {**(like.__kwdefaults__ or {}), HOOK: called}
        self.attributes: Final = {name: value for name, value in vars(trampoline.function).items() if name in _BORNE}


def as_it_was(function: FunctionType, code: CodeType) -> FunctionType:
    """Return a function that does what another did with this code, and looks like it."""
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    _dress(copy, function)
    return copy

"""The trampoline: a plain function in the place of a Python function, which calls a wrapper.

A plain function, not a proxy: torch.compile, torch.export and pickle look through proxies or fail, and a call takes a
third of the time. The function stays the same object while layers come and go, since foreign code may hold the
function. The wrapper is in a cell that each call reads once. Therefore a call in another thread sees either all layers
from before a change or all from after (GIL: the cell is set in one operation).

Long because a trampoline, the swap of a function in place and their shortcuts share the link and the code.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import filterfalse
from types import CellType, CodeType, FunctionType
from typing import Any, Final, TypeAlias, final
from weakref import ReferenceType, ref

from hookpatch._engine.calls import torchscript
from hookpatch._engine.calls.annotations import share_annotations
from hookpatch._engine.calls.code import Signature, in_place, placed, running, shape_of, trampoline_code, with_place
from hookpatch._engine.calls.shortcut import Shortcut

Wrapper: TypeAlias = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]
# The wrapper, the callable below, and the function that binds the callable to a call's object; None without an object.
Link: TypeAlias = tuple[Wrapper, Callable[..., Any], Callable[[Any], Callable[..., Any]] | None]


def pass_through(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the wrapped callable: the wrapper of a trampoline without layers."""
    return wrapped(*args, **kwargs)


# The name of a trampoline's cell, and of the keyword default in a function that is changed in place.
HOOK: Final = "__hookpatch__"
FRAME_MARK: Final = " [hookpatch: "  # before the owner, in the name of the code that runs a patch's wrapper


@final
class Trampoline:
    """A plain function that looks like another and calls a wrapper. Lives as long as the function is held.

    ``function`` goes into the slot; ``link`` is the cell of its ``Link``. ``swap`` does the same in place, if there.
    """

    __slots__ = ("__weakref__", "_defaults", "_named", "_plain", "_short", "binds", "function", "link", "swap")

    def __init__(self, like: FunctionType, below: Callable[..., Any], binds: bool) -> None:
        """Make a trampoline that looks like a function and passes calls through to ``below``.

        ``binds``: the first argument of the function is the object or class of a method call.
        """
        self.binds: Final = binds
        self.link: Final = CellType((pass_through, below, None))
        added = torchscript.attributes(like, self.link, wrappers_from, binds)
        first = like.__code__.co_varnames[0] if like.__code__.co_argcount else ""
        cells = (self.link, CellType(first), _TAIL) if binds else (self.link,)  # by name, as co_freevars
        self.function: Final = _copy(trampoline_code(binds), like, cells, added)
        self._plain: Final = self.function.__code__
        self._named = self._plain  # the code that reads the link, with the owner's name
        self._short: Shortcut | None = None
        self._defaults: tuple[Any, Any] | None = None  # of a function with a shortcut: without the shortcut
        self.swap: Swap | None = None
        _living.add(ref(self, _forget))

    @staticmethod
    def links() -> list[object]:
        """Return the contents of all links: tuples and lists that hold an original without a name."""
        living = [trampoline for weak in _living.copy() if (trampoline := weak()) is not None]
        swaps = [trampoline.swap.link for trampoline in living if trampoline.swap is not None]
        return [*(trampoline.link.cell_contents for trampoline in living), *swaps]

    def point(
        self,
        wrapper: Wrapper,
        below: Callable[..., Any],
        owner: str = "",
        asks_for_object: bool = False,
        short: Shortcut | None = None,
    ) -> None:
        """Call a wrapper around ``below`` from now on, in frames that name the owner.

        ``asks_for_object``: the wrapper gets the object of a method call, and the method bound to the object, which
        takes a quarter of such a call. Else the wrapper gets the object as the first argument. ``short``: does the
        same as all wrappers from here on, without a frame.
        """
        self.link.cell_contents = (wrapper, below, below.__get__ if asks_for_object and self.binds else None)
        self._named = code_with_owner(self._plain, self.function.__name__, owner) if owner else self._plain
        if self.swap is not None:
            self.swap.point(self.link.cell_contents, owner)
        if short is not None and short is self._short and self.is_short:
            return
        self.shorten(short)

    def shorten(self, short: Shortcut | None) -> None:
        """Run a shortcut in place of the wrappers, or for None the wrappers again."""
        function, before = self.function, self._short
        if function.__code__ is not self._named:
            function.__code__ = self._named  # first: a call has the code and the defaults of one and the same state
        if self._defaults is not None:
            function.__defaults__, function.__kwdefaults__ = self._defaults
            self._defaults = None
        if before is not None:
            _shortened.discard(ref(self))
            self._short = None
        if short is not None:
            self._defaults = function.__defaults__, function.__kwdefaults__
            self._short = short
            _shortened.add(ref(self, _forget_short))
            function.__defaults__, function.__kwdefaults__ = short.defaults, short.keyword_defaults
            function.__code__ = short.code
            if short.like.__code__ is not short.of:  # another thread changes the original in place
                self.shorten(None)

    def is_short_of(self, original: FunctionType) -> bool:
        """Return True if the trampoline has a shortcut in place of an original."""
        return self._short is not None and self._short.like is original

    @property
    def is_short(self) -> bool:
        """True if a call runs a shortcut."""
        return self._short is not None and self.function.__code__ is self._short.code


_shortened: Final[set[ReferenceType[Trampoline]]] = set()  # trampolines with calls that do not reach the callable below
_forget_short: Final = _shortened.discard


def lengthen(below: FunctionType) -> None:
    """Remove the shortcuts of the trampolines above a function: the function's code has changed."""
    for weak in _shortened.copy():
        trampoline = weak()
        if trampoline is not None and trampoline.is_short_of(below):
            trampoline.shorten(None)


_living: Final[set[ReferenceType[Trampoline]]] = set()
_forget: Final = _living.discard  # once: every access to the attribute makes another object


def is_trampoline(function: FunctionType) -> bool:
    """Return True if a function is a trampoline's."""
    return HOOK in function.__code__.co_freevars


def is_changed_in_place(function: FunctionType) -> bool:
    """Return True if the code of a function is a Swap's, which calls a trampoline."""
    return HOOK in (function.__kwdefaults__ or ())


def link_of(function: FunctionType) -> CellType:
    """Return the link of a trampoline's function."""
    return (function.__closure__ or ())[function.__code__.co_freevars.index(HOOK)]


def beneath_link(function: FunctionType) -> Any:
    """Return the callable below a trampoline's function, not bound to an object."""
    return link_of(function).cell_contents[1]


def needs_the_call(function: FunctionType) -> str:
    """Return why a patched function cannot be captured, in words; empty for a function that can be.

    A wrapper may have to know the arguments or the caller of each call.
    """
    swap = (function.__kwdefaults__ or {}).get(HOOK)
    link = link_of(function if swap is None else swap[-1])
    return next(filter(None, map(torchscript.needs_the_call, wrappers_from(link))), "")


def wrappers_from(link: CellType) -> Iterator[Wrapper]:
    """Yield the wrappers to which a link leads, the outermost first."""
    while True:
        wrapper, function, _ = link.cell_contents
        yield wrapper
        if type(function) is not FunctionType or not is_trampoline(function):
            return
        link = link_of(function)


def name_frames(function: FunctionType, name: str, owner: str) -> None:
    """Name the owner of a patch in tracebacks and profiles of a function's calls."""
    function.__code__ = code_with_owner(function.__code__, name, owner)


def code_with_owner(code: CodeType, name: str, owner: str) -> CodeType:
    """Return code with the owner of a patch in the name; the same object each time."""
    # A name costs a call no time. A note on the error would change a foreign object.
    place = code.co_qualname, code.co_filename, code.co_firstlineno
    return with_place(code, f"{name}{FRAME_MARK}{owner}]", *place, code.co_flags)


_TAIL: Final = CellType(slice(1, None))  # made once, not at each call


def can_stand_in(function: FunctionType, value: object) -> bool:
    """Return True if a function can be changed in place to call a value: Python forbids to change its kind."""
    shape = shape_of(function)
    return shape is None or (isinstance(value, FunctionType) and shape_of(value) == shape)


def _copy(code: CodeType, like: FunctionType, closure: tuple[CellType, ...], added: dict[str, Any]) -> FunctionType:
    """Return a function with a code that looks like another function, with added attributes."""
    source = like
    if "__wrapped__" in vars(like):
        # Source text, and the names in annotations, belong to the function inside the decorator.
        inside = inspect.unwrap(like)
        source = inside if isinstance(inside, FunctionType) else like
    code = placed(code, like, source.__code__)
    copy = FunctionType(code, source.__globals__, like.__name__, like.__defaults__, closure)
    dress(copy, like)
    own = vars(copy)
    # By these attributes inspect.unwrap, TorchScript and Dynamo look through a function, past the wrapper.
    for name in ("__wrapped__", "_torchdynamo_orig_callable", TRACED):
        own.pop(name, None)
    if not isinstance(own.get("__signature__"), inspect.Signature):
        own.pop("__signature__", None)
        added = {"__signature__": Signature(like), **added}
    if shape_of(like) is not None:
        added = {TRACED: _unmarked(copy, code), **added}
    attributes = copy.__dict__ = Attributes(added.keys() - own.keys())
    attributes.update(own)
    attributes.update(added)
    return copy


@cache
def _shared(names: frozenset[str]) -> frozenset[str]:
    """Return the same set for equal sets: most functions have the same hidden attributes."""
    return names


class Attributes(dict[str, Any]):
    """The attributes of a patched function. A function that copies the attributes gets none of the ``hidden`` ones.

    ``functools.wraps`` copies attributes. By a copy of ``__signature__`` a wrapper of a bound method would show the
    object or class as a parameter. By copies of the others Dynamo and TorchScript would look past the wrapper.
    """

    __slots__ = ("hidden",)

    def __init__(self, hidden: Iterable[str] = ()) -> None:
        super().__init__()
        self.hidden = _shared(frozenset((HOOK, *hidden)))

    def __iter__(self) -> Iterator[str]:  # else dict.update copies without a look at keys()
        return iter(self.keys())

    def keys(self) -> Any:
        return [*filterfalse(self.hidden.__contains__, super().keys())]


def dress(copy: FunctionType, like: FunctionType) -> None:
    """Give a function the names, annotations and attributes of another."""
    defaults = like.__kwdefaults__
    if defaults is not None and HOOK in defaults:  # the function is changed in place at this moment
        defaults = {name: value for name, value in defaults.items() if name != HOOK} or None
    copy.__kwdefaults__ = defaults
    copy.__module__, copy.__qualname__, copy.__doc__ = like.__module__, like.__qualname__, like.__doc__
    share_annotations(copy, like)
    if sys.version_info >= (3, 12):
        copy.__type_params__ = like.__type_params__
    copy.__dict__.update(vars(like))


def _unmarked(like: FunctionType, code: CodeType) -> FunctionType:
    """Return a function like another, without a generator's mark in the code: Dynamo takes the mark for the truth."""
    return FunctionType(running(code), like.__globals__, like.__name__, like.__defaults__, like.__closure__)


TRACED: Final = "_torchdynamo_inline"  # Dynamo traces the attribute's function in place of its owner
_BORNE: Final = frozenset({"__signature__", *torchscript.ATTRIBUTES})


@final
class Swap:
    """The value of a function slot, for a function changed in place: code that does what a trampoline does.

    The code finds the link as a keyword default: torch.compile refuses a constant. The link is a list, which a copy of
    the function keeps, and the list's last item is the function of the trampoline. Attributes of the function take
    precedence over the added attributes, except the attribute by which Dynamo would look past the patch.
    """

    __slots__ = (
        *("_codes", "_function", "_like", "_more", "_plain", "attributes", "code", "keyword_defaults", "link"),
        "short",
    )

    def __init__(self, like: FunctionType, trampoline: Trampoline, below: FunctionType) -> None:
        names = like.__code__.co_freevars
        code = in_place(trampoline.binds, len(names))
        # At the place of the callable below, for inspect.getsource: a derived function differs from ``like``.
        self._plain: Final = placed(code.replace(co_freevars=names) if names else code, like, below.__code__)
        self.code = self._plain
        self.short: CodeType | None = None
        self._like: Final = like
        self._codes: tuple[CodeType, ...] = (self.code,)
        self._function: FunctionType | None = None
        _, *others = trampoline.function.__closure__ or ()  # the cells after the link's
        self._more: Final = (*(cell.cell_contents for cell in others), trampoline.function)
        self.link: Final = [*trampoline.link.cell_contents, *self._more]
        self.keyword_defaults: Final = {**(like.__kwdefaults__ or {}), HOOK: self.link}
        trampoline.swap = self
        self.attributes: Final = {name: value for name, value in vars(trampoline.function).items() if name in _BORNE}
        if shape_of(like) is not None or TRACED in vars(like):
            self.attributes[TRACED] = traced = _unmarked(like, self.code)
            traced.__kwdefaults__ = self.keyword_defaults

    def takes_code_of(self, below: FunctionType) -> bool:
        """Return True if the function runs code of the callable below alike: by equal globals, cells and defaults."""
        like = self._like
        cells, cells_below = like.__closure__ or (), below.__closure__ or ()
        return (
            below.__globals__ is like.__globals__
            and below.__code__.co_freevars == like.__code__.co_freevars
            and all(cell is cell_below for cell, cell_below in zip(cells, cells_below, strict=True))
            and below.__defaults__ is like.__defaults__
            and below.__kwdefaults__ is like.__kwdefaults__
        )

    def put_into(self, function: FunctionType | None) -> None:
        """Note the function that runs the code, and set the code; None: the function has its own code again."""
        self._function = function
        if function is not None:
            function.__code__ = self.short or self.code

    def point(self, link: Link, owner: str) -> None:
        """Call the wrapper of a link from now on, in frames that name the owner."""
        self.link[:] = *link, *self._more  # GIL: in one operation
        self.code = code_with_owner(self._plain, self._like.__name__, owner) if owner else self._plain
        self._run(self.code)

    def shorten(self, short: CodeType | None) -> None:
        """Run other code of the function in place of the wrappers, or for None the wrappers again."""
        self.short = short
        self._run(short or self.code)

    def _run(self, code: CodeType) -> None:
        if not any(code is own_code for own_code in self._codes):
            self._codes = (*self._codes, code)
        if (function := self._function) is not None and self.is_code(function.__code__):  # else foreign code is there
            function.__code__ = code

    def is_code(self, code: CodeType) -> bool:
        """Return True if a code is of the swap, now or before."""
        return code is self.code or code is self.short or any(code is own_code for own_code in self._codes)


def recompiled(
    function: FunctionType,
    code: CodeType,
    closure: tuple[CellType, ...],
    defaults: tuple[Any, ...] | None,
    keyword_defaults: dict[str, Any] | None,
) -> FunctionType:
    """Return a copy of a function with other code, cells and defaults."""
    copy = FunctionType(code, function.__globals__, function.__name__, defaults, closure)
    dress(copy, function)
    copy.__kwdefaults__ = keyword_defaults
    return copy


def copy_with_code(function: FunctionType, code: CodeType) -> FunctionType:
    """Return a copy of a function with the code from before."""
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    dress(copy, function)
    return copy

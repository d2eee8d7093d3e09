"""Decide at a call whether the caller is meant: by the module of the nearest Python frame outside hookpatch.

Or by a running function: a call made while the function runs counts, also a call by what the function calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import CO_NESTED
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias, final

from hookpatch._engine.calls.trampoline import FRAME_MARK, HOOK, Wrapper

ASKS_CALLER: Final = "callers= needs a Python caller, and captured code has none"
Frame: TypeAlias = tuple[CodeType, Mapping[str, Any]]  # the code and the globals of a frame
Running: TypeAlias = Callable[[str | None, str], bool]  # takes a module, or None for any, and the name of a function
_OURS: Final = ("hookpatch.", "wrapt.")  # wrapt may run in Python, as the wrapper of a C function
_MAINS: Final = ("__main__", "__mp_main__")  # the second: the main module in a process of multiprocessing


@final
class Callers:
    """The callers for whose calls a patch is in effect.

    Attributes:
        outside: the number of patches of the same target outside this patch; wrappers of patches are no callers.
    """

    __slots__ = ("_is_meant", "_is_running", "_known", "_known_functions", "outside")

    def __init__(self, is_meant: Callable[[str], bool], is_running: Running | None = None) -> None:
        self._is_meant: Final = is_meant
        self._is_running: Final = is_running  # None: no function is meant
        self._known_functions: Final[dict[str, bool]] = {}  # by the qualified name: False if no function is meant
        self._known: Final[dict[str | None, bool]] = {None: False}  # by the name of a module
        self.outside = 0

    def match(self) -> bool:
        """Return True if the caller of the patched function is meant. To be called by the wrapper itself."""
        frame: FrameType | None = sys._getframe(2)
        if not self.outside:  # nearly all calls: no generator, and the caller is the first frame that is not ours
            while frame is not None:
                code = frame.f_code
                if FRAME_MARK not in code.co_name and not (_may_be_ours(code) and _has_our_name(code)):
                    name = frame.f_globals.get("__name__")
                    name = name if type(name) is str else None
                    if name in self._known:
                        return self._known[name] or (self._is_running is not None and self._is_below(frame))
                    if not is_code_of_hookpatch(code, frame.f_globals):
                        is_meant = self._known[name] = self.are_meant(_names(frame.f_globals))
                        return is_meant or (self._is_running is not None and self._is_below(frame))
                frame = frame.f_back
        return self.are_meant(caller_in(_frames(frame), self.outside)) or self._is_below(frame)

    def are_meant(self, names: tuple[str, ...]) -> bool:
        """Return True if a module is meant, given by its names; a call from C code alone has no names."""
        return any(map(self._is_meant, names))

    @property
    def names_function(self) -> bool:
        """True if functions are meant, and not modules alone."""
        return self._is_running is not None

    def is_inside(self, frames: Iterable[Frame]) -> bool:
        """Return True if a meant function runs in one of the frames."""
        return self._is_running is not None and any(self._runs(code, names) for code, names in frames)

    def _is_below(self, frame: FrameType | None) -> bool:
        known = self._known_functions
        while self._is_running is not None and frame is not None:
            code = frame.f_code
            if known.get(code.co_qualname, True) and self._runs(code, frame.f_globals):
                return True
            frame = frame.f_back
        return False

    def _runs(self, code: CodeType, names: Mapping[str, Any]) -> bool:
        assert self._is_running is not None
        name = code.co_qualname
        if name not in self._known_functions:
            self._known_functions[name] = self._is_running(None, name)
        if not self._known_functions[name] or FRAME_MARK in code.co_name:
            return False
        is_ours = _may_be_ours(code) and _has_our_name(code)
        return not is_ours and any(self._is_running(module, name) for module in _names(names))

    def only(self, wrapper: Wrapper) -> Wrapper:
        """Return a wrapper that passes calls of other callers through."""

        def asking(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self.match():
                return wrapper(wrapped, instance, args, kwargs)
            return wrapped(*args, **kwargs)

        return asking


def instead(value: Callable[..., Any]) -> Wrapper:
    """Return a wrapper that calls another callable."""

    def replaced(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if instance is None or not hasattr(value, "__get__"):
            return value(*args, **kwargs)
        return value.__get__(instance)(*args, **kwargs)

    return replaced


@final
class SeenFrom:
    """True in calls with an open gate and a meant caller, seen from a layer inside the layer of the gate."""

    __slots__ = ("_callers", "_gate", "_outside")

    def __init__(self, callers: Callers, outside: int, gate: object) -> None:
        self._callers: Final = callers
        self._outside: Final = outside
        self._gate: Final = gate

    def __bool__(self) -> bool:
        if not self._gate:
            return False
        frame, callers = sys._getframe(1), self._callers
        return callers.are_meant(caller_in(_frames(frame), self._outside)) or callers.is_inside(_frames(frame))


def caller_in(frames: Iterable[Frame], outside: int) -> tuple[str, ...]:
    """Return the names of the module that calls a patched function, from the frames of a patch on outwards.

    The wrappers of patches further outside are looked through. If the wrappers are not on the stack (a wrapper may
    call in another thread), the nearest module outside hookpatch counts.

    Args:
        frames: the innermost first.
        outside: the number of patches of the same target further outside.
    """
    place: tuple[str, int] | None = None
    nearest: tuple[str, ...] = ()
    for code, names in frames:
        if is_code_of_hookpatch(code, names):
            if FRAME_MARK in code.co_name:
                wrapper_place = code.co_filename, code.co_firstlineno
                if place is None:
                    place = wrapper_place
                elif wrapper_place == place:
                    outside -= 1
        elif outside <= 0:
            return _names(names)
        else:
            nearest = nearest or _names(names)
    return nearest


def is_code_of_hookpatch(code: CodeType, names: Mapping[str, Any]) -> bool:
    """Return True if code, with the globals, is hookpatch's: also a trampoline with a vendor's globals."""
    name = names.get("__name__")
    return (type(name) is str and name.startswith(_OURS)) or (_may_be_ours(code) and _has_our_name(code))


def _may_be_ours(code: CodeType) -> bool:
    """Return False for most functions: to ask for the names of a code's variables takes long."""
    return bool(code.co_flags & CO_NESTED or code.co_kwonlyargcount)


def _has_our_name(code: CodeType) -> bool:
    return HOOK in code.co_freevars or HOOK in code.co_varnames


def _frames(frame: FrameType | None) -> Iterator[Frame]:
    while frame is not None:
        yield frame.f_code, frame.f_globals
        frame = frame.f_back


def _names(names: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a module by the globals: of the main module also the name of the spec."""
    name = names.get("__name__")
    if name in _MAINS:
        spec_name = getattr(names.get("__spec__"), "name", None)
        return ("__main__", spec_name) if isinstance(spec_name, str) else ("__main__",)
    return (name,) if isinstance(name, str) else ()

"""The tools that patch a function and undo the patch, each used as in the tool's own documentation.

A tool is imported only on demand, because each tool lives in a separate environment. All are in a single file, so a
reader can compare the tasks given to each.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

Undo = Callable[[], object]


def tagged(original: Callable[..., Any], tag: str) -> Callable[..., Any]:
    """Return a hand-written wrapper: f() -> 'tag(f)'."""

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> str:
        return f"{tag}({original(*args, **kwargs)})"

    return wrapper


def substitute(owner: Any, name: str, tag: str) -> Any:
    """Return a tagged wrapper for the value of the slot, of the same kind of descriptor."""
    own = inspect.getattr_static(owner, name)
    return type(own)(tagged(own.__func__, tag)) if isinstance(own, classmethod | staticmethod) else tagged(own, tag)


def wrapper_of(tag: str) -> Callable[..., str]:
    """Return a tagged wrapper in wrapt's convention, which hookpatch and wrapture share."""

    def wrapper(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> str:
        return f"{tag}({wrapped(*args, **kwargs)})"

    return wrapper


class Tool:
    """One way to patch. A method for a task that a tool cannot do returns None."""

    distribution: str | None = None  # None: the standard library, or no tool

    def wrap(self, owner: Any, name: str, tag: str) -> Undo:
        raise NotImplementedError

    def everywhere(self, owner: Any, name: str, tag: str) -> Undo:
        """Wrap a function under all earlier bound names; most tools wrap only the slot."""
        return self.wrap(owner, name, tag)

    def entry(self, mapping: dict[str, Any], key: str, value: object) -> Undo | None:
        return None

    def absent(self, mapping: dict[str, Any], key: str) -> Undo | None:
        return None

    def several(self, owner: Any, names: Iterable[str]) -> Undo | None:
        """Wrap several names of one owner, with a single undo function."""
        return None

    def later(self, module: str, name: str, tag: str) -> Undo | None:
        """Wrap a name of a module that is not imported yet, without an import."""
        return None

    def for_task(self, owner: Any, name: str, tag: str) -> Undo | None:
        """Wrap for the current thread alone."""
        return None


class ByHand(Tool):
    """The code of most code bases: getattr, setattr, setattr."""

    def wrap(self, owner: Any, name: str, tag: str) -> Undo:
        original = getattr(owner, name)
        setattr(owner, name, substitute(owner, name, tag))
        return lambda: setattr(owner, name, original)

    def entry(self, mapping: dict[str, Any], key: str, value: object) -> Undo:
        original = mapping[key]
        mapping[key] = value
        return lambda: mapping.__setitem__(key, original)

    def absent(self, mapping: dict[str, Any], key: str) -> Undo:
        original = mapping.pop(key)
        return lambda: mapping.__setitem__(key, original)

    def several(self, owner: Any, names: Iterable[str]) -> Undo:
        undos = [self.wrap(owner, name, "p") for name in names]
        return lambda: [undo() for undo in reversed(undos)]


class Hookpatch(Tool):
    """One session for each patch."""

    distribution = "hookpatch"

    @staticmethod
    def address(owner: Any, name: str) -> str:
        return (
            f"{owner.__module__}:{owner.__qualname__}.{name}" if isinstance(owner, type) else f"{owner.__name__}:{name}"
        )

    def open(self, *patches: Any, **options: Any) -> Undo:
        import hookpatch

        session = hookpatch.active(*patches, **options)
        session.__enter__()
        return session.close

    def wrap(self, owner: Any, name: str, tag: str) -> Undo:
        import hookpatch

        return self.open(hookpatch.wrap(self.address(owner, name), wrapper_of(tag)), children="local")

    def everywhere(self, owner: Any, name: str, tag: str) -> Undo:
        import hookpatch

        patch = hookpatch.wrap(self.address(owner, name), wrapper_of(tag), reach="everywhere")
        return self.open(patch, children="local")

    def entry(self, mapping: dict[str, Any], key: str, value: object) -> Undo:
        import hookpatch

        return self.open(hookpatch.replace(hookpatch.Target.item(mapping, key), value), children="local")

    def absent(self, mapping: dict[str, Any], key: str) -> Undo:
        import hookpatch

        return self.open(hookpatch.remove(hookpatch.Target.item(mapping, key)), children="local")

    def several(self, owner: Any, names: Iterable[str]) -> Undo:
        import hookpatch

        patches = [hookpatch.wrap(hookpatch.Target.attribute(owner, name), wrapper_of("p")) for name in names]
        return self.open(*patches, children="local")

    def later(self, module: str, name: str, tag: str) -> Undo:
        import hookpatch

        return self.open(hookpatch.wrap(f"{module}:{name}", wrapper_of(tag)), children="local")

    def for_task(self, owner: Any, name: str, tag: str) -> Undo:
        import hookpatch

        return self.open(hookpatch.wrap(self.address(owner, name), wrapper_of(tag)), scope="task", children="local")


class Mock(Tool):
    """unittest.mock: started and stopped patchers."""

    def start(self, patcher: Any) -> Undo:
        patcher.start()
        return patcher.stop

    def wrap(self, owner: Any, name: str, tag: str) -> Undo:
        from unittest import mock

        return self.start(mock.patch.object(owner, name, substitute(owner, name, tag)))

    def entry(self, mapping: dict[str, Any], key: str, value: object) -> Undo:
        from unittest import mock

        return self.start(mock.patch.dict(mapping, {key: value}))

    def absent(self, mapping: dict[str, Any], key: str) -> Undo:
        from unittest import mock

        undo = self.start(mock.patch.dict(mapping))
        del mapping[key]
        return undo

    def several(self, owner: Any, names: Iterable[str]) -> Undo:
        from unittest import mock

        return self.start(mock.patch.multiple(owner, **{name: substitute(owner, name, "p") for name in names}))


class Monkeypatch(Tool):
    """pytest's monkeypatch, outside of a test."""

    distribution = "pytest"

    def made(self, method: str, *args: Any) -> Undo:
        import pytest

        patch = pytest.MonkeyPatch()
        getattr(patch, method)(*args)
        return patch.undo

    def wrap(self, owner: Any, name: str, tag: str) -> Undo:
        return self.made("setattr", owner, name, substitute(owner, name, tag))

    def entry(self, mapping: dict[str, Any], key: str, value: object) -> Undo:
        return self.made("setitem", mapping, key, value)

    def absent(self, mapping: dict[str, Any], key: str) -> Undo:
        return self.made("delitem", mapping, key)

    def several(self, owner: Any, names: Iterable[str]) -> Undo:
        import pytest

        patch = pytest.MonkeyPatch()
        for name in names:
            patch.setattr(owner, name, substitute(owner, name, "p"))
        return patch.undo


class Wrapt(Tool):
    """wrap_function_wrapper, and unwrap_object of the handle."""

    distribution = "wrapt"

    def wrap(self, owner: Any, name: str, tag: str) -> Undo:
        import wrapt

        handle = wrapt.wrap_function_wrapper(owner, name, wrapper_of(tag))
        return lambda: wrapt.unwrap_object(owner, name, handle)

    def later(self, module: str, name: str, tag: str) -> Undo:
        import sys

        import wrapt

        wrapt.wrap_function_wrapper(f"{module}?", name, wrapper_of(tag))  # returns no handle
        return lambda: module in sys.modules and wrapt.unwrap_object(module, name, None)


class Wrapture(Tool):
    """Bindings, and groups of bindings."""

    distribution = "wrapture"

    def wrap(self, owner: Any, name: str, tag: str) -> Undo:
        import wrapture

        binding = wrapture.binding(owner, name)
        binding.on_call.decorates(wrapper_of(tag))
        binding.apply()
        return binding.remove

    def entry(self, mapping: dict[str, Any], key: str, value: object) -> Undo:
        import wrapture

        binding = wrapture.binding(mapping, item=key).overrides(value)
        binding.apply()
        return binding.remove

    def absent(self, mapping: dict[str, Any], key: str) -> Undo:
        import wrapture

        binding = wrapture.binding(mapping, item=key).hides()
        binding.apply()
        return binding.remove

    def several(self, owner: Any, names: Iterable[str]) -> Undo:
        import wrapture

        members = {name: wrapture.binding(owner, name) for name in names}
        for member in members.values():
            member.on_call.decorates(wrapper_of("p"))
        group = wrapture.bindings(**members)
        group.apply()
        return group.remove

    def later(self, module: str, name: str, tag: str) -> Undo:
        from wrapture import Config, ObserveEntry

        return Config(observe=[ObserveEntry(target=module, name=[name])]).apply().revert


class OpenTelemetry(Tool):
    """The way of the instrumentations: wrapt patches, `unwrap` of opentelemetry.instrumentation.utils undoes."""

    distribution = "opentelemetry-instrumentation"

    def wrap(self, owner: Any, name: str, tag: str) -> Undo:
        import wrapt
        from opentelemetry.instrumentation.utils import unwrap

        wrapt.wrap_function_wrapper(owner, name, wrapper_of(tag))
        return lambda: unwrap(owner, name)


class Ddtrace(Tool):
    """ddtrace.internal.wrapping, which rewrites a function's code."""

    distribution = "ddtrace"

    def wrap(self, owner: Any, name: str, tag: str) -> Undo:
        from ddtrace.internal.wrapping import unwrap, wrap

        own = inspect.getattr_static(owner, name)
        function = getattr(own, "__func__", own)

        def wrapper(wrapped: Callable[..., Any], args: Any, kwargs: Any) -> str:
            return f"{tag}({wrapped(*args, **kwargs)})"

        wrap(function, wrapper)
        return lambda: unwrap(function, wrapper)


class Aspectlib(Tool):
    """weave, and the rollback that weave returns."""

    distribution = "aspectlib"

    def wrap(self, owner: Any, name: str, tag: str) -> Undo:
        import aspectlib

        @aspectlib.Aspect
        def aspect(*args: Any, **kwargs: Any) -> Any:
            result = yield aspectlib.Proceed
            yield aspectlib.Return(f"{tag}({result})")

        if isinstance(owner, type):
            woven = aspectlib.weave(owner, aspect, methods=[name], lazy=False)
        else:
            woven = aspectlib.weave(f"{owner.__name__}.{name}", aspect)
        return woven.rollback

    def several(self, owner: Any, names: Iterable[str]) -> Undo:
        import aspectlib

        @aspectlib.Aspect
        def aspect(*args: Any, **kwargs: Any) -> Any:
            result = yield aspectlib.Proceed
            yield aspectlib.Return(f"p({result})")

        return aspectlib.weave(owner, aspect, methods=list(names)).rollback


class Gorilla(Tool):
    """A Patch that is applied and reverted, with the original stored."""

    distribution = "gorilla"

    def wrap(self, owner: Any, name: str, tag: str) -> Undo:
        import gorilla

        settings = gorilla.Settings(allow_hit=True, store_hit=True)
        patch = gorilla.Patch(owner, name, substitute(owner, name, tag), settings)
        gorilla.apply(patch, id=tag)
        return lambda: gorilla.revert(patch)


TOOLS: Final[dict[str, type[Tool]]] = {
    "hookpatch": Hookpatch,
    "by hand": ByHand,
    "mock": Mock,
    "pytest": Monkeypatch,
    "wrapt": Wrapt,
    "wrapture": Wrapture,
    "OTel": OpenTelemetry,
    "ddtrace": Ddtrace,
    "aspectlib": Aspectlib,
    "gorilla": Gorilla,
}

"""Shared by tests of sites: a wrapper with a tag, and classes that refuse to be set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

import hookpatch

# For tests with patches under a ``replace``; test_hidden.py has the warnings.
HIDES_PATCHES: Final = pytest.mark.filterwarnings("ignore:.* lies (outside|there)$")


def tagged(tag: str) -> Callable[..., Any]:
    return lambda wrapped, instance, args, kwargs: f"{tag}({wrapped(*args, **kwargs)})"


def hides(outer: str, inner: str) -> bool:
    """Return True if two patches of the same slot, owner and session conflict by their verbs: see test_order.py."""
    is_value_hidden = outer in ("replace", "remove") and inner in ("replace", "remove", "derive")
    return is_value_hidden or outer == inner in ("inject", "default")


class Stubborn(type):
    """A metaclass of classes that refuse, while ``locked``, to set or delete an attribute."""

    locked = False

    def __setattr__(cls, name: str, value: object) -> None:
        if type(cls).__dict__["locked"] and name != "free":
            raise RuntimeError(f"{name} is locked")
        super().__setattr__(name, value)

    def __delattr__(cls, name: str) -> None:
        if type(cls).__dict__["locked"]:
            raise RuntimeError(f"{name} is locked")
        super().__delattr__(name)


def states(session: hookpatch.Session) -> list[str]:
    return [patch.state for patch in session.report()]

"""Targets for the port of patchy: a function, a decorated function, a cached function, a property."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def counted(function: Callable[[], int]) -> Callable[[], list[int]]:
    @functools.wraps(function)
    def wrapper() -> list[int]:
        return [function()]

    return wrapper


def price() -> int:
    return 1


@counted
def decorated() -> int:
    return 1


@functools.lru_cache
def cached() -> int:
    return 1


class Base:
    def total(self) -> int:
        return 0


class Till(Base):
    def total(self) -> Any:
        return 1

    @property
    def rate(self) -> int:
        return 1

"""Shared by tests of the lock: a module to lock, and the fingerprint of a target."""

from __future__ import annotations

import importlib

from hookpatch import Target
from hookpatch._engine.lock.fingerprint import Fingerprint, of_slot
from hookpatch._engine.slots.resolve import resolve


def fingerprint_of_target(address: str) -> Fingerprint:
    """Return the fingerprint of a target."""
    target = Target(address)
    return of_slot(resolve(target, importlib.import_module(str(target.module)), "this test"))


VENDOR = """
    import functools
    limit, name, nothing = 3, "kit", None
    table = {"a": 1, "b": len, int: 2}
    rows = [1, 2]
    built_in = max
    def speak(word, *, deep=None, mark=object()): return word
    async def wait(): pass
    def count(): yield 1
    async def stream(): yield 1
    class Base:
        def inherited(self, x): return x
    class Model(Base):
        kind = "m"
        _hidden = 1
        def __init__(self, size=1): self._size = size
        def method(self, x): return x
        @staticmethod
        def static(x): return x
        @classmethod
        async def of_class(cls, x): return x
        @property
        def size(self): return self._size
        def _private(self): pass
    class Caller:
        def __call__(self, x): return x
    caller = Caller()
"""

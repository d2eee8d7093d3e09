"""Forty small models with a known truth: each line that decides a capture's outcome is marked with a kind.

    if x.sum() > 0:  # data

A mark is at the end of the first line of a statement: ``data``, ``shape``, ``config``, ``safe`` or ``call``, the worst
kind of the statement. A line without a mark has no kind. tests/test_zoo.py runs the models to check the
marks.
"""

from __future__ import annotations

from zoo import branches, conversions, effects, harmless, loops, reached
from zoo.animals import Animal, animals, case

__all__ = ["Animal", "animals", "branches", "case", "conversions", "effects", "harmless", "loops", "reached"]

"""Forty small models whose truth is known: each line that a capture's outcome hangs on bears its kind.

    if x.sum() > 0:  # data

A mark stands at the end of the line that a statement begins on: ``data``, ``shape``, ``config``, ``safe`` or ``call``,
the worst of what the line does. A line without one is none of them. tests/test_zoo.py runs the models to see that the
marks are true.
"""

from __future__ import annotations

from zoo import branches, conversions, effects, harmless, loops, reached
from zoo.animals import Animal, animals, case

__all__ = ["Animal", "animals", "branches", "case", "conversions", "effects", "harmless", "loops", "reached"]

"""All rules, in the order of matching."""

from __future__ import annotations

from typing import Final

from hookpatch_torchscript._mends import attributes, names, syntax, types
from hookpatch_torchscript._mends.rule import Rule

RULES: Final[tuple[Rule, ...]] = (*names.RULES, *attributes.RULES, *syntax.RULES, *types.RULES)

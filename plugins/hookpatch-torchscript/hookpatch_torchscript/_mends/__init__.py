"""What torch's messages mean, and what to do: a rule for each, in the order in which they are tried."""

from __future__ import annotations

from typing import Final

from hookpatch_torchscript._mends import _attributes, _names, _syntax, _types
from hookpatch_torchscript._mends._attributes import NOT_THERE
from hookpatch_torchscript._mends._rule import Failed, Rule

__all__: Final = ["NOT_THERE", "RULES", "Failed", "Rule"]

RULES: Final[tuple[Rule, ...]] = (*_names.RULES, *_attributes.RULES, *_syntax.RULES, *_types.RULES)

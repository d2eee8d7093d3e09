"""The scan knows the length of a list, tuple or dict built item by item, unless a value or size decides the length."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest
import torch
from hookpatch_export import scan

Model = Callable[[str], type[torch.nn.Module]]
X = torch.ones(3, 4)
NET = """
import itertools

def parts(a=None, b=None, c=None):
    return [part for part in (a, b, c) if part is not None]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = ["a", "b", "c"]
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        given = {"a": x, "b": -x, "c": x + 1}
        made = []
%s
        length = len(made)
%s
        return x
"""
QUESTION = """
        if length == {0}:
            x = x + 1 if x.sum() > {0} else x
"""
LENGTHS = range(8)
KNOWN = {
    "append": ("for layer in self.layers:\n    made.append(layer(x))", 3),
    "append, a number counted": (
        "count = 0\nfor layer in self.layers:\n    if count < 2:\n        made.append(layer(x))\n    count += 1",
        2,
    ),
    "a tuple added to": ("made = ()\nfor layer in self.layers:\n    made += (layer(x),)", 3),
    "a filter in a loop": (
        "for name, part in given.items():\n    if name in ('a', 'c'):\n        made.append(part)",
        2,
    ),
    "continue": (
        "for name, part in given.items():\n    if name == 'b':\n        continue\n    made.append(part)",
        2,
    ),
    "break": ("for name, part in given.items():\n    if name == 'c':\n        break\n    made.append(part)", 2),
    "extend": ("for part in (x, -x):\n    made.extend([part, part])", 4),
    "a filter in a comprehension": ("made = [part for name, part in given.items() if name != 'b']", 2),
    "a comprehension of two loops": ("made = [part for name in self.names for part in (x, given[name])]", 6),
    "a dict of a comprehension": ("made = [*{name: part for name, part in given.items() if name != 'b'}]", 2),
    "keywords of a comprehension": ("made = parts(**{name: p for name, p in given.items() if name != 'b'})", 2),
    "an item set": ("made = [None] * 3\nfor i in range(3):\n    made[i] = x", 3),
    "an item set by a number of the input": ("made = [x, x, x]\nmade[x.dim() - 1] = -x", 3),
    "map": ("made = list(map(torch.neg, given.values()))", 3),
    "chain": ("made = list(itertools.chain(given.values(), (x,)))", 4),
    "sorted": ("made = sorted(self.names)", 3),
    "sort": ("made = [3, 1, 2]\nmade.sort()", 3),
    "reverse": ("made = [x, -x]\nmade.reverse()", 2),
}
DECIDED = {
    "append": ("for layer in self.layers:\n    if x.max() > 0:\n        made.append(x)", "data"),
    "continue": ("for layer in self.layers:\n    if len(x) > 2:\n        continue\n    made.append(x)", "config"),
    "break": ("for layer in self.layers:\n    made.append(x)\n    if x.max() > 0:\n        break", "config"),
    "break at the last item": (
        "for name, p in given.items():\n    if name == 'c' and p.max() > 0:\n        break\n    made.append(p)",
        "config",
    ),
    "one of two loops": (
        "for layer in self.layers:\n    made.append(x)\nfor row in x:\n    made.append(row)",
        "shape",
    ),
    "keywords of a filtered dict": ("made = parts(**{name: p for name, p in given.items() if p.max() > 0})", "config"),
    "the keys of a dict": ("made = {name: p for name, p in given.items() if p.max() > 0}", "config"),
}


def asked(model: Model, code: str) -> tuple[torch.nn.Module, dict[int, str], list[int]]:
    """Return a model, the kinds of its questions for a list's length, and the lengths whose branch the scan walks."""
    questions = "".join(QUESTION.format(length) for length in LENGTHS)
    net = model(NET % (textwrap.indent(code, " " * 8), questions))().eval()
    findings = scan(net, inputs=(X,))
    kinds = {int(finding.source[-2]): str(finding.kind) for finding in findings if finding.source[:9] == "if length"}
    return net, kinds, [length for length in LENGTHS if any(f"> {length} else" in each.source for each in findings)]


@pytest.mark.parametrize("how", KNOWN)
def test_length_of_a_list_built_from_known_items_is_known(model: Model, how: str) -> None:
    """No input changes the length: one branch of all is walked, the one that a run takes."""
    code, length = KNOWN[how]
    net, kinds, walked = asked(model, code)
    assert walked == [length]
    assert max(kinds.values(), default="config") in ("config", "safe")
    torch.testing.assert_close(net(X), X + 1)


@pytest.mark.parametrize("how", DECIDED)
def test_length_that_a_value_or_a_size_decides_is_not_known(model: Model, how: str) -> None:
    """A list that one round in several leaves as it was may have fewer items: each branch is walked.

    Where a ``break`` or ``continue`` decides, the decision is a finding where it stands, and not once more here.
    """
    code, kind = DECIDED[how]
    _, kinds, walked = asked(model, code)
    assert kinds == dict.fromkeys(LENGTHS, kind)
    assert walked == [*LENGTHS]


def test_items_keep_their_places(model: Model) -> None:
    """An item set, a list turned around and two lists in a row: each item keeps its own kind."""
    net = model(
        """
        import itertools

        class Net(nn.Module):
            def forward(self, x):
                turned = [len(x), 3]
                turned.reverse()
                if turned[0] > 2:
                    x = x + 1
                if turned[1] > 2:
                    x = x + 1
                filled = [0, 0]
                filled[1] = len(x)
                if filled[0] > 2:
                    x = x + 1
                if filled[1] > 2:
                    x = x + 1
                for number in itertools.chain((1,), (x.shape[0],)):
                    if number > 2:
                        x = x + 1
                return x
        """
    )()
    found = [(finding.line, str(finding.kind)) for finding in scan(net) if finding.construct == "if"]
    assert [row for row in found if row[1] == "shape"] == [(12, "shape"), (18, "shape"), (21, "shape")]

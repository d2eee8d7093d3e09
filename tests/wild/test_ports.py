"""Foreign collections of patches, compared with the ports to hookpatch: effects and leftovers.

Each collection is measured in a separate process (measure.py). The ports have every effect and leave no change behind.
For the collections the tests record the figures that ``make bench-wild`` writes into docs/reference/collections.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

HERE: Final = Path(__file__).parent


class Own(NamedTuple):
    """The measured behaviour of a collection itself.

    Attributes:
        lacks: the effects that only the port has.
        left: the places that differ after the collection's own undo, and how many; by pattern.
        covered: the problems at the end if a foreign wrapper covers a patched function; None if not tried.
    """

    lacks: set[str]
    left: dict[str, int]
    covered: list[str] | None = None


_BOUND = {"a name bound before", "a mapping", "a class attribute", "a default argument"}
_GONE = ["the other wrapper is gone"]
QUICK: Final = {
    "patchy": Own(
        {"inside a decorator", "inside a cache", "a property", "super() where there was none"},
        {"tills:price.__code__": 1},
    ),
    "freezegun": Own(
        {*_BOUND - {"a name bound before"}, "a list", "a tuple", "a partial"},
        {
            "time:clock (added)": 1,
            "concurrent.futures:*Executor (added)": 2,
            "unittest:Isolated* (added)": 1,
            "six*": 2,  # a lazy name, woken by the search
        },
        _GONE,
    ),
    "nest_asyncio": Own({"a name bound before"}, {"asyncio*": 20, "in effect: *": 4}),
    "truststore": Own(_BOUND - {"a default argument"}, {}),
    "otel_requests": Own(
        {"a name bound before", "a method bound before"},
        {},
        [*_GONE, "in effect: Session.send", "in effect: Session.get", "in effect: a subclass"],
    ),
    "responses": Own({"a name bound before", "a method bound before"}, {}, _GONE),
    "gevent": Own(_BOUND, {"queue:*": 4, "time:sleep": 1, "in effect: *": 4}),
    "unsloth": Own(
        {"a name bound before", "a method bound before", "inspect.getsource", "the line in a traceback"},
        {"json.encoder:JSONEncoder.encode": 1, "in effect: *": 1},
    ),
}
TORCH: Final = {
    "transformers": Own({"a name bound before", "a mapping"}, {"late:LlamaMLP": 1, "in effect: *": 1}),
    "accelerate": Own({"the model can be pickled"}, {"model.*.forward (added)": 8}, _GONE),
    "peft": Own(
        set(),
        {
            "model.*.requires_grad: True became False": 11,
            "lm_head.weight.requires_grad: True became False": 1,
            "transformers.conversion_mapping:_checkpoint_conversion_mapping_cache": 1,
        },
    ),
    "onnx_diagnostic": Own(
        {"a name bound before"},
        {"*ForConditionalGeneration.prepare_inputs_for_generation (added)": 1, "masks of its own?'*'? (added)": 2},
    ),
    "liger_kernel": Own({"a name bound before", "a list"}, {"model.*": 29, "transformers*": 3, "in effect: *": 6}),
    "torch_npu": Own({"a name bound before", "a mapping"}, {"torch.cuda*": 104, "in effect: *": 1}),
}
OWN: Final = QUICK | TORCH
# A wrapper of one object's method stays out of the object's copies, and the report says so; accelerate's hook does not.
PORT_LACKS: Final = {"accelerate": ["a copy made inside"]}
pytestmark = pytest.mark.model  # requirements-dev.txt has the collections
collections = pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.ends) for name in TORCH)])


@cache
def measured(name: str) -> Any:
    if name == "liger_kernel":  # not in requirements-dev.txt: the package needs triton, which is larger than the rest
        pytest.importorskip("liger_kernel")
    command = [sys.executable, "-W", "ignore", str(HERE / "measure.py"), name]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)


@collections
def test_the_port_has_every_effect_and_leaves_nothing(name: str) -> None:
    """The port has every effect, but those of ``PORT_LACKS``.

    Afterwards all modules and classes of the process have the same attributes in the same order.
    """
    port = measured(name)["port"]
    assert [effect for effect, holds in port["effect"].items() if not holds] == PORT_LACKS.get(name, [])
    assert port["left"] == []
    assert port.get("covered") in (None, [])


@collections
def test_what_the_collection_itself_does(name: str) -> None:
    """The figures in docs/reference/collections.md about missing effects and leftovers of the collections are true."""
    own = measured(name)["own"]
    assert {effect for effect, holds in own["effect"].items() if not holds} == OWN[name].lacks
    assert (
        Counter(next(as_in for as_in in (*OWN[name].left, line) if fnmatchcase(line, as_in)) for line in own["left"])
        == OWN[name].left
    )
    assert own.get("covered") == OWN[name].covered


@collections
def test_the_port_is_shorter(name: str) -> None:
    """The port has fewer lines that patch, after the same formatting.

    Collections rewritten for this test are not counted.
    """
    figures = measured(name)
    assert figures["own"]["lines"] == 0 or figures["port"]["lines"] < figures["own"]["lines"]


@pytest.mark.ends
def test_the_guard_knows_what_does_not_fit_any_more() -> None:
    """The signature check finds functions of onnx-diagnostic 0.9.3 that do not fit newer transformers and torch."""
    misfits = measured("onnx_diagnostic")["misfits"]
    assert len(misfits) == 12
    assert {"torch:vmap", "transformers.masking_utils:eager_mask"} <= set(misfits)

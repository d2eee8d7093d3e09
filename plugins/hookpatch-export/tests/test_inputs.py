"""The inputs of a capture decide which branches the scan leaves out, and nothing uncertain does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hookpatch_export import Kind, scan
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

Model = Callable[[str], type[torch.nn.Module]]
X = torch.ones(3, 4)
AUTO = torch.export.Dim.AUTO


def found(net: torch.nn.Module, *inputs: Any, **keywords: Any) -> list[tuple[str, int, str]]:
    """Return construct, line and kind of the findings that a value or a size decides, in a capture with inputs."""
    findings = scan(net.eval(), inputs=inputs, keywords=keywords)
    return [(finding.construct, finding.line, str(finding.kind)) for finding in findings if finding.kind >= Kind.SHAPE]


def test_absent_argument_leaves_out_its_branch(model: Model) -> None:
    """A branch for an argument that the capture does not get is left out; torch.export agrees in both cases."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x, mask=None, *, scale=None):
                if mask is not None:
                    if mask.sum() > 0:
                        x = x * mask
                if scale is None or scale.sum() > 0:
                    x = x + 1
                return x
        """
    )()
    assert found(net, X) == []
    torch.export.export(net, (X,))
    assert found(net, X, X) == [("if", 7, "data")]
    assert found(net, x=X, mask=X) == [("if", 7, "data")]
    assert found(net, X, scale=X) == [("if", 9, "data")]
    with pytest.raises(GuardOnDataDependentSymNode):
        torch.export.export(net, (X, X))
    assert [finding.line for finding in scan(net) if finding.kind is Kind.DATA] == [7, 9]


def test_and_with_a_setting_that_is_false_is_false_whatever_the_size_is(model: Model) -> None:
    """``size > 1 and self.causal`` asks the size, but the result is the setting; likewise ``or`` with a true one."""
    net = model(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.causal = False
                self.plain = True

            def forward(self, x):
                causal = x.shape[0] > 1 and self.causal
                if causal and x.sum() > 0:
                    x = x + 1
                easy = x.shape[0] > 1 or self.plain
                if not easy and x.sum() > 0:
                    x = x + 1
                return x
        """
    )()
    assert found(net, X) == [("and", 11, "shape"), ("or", 14, "shape")]
    program = torch.export.export(net, (X,), dynamic_shapes=({0: AUTO},))
    torch.testing.assert_close(program.module()(torch.ones(5, 4)), net(torch.ones(5, 4)))


def test_size_asked_before_a_false_setting_is_found_in_a_condition(model: Model) -> None:
    """``if size > 1 and self.flag`` is asked by the capture, though its body is left out."""
    net = model(
        """
        class Net(nn.Module):
            flag = False

            def forward(self, x):
                if x.shape[0] > 1 and self.flag:
                    return x.sum().item()
                return x
        """
    )()
    assert found(net, X) == [("if", 8, "shape")]


def test_and_with_a_number_keeps_the_number(model: Model) -> None:
    """``size and 0`` may be the size, which is no comparison: the result is not taken for known."""
    net = model(
        """
        class Net(nn.Module):
            zero = 0

            def forward(self, x):
                some = x.sum() and self.zero
                if some is self.zero and x.max() > 1:
                    x = x + 1
                return x
        """
    )()
    assert ("if", 9, "data") in found(net, X)


def test_capture_question_with_a_known_part(model: Model) -> None:
    """``True | question`` is true in all modes, ``False & question`` false."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x):
                asked = True
                asked |= torch.compiler.is_compiling()
                if not asked and x.sum() > 0:
                    x = x + 1
                never = False & torch.jit.is_tracing()
                if never and x.sum() > 0:
                    x = x + 1
                return x
        """
    )()
    assert found(net, X) == []


def test_script_compiles_branches_for_other_inputs(model: Model) -> None:
    """torch.jit.script gets no inputs: a branch that other captures leave out is scanned for script alone."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x, mask: torch.Tensor | None = None):
                if mask is not None:
                    if mask.sum() > 0:
                        x = x * mask
                    return torch.tensor(mask.tolist())
                if x.shape[0] > 2:
                    x = x + 1
                return x
        """
    )()
    findings = {
        (finding.construct, finding.line): (str(finding.kind), [*finding.consequence])
        for finding in scan(net, inputs=(X,))
        if finding.line > 6
    }
    assert findings["if", 7] == ("safe", ["script"])
    assert findings[".tolist()", 9] == ("data", ["script"])
    assert findings["if", 10] == ("shape", ["trace", "script", "export", "onnx"])


def test_number_text_rank_and_length_of_an_input_are_known(model: Model) -> None:
    """A capture fixes numbers, texts, ranks and the number of tensors in a list. Branches by these are left out."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x, parts, options, steps=1, way="sum", keep=False):
                if steps > 2 or way == "max" or x.ndim == 3 or keep:
                    return x.max().item()
                if len(parts) == 3 or "scale" in options:
                    return x.min().item()
                for part in parts:
                    x = x + part
                return x * options["by"]
        """
    )()
    options = {"by": X}
    assert found(net, X, [X, X], options) == []
    assert found(net, X, [X, X], options, 3) == [(".item()", 7, "data")]
    assert found(net, X, [X, X], options, way="max") == [(".item()", 7, "data")]
    assert found(net, X, [X, X], options, keep=True) == [(".item()", 7, "data")]
    assert found(net, X[None], [X, X], options) == [(".item()", 7, "data")]
    assert found(net, X, [X, X, X], options) == [(".item()", 9, "data")]
    assert found(net, X, [X, X], options | {"scale": X}) == [(".item()", 9, "data")]
    torch.export.export(net, (X, [X, X], options))


def test_default_that_decides_is_a_setting(model: Model) -> None:
    """A default that the capture keeps is fixed, and said to be."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x, hard=False):
                if hard:
                    return x.round()
                return x
        """
    )()
    (finding,) = scan(net, inputs=(X,))
    assert (finding.line, finding.kind) == (6, Kind.CONFIG)


def test_inputs_that_do_not_fit_decide_nothing(model: Model) -> None:
    """Inputs that ``forward`` refuses are no knowledge: the scan is that of the module alone."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x, mask=None):
                if mask is not None and mask.sum() > 0:
                    x = x * mask
                return x
        """
    )()
    assert found(net, X, X, X) == [("if", 6, "data")]
    assert found(net, x=X, other=X) == [("if", 6, "data")]


def test_values_of_tensors_decide_nothing(model: Model) -> None:
    """The numbers and sizes of an input tensor differ from call to call, also of one element or none."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x, flag, chosen):
                if flag:
                    x = x + 1
                if x.shape[0] == 3:
                    x = x + 2
                return x[chosen]
        """
    )()
    assert found(net, X, torch.tensor(False), torch.zeros(3, dtype=torch.bool)) == [
        ("if", 6, "data"),
        ("if", 8, "shape"),
        ("[mask]", 10, "data"),
    ]


def test_argument_that_is_replaced_is_not_known(model: Model) -> None:
    """An argument that a branch on a size replaces may be another afterwards."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x, mask=None):
                if x.shape[0] > 2:
                    mask = x > 0
                if mask is not None and mask.all():
                    x = x + 1
                return x
        """
    )()
    assert found(net, X) == [("if", 6, "shape"), ("if", 8, "data")]


@pytest.mark.parametrize(
    "write",
    [
        "self.seen = x",
        "setattr(self, 'seen', x)",
        "self.remember(x)",
        "self.memo.append(x)",
        "self.memo.extend([x])",
        "self.table['seen'] = x",
        "self.table.update(seen=x)",
        "remember(x)",
        "MEMO.append(x)",
        "TABLE['seen'] = x",
    ],
)
def test_state_that_a_call_writes_is_not_known_in_the_next(model: Model, write: str) -> None:
    """A branch on an attribute, list, dict or global is open if ``forward`` changes the object after the branch."""
    net = model(
        f"""
        MEMO, TABLE, LAST = [], {{}}, None

        def remember(x):
            global LAST
            LAST = x

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.seen, self.memo, self.table = None, [], {{}}

            def remember(self, x):
                self.seen = x

            def forward(self, x):
                if (
                    self.seen is not None
                    or self.memo
                    or len(self.table) > 0
                    or 'seen' in TABLE
                    or MEMO
                    or LAST is not None
                ):
                    if x.sum() > 0:
                        x = x + 1
                {write}
                return x
        """
    )
    assert ("if", 27, "data") in found(net(), X)


def test_list_of_a_closure_that_a_call_changes_is_not_known(model: Model) -> None:
    """A list that a decorator keeps is another in the next call."""
    net = model(
        """
        def remembering(function):
            seen = []

            def wrapper(self, x):
                if seen and x.sum() > 0:
                    x = x + 1
                seen.append(x)
                return function(self, x)

            return wrapper

        class Net(nn.Module):
            @remembering
            def forward(self, x):
                return x
        """
    )()
    assert found(net, X) == [("if", 8, "data")]


def test_state_that_no_call_writes_is_known(model: Model) -> None:
    """The same branches are left out if ``forward`` changes nothing."""
    net = model(
        """
        MEMO, TABLE, LAST = [], {}, None

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.seen, self.memo, self.table = None, [], {}

            def forward(self, x):
                if self.seen is not None or self.memo or len(self.table) > 0 or 'seen' in TABLE or MEMO:
                    if x.sum() > 0:
                        x = x + 1
                return x
        """
    )()
    assert found(net, X) == []


def test_attribute_of_a_cache_is_not_known(model: Model) -> None:
    """An object among the inputs, such as a cache, changes between calls: what it holds now decides nothing."""
    net = model(
        """
        class Cache:
            def __init__(self):
                self.keys, self.full, self.count = None, False, 0

            def length(self):
                return 0 if self.keys is None else self.keys.shape[0]

        class Net(nn.Module):
            def forward(self, x, cache=None):
                if cache is not None:
                    if cache.keys is not None and x.sum() > 0:
                        x = x + 1
                    if cache.full and x.max() > 0:
                        x = x + 1
                    if cache.count > 0 and x.min() > 0:
                        x = x + 1
                    if cache.length() > 0 and x.mean() > 0:
                        x = x + 1
                return x
        """
    )
    import net as module

    assert found(net(), X, module.Cache()) == [("if", 14 + 2 * place, "data") for place in range(4)]
    assert found(net(), X) == []


def test_training_flag_is_known_in_eval_mode_alone(model: Model) -> None:
    """A module in training mode may be put into eval mode for the capture; both branches are scanned."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x):
                if self.training:
                    return x.sum().item()
                return x.max().item()
        """
    )()
    assert found(net, X) == [(".item()", 8, "data")]
    findings = scan(net.train(), inputs=(X,))
    assert [finding.line for finding in findings if finding.kind is Kind.DATA] == [7, 8]

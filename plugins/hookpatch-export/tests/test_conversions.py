"""Lines that make a Python number, loop or key of a tensor or a size, each compared with a real capture."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from hookpatch_export import Finding, Kind, scan
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

Model = Callable[[str], type[torch.nn.Module]]
X, LONGER = torch.ones(3, 4), torch.ones(5, 4)
AUTO = torch.export.Dim.AUTO


def found(net: torch.nn.Module) -> list[tuple[str, int, str]]:
    """Return construct, line and kind of the findings that a value or a size decides."""
    return [(finding.construct, finding.line, str(finding.kind)) for finding in findings_of(net)]


def findings_of(net: torch.nn.Module) -> list[Finding]:
    """Return the findings that a value or a size decides."""
    return [finding for finding in scan(net.eval()) if finding.kind >= Kind.SHAPE]


def traced(net: torch.nn.Module, *inputs: torch.Tensor) -> torch.jit.ScriptModule:
    """Return a trace, without the warnings of torch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(net, inputs)


def test_length_of_a_tensor_is_a_constant_in_each_capture(model: Model) -> None:
    """``len(x)`` is the example's number in a trace, and the only size that torch.export allows."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x):
                return x.sum() * len(x)
        """
    )()
    assert found(net) == [("len()", 6, "shape")]
    assert traced(net, X)(LONGER) != net(LONGER)
    program = torch.export.export(net, (X,), dynamic_shapes=({0: AUTO},)).module()
    with pytest.raises(AssertionError, match="Guard failed"):
        program(LONGER)


def test_length_of_a_list_or_a_parameter_is_no_finding(model: Model) -> None:
    """The length of a list written out, and of a parameter, is the same for all inputs."""
    net = model(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(4))

            def forward(self, x):
                parts = [x, x + 1]
                return sum(parts) * len(parts) * len(self.weight)
        """
    )()
    assert found(net) == []


@pytest.mark.parametrize("loop", ["iter(x)", "list(x)", "tuple(x)", "[*x]", "dict(enumerate(x)).values()"])
def test_iterator_over_a_tensor_is_unrolled(model: Model, loop: str) -> None:
    """An iterator or list of a tensor's rows has as many rows as the example."""
    net = model(
        f"""
        class Net(nn.Module):
            def forward(self, x):
                rows = {loop}
                return torch.stack([row * 2 for row in rows])
        """
    )()
    assert ("shape", 6) in [(kind, line) for _, line, kind in found(net)]
    with pytest.raises(RuntimeError, match="Expected 3 elements in a list but found 5"):
        traced(net, X)(LONGER)


def test_iterator_does_not_compile(model: Model) -> None:
    """torch.jit.script refuses ``iter``, and the finding says so, also where script alone reaches the line."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x):
                rows = iter(x)
                return x + next(rows)

        class Scripted(nn.Module):
            def forward(self, x):
                if torch.jit.is_scripting():
                    return next(iter(x))
                return x[0]
        """
    )
    import net as module

    (finding,) = findings_of(net())
    assert (finding.construct, finding.consequence["script"]) == ("iter()", "does not compile")
    (finding,) = findings_of(module.Scripted())
    assert (finding.line, finding.consequence) == (12, {"script": "does not compile"})
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="function iter> is currently not supported"):
        warnings.simplefilter("ignore")
        torch.jit.script(net())


def test_slice_by_a_tensor_is_kept_and_has_an_unknown_size(model: Model) -> None:
    """``x[:, :n]`` with a tensor ``n`` is kept in a trace and an export; a branch on the new size fails."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x, n):
                return x[:, : n.max()]

        class Branch(nn.Module):
            def forward(self, x, n):
                part = x[:, : n.max()]
                return part + 1 if part.shape[1] > 2 else part
        """
    )
    (finding,) = findings_of(net())
    assert (finding.construct, finding.line, finding.kind) == ("[:tensor]", 6, Kind.DATA)
    assert finding.consequence["trace"] == "kept"
    few, many = torch.tensor([1, 2]), torch.tensor([4, 1])
    assert traced(net(), X, few)(X, many).shape == (3, 4)
    assert torch.export.export(net(), (X, few)).module()(X, many).shape == (3, 4)
    import net as module

    assert [line for _, line, kind in found(module.Branch()) if kind == "data"] == [10, 11]
    with pytest.raises(GuardOnDataDependentSymNode):
        torch.export.export(module.Branch(), (X, few))


def test_slice_by_numbers_and_sizes_is_no_finding(model: Model) -> None:
    """A slice by a setting or a size is kept."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x):
                return x[: x.shape[0] // 2, 1:3]
        """
    )()
    assert found(net) == []
    assert traced(net, X)(LONGER).shape == (2, 2)


def test_memo_by_a_size_fails_in_an_export(model: Model) -> None:
    """A size given to a function of functools.lru_cache cannot be hashed in torch.export; a trace is right."""
    net = model(
        """
        import functools

        @functools.lru_cache(maxsize=1)
        def ramp(count: int, by: int):
            return torch.arange(count) * by

        class Net(nn.Module):
            def forward(self, x):
                return x + ramp(x.shape[1], 2)

        class Guarded(nn.Module):
            def forward(self, x):
                if torch.compiler.is_compiling():
                    return x + ramp.__wrapped__(x.shape[1], 2)
                return x + ramp(x.shape[1], 2)

        class Fixed(nn.Module):
            def forward(self, x):
                return x + ramp(4, 2)
        """
    )
    import net as module

    (finding,) = findings_of(net())
    assert (finding.construct, finding.line, finding.kind) == ("lru_cache()", 12, Kind.SHAPE)
    assert finding.consequence == {
        "trace": "kept",
        "script": "called as a Python function: the scripted model cannot be saved",
        "export": "fails, except with strict=True: a size that varies cannot be hashed",
        "onnx": "kept",
    }
    wider = torch.ones(3, 6)
    torch.testing.assert_close(traced(net(), X)(wider), net()(wider))
    with pytest.raises(TypeError, match="unhashable type"):
        torch.export.export(net(), (X,), dynamic_shapes=({1: AUTO},), strict=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strict = torch.export.export(net(), (X,), dynamic_shapes=({1: AUTO},), strict=True).module()
        scripted = torch.jit.script(net())
    torch.testing.assert_close(strict(wider), net()(wider))
    torch.testing.assert_close(scripted(wider), net()(wider))
    with pytest.raises(RuntimeError, match="Could not export Python function call"):
        scripted.save_to_buffer()
    assert found(module.Guarded()) == []
    program = torch.export.export(module.Guarded(), (X,), dynamic_shapes=({1: AUTO},), strict=False).module()
    torch.testing.assert_close(program(wider), module.Guarded()(wider))
    assert found(module.Fixed()) == []


def test_groups_and_keys_made_of_values(model: Model) -> None:
    """``itertools.groupby`` over a tensor's numbers decides by the numbers, and so does a key of a dict."""
    net = model(
        """
        import itertools

        class Net(nn.Module):
            def forward(self, x, kinds):
                parts = {0: x, 1: -x}
                total = x
                for kind, group in itertools.groupby(enumerate(kinds.tolist()), lambda pair: pair[1]):
                    group = list(group)
                    total = total + parts[kind] * group[0][0]
                return total
        """
    )()
    assert found(net) == [
        ("for", 10, "data"),
        (".tolist()", 10, "data"),
        ("list()", 11, "data"),
        ("[index]", 12, "data"),
    ]
    kinds, others = torch.tensor([0, 0, 1]), torch.tensor([1, 0, 1])
    assert not torch.equal(traced(net, X, kinds)(X, others), net(X, others))


def test_keys_made_of_sizes(model: Model) -> None:
    """A dict is asked for keys made of sizes, alone and in a tuple; its values, tensors, decide nothing."""
    net = model(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.known = {}

            def forward(self, x):
                high, wide = x.shape
                if (high, wide) not in self.known:
                    self.known[high, wide] = torch.arange(wide) + x.new_zeros(high, 1)
                if wide in self.known:
                    self.known["last", 1] = x
                rows = [x] * 4
                for place, row in enumerate(x):
                    rows[place] = row
                return self.known[high, wide] + rows[0]
        """
    )()
    assert [finding for finding in found(net) if finding[2] in ("shape", "data")] == [
        ("if", 11, "shape"),
        ("[index]", 12, "shape"),
        ("if", 13, "shape"),
        ("for", 16, "shape"),
        ("[index]", 18, "shape"),
    ]


def test_arguments_bound_by_a_decorator_are_told_apart(model: Model) -> None:
    """A decorator that looks an argument up by ``Signature.bind`` gets the argument, not all of them."""
    net = model(
        """
        import functools, inspect

        def chosen(function):
            signature = inspect.signature(function)

            @functools.wraps(function)
            def wrapper(*args, **keywords):
                bound = signature.bind(*args, **keywords)
                bound.apply_defaults()
                if bound.arguments["layer"] > 1 and bound.arguments["way"] == "mean":
                    return args[1].sum().item()
                if bound.arguments["x"].sum() > 0:
                    return -args[1]
                return function(*args, **keywords)

            return wrapper

        class Net(nn.Module):
            def forward(self, x):
                return self.inner(x, layer=1)

            @chosen
            def inner(self, x, layer, way="mean"):
                return x * layer
        """
    )()
    assert found(net) == [("if", 15, "data")]


def test_list_that_a_hook_fills_holds_tensors(model: Model) -> None:
    """An item of a list that the scan saw empty, or of an attribute that it saw as None, is a tensor as inputs are."""
    net = model(
        """
        class Output:
            def __init__(self):
                self.states = None

        class Net(nn.Module):
            def forward(self, x):
                kept = []
                output = Output()
                return self.rest(x, kept, output)

            def rest(self, x, kept, output):
                hidden(x, kept, output)
                if kept[0].sum() > 0:
                    x = x + 1
                return list(output.states[0])

        hidden = torch.jit.ignore(lambda x, kept, output: kept.append(x) or setattr(output, "states", [x]))
        """
    )()
    assert ("if", 16, "data") in found(net)
    assert ("list()", 18, "shape") in found(net)

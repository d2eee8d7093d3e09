"""The findings of a scan in a model's source."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hookpatch_export import Finding, Kind, scan
from hookpatch_export._values.join import join
from hookpatch_export._values.questions import alternatives
from hookpatch_export._values.value import Known
from hookpatch_export.errors import ModelError
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

Make = Callable[[str, str], ModuleType]


def lines(findings: list[Finding], least: Kind = Kind.CONFIG) -> list[tuple[str, int, str]]:
    """Return construct, line and kind of the findings, from a least kind on."""
    return [(finding.construct, finding.line, str(finding.kind)) for finding in findings if finding.kind >= least]


Model = Callable[[str], type[torch.nn.Module]]


def test_branch_on_a_value_a_size_a_setting_and_none(model: Model) -> None:
    """A condition has the kind of its parts, also when they pass through variables and arithmetic."""
    net = model(
        """
        class Net(nn.Module):
            def __init__(self, flag=True):
                super().__init__()
                self.flag = flag

            def forward(self, x, mask=None):
                b, _ = x.shape
                half = b // 2
                if half > 1:
                    x = x + 1
                if self.flag == True:
                    x = x * 2
                if mask is not None:
                    x = x + mask
                total = x.sum()
                if total > 0 and self.training:
                    x = -x
                return x
        """
    )
    assert lines(scan(net), Kind.SAFE) == [
        ("if", 12, "shape"),
        ("if", 14, "config"),
        ("if", 16, "safe"),
        ("if", 19, "data"),
    ]


def test_finding_says_where_how_one_gets_there_and_what_becomes_of_it(model: Model) -> None:
    """A finding has file, column, source line, route from forward, consequence by mode and the remedy."""
    net = model(
        """
        class Part(nn.Module):
            def forward(self, x):
                return (x if x.numel() > 3
                        else -x)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = nn.ModuleList([Part() for _ in range(2)])

            def forward(self, x):
                for part in self.parts:
                    x = part(x)
                return x
        """
    )
    for subject in (net, net()):
        (finding,) = [candidate for candidate in scan(subject) if candidate.kind >= Kind.CONFIG]
        place = (finding.file.name, finding.line, finding.column, finding.end_line, finding.end_column)
        assert place == ("net.py", 6, 17, 7, 24)
        assert finding.source == "return (x if x.numel() > 3"
        assert finding.route == ("Net.forward", "Part.forward")
        assert list(finding.consequence) == ["trace", "script", "export", "onnx"]
        assert "frozen" in finding.consequence["trace"]
        assert "torch.cond" in finding.instead


def test_findings_come_by_their_shortest_way_the_nearest_first(model: Model) -> None:
    """Findings come in order of call depth, each with the shortest route on which the line has the worst kind."""
    net = model(
        """
        def deep(x, n):
            return x if n > 1 else -x

        def between(x):
            return deep(x, x.shape[0])

        def far(x):
            x = between(x)
            return x if x.shape[1] > 2 else -x

        class Net(nn.Module):
            def forward(self, x):
                x = deep(x, 3)
                x = far(x)
                x = between(x)
                return x if x.shape[0] > 2 else -x
        """
    )
    assert [(finding.line, finding.route) for finding in scan(net) if finding.kind is Kind.SHAPE] == [
        (19, ("Net.forward",)),
        (12, ("Net.forward", "far")),
        (5, ("Net.forward", "between", "deep")),
    ]


@pytest.mark.parametrize("argument", [int, 3, torch.relu], ids=["a class", "a number", "a function"])
def test_no_module_is_an_error(argument: object) -> None:
    """An argument that is no module is refused, with an error about the argument."""
    with pytest.raises(ModelError, match=r"is no torch\.nn\.Module; name a class of modules, a module, or a function"):
        scan(argument)


def test_module_without_forward_is_said(model: Model) -> None:
    """A module without a forward method gives a finding at its class."""
    (finding,) = scan(model("class Net(nn.Module):\n    pass\n"))
    assert (finding.kind, finding.line, finding.source) == (Kind.NOT_READ, 4, "class Net(nn.Module):")
    assert finding.construct == "Net.forward(): the class has none of its own"


def test_what_cannot_be_read_is_said(write_module: Callable[[str, str], Path], model: Model, tmp_path: Path) -> None:
    """Code made by exec, a C extension, recursion, a broken file and a file outside of the root are reported."""
    broken = write_module("broken", "def broken(x):\n    return x\n")
    net = model(
        """
        import broken
        import numpy

        space = {}
        exec("def made(x):\\n    return x", space)

        def again(x, n):
            return x if n == 0 else again(x, n - 1)

        class Net(nn.Module):
            def forward(self, x):
                x = space["made"](x)
                x = again(x, x.shape[0])
                x = broken.broken(x)
                return numpy.sqrt(x)
        """
    )
    broken.write_text("def broken(x:\n")
    version = ".".join(map(str, sys.version_info[:2]))
    unread = [(finding.construct, finding.line) for finding in scan(net) if finding.kind is Kind.NOT_READ]
    assert unread == [
        ("made(): it was made by exec and has no file", 15),
        (f"broken(): broken.py:1 is no Python {version}: '(' was never closed", 17),
        ("again(): the function calls itself; the scan read its body, and does not know the result", 11),
    ]
    assert ("numpy.sqrt()", 18, "data") in lines(scan(net))
    (outside,) = scan(net, root=tmp_path / "elsewhere")
    assert (outside.kind, outside.line) == (Kind.NOT_READ, 13)
    assert outside.construct == f"Net.forward(): net.py is outside of {tmp_path / 'elsewhere'}"


TILES = """
import torch

def halves(x):
    return cut(x, 2)

def cut(x, n):
    return x if x.shape[0] % n else -x

def version():
    return (1, 0)

class Tile:
    def __init__(self, x):
        self.x = x

class Layer(torch.nn.Module):
    def forward(self, x):
        return halves(x)
"""


def test_call_of_another_distribution_is_said(folder: Path, make_module: Make) -> None:
    """Third-party calls in the model's own code are reported, with findings. A submodule's library is own code."""
    (folder / "tiles.py").write_text(TILES)
    info = folder / "tiles-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiles\nVersion: 1.0\n")
    net = make_module(
        "net",
        """
        import numpy
        import tiles
        import torch
        from networkx.utils import flatten

        class Net(torch.nn.Module):
            def forward(self, x):
                x = tiles.halves(x)
                x = tiles.Tile(x).x
                x = torch.stack(flatten([x, x]))
                if tiles.version() > (0, 1):
                    x = x * float(numpy.prod(x.shape))
                return x

        class Whole(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = tiles.Layer()

            def forward(self, x):
                return tiles.halves(self.layer(x))
        """,
    )
    assert lines(scan(net.Net)) == [
        ("third-party tiles.halves()", 9, "call"),
        ("third-party tiles.Tile()", 10, "call"),
        ("third-party networkx.utils.misc.flatten()", 11, "call"),
        ("third-party tiles.version()", 12, "config"),
        ("float()", 13, "shape"),
        ("numpy.prod()", 13, "shape"),
        ("... if ... else ...", 8, "shape"),
    ]
    calls = [(finding.construct, finding.line) for finding in scan(net.Whole()) if finding.kind >= Kind.CALL]
    assert calls == [("... if ... else ...", 8)]


def test_function_behind_a_decorator_is_read_or_said(model: Model) -> None:
    """A decorated function is read through a callable object or a cache. A function without source is reported."""
    net = model(
        """
        import functools
        import numpy

        class Timed:
            def __init__(self, function):
                self.function = function

            def __call__(self, x):
                return self.function(x)

        @Timed
        def timed(x):
            return x if x.shape[0] > 1 else -x

        @functools.lru_cache
        def cached(n):
            return 1 if n > 2 else 2

        @functools.partial(numpy.frompyfunc, nin=1, nout=1)
        def hidden(x):
            return x if x > 1 else -x

        class Net(nn.Module):
            def forward(self, x):
                return hidden(timed(x)) * cached(x.shape[1])
        """
    )
    assert lines(scan(net), Kind.CALL) == [
        ("hidden (vectorized)()", 28, "data"),
        ("lru_cache()", 28, "shape"),
        ("... if ... else ...", 20, "shape"),
        ("... if ... else ...", 16, "shape"),
    ]


def test_tensor_made_of_sizes_hangs_on_sizes(model: Model) -> None:
    """A tensor made of sizes has kind shape, mixed with input kind data. torch.export fails on a decision by sizes."""
    net = model(
        """
        class Net(nn.Module):
            def forward(self, x):
                least = torch.min(torch.tensor(x.shape))
                if least % 2 > 0:
                    x = x + 1
                if (least * x).sum() > 0:
                    x = x + 1
                return x
        """
    )
    findings = scan(net)
    assert [row for row in lines(findings, Kind.SHAPE) if row[0] == "if"] == [("if", 7, "shape"), ("if", 9, "data")]
    least = next(finding for finding in findings if finding.line == 7 and finding.construct == "if")
    assert least.consequence["trace"].startswith("frozen: the branch of the example's sizes")
    assert least.consequence["export"].startswith("fails")
    with pytest.raises(GuardOnDataDependentSymNode):
        torch.export.export(net(), (torch.ones(4, 3),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))


def test_first_items_are_known_where_the_number_is_not(model: Model) -> None:
    """Items before a part of unknown length keep their kind. The length and the last item are of kind data."""
    net = model(
        """
        def parts(x):
            rest = x[x > 0]
            return (x, rest) if x.sum() > 0 else (x,)

        class Net(nn.Module):
            def forward(self, x):
                given = (-x,) + parts(x)
                first, second, *_ = given
                if given[1].shape[0] > 2:
                    x = x + 1
                if second.shape[0] > 2:
                    x = x + 1
                if given[-1].shape[0] > 2:
                    x = x + 1
                if len(given) > 2:
                    x = x + 1
                return x
        """
    )
    assert [row for row in lines(scan(net), Kind.SHAPE) if row[0] == "if"] == [
        ("if", 12, "shape"),
        ("if", 14, "shape"),
        ("if", 16, "data"),
        ("if", 18, "data"),
    ]


def test_scan_is_the_same_each_time() -> None:
    """A value's alternatives keep the order of their first join, independent of the objects' addresses."""
    objects = [Known(object()) for _ in range(7)]
    for values in (objects, objects[::-1]):
        assert list(alternatives(join(values))) == values
    assert join(objects) == join(objects[::-1])

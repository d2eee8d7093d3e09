"""Syntax that TorchScript does not support: the note on the error, and a check of the mend."""

import contextlib

import pytest
import torch
from failing import Case, Cases, mended, noted
from torch import nn

pytestmark = pytest.mark.model
cases = Cases()

SPLAT = "TorchScript needs each by its name"
WITH = (
    "put the with around the call of the model, or into a method marked with @torch.jit.ignore; TorchScript has "
    "torch.no_grad and torch.autocast, and classes of your own that it can compile"
)
count = 0


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])


@cases.fails(
    "StarredName.forward: a list is assigned to names with a star, and TorchScript does not know the length of the "
    "list when compiling",
    "take the elements by index: items = x.unbind(0); first, rest = items[0], items[1:]",
)
class StarredName(nn.Module):
    def forward(self, x):
        first, *rest = x.unbind(0)  # at
        return first + rest[0]


@cases.mended()
class StarredNameMended(nn.Module):
    def forward(self, x):
        items = x.unbind(0)
        first, rest = items[0], items[1:]
        return first + rest[0]


@cases.fails(
    f"AnyNumber.forward: *args takes any number of arguments, and {SPLAT}",
    "write each argument by its name, or take a list: args: List[Tensor]",
)
class AnyNumber(Layers):
    def forward(self, *args):  # at
        return args[0]


@cases.mended([torch.ones(2)])
class AnyNumberMended(Layers):
    def forward(self, args: list[torch.Tensor]):
        return args[0]


@cases.fails(
    f"AnyName.forward: **options takes arguments by any name, and {SPLAT}",
    "write each argument by its name, with a default",
)
class AnyName(Layers):
    def forward(self, x, **options):  # at
        return x


@cases.mended()
class AnyNameMended(Layers):
    def forward(self, x, scale: float = 1.0):
        return x * scale


@cases.fails(
    "KeywordOnly.forward: a keyword-only argument has a default (2), which TorchScript does not take",
    "take the * out of the parameters",
)
class KeywordOnly(Layers):
    def forward(self, x, *, n: int = 2):  # at
        return x + n


@cases.mended()
class KeywordOnlyMended(Layers):
    def forward(self, x, n: int = 2):
        return x + n


@cases.fails(
    "FormattedText.forward: an f-string has no formats or conversions in TorchScript",
    "use the plain form {value}, or '...'.format(value)",
)
class FormattedText(Layers):
    def forward(self, x):
        text = f"{x.size(0):>3}"  # at
        return x + len(text)


@cases.mended()
class FormattedTextMended(Layers):
    def forward(self, x):
        text = f"{x.size(0)}"
        return x + len(text)


@cases.fails(
    "Lambda.forward: TorchScript has no lambda",
    "write a function with def at the top of the module, and call it; TorchScript passes no function on: sort "
    "with torch.argsort, and find a greatest value in a for loop",
)
class Lambda(Layers):
    def forward(self, x):
        return (lambda y: y + 1)(x)  # at


def one_more(x):
    return x + 1


@cases.mended()
class LambdaMended(Layers):
    def forward(self, x):
        return one_more(x)


@cases.fails(
    "Generator.forward: sum adds up numbers in TorchScript, not a list of tensors",
    "add the tensors in a for loop, or stack the list: torch.stack([...]).sum(0)",
)
class Generator(Layers):
    def forward(self, x):
        return sum(value for value in [x, x])  # at


@cases.mended()
class GeneratorMended(Layers):
    def forward(self, x):
        return torch.stack([x, x]).sum(0)


@cases.fails(
    "Try.forward: TorchScript has no try",
    "test for the condition with if, or move the code into a method marked with @torch.jit.ignore",
)
class Try(Layers):
    def forward(self, x):
        try:  # at
            return x.view(4)
        except RuntimeError:
            return x


@cases.mended()
class TryMended(Layers):
    def forward(self, x):
        if x.numel() == 4:
            return x.view(4)
        return x


@cases.fails("With.forward: TorchScript compiles the context manager contextlib.suppress, and cannot", WITH)
class With(Layers):
    def forward(self, x):
        with contextlib.suppress(RuntimeError):  # at
            x = x + 1
        return x


@cases.mended()
class WithMended(Layers):
    def forward(self, x):
        with torch.no_grad():
            x = x + 1
        with torch.autocast("cpu", enabled=False):
            x = x + 1
        return x


@cases.fails("WithGenerator.forward: TorchScript compiles the context manager torch.random.fork_rng, and cannot", WITH)
class WithGenerator(Layers):
    def forward(self, x):
        with torch.random.fork_rng():  # at
            x = x + 1
        return x


@cases.mended()
class WithGeneratorMended(Layers):
    @torch.jit.ignore
    def add(self, x: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng():
            return x + 1

    def forward(self, x):
        return self.add(x)


@cases.fails("Global.forward: TorchScript has no global", "keep the value in an attribute of the module (self.name)")
class Global(Layers):
    def forward(self, x):
        global count  # at
        count += 1
        return x


@cases.mended()
class GlobalMended(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1
        return x


@cases.fails(
    "attribute linear of Deleted: del removes no attribute in TorchScript",
    "keep the attribute",
    Layers.__init__,
)
class Deleted(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)  # set

    def forward(self, x):
        del self.linear  # at
        return x


@cases.mended()
class DeletedMended(Layers):
    def forward(self, x):
        return x


@cases.fails("Yield.forward: TorchScript has no generators", "collect the values in a list, and return the list")
class Yield(Layers):
    def forward(self, x):
        yield x  # at


@cases.mended()
class YieldMended(Layers):
    def forward(self, x):
        collected = []
        collected.append(x)
        return collected


@cases.fails(
    "StarredCall.forward: a list is unpacked, and TorchScript does not know the length of the list when compiling",
    "pass the list itself, if the function takes a list; or pass the elements: sizes[0], sizes[1]",
)
class StarredCall(Layers):
    def forward(self, x):
        sizes = [1, 4]
        return x.view(*sizes)  # at


@cases.mended()
class StarredCallMended(Layers):
    def forward(self, x):
        sizes = [1, 4]
        return x.view(sizes)


@cases.fails("DoublyStarredCall.forward: a call cannot unpack a dict", "give the arguments by name")
class DoublyStarredCall(Layers):
    def forward(self, x):
        options = {"dim": 1}
        return x.sum(**options)  # at


@cases.mended()
class DoublyStarredCallMended(Layers):
    def forward(self, x):
        return x.sum(dim=1)


@cases.fails("SetLiteral.forward: TorchScript has no sets", "use a list or the keys of a dict")
class SetLiteral(Layers):
    def forward(self, x):
        return x + len({1, 2})  # at


@cases.mended()
class SetLiteralMended(Layers):
    def forward(self, x):
        return x + len([1, 2])


@cases.fails("Walrus.forward: TorchScript has no :=", "assign the value in the line before")
class Walrus(Layers):
    def forward(self, x):
        if (n := x.size(0)) > 1:  # at
            return x + n
        return x


@cases.mended()
class WalrusMended(Layers):
    def forward(self, x):
        n = x.size(0)
        if n > 1:
            return x + n
        return x


@cases.fails("Match.forward: TorchScript has no match", "write if, elif and else")
class Match(Layers):
    def forward(self, x):
        match x.dim():  # at
            case 1:
                return x
        return x + 1


@cases.mended()
class MatchMended(Layers):
    def forward(self, x):
        if x.dim() == 1:
            return x
        return x + 1


@cases.fails("Inner.forward: TorchScript has no functions in functions", "define the function at the top of the module")
class Inner(Layers):
    def forward(self, x):
        def inner(y):  # at
            return y + 1

        return inner(x)


@cases.mended()
class InnerMended(Layers):
    def forward(self, x):
        return one_more(x)


@cases.fails("LateImport.forward: TorchScript has no imports in functions", "import at the top of the module")
class LateImport(Layers):
    def forward(self, x):
        import math  # at

        return x * math.sqrt(4.0)


@cases.mended()
class LateImportMended(Layers):
    def forward(self, x):
        return x * torch.sqrt(torch.tensor(4.0))


@cases.fails(
    "Filtered.forward: a comprehension has no if in TorchScript",
    "write a for loop",
)
class Filtered(Layers):
    def forward(self, x):
        return [layer(x) for layer in self.layers if True]  # at


@cases.mended()
class FilteredMended(Layers):
    def forward(self, x):
        results = []
        for layer in self.layers:
            results.append(layer(x))  # noqa: PERF401 - the mend is a loop
        return results


@cases.fails("LoopElse.forward: a loop has no else in TorchScript", "set a bool in the loop, and write an if behind it")
class LoopElse(Layers):
    def forward(self, x):
        n = 0
        while n < 3:  # at
            n += 1
        else:
            x = x + 1
        return x


@cases.mended()
class LoopElseMended(Layers):
    def forward(self, x):
        n, ended = 0, False
        while n < 3:
            n += 1
            ended = n == 3
        if ended:
            x = x + 1
        return x


@cases.fails(
    "DecoratedForward.forward: **options takes arguments by any name, and TorchScript needs each by its name",
    "write each argument by its name, with a default",
)
class DecoratedForward(Layers):
    """Torch names the file of the decorator (torch/utils/_contextlib.py), but the line of the model's file."""

    @torch.no_grad()
    def forward(self, x, **options):  # at
        return x


@cases.mended()
class DecoratedForwardMended(Layers):
    @torch.no_grad()
    def forward(self, x, scale: float = 1.0):
        return x * scale


@pytest.mark.parametrize("case", cases, ids=cases.names)
def test_note_names_the_line_and_the_mend(case: Case) -> None:
    """The note has the method, the problem, the line in the right file, and the mend."""
    assert noted(case) == case.note()


@pytest.mark.parametrize("case", cases, ids=cases.names)
def test_mend_mends(case: Case) -> None:
    """With the mend in the note, the model is scripted, and answers as in eager mode."""
    eager, scripted = mended(case)
    torch.testing.assert_close(scripted, eager)

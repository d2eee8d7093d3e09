"""Values of another type than TorchScript assumes: the note on the error, and a check of the mend."""

from typing import Union

import pytest
import torch
from failing import Case, Cases, mended, noted
from torch import Tensor, nn

pytestmark = pytest.mark.model
cases = Cases()


class Linears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)  # set
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        self.named = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})

    def forward(self, x):
        return self.linear(x)


@cases.fails(
    "Backwards.forward: reversed takes no ModuleList in TorchScript",
    "make a second list in __init__, nn.ModuleList(reversed(...)), and loop over the second list",
)
class Backwards(Linears):
    def forward(self, x):
        for layer in reversed(self.layers):  # at
            x = layer(x)
        return x


@cases.mended()
class BackwardsMended(Linears):
    def __init__(self) -> None:
        super().__init__()
        self.backwards = nn.ModuleList(reversed(self.layers))

    def forward(self, x):
        for layer in self.backwards:
            x = layer(x)
        return x


@cases.fails(
    "Columns.forward: TorchScript takes no tensor or list of indices behind ...",
    "select by the axis: value.index_select(-1, index) for value[..., index], where index is a tensor of one axis",
)
class Columns(nn.Module):
    def forward(self, x):
        return x[..., [1, 0]] + 1  # at


@cases.mended()
class ColumnsMended(nn.Module):
    def forward(self, x):
        return x.index_select(-1, torch.tensor([1, 0])) + 1


@cases.fails(
    "Listed.forward: tolist() gives a type that TorchScript cannot infer",
    "annotate the result: values: List[float] = value.tolist(), or List[List[float]] for two axes",
)
class Listed(nn.Module):
    def forward(self, x):
        return x * max(x[0].tolist())  # at


@cases.mended()
class ListedMended(nn.Module):
    def forward(self, x):
        values: list[float] = x[0].tolist()
        return x * max(values)


@cases.fails(
    "AnyOfTensors.forward: any takes no list of tensors in TorchScript",
    "give a list of bools: any([bool(...) for ...])",
)
class AnyOfTensors(nn.Module):
    def forward(self, x):
        return x if any(row.sum() > 3 for row in x) else x + 1  # at


@cases.mended()
class AnyOfTensorsMended(nn.Module):
    def forward(self, x):
        return x if any([bool(row.sum() > 3) for row in x]) else x + 1  # noqa: C419  # TorchScript has no generators


@cases.fails(
    "PoppedDefault.forward: pop takes a default of the type of the values in TorchScript, not None",
    "give a default of that type, or test for the key first",
)
class PoppedDefault(nn.Module):
    def forward(self, x):
        parts = {"a": x}
        return parts.pop("a", None) + 1  # at


@cases.mended()
class PoppedDefaultMended(nn.Module):
    def forward(self, x):
        parts = {"a": x}
        return parts.pop("a", x) + 1


@cases.fails(
    "OptionalArgument.forward: mask may be None here (Optional[Tensor])",
    "test for None first: if mask is not None: ...",
)
class OptionalArgument(nn.Module):
    def forward(self, x, mask: Tensor | None = None):
        return x + mask  # at


@cases.mended()
class OptionalArgumentMended(nn.Module):
    def forward(self, x, mask: Tensor | None = None):
        if mask is not None:
            return x + mask
        return x


@cases.fails(
    "attribute mask of OptionalAttribute: self.mask may be None here (Optional[Tensor]); TorchScript forgets a test of "
    "an attribute",
    "assign the attribute to a local variable, and test the variable: mask = self.mask; if mask is not None: ...",
)
class OptionalAttribute(nn.Module):
    mask: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.mask = None  # set

    def forward(self, x):
        if self.mask is not None:
            return x + self.mask  # at
        return x


@cases.mended()
class OptionalAttributeMended(OptionalAttribute):
    def forward(self, x):
        mask = self.mask
        if mask is not None:
            return x + mask
        return x


@cases.fails(
    "UnionArgument.forward: y may be of several types here (Union[Tensor, int])",
    "test the type first: if isinstance(y, Tensor): ... else: ...",
)
class UnionArgument(nn.Module):
    def forward(self, x, y: Union[Tensor, int]):  # noqa: UP007 - as old models write it
        return x + y  # at


@cases.mended(torch.ones(2), 3)
class UnionArgumentMended(nn.Module):
    def forward(self, x, y: Union[Tensor, int]):  # noqa: UP007 - as old models write it
        if isinstance(y, Tensor):  # noqa: SIM108 - an expression would have two types
            x = x + y
        else:
            x = x + y
        return x


@cases.fails(
    "RangeOfArgument.forward: the argument n is not annotated and counts as a Tensor in TorchScript; range takes ints",
    "annotate the argument: n: int",
)
class RangeOfArgument(nn.Module):
    def forward(self, x, n):
        for _ in range(n):  # at
            x = x + 1
        return x


@cases.mended(torch.ones(2), 3)
class RangeOfArgumentMended(nn.Module):
    def forward(self, x, n: int):
        for _ in range(n):
            x = x + 1
        return x


@cases.fails(
    "IntToHelper.forward: the argument n of add is not annotated and counts as a Tensor in TorchScript; the call "
    "passes: int",
    "annotate the argument in the definition of add: n: int",
)
class IntToHelper(nn.Module):
    def forward(self, x):
        return self.add(x, 3)  # at

    def add(self, x, n):
        return x + n


@cases.mended()
class IntToHelperMended(IntToHelper):
    def add(self, x, n: int):
        return x + n


@cases.fails(
    "IgnoredReturns.forward: times has no return annotation, and the result counts as a Tensor in TorchScript; range "
    "takes ints",
    "annotate the definition: def times(...) -> int",
)
class IgnoredReturns(nn.Module):
    @torch.jit.ignore
    def times(self, x):
        return 3

    def forward(self, x):
        for _ in range(self.times(x)):  # at
            x = x + 1
        return x


@cases.mended()
class IgnoredReturnsMended(IgnoredReturns):
    @torch.jit.ignore
    def times(self, x) -> int:
        return 3


@cases.fails(
    "TypesReturned.forward: the function returns a value of type int here and of type Tensor elsewhere",
    "return a single type; or annotate the result: -> Union[Tensor, int]",
)
class TypesReturned(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return 1  # at


@cases.mended()
class TypesReturnedMended(nn.Module):
    def forward(self, x) -> Union[Tensor, int]:  # noqa: UP007 - as the note writes it
        if x.sum() > 0:
            return x
        return 1


@cases.fails(
    "OneBranch.forward: y is not assigned in the false branch, and used after the if", "assign a value before the if"
)
class OneBranch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # at
            y = x
        return y


@cases.mended()
class OneBranchMended(nn.Module):
    def forward(self, x):
        y = x + 1
        if x.sum() > 0:
            y = x
        return y


@cases.fails(
    "TypePerBranch.forward: y is of type Tensor in the true branch and of type int in the false branch",
    "assign the same type in both branches; or annotate the name before the if: y: Union[Tensor, int]",
)
class TypePerBranch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # noqa: SIM108 - an expression would fail otherwise  # at
            y = x
        else:
            y = 1
        return y


@cases.mended()
class TypePerBranchMended(nn.Module):
    def forward(self, x):
        y: Union[Tensor, int] = 1  # noqa: UP007 - as the note writes it
        if x.sum() > 0:
            y = x
        return y


@cases.fails(
    "Reassigned.forward: x is of type Tensor; here a value of type int is assigned",
    "use another name, or annotate the first assignment: x: Union[Tensor, int]",
)
class Reassigned(nn.Module):
    def forward(self, x):
        for _ in range(2):
            x = x.size(0)  # at
        return x


@cases.mended()
class ReassignedMended(nn.Module):
    def forward(self, x):
        n = 0
        for _ in range(2):
            n = x.size(0)
        return n


@cases.fails(
    "WrongPromise.forward: the annotation promises the type str, and the function returns Tensor",
    "correct the annotation or the result",
)
class WrongPromise(nn.Module):
    def forward(self, x) -> str:
        return x  # at


@cases.mended()
class WrongPromiseMended(nn.Module):
    def forward(self, x) -> Tensor:
        return x


@cases.fails(
    "attribute layers of ListByVariable: a ModuleList or Sequential is indexed by a variable; each module in the "
    "container has its own type",
    "go through the container: for each, layer in enumerate(self.layers): if each == i: ...",
)
class ListByVariable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])  # set

    def forward(self, x, i: int):
        return self.layers[i](x)  # at


@cases.mended(torch.ones(2, 2), 1)
class ListByVariableMended(ListByVariable):
    def forward(self, x, i: int):
        for position, layer in enumerate(self.layers):
            if position == i:
                x = layer(x)
        return x


@cases.fails(
    "attribute layers of DictByVariable: a ModuleDict is indexed by a variable; each module in the container has "
    "its own type",
    "go through the container: for each, layer in self.layers.items(): if each == key: ...",
)
class DictByVariable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})  # set

    def forward(self, x, key: str):
        return self.layers[key](x)  # at


@cases.mended(torch.ones(2, 2), "b")
class DictByVariableMended(DictByVariable):
    def forward(self, x, key: str):
        for name, layer in self.layers.items():
            if name == key:
                x = layer(x)
        return x


@cases.fails(
    "ZippedTuple.forward: a tuple is zipped with a value whose length TorchScript does not know when compiling",
    "write the tuple as a list, with values of one type",
)
class ZippedTuple(nn.Module):
    def forward(self, xs: list[Tensor]):
        return torch.stack([x * weight for x, weight in zip(xs, (1.0, 2.0))])  # noqa: B905 - as above  # at


@cases.mended([torch.ones(2, 2), torch.ones(2, 2)])
class ZippedTupleMended(nn.Module):
    def forward(self, xs: list[Tensor]):
        return torch.stack([x * weight for x, weight in zip(xs, [1.0, 2.0])])  # noqa: B905 - as above


@cases.fails(
    "attribute layers of SlicedByVariable: a ModuleList or a tuple is sliced by a variable; each element in the "
    "container has its own type",
    "go through the container: for each, layer in enumerate(self.layers): if each is in the slice: ...",
    inside="SlicedByVariable.forward",
)
class SlicedByVariable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])  # set

    def forward(self, x, count: int):
        for layer in self.layers[:count]:  # at
            x = layer(x)
        return x


@cases.mended(torch.ones(2, 2), 1)
class SlicedByVariableMended(Linears):
    def forward(self, x, count: int):
        for each, layer in enumerate(self.layers):
            if each < count:
                x = layer(x)
        return x


@cases.fails(
    "DictOfTwoTypes.forward: the dict holds values of type Tensor, and a value of type int is put into the dict",
    "keep values of type int in a dict of their own, or in names; a dict has one type of value",
)
class DictOfTwoTypes(nn.Module):
    def forward(self, x):
        parts = {}
        parts["sum"] = x.sum(0)
        parts["count"] = x.shape[0]  # at
        return parts["sum"] / parts["count"]


@cases.mended()
class DictOfTwoTypesMended(nn.Module):
    def forward(self, x):
        parts = {}
        parts["sum"] = x.sum(0)
        count = x.shape[0]
        return parts["sum"] / count


@cases.fails(
    "ZippedModules.forward: modules are zipped with a list, and TorchScript does not know the length of the list "
    "when compiling",
    "go through the modules with enumerate, and index the list",
)
class ZippedModules(Linears):
    def forward(self, xs: list[Tensor]):
        total = xs[0]
        for _, (layer, x) in enumerate(zip(self.layers, xs)):  # noqa: B905 - TorchScript knows no strict  # at
            total = total + layer(x)
        return total


@cases.mended([torch.ones(2, 2), torch.ones(2, 2)])
class ZippedModulesMended(Linears):
    def forward(self, xs: list[Tensor]):
        total = xs[0]
        for position, layer in enumerate(self.layers):
            total = total + layer(xs[position])
        return total


@cases.fails(
    "attribute pair of TupleByVariable: a tuple of several types (Tuple[int, str]) is indexed by a variable",
    "index the tuple by a literal number; or use a list of values of the same type",
)
class TupleByVariable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pair = (1, "a")  # set

    def forward(self, x, i: int):
        return x + self.pair[i]  # at


@cases.mended(torch.ones(2), 1)
class TupleByVariableMended(TupleByVariable):
    def forward(self, x, i: int):
        return x + self.pair[0]


@cases.fails(
    "TextForTensor.forward: in torch.relu a value of type str stands where Tensor is expected (the argument self)",
    "pass a value of that type, or annotate the source of the value: a name without annotation counts as a Tensor",
)
class TextForTensor(nn.Module):
    def forward(self, x: str):
        return torch.relu(x)  # at


@cases.mended()
class TextForTensorMended(nn.Module):
    def forward(self, x: Tensor):
        return torch.relu(x)


@cases.fails(
    "UnpackedArgument.forward: sizes is not annotated and counts as a Tensor in TorchScript; a Tensor cannot be "
    "unpacked",
    "annotate the name with the types of the elements: sizes: List[int], or Tuple[int, int]",
)
class UnpackedArgument(nn.Module):
    def forward(self, x, sizes):
        rows, columns = sizes  # at
        return x.view(rows, columns)


@cases.mended(torch.ones(2, 2), [1, 4])
class UnpackedArgumentMended(nn.Module):
    def forward(self, x, sizes: list[int]):
        rows, columns = sizes
        return x.view(rows, columns)


@cases.fails(
    "EmptyLocal.forward: TorchScript takes an empty list for a list of Tensors; here a value of type int is added",
    "annotate the first assignment: List[int] = []",
)
class EmptyLocal(nn.Module):
    def forward(self, x):
        sizes = []
        sizes.append(x.size(0))  # at
        return sizes


@cases.mended()
class EmptyLocalMended(nn.Module):
    def forward(self, x):
        sizes: list[int] = []
        sizes.append(x.size(0))
        return sizes


@cases.fails(
    "SharedDefault.forward: the default of sizes is a list, which all calls would share",
    "make the default None, annotate it as Optional, and make the list in the body",
)
class SharedDefault(nn.Module):
    def forward(self, x, sizes: list[int] = [4]):  # noqa: B006 - the tested default  # at
        return x.view(sizes)


@cases.mended()
class SharedDefaultMended(nn.Module):
    def forward(self, x, sizes: list[int] | None = None):
        if sizes is None:
            sizes = [4]
        return x.view(sizes)


@cases.fails(
    "attribute linear of TooMany: self.linear takes at most 2 arguments with self, and gets 3",
    "pass as many arguments as the definition takes",
    Linears,
)
class TooMany(Linears):
    def forward(self, x):
        return self.linear(x, x)  # at


@cases.mended()
class TooManyMended(Linears):
    pass


@cases.fails("UnknownKeyword.forward: torch.relu has no argument fast in TorchScript", "leave the argument out")
class UnknownKeyword(nn.Module):
    def forward(self, x):
        return torch.relu(x, fast=True)  # at


@cases.mended()
class UnknownKeywordMended(nn.Module):
    def forward(self, x):
        return torch.relu(x)


@pytest.mark.parametrize("case", cases, ids=cases.names)
def test_note_names_the_line_and_the_mend(case: Case) -> None:
    """The note has the method or attribute, the problem, the line, the mend, and the calling line."""
    assert noted(case) == case.note()


@pytest.mark.parametrize("case", cases, ids=cases.names)
def test_mend_mends(case: Case) -> None:
    """With the mend in the note, the model is scripted, and answers as in eager mode."""
    eager, scripted = mended(case)
    torch.testing.assert_close(scripted, eager)

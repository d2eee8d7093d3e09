"""Values of another type than TorchScript takes them to have, and unknown names: what the note says."""

from typing import Any, Union

import numpy
import pytest
import torch
from failing import Case, Cases, mended, noted
from torch import Tensor, nn

pytestmark = pytest.mark.model
cases = Cases()

FACTOR = 2


class Linears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])  # list
        self.named = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})  # dict

    def forward(self, x):
        return self.linear(x)


@cases.fails(
    "OptionalArgument.forward: mask may be None here (Optional[Tensor])", "test it first: if mask is not None: ..."
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
    "assign it to a local variable, and test that: mask = self.mask; if mask is not None: ...",
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
    "test it first: if isinstance(y, Tensor): ... else: ...",
)
class UnionArgument(nn.Module):
    def forward(self, x, y: Union[Tensor, int]):  # noqa: UP007 - as old models write it
        return x + y  # at


@cases.mended(torch.ones(2), 3)
class UnionArgumentMended(nn.Module):
    def forward(self, x, y: Union[Tensor, int]):  # noqa: UP007 - as old models write it
        if isinstance(y, Tensor):  # noqa: SIM108 - one expression would be of two types
            x = x + y
        else:
            x = x + y
        return x


@cases.fails(
    "RangeOfArgument.forward: the argument n is not annotated, so TorchScript takes it for a Tensor; range takes ints",
    "annotate it: n: int",
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
    "IntToHelper.forward: the argument n of add is not annotated, so TorchScript takes it for a Tensor; it gets: int",
    "annotate it where add is defined: n: int",
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
    "IgnoredReturns.forward: times says nothing of what it returns, so TorchScript takes that for a Tensor; range "
    "takes ints",
    "annotate it where it is defined: def times(...) -> int",
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
    "TypesReturned.forward: it returns a value of type int here and one of type Tensor elsewhere",
    "return one type; or annotate what is returned: -> Union[Tensor, int]",
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
    "OneBranch.forward: y is not assigned in one branch (the false one), and used after it", "assign it before the if"
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
    "TypePerBranch.forward: y is of type Tensor in one branch and of type int in the other",
    "give it one type; or annotate it before the if: y: Union[Tensor, int]",
)
class TypePerBranch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # noqa: SIM108 - one expression would be another failure  # at
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
    "Reassigned.forward: x is of type Tensor, and a value of type int is assigned to it",
    "use another name, or annotate it at its first assignment: x: Union[Tensor, int]",
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
    "WrongPromise.forward: the annotation promises the type str, and one of type Tensor is returned",
    "correct the annotation or what is returned",
)
class WrongPromise(nn.Module):
    def forward(self, x) -> str:
        return x  # at


@cases.mended()
class WrongPromiseMended(nn.Module):
    def forward(self, x) -> Tensor:
        return x


@cases.fails(
    "GlobalNumber.forward: FACTOR is a global or closed over variable (int), which TorchScript does not read",
    "make it an attribute of the module, or an argument",
)
class GlobalNumber(nn.Module):
    def forward(self, x):
        return x * FACTOR  # at


@cases.mended()
class GlobalNumberMended(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = FACTOR

    def forward(self, x):
        return x * self.factor


@cases.fails(
    "OfNumpy.forward: numpy.sqrt is of another library (numpy.ufunc), and TorchScript cannot compile it",
    "use torch's function of that name; or move the call into a method marked with @torch.jit.ignore, with annotations",
)
class OfNumpy(nn.Module):
    def forward(self, x):
        y = x + 1
        return torch.from_numpy(numpy.sqrt(y.numpy()))  # at


@cases.mended()
class OfNumpyMended(nn.Module):
    @torch.jit.ignore
    def root(self, x: Tensor) -> Tensor:
        return torch.from_numpy(numpy.sqrt(x.numpy()))

    def forward(self, x):
        return self.root(x + 1) + torch.sqrt(x)


@cases.fails(
    "PropertyOfNumpy.scale: numpy.sqrt is of another library (numpy.ufunc), and TorchScript cannot compile it",
    "use torch's function of that name; or move the call into a method marked with @torch.jit.ignore, with annotations",
    inside="PropertyOfNumpy.scale",
)
class PropertyOfNumpy(nn.Module):
    @property
    def scale(self):
        return numpy.sqrt(4.0)  # at

    def forward(self, x):
        return x


@cases.mended()
class PropertyOfNumpyMended(nn.Module):
    @property
    def scale(self):
        return torch.sqrt(torch.tensor(4.0))

    def forward(self, x):
        return x * self.scale


@cases.fails(
    "PropertyNotCalled.device: there is no next in TorchScript",
    "write it otherwise, or mark what it is in with @torch.jit.unused or @torch.jit.ignore; of a property name it in "
    "__jit_unused_properties__ of the class",
    inside="PropertyNotCalled.device",
)
class PropertyNotCalled(Linears):
    @property
    def device(self):
        return next(self.parameters()).device  # at


@cases.mended()
class PropertyNotCalledMended(PropertyNotCalled):
    __jit_unused_properties__ = ("device",)

    @property
    def device(self):
        return next(self.parameters()).device


@cases.fails(
    "attribute layers of ListByVariable: a ModuleList or Sequential is indexed by a variable; each of its modules has "
    "a type of its own",
    "go through it: for position, layer in enumerate(self.layers): if position == i: ...",
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
    "attribute layers of DictByVariable: a ModuleDict is indexed by a variable; each of its modules has a type of its "
    "own",
    "go through it: for name, layer in self.layers.items(): if name == key: ...",
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
    "ZippedModules.forward: modules are zipped with a list, whose length is not known when it is compiled",
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
    "index it by a number that is written out; or make it a list of one type",
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
    "SuperForward.forward: super() means nothing in TorchScript, which compiles methods by their names",
    "write the parent's forward as a method of another name, and call that here and there; or make the parent's part a "
    "submodule",
)
class SuperForward(Linears):
    def forward(self, x):
        return super().forward(x) + 1  # at


@cases.mended()
class SuperForwardMended(Linears):
    def plain(self, x):
        return self.linear(x)

    def forward(self, x):
        return self.plain(x) + 1


@cases.fails(
    "Recursive.again: again calls itself, and TorchScript compiles no recursive method",
    "write a loop; or make it a function outside of the class, marked with @torch.jit.ignore, with annotations",
    inside="Recursive.again",
)
class Recursive(nn.Module):
    def forward(self, x):
        return self.again(x, 3)  # for

    def again(self, x, n: int):
        if n == 0:
            return x
        return self.again(x + 1, n - 1)  # at


@torch.jit.ignore
def again(x: Tensor, n: int) -> Tensor:
    if n == 0:
        return x
    return again(x + 1, n - 1)


@cases.mended()
class RecursiveMended(nn.Module):
    def forward(self, x):
        return again(x, 3)


@cases.fails(
    "UnknownType.shift: the annotation Sequence[int] means nothing to TorchScript: it is not imported where it is "
    "written, or no type that TorchScript has",
    "import it at the top of the module; or write int, float, str, Tensor, List, Dict, Tuple, Optional, Union",
    inside="UnknownType.shift",
)
class UnknownType(nn.Module):
    def forward(self, x):
        return x + self.shift([1])  # for

    def shift(self, by: "Sequence[int]") -> int:  # noqa: F821 - what is tested  # at
        return by[0]


@cases.mended()
class UnknownTypeMended(UnknownType):
    def shift(self, by: list[int]) -> int:
        return by[0]


@cases.fails(
    "HiddenBuiltin.forward: max is of type Tensor here: a local variable of that name hides the function",
    "give the variable another name",
)
class HiddenBuiltin(nn.Module):
    def forward(self, x):
        max = x.max()
        return x + max(1, 2)  # at


@cases.mended()
class HiddenBuiltinMended(nn.Module):
    def forward(self, x):
        largest = x.max()
        return x + max(1, 2) + largest


class Default:
    def __init__(self, width=1):  # at
        self.width = width


class TypedDefault:
    def __init__(self, width: int = 1) -> None:
        self.width = width


@cases.fails(
    "Default.__init__: the parameter width is not annotated, so TorchScript takes it for a Tensor; its default is none",
    "annotate it with the type of its default",
    Default,
    inside="Default.__init__",
)
class InstanceOfAny(nn.Module):
    def forward(self, x: Any):
        if isinstance(x, Default):  # for
            return 1
        return 2


@cases.mended()
class InstanceOfAnyMended(nn.Module):
    def forward(self, x: Any):
        if isinstance(x, TypedDefault):
            return 1
        return 2


@cases.fails(
    "UnknownOperator.forward: torch.finfo is no operator that TorchScript has (aten::finfo)",
    "use another function of torch; or move it into a method marked with @torch.jit.ignore, with annotations",
)
class UnknownOperator(nn.Module):
    def forward(self, x):
        return x.masked_fill(x > 0, torch.finfo(x.dtype).min)  # at


@cases.mended()
class UnknownOperatorMended(nn.Module):
    @torch.jit.ignore
    def least(self, x: Tensor) -> float:
        return torch.finfo(x.dtype).min

    def forward(self, x):
        return x.masked_fill(x > 0, self.least(x))


@cases.fails(
    "UnknownMethod.forward: what is of type int has no item in TorchScript",
    "use a function of torch; if the value is of another type than int, annotate it",
)
class UnknownMethod(nn.Module):
    def forward(self, x, n: int):
        return x + n.item()  # at


@cases.mended(torch.ones(2), torch.ones(()))
class UnknownMethodMended(nn.Module):
    def forward(self, x, n: Tensor):
        return x + n.item()


@cases.fails("ComputedName.forward: getattr with a name that is computed", "write the name out: self.name")
class ComputedName(Linears):
    def forward(self, x):
        name = "linear"
        return getattr(self, name)(x)  # at


@cases.mended()
class ComputedNameMended(Linears):
    def forward(self, x):
        return self.linear(x)


@cases.fails(
    "UndefinedName.forward: nowhere is not known here",
    "import or define it at the top of the module; names of enclosing functions are found only where they are used",
)
class UndefinedName(nn.Module):
    def forward(self, x):
        return nowhere(x)  # noqa: F821 - what is tested  # at


@cases.mended()
class UndefinedNameMended(nn.Module):
    def forward(self, x):
        return torch.relu(x)


@cases.fails(
    "TextForTensor.forward: in torch.relu a value of type str stands where Tensor is expected (the argument self)",
    "give it that type, or annotate what it comes from: what has no annotation is a Tensor",
)
class TextForTensor(nn.Module):
    def forward(self, x: str):
        return torch.relu(x)  # at


@cases.mended()
class TextForTensorMended(nn.Module):
    def forward(self, x: Tensor):
        return torch.relu(x)


@pytest.mark.parametrize("case", cases, ids=cases.names)
def test_note_names_the_line_and_the_mend(case: Case) -> None:
    """The whole note: the method or attribute, what is wrong, the line, the mend, and what called it."""
    assert noted(case) == case.note()


@pytest.mark.parametrize("case", cases, ids=cases.names)
def test_mend_mends(case: Case) -> None:
    """With what the note says, the model is scripted, and computes the same."""
    eager, scripted = mended(case)
    torch.testing.assert_close(scripted, eager)

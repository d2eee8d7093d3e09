"""Names that TorchScript does not know or cannot compile: the note on the error, and a check of the mend."""

import logging
from typing import Any, Optional

import numpy
import pytest
import torch
from failing import Case, Cases, mended, noted
from torch import Tensor, nn

pytestmark = pytest.mark.model
cases = Cases()

FACTOR = 2
logger = logging.getLogger(__name__)


class Linears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        self.named = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})

    def forward(self, x):
        return self.linear(x)


@cases.fails(
    "GlobalNumber.forward: FACTOR is a global or closed over variable (int), which TorchScript does not read",
    "make the value an attribute of the module, or an argument",
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
    "PropertyNotCalled.device: TorchScript has no next",
    "write the code without next, or mark the method with @torch.jit.unused or @torch.jit.ignore; list a property "
    "in __jit_unused_properties__ of the class",
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
    "SuperForward.forward: TorchScript has no super(): TorchScript compiles methods by name",
    "write the parent's forward under another name, and call that method in both classes; or make the parent's part "
    "a submodule",
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
    "write a loop; or make the method a function outside of the class, marked with @torch.jit.ignore, with annotations",
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
    "UnknownType.shift: TorchScript does not know the annotation Sequence[int]: the module does not import the name, "
    "or TorchScript has no such type",
    "import the name at the top of the module; or write int, float, str, Tensor, List, Dict, Tuple, Optional, Union",
    inside="UnknownType.shift",
)
class UnknownType(nn.Module):
    def forward(self, x):
        return x + self.shift([1])  # for

    def shift(self, by: "Sequence[int]") -> int:  # noqa: F821 - the tested annotation  # at
        return by[0]


@cases.mended()
class UnknownTypeMended(UnknownType):
    def shift(self, by: list[int]) -> int:
        return by[0]


@cases.fails(
    "HiddenBuiltin.forward: max is of type Tensor here: a local variable of the same name hides the function",
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
    "Default.__init__: the parameter width is not annotated and counts as a Tensor in TorchScript; the default is of "
    "another type",
    "annotate the parameter with the type of the default",
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
    "UnknownOperator.forward: torch.finfo is no operator of TorchScript (aten::finfo)",
    "use another function of torch; or move the call into a method marked with @torch.jit.ignore, with annotations",
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
    "UnknownMethod.forward: a value of type int has no item in TorchScript",
    "use a function of torch; if the value is of another type than int, annotate the value",
)
class UnknownMethod(nn.Module):
    def forward(self, x, n: int):
        return x + n.item()  # at


@cases.mended(torch.ones(2), torch.ones(()))
class UnknownMethodMended(nn.Module):
    def forward(self, x, n: Tensor):
        return x + n.item()


@cases.fails("ComputedName.forward: getattr has a computed name", "write the name out: self.name")
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
    "import or define the name at the top of the module; names of enclosing functions are found only where the "
    "function itself uses the names",
)
class UndefinedName(nn.Module):
    def forward(self, x):
        return nowhere(x)  # noqa: F821 - the tested name  # at


@cases.mended()
class UndefinedNameMended(nn.Module):
    def forward(self, x):
        return torch.relu(x)


@cases.fails(
    "Logging.forward: logger.info is of a Python object (Logger), which TorchScript does not know",
    "put the line under 'if not torch.jit.is_scripting():', or into a method marked with @torch.jit.ignore, with "
    "annotations",
)
class Logging(nn.Module):
    def forward(self, x):
        logger.info("called")  # at
        return x


@cases.mended()
class LoggingMended(nn.Module):
    def forward(self, x):
        if not torch.jit.is_scripting():
            logger.info("called")
        return x


@cases.fails(
    "attribute down of NoModule: the value is None when the module is scripted",
    "test for None first: if self.down is not None: ...",
)
class NoModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = None  # set

    def forward(self, x):
        return self.down(x)  # at


@cases.mended()
class NoModuleMended(NoModule):
    def forward(self, x):
        if self.down is not None:
            x = self.down(x)
        return x


@cases.fails(
    "Mapped.forward: a function is used as a value, and TorchScript has no functions of functions (map, filter)",
    "write a for loop",
)
class Mapped(nn.Module):
    def forward(self, x):
        return list(map(torch.relu, [x]))  # at


@cases.mended()
class MappedMended(nn.Module):
    def forward(self, x):
        results = []
        for value in [x]:
            results.append(torch.relu(value))  # noqa: PERF401 - the mend is a loop
        return results


@cases.fails(
    "attribute add of LambdaAttribute: TorchScript cannot compile the function: the function is a lambda, and "
    "TorchScript has no lambda",
    "write a function with def at the top of the module",
    inside="<lambda>",
)
class LambdaAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.add = lambda x: x + 1  # at

    def forward(self, x):
        return self.add(x)  # for


def add_one(x):
    return x + 1


@cases.mended()
class LambdaAttributeMended(LambdaAttribute):
    def __init__(self) -> None:
        super().__init__()
        self.add = add_one


@cases.fails(
    "attribute width of OfTheClass: the class has the attribute, and TorchScript looks only at the instance",
    "assign the attribute in __init__; or list the name of a constant in __constants__ of the class: ('width',)",
)
class OfTheClass(nn.Module):
    width = 3

    def forward(self, x):
        return x + self.width  # at


@cases.mended()
class OfTheClassMended(OfTheClass):
    __constants__ = ("width",)


@cases.fails(
    "attribute last of AnyObject: the annotation <class 'object'> is no type of TorchScript",
    "take the annotation away; or write int, float, str, Tensor, List, Dict, Tuple, Optional or Union of these",
    inside=None,
)
class AnyObject(nn.Module):
    last: object

    def __init__(self) -> None:
        super().__init__()
        self.last = 1  # at

    def forward(self, x):
        return x + self.last


@cases.mended()
class AnyObjectMended(AnyObject):
    last: int


@cases.fails(
    "attribute down of OptionalModule: the annotation typing.Optional[torch.nn.modules.module.Module] is no type of "
    "TorchScript",
    "take the annotation away; or write int, float, str, Tensor, List, Dict, Tuple, Optional or Union of these",
    inside=None,
)
class OptionalModule(nn.Module):
    down: Optional[nn.Module]  # noqa: UP045 - the style of old models

    def __init__(self) -> None:
        super().__init__()
        self.down = None  # at

    def forward(self, x):
        return x if self.down is None else self.down(x)


@cases.mended()
class OptionalModuleMended(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = None

    def forward(self, x):
        return x if self.down is None else self.down(x)


@cases.fails(
    "attribute sizes of TupleOfAnyLength: a tuple of any length has no type in TorchScript",
    "write the type of each element (Tuple[int, int]); or use a list",
    inside=None,
)
class TupleOfAnyLength(nn.Module):
    sizes: tuple[int, ...]

    def __init__(self) -> None:
        super().__init__()
        self.sizes = (1, 2)  # at

    def forward(self, x):
        return x + self.sizes[0]


@cases.mended()
class TupleOfAnyLengthMended(TupleOfAnyLength):
    sizes: tuple[int, int]


@pytest.mark.parametrize("case", cases, ids=cases.names)
def test_note_names_the_line_and_the_mend(case: Case) -> None:
    """The note has the method or attribute, the problem, the line, the mend, and the calling line."""
    assert noted(case) == case.note()


@pytest.mark.parametrize("case", cases, ids=cases.names)
def test_mend_mends(case: Case) -> None:
    """With the mend in the note, the model is scripted, and answers as in eager mode."""
    eager, scripted = mended(case)
    torch.testing.assert_close(scripted, eager)

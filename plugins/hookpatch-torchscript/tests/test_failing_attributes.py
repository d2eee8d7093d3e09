"""Attributes without a type, and modules and classes wrong as a whole: the note, and a check of the mend."""

import dataclasses
import enum
import inspect
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as functional
from failing import Case, Cases, mended, noted
from torch import Tensor, nn

pytestmark = pytest.mark.model
cases = Cases()

UNREAD = "if forward does not read the attribute, list the name in __jit_ignored_attributes__ of the class"
PLAIN = f"copy the parts that forward reads into attributes (numbers, texts, tensors); {UNREAD}"


class Thing:
    def __init__(self, factor=2.0) -> None:
        self.factor = factor


@cases.fails(
    "attribute bad of PlainObject: the value is of the Python type object, which TorchScript does not have", PLAIN
)
class PlainObject(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bad = object()  # set

    def forward(self, x):
        return x if self.bad is None else x + 1  # at


@cases.mended()
class PlainObjectMended(PlainObject):
    __jit_ignored_attributes__ = ("bad",)

    def forward(self, x):
        return x + 1


def total(x):
    return numpy.sum(x)  # at


@cases.fails(
    "attribute function of FunctionOfNumpy: TorchScript cannot compile the function: numpy.sum is of another "
    "library (numpy._ArrayFunctionDispatcher), and TorchScript cannot compile it",
    "use torch's function of that name; or move the call into a method marked with @torch.jit.ignore, with annotations",
    total,
    inside="total",
)
class FunctionOfNumpy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.function = total  # set

    def forward(self, x):
        return self.function(x)  # for


@cases.mended()
class FunctionOfNumpyMended(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.function = torch.sum

    def forward(self, x):
        return self.function(x)


@cases.fails(
    "attribute ops of PythonModule: the value is a Python module, and TorchScript reads no Python module from an "
    "attribute",
    "use the module by its global name (self.ops without self.), not through self",
)
class PythonModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ops = functional  # set

    def forward(self, x):
        return self.ops.relu(x)  # at


@cases.mended()
class PythonModuleMended(PythonModule):
    def forward(self, x):
        return functional.relu(x)


@cases.fails(
    "attribute seen of EmptyList: TorchScript cannot infer the type of the elements from an empty list",
    "annotate the attribute in the class body with the type of the elements: seen: List[int]",
)
class EmptyList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = []  # set

    def forward(self, x):
        return x + len(self.seen)  # at


@cases.mended()
class EmptyListMended(EmptyList):
    seen: list[int]


@cases.fails(
    "attribute seen of EmptyDict: TorchScript cannot infer the types of keys and values from an empty dict",
    "annotate the attribute in the class body with the types of keys and values: seen: Dict[str, int]",
)
class EmptyDict(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = {}  # set

    def forward(self, x):
        return x + len(self.seen)  # at


@cases.mended()
class EmptyDictMended(EmptyDict):
    seen: dict[str, int]


@cases.fails(
    "attribute parts of MixedList: the list holds int and str, and a list has one type of element in TorchScript",
    "use a tuple, or give all elements the same type",
)
class MixedList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = [1, "a"]  # set

    def forward(self, x):
        return x + len(self.parts)  # at


@cases.mended()
class MixedListMended(MixedList):
    def __init__(self) -> None:
        super().__init__()
        self.parts = (1, "a")


@cases.fails(
    "attribute table of MixedKeys: the dict holds keys or values of str and int, and a dict has one type of each in "
    "TorchScript",
    "give all keys the same type and all values the same type, or keep two dicts",
)
class MixedKeys(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = {"a": 1, 2: 3}  # set

    def forward(self, x):
        return x + self.table["a"]  # at


@cases.mended()
class MixedKeysMended(MixedKeys):
    def __init__(self) -> None:
        super().__init__()
        self.table = {"a": 1, "2": 3}


@cases.fails(
    "attribute layers of ModulesInAList: the value is a Python container of modules; TorchScript and "
    "parameters() do not look into such containers",
    "use a torch.nn.ModuleList or torch.nn.ModuleDict",
)
class ModulesInAList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(2, 2)]  # set

    def forward(self, x):
        for layer in self.layers:  # at
            x = layer(x)
        return x


@cases.mended()
class ModulesInAListMended(ModulesInAList):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2)])


@cases.fails(
    "attribute cache of NoneThenTensor: the value is None when the module is scripted, which fixes the type as "
    "None; here a value of type Tensor is assigned",
    "annotate the attribute in the class body: cache: Optional[Tensor]",
)
class NoneThenTensor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache = None  # set

    def forward(self, x):
        self.cache = x  # at
        return x


@cases.mended()
class NoneThenTensorMended(NoneThenTensor):
    cache: Tensor | None


@cases.fails(
    "attribute count of ChangingType: the value is of type int when the module is scripted; here a value of type "
    "Tensor is assigned",
    "keep the type: begin with a Tensor in __init__, or assign to another attribute",
)
class ChangingType(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 1  # set

    def forward(self, x):
        self.count = x  # at
        return x


@cases.mended()
class ChangingTypeMended(ChangingType):
    def __init__(self) -> None:
        super().__init__()
        self.count = torch.zeros(())


@cases.fails(
    "attribute last of SetInForward: the attribute is assigned here, and does not exist when the module is scripted",
    "assign a value of the same type in __init__",
)
class SetInForward(nn.Module):
    def forward(self, x):
        self.last = x  # at
        return x


@cases.mended()
class SetInForwardMended(SetInForward):
    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(())


@cases.fails(
    "attribute scale of UnfitEdit: the attribute does not exist when the module is scripted",
    "assign the attribute in __init__",
)
class UnfitEdit(nn.Module):
    def forward(self, x):
        return x * self.scale  # at


@cases.mended()
class NotThereMended(UnfitEdit):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2


@cases.fails(
    "attribute scale of BehindAFlag: the line that assigns the attribute did not run for this instance",
    "list the flag that forward tests in __constants__ of the class, and TorchScript leaves the dead branch out; "
    "or assign None or torch.nn.Identity() in the other case",
)
class BehindAFlag(nn.Module):
    def __init__(self, scaled: bool = False) -> None:
        super().__init__()
        self.scaled = scaled
        if scaled:
            self.scale = nn.Linear(2, 2)  # set

    def forward(self, x):
        if self.scaled:
            x = self.scale(x)  # at
        return x


@cases.mended()
class BehindAFlagMended(BehindAFlag):
    __constants__ = ("scaled",)


@cases.fails(
    "attribute mask of NoneBuffer: the value is None when the module is scripted, which fixes the type as None",
    "annotate the attribute in the class body (mask: Optional[Tensor]), and test a local variable for None; or "
    "begin with an empty tensor",
)
class NoneBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", None)  # set

    def forward(self, x):
        return x + self.mask  # at


@cases.mended()
class NoneBufferMended(NoneBuffer):
    mask: Tensor | None

    def forward(self, x):
        mask = self.mask
        if mask is not None:
            return x + mask
        return x


@cases.fails(
    "attribute thing of ReadBesidesIgnored: the value is of the Python type {module}.Thing, which TorchScript "
    "does not have; the class of the value does not compile: the parameter factor is not annotated and counts as "
    "a Tensor in TorchScript; the default is of another type ({class})",
    PLAIN,
)
class ReadBesidesIgnored(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.thing = Thing()  # set

    @torch.jit.ignore
    def note(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x):
        return self.note(x) * self.thing.factor  # at


@cases.mended()
class ReadBesidesIgnoredMended(ReadBesidesIgnored):
    __jit_ignored_attributes__ = ("thing",)

    def __init__(self) -> None:
        super().__init__()
        self.factor = self.thing.factor

    def forward(self, x):
        return self.note(x) * self.factor


class Holder:
    def __init__(self) -> None:
        self.held = object()


class TypedHolder:
    held: int

    def __init__(self) -> None:
        self.held = 1


@cases.fails(
    "attribute holder of UntypedInside: torch has compiled the class of the value, and takes held for a Tensor; "
    "held is of another type",
    f"annotate held in the class body of the value, if TorchScript has its type; {UNREAD}",
    inside=None,
)
class UntypedInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.holder = Holder()  # at

    def forward(self, x):
        return x


@cases.mended()
class UntypedInsideMended(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.holder = TypedHolder()

    def forward(self, x):
        return x + self.holder.held


@cases.fails(
    "attribute count of WrongAnnotation: the annotation says int, and the value is of another type",
    "correct the annotation in the class body, or the value",
    inside=None,
)
class WrongAnnotation(nn.Module):
    count: int

    def __init__(self) -> None:
        super().__init__()
        self.count = "two"  # at

    def forward(self, x):
        return x + self.count


@cases.mended()
class WrongAnnotationMended(WrongAnnotation):
    def __init__(self) -> None:
        super().__init__()
        self.count = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Numbers(enum.Enum):
    ONE = 1
    TWO = 2


@cases.fails(
    "attribute mode of EnumOfTypes: the value is a member of an Enum with values of several types (str, int)",
    "give all members of the Enum values of the same type",
    inside=None,
)
class EnumOfTypes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mode = Mixed.ONE  # at

    def forward(self, x):
        return x


@cases.mended()
class EnumOfTypesMended(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mode = Numbers.ONE

    def forward(self, x):
        return x if self.mode == Numbers.ONE else x + 1


@dataclasses.dataclass
class Config:
    width: int = 3


@cases.fails(
    "attribute config of DataclassValue: the value is of the Python type {module}.Config, which TorchScript does "
    "not have",
    PLAIN,
)
class DataclassValue(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.config = Config()  # set

    def forward(self, x):
        return x * self.config.width  # at


@cases.mended()
class DataclassValueMended(DataclassValue):
    def __init__(self) -> None:
        super().__init__()
        self.width = self.config.width

    def forward(self, x):
        return x * self.width


@cases.fails(
    "attribute table of DictAsConstant: the attribute is declared a constant, and TorchScript has no constants "
    "of this type",
    "remove the name from __constants__ (or the Final[...]); constants are numbers, texts, bools, None, and "
    "tuples of these",
    inside=None,
)
class DictAsConstant(nn.Module):
    __constants__ = ("table",)

    def __init__(self) -> None:
        super().__init__()
        self.table = {"a": 1}  # at

    def forward(self, x):
        return x + self.table["a"]


@cases.mended()
class DictAsConstantMended(DictAsConstant):
    __constants__ = ()


@cases.fails(
    "attribute linear.weight of LazyLinear: the first forward pass sets the shape of a lazy module, and no pass "
    "has run",
    "call the model once before scripting",
    inside=None,
)
class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.LazyLinear(2)  # at

    def forward(self, x):
        return self.linear(x)


def called(cls: Any) -> Any:
    def make() -> Any:
        model = cls()
        model(torch.ones(2, 2))
        return model

    return make


@cases.mended(make=called)
class LazyMended(Lazy):
    pass


@cases.fails(
    "NoSuper: torch.nn.Module.__init__ was not called", "call super().__init__() first in __init__", inside=None
)
class NoSuper(nn.Module):  # at
    def __init__(self) -> None:
        pass

    def forward(self, x):
        return x


@cases.mended()
class NoSuperMended(NoSuper):
    def __init__(self) -> None:
        nn.Module.__init__(self)


@cases.fails(
    "TheClass: torch.jit.script was given the class of a module, not a module",
    "script an instance: torch.jit.script(TheClass(...))",
    inside=None,
    make=lambda cls: lambda: cls,
)
class TheClass(nn.Module):  # at
    def forward(self, x):
        return x


@cases.mended()
class TheClassMended(TheClass):
    pass


@cases.fails(
    "Derived: TorchScript compiles no class with a base class",
    "write the class without bases; or keep the object in Python, and pass its values on",
    inside=None,
    make=lambda cls: lambda: cls,
)
class Derived(Thing):  # at
    pass


def hook(module, inputs: Tensor, output: Tensor):  # at
    return output


def right_hook(self, inputs: tuple[Tensor], output: Tensor) -> Tensor:
    return output


def pre_hook(module, inputs: Tensor):  # at
    return inputs


def right_pre_hook(self, inputs: tuple[Tensor]) -> None:
    return None


@cases.fails(
    "hook: the hook hook has another signature than TorchScript wants",
    "remove the hook before scripting, or give the hook this signature: hook(self, input: Tuple[Tensor], output: "
    "Tensor)",
    hook,
    inside="hook",
)
class WrongHook(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_forward_hook(hook)

    def forward(self, x):
        return x


@cases.mended()
class WrongHookMended(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_forward_hook(right_hook)

    def forward(self, x):
        return x


@cases.fails(
    "pre_hook: the hook pre_hook has another signature than TorchScript wants",
    "remove the hook before scripting, or give the hook this signature: pre_hook(self, input: Tuple[Tensor])",
    pre_hook,
    inside="pre_hook",
)
class WrongPreHook(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_forward_pre_hook(pre_hook)

    def forward(self, x):
        return x


@cases.mended()
class WrongPreHookMended(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_forward_pre_hook(right_pre_hook)

    def forward(self, x):
        return x


@pytest.mark.parametrize("case", cases, ids=cases.names)
def test_note_names_the_attribute_and_the_mend(case: Case) -> None:
    """The note has the attribute and the path, the line that reads, the line that assigns, and the mend."""
    where = inspect.getsourcelines(Thing)[1] + 1
    note = noted(case).replace(f"{__file__}:{where})", "{class})").replace(__name__, "{module}")
    assert note == case.note()


@pytest.mark.parametrize("case", [case for case in cases if case.mended], ids=lambda case: case.sources[0].__name__)
def test_mend_mends(case: Case) -> None:
    """With the mend in the note, the model is scripted, and answers as in eager mode."""
    eager, scripted = mended(case)
    torch.testing.assert_close(scripted, eager)

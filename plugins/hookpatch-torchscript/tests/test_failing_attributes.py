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

UNREAD = "if forward does not need it, name it in __jit_ignored_attributes__ of the class"
PLAIN = f"keep what forward reads of it in attributes of their own (numbers, texts, tensors); {UNREAD}"


class Thing:
    def __init__(self, factor=2.0) -> None:
        self.factor = factor


@cases.fails(
    "attribute bad of PlainObject: its value is of the Python type object, which TorchScript does not have", PLAIN
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
    "attribute function of FunctionOfNumpy: it is a function that TorchScript cannot compile: numpy.sum is of another "
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
    "attribute ops of PythonModule: it is a Python module, and a module cannot be the value of an attribute",
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
    "attribute seen of EmptyList: the list is empty, so the type of its elements cannot be inferred",
    "annotate it in the class body: seen: List[int], with the type that its elements will have",
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
    "attribute seen of EmptyDict: the dict is empty, so the types of its keys and values cannot be inferred",
    "annotate it in the class body: seen: Dict[str, int], with the types that it will hold",
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
    "make it a tuple, or give the elements one type",
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
    "give all keys one type and all values one type, or keep two dicts",
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
    "attribute layers of ModulesInAList: it holds modules in a Python container, in which TorchScript and parameters() "
    "do not look",
    "make it a torch.nn.ModuleList or torch.nn.ModuleDict",
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
    "attribute cache of NoneThenTensor: it is None when the module is scripted, so its type is None for ever, and a "
    "value of type Tensor is assigned",
    "annotate it in the class body: cache: Optional[Tensor]",
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
    "attribute count of ChangingType: its type is int, that of its value when the module is scripted, and a value of "
    "type Tensor is assigned",
    "keep one type: begin with a Tensor in __init__, or assign to another attribute",
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
    "attribute last of SetInForward: it is assigned here, and does not exist when the module is scripted",
    "set it in __init__, to a value of the type that it is to have",
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
    "attribute scale of NotThere: there is no such attribute when the module is scripted", "set it in __init__"
)
class NotThere(nn.Module):
    def forward(self, x):
        return x * self.scale  # at


@cases.mended()
class NotThereMended(NotThere):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2


@cases.fails(
    "attribute scale of BehindAFlag: the line that assigns it was not reached when this instance was made",
    "name the flag that forward tests in __constants__ of the class, so that what needs it is left out; or always set "
    "it, to None or torch.nn.Identity()",
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
    "attribute mask of NoneBuffer: it is None when the module is scripted, so its type is None for ever",
    "annotate it in the class body (mask: Optional[Tensor]), and test it on a local variable; or begin with an empty "
    "tensor",
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
    "attribute thing of ReadBesidesIgnored: its value is of the Python type {module}.Thing, which TorchScript does not "
    "have; of its class it says: the parameter factor is not annotated, so TorchScript takes it for a Tensor; its "
    "default is none ({class})",
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
    "attribute holder of UntypedInside: torch has compiled the class of its value, and takes held in it for a Tensor, "
    "which it is not",
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
    "attribute count of WrongAnnotation: its value is not of the type int that it is annotated with",
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
    "attribute mode of EnumOfTypes: it is a member of an Enum whose values are of several types (str, int)",
    "give all members of the Enum values of one type",
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
    "attribute config of DataclassValue: its value is of the Python type {module}.Config, which TorchScript does not "
    "have",
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
    "attribute table of DictAsConstant: it is declared a constant, and its type cannot be one",
    "take it out of __constants__ (or Final[...]); constants are numbers, texts, bools, None, and tuples of these",
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
    "attribute linear.weight of LazyLinear: it is lazy: it gets its shape from the first forward pass, and there has "
    "been none",
    "call the model once before it is scripted",
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
    "TheClass: it is the class of a module, not a module",
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
    "Derived: TorchScript compiles no class that inherits from another",
    "write the class without bases; or keep it in Python, and hand its values on",
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
    "give it this one, or remove the hook before scripting: hook(self, input: Tuple[Tensor], output: Tensor)",
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
    "give it this one, or remove the hook before scripting: pre_hook(self, input: Tuple[Tensor])",
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

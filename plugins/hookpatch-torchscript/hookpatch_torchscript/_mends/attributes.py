"""Rules for attributes without a type, and for modules and classes as a whole."""

from __future__ import annotations

from typing import Final

from hookpatch_torchscript._mends.rule import Rule

NOT_THERE: Final = "there is no such attribute when the module is scripted"
_LACKS: Final = r"has no attribute '(?P<attribute>\w+)' \(This attribute exists"
_UNREAD: Final = "if forward does not need it, name it in __jit_ignored_attributes__ of the class"

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        _LACKS + r".*List trace inputs must have elements",
        "the list is empty, so the type of its elements cannot be inferred",
        "annotate it in the class body: {attribute}: List[int], with the type that its elements will have",
    ),
    Rule(
        _LACKS + r".*Dictionary inputs must have entries",
        "the dict is empty, so the types of its keys and values cannot be inferred",
        "annotate it in the class body: {attribute}: Dict[str, int], with the types that it will hold",
    ),
    Rule(
        _LACKS + r".*List inputs to traced functions must have consistent element type\. Found (?P<found>.*?)\. Its",
        "the list holds {found}, and a list has one type of element in TorchScript",
        "make it a tuple, or give the elements one type",
    ),
    Rule(
        _LACKS + r".*Dictionary inputs to traced functions must have consistent type\. Found (?P<found>.*?)\. Its",
        "the dict holds keys or values of {found}, and a dict has one type of each in TorchScript",
        "give all keys one type and all values one type, or keep two dicts",
    ),
    Rule(
        _LACKS + r".*(list|dict|tuple)'.*Cannot infer concrete type of torch\.nn\.Module",
        "it holds modules in a Python container, in which TorchScript and parameters() do not look",
        "make it a torch.nn.ModuleList or torch.nn.ModuleDict",
    ),
    Rule(
        _LACKS + r".*Python type: 'module'",
        "it is a Python module, and a module cannot be the value of an attribute",
        "use the module by its global name ({expression} without self.), not through self",
    ),
    Rule(
        _LACKS + r".*Python type: '(?P<type>[^']+)'",
        "its value is of the Python type {type}, which TorchScript does not have",
        f"keep what forward reads of it in attributes of their own (numbers, texts, tensors); {_UNREAD}",
    ),
    Rule(
        r"has no attribute '(?P<attribute>\w+)' \(This function exists",
        "it is a function that TorchScript cannot compile",
        "mend the function, or mark it with @torch.jit.ignore and annotate its arguments and what it returns",
    ),
    Rule(
        r"has no attribute '(?P<attribute>\w+)'",
        NOT_THERE,
        "set it in __init__",
    ),
    Rule(
        r"Tried to set nonexistent attribute: (?P<attribute>\w+)",
        "it is assigned here, and does not exist when the module is scripted",
        "set it in __init__, to a value of the type that it is to have",
    ),
    Rule(
        r"Wrong type for attribute assignment\. Expected NoneType but got (?P<found>[^:\n]+)",
        "it is None when the module is scripted, so its type is None for ever, and a value of type {found} is assigned",
        "annotate it in the class body: {attribute}: Optional[{found}]",
        r"^(self\.)?(?P<attribute>\w+)",
    ),
    Rule(
        r"Wrong type for attribute assignment\. Expected (?P<wanted>[^:\n]+) but got (?P<found>[^:\n]+)",
        "its type is {wanted}, that of its value when the module is scripted, and a value of type {found} is assigned",
        "keep one type: begin with a {found} in __init__, or assign to another attribute",
        r"^(self\.)?(?P<attribute>\w+)",
    ),
    Rule(
        r"Error inferring type for (?P<attribute>\w+): .*Could not unify type list since element 1 of type "
        r"(?P<one>\w+) did not match the types before it \((?P<other>\w+)\)",
        "it is a member of an Enum whose values are of several types ({other}, {one})",
        "give all members of the Enum values of one type",
    ),
    Rule(
        r"Error inferring type for (?P<attribute>\w+): (?P<inner>.*)",
        "its type cannot be inferred: {inner}",
        f"annotate it in the class body; {_UNREAD}",
    ),
    Rule(
        r"Could not cast attribute '(?P<attribute>\w+)' to type [^:]*(:[^:]*)?: "
        r"Could not cast attribute '(?P<part>\w+)' to type (?P<wanted>\w+)",
        "torch has compiled the class of its value, and takes {part} in it for a {wanted}, which it is not",
        f"annotate {{part}} in the class body of the value, if TorchScript has its type; {_UNREAD}",
    ),
    Rule(
        r"Could not cast attribute '(?P<attribute>\w+)' to type (?P<wanted>[^:]+): ",
        "its value is not of the type {wanted} that it is annotated with",
        "correct the annotation in the class body, or the value",
    ),
    Rule(
        r"object in attribute '\w+\.(?P<attribute>\w+)' is not a valid constant",
        "it is declared a constant, and its type cannot be one",
        "take it out of __constants__ (or Final[...]); constants are numbers, texts, bools, None, and tuples of these",
    ),
    # --- modules as a whole
    Rule(
        r"uninitialized (parameters|buffers) (?P<attribute>\w+)\.",
        "it is lazy: it gets its shape from the first forward pass, and there has been none",
        "call the model once before it is scripted",
    ),
    Rule(
        r"has not been initialized, did you forget to call 'super\(\)'",
        "torch.nn.Module.__init__ was not called",
        "call super().__init__() first in __init__",
    ),
    Rule(
        r"cannot be compiled since it inherits from nn\.Module",
        "it is the class of a module, not a module",
        "script an instance: torch.jit.script({name}(...))",
    ),
    Rule(
        r"TorchScript classes does not support inheritance",
        "TorchScript compiles no class that inherits from another",
        "write the class without bases; or keep it in Python, and hand its values on",
    ),
    Rule(
        r"(?P<kind>Hook|Pre-hook) '(?P<hook>\w+)' on module '\w+' expected .*?"
        r"the following signature: (?P<signature>.*?)(?= with a return|\. The type|$)",
        "the hook {hook} has another signature than TorchScript wants",
        "give it this one, or remove the hook before scripting: {signature}",
    ),
    Rule(
        r"^Failed to get source for <function (?P<function>[\w.<>]+)",
        "torch compiles the class of its value, and {function} has no source: it was made by a program "
        "(a dataclass, exec)",
        f"keep what forward reads of it in attributes of their own; {_UNREAD}",
    ),
)

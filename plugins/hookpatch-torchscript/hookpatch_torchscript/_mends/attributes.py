"""Rules for attributes without a type, and for modules and classes as a whole."""

from __future__ import annotations

from typing import Final

from hookpatch_torchscript._mends.rule import Rule

NOT_THERE: Final = "the attribute does not exist when the module is scripted"
_LACKS: Final = r"has no attribute '(?P<attribute>\w+)' \(This attribute exists"
_UNREAD: Final = "if forward does not read the attribute, list the name in __jit_ignored_attributes__ of the class"

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        _LACKS + r".*List trace inputs must have elements",
        "TorchScript cannot infer the type of the elements from an empty list",
        "annotate the attribute in the class body with the type of the elements: {attribute}: List[int]",
    ),
    Rule(
        _LACKS + r".*Dictionary inputs must have entries",
        "TorchScript cannot infer the types of keys and values from an empty dict",
        "annotate the attribute in the class body with the types of keys and values: {attribute}: Dict[str, int]",
    ),
    Rule(
        _LACKS + r".*List inputs to traced functions must have consistent element type\. Found (?P<found>.*?)\. Its",
        "the list holds {found}, and a list has one type of element in TorchScript",
        "use a tuple, or give all elements the same type",
    ),
    Rule(
        _LACKS + r".*Dictionary inputs to traced functions must have consistent type\. Found (?P<found>.*?)\. Its",
        "the dict holds keys or values of {found}, and a dict has one type of each in TorchScript",
        "give all keys the same type and all values the same type, or keep two dicts",
    ),
    Rule(
        _LACKS + r".*(list|dict|tuple)'.*Cannot infer concrete type of torch\.nn\.Module",
        "the value is a Python container of modules; TorchScript and parameters() do not look into such containers",
        "use a torch.nn.ModuleList or torch.nn.ModuleDict",
    ),
    Rule(
        _LACKS + r".*Python type: 'module'",
        "the value is a Python module, and TorchScript reads no Python module from an attribute",
        "use the module by its global name ({expression} without self.), not through self",
    ),
    Rule(
        _LACKS + r".*Python type: '(?P<type>functools\.partial)'",
        "the value is a function with arguments filled in ({type}), which TorchScript does not have",
        "write a method {attribute} that makes the call with these arguments",
    ),
    Rule(
        _LACKS + r".*Python type: '(?P<type>range|set|frozenset|deque|collections\.deque|dict_keys|dict_values)'",
        "the value is of the Python type {type}, which TorchScript does not have",
        "keep a list in the attribute: self.{attribute} = list(...)",
    ),
    Rule(
        _LACKS + r".*Python type: '(?P<type>(numpy\.)?ndarray)'",
        "the value is a NumPy array, which TorchScript does not have",
        "keep a tensor: self.register_buffer('{attribute}', torch.from_numpy(...), persistent=False)",
    ),
    Rule(
        _LACKS + r".*Python type: '(?P<type>(numpy\.)?(float|int|bool_?|uint)\d*)'",
        "the value is a number of NumPy ({type}), which TorchScript does not have",
        "keep a number of Python: self.{attribute} = (...).item()",
    ),
    Rule(
        _LACKS + r".*Python type: '(?P<type>[^']+)'",
        "the value is of the Python type {type}, which TorchScript does not have",
        f"copy the parts that forward reads into attributes (numbers, texts, tensors); {_UNREAD}",
    ),
    Rule(
        r"has no attribute '(?P<attribute>\w+)' \(This function exists",
        "TorchScript cannot compile the function",
        "correct the function; or mark the function with @torch.jit.ignore, and annotate its arguments and result",
    ),
    Rule(
        r"has no attribute '(?P<attribute>\w+)'",
        NOT_THERE,
        "assign the attribute in __init__",
    ),
    Rule(
        r"Tried to set nonexistent attribute: (?P<attribute>\w+)",
        "the attribute is assigned here, and does not exist when the module is scripted",
        "assign a value of the same type in __init__",
    ),
    Rule(
        r"Wrong type for attribute assignment\. Expected NoneType but got (?P<found>[^:\n]+)",
        "the value is None when the module is scripted, which fixes the type as None; here a value of type "
        "{found} is assigned",
        "annotate the attribute in the class body: {attribute}: Optional[{found}]",
        r"^(self\.)?(?P<attribute>\w+)",
    ),
    Rule(
        r"Wrong type for attribute assignment\. Expected (?P<wanted>[^:\n]+) but got (?P<found>[^:\n]+)",
        "the value is of type {wanted} when the module is scripted; here a value of type {found} is assigned",
        "keep the type: begin with a {found} in __init__, or assign to another attribute",
        r"^(self\.)?(?P<attribute>\w+)",
    ),
    Rule(
        r"Error inferring type for (?P<attribute>\w+): .*Could not unify type list since element 1 of type "
        r"(?P<one>\w+) did not match the types before it \((?P<other>\w+)\)",
        "the value is a member of an Enum with values of several types ({other}, {one})",
        "give all members of the Enum values of the same type",
    ),
    Rule(
        r"Error inferring type for (?P<attribute>\w+): (?P<inner>.*)",
        "TorchScript cannot infer the type: {inner}",
        f"annotate the attribute in the class body; {_UNREAD}",
    ),
    Rule(
        r"Could not cast attribute '(?P<attribute>\w+)' to type [^:]*(:[^:]*)?: "
        r"Could not cast attribute '(?P<part>\w+)' to type (?P<wanted>\w+)",
        "torch has compiled the class of the value, and takes {part} for a {wanted}; {part} is of another type",
        f"annotate {{part}} in the class body of the value, if TorchScript has its type; {_UNREAD}",
    ),
    Rule(
        r"Could not cast attribute '(?P<attribute>\w+)' to type (?P<wanted>[^:]+): ",
        "the annotation says {wanted}, and the value is of another type",
        "correct the annotation in the class body, or the value",
    ),
    Rule(
        r"object in attribute '\w+\.(?P<attribute>\w+)' is not a valid constant",
        "the attribute is declared a constant, and TorchScript has no constants of this type",
        "remove the name from __constants__ (or the Final[...]); constants are numbers, texts, bools, None, and "
        "tuples of these",
    ),
    # --- modules as a whole
    Rule(
        r"uninitialized (parameters|buffers) (?P<attribute>\w+)\.",
        "the first forward pass sets the shape of a lazy module, and no pass has run",
        "call the model once before scripting",
    ),
    Rule(
        r"has not been initialized, did you forget to call 'super\(\)'",
        "torch.nn.Module.__init__ was not called",
        "call super().__init__() first in __init__",
    ),
    Rule(
        r"cannot be compiled since it inherits from nn\.Module",
        "torch.jit.script was given the class of a module, not a module",
        "script an instance: torch.jit.script({name}(...))",
    ),
    Rule(
        r"TorchScript classes does not support inheritance",
        "TorchScript compiles no class with a base class",
        "write the class without bases; or keep the object in Python, and pass its values on",
    ),
    Rule(
        r"(?P<kind>Hook|Pre-hook) '(?P<hook>\w+)' on module '\w+' expected .*?"
        r"the following signature: (?P<signature>.*?)(?= with a return|\. The type|$)",
        "the hook {hook} has another signature than TorchScript wants",
        "remove the hook before scripting, or give the hook this signature: {signature}",
    ),
    Rule(
        r"^Failed to get source for <function (?P<function>[\w.<>]+)",
        "torch compiles the class of the value, and {function} has no source, being made by a program (a "
        "dataclass, exec)",
        f"copy the parts that forward reads into attributes; make a NamedTuple of a value made in forward; {_UNREAD}",
    ),
)

"""Rules for names that TorchScript does not know or cannot compile."""

from __future__ import annotations

from typing import Final

from hookpatch_torchscript._mends.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        r"Unknown type annotation: '(?P<type>(<class |typing\.).*?)' at",
        "the annotation {type} is no type of TorchScript",
        "take the annotation away; or write int, float, str, Tensor, List, Dict, Tuple, Optional or Union of these",
    ),
    Rule(
        r"^Unsupported annotation (?P<type>.+) could not be resolved because",
        "the annotation {type} is no type of TorchScript",
        "take the annotation away; or write int, float, str, Tensor, List, Dict, Tuple, Optional or Union of these",
    ),
    Rule(
        r"Error inferring type for (?P<attribute>\w+): .*Can not create tuple with None type",
        "a tuple of any length has no type in TorchScript",
        "write the type of each element (Tuple[int, int]); or use a list",
    ),
    Rule(
        r"Unknown type annotation: '(?P<type>.+?)' at",
        "an annotation is a text ({type}), which TorchScript does not read in a class body, nor of an ignored function",
        "take 'from __future__ import annotations' out of the file, and the quotes from the annotation",
    ),
    Rule(
        r"attribute lookup is not defined on python value of type '(?P<type>[^']+)'",
        "{expression} is of a Python object ({type}), which TorchScript does not know",
        "put the line under 'if not torch.jit.is_scripting():', or into a method marked with @torch.jit.ignore, with "
        "annotations",
    ),
    Rule(
        r"cannot call a value of type 'NoneType'",
        "the value is None when the module is scripted",
        "test for None first: if self.{attribute} is not None: ...",
        r"^self\.(?P<attribute>\w+)",
    ),
    Rule(
        r"^builtin cannot be used as a value",
        "a function is used as a value, and TorchScript has no functions of functions (map, filter)",
        "write a for loop",
    ),
    Rule(
        r"^Expected a single top-level function",
        "the function is a lambda, and TorchScript has no lambda",
        "write a function with def at the top of the module",
    ),
    Rule(
        r"^Can't get source for",
        "torch cannot read the source: the code was not defined in a file, or the file has gone",
        "define the code in a file that exists when the model is scripted",
    ),
    Rule(
        r"^(?P<type>list|dict|tuple|set|int|float|str|bool) cannot be used as a value",
        "TorchScript has no types as values ({type})",
        "ask with isinstance(..., {type})",
    ),
    Rule(
        r"python value of type '(?P<type>TextIOWrapper|EncodedFile|\w*IO)' cannot be used as a value",
        "{expression} is a file, and print writes to no file in TorchScript",
        "put the print under 'if not torch.jit.is_scripting():'",
    ),
    Rule(
        r"python value of type '(?P<type>[^']+)' cannot be used as a value",
        "{expression} is a global or closed over variable ({type}), which TorchScript does not read",
        "make the value an attribute of the module, or an argument",
    ),
    Rule(
        r"cannot create weak reference to '(?P<type>[^']+)' object",
        "{expression} is of another library ({type}), and TorchScript cannot compile it",
        "use torch's function of that name; or move the call into a method marked with @torch.jit.ignore, with "
        "annotations",
    ),
    Rule(
        r"Python builtin <built-in function (?P<name>\w+)> is currently not supported",
        "TorchScript has no {name}",
        "write the code without {name}, or mark the method with @torch.jit.unused or @torch.jit.ignore; list a "
        "property in __jit_unused_properties__ of the class",
    ),
    Rule(
        r"method '(?P<name>\w+)' is called recursively",
        "{name} calls itself, and TorchScript compiles no recursive method",
        "write a loop; or make the method a function outside of the class, marked with @torch.jit.ignore, with "
        "annotations",
    ),
    Rule(
        r"Unknown type (name|constructor) '?(?P<name>[^':\n]+)",
        "TorchScript does not know the annotation {name}: the module does not import the name, or TorchScript has no "
        "such type",
        "import the name at the top of the module; or write int, float, str, Tensor, List, Dict, Tuple, Optional, "
        "Union",
    ),
    Rule(
        r"cannot call a value of type '(?P<found>[^']+)'",
        "{expression} is of type {found} here: a local variable of the same name hides the function",
        "give the variable another name",
    ),
    Rule(
        r"getattr's second argument must be a string literal",
        "getattr has a computed name",
        "write the name out: self.name",
    ),
    Rule(
        r"undefined value (?P<name>\w+)",
        "{name} is not known here",
        "import or define the name at the top of the module; names of enclosing functions are found only where the "
        "function itself uses the names",
    ),
    Rule(
        r"Unknown builtin op: (?P<name>[\w:.]+?)\.?\n",
        "{expression} is no operator of TorchScript ({name})",
        "use another function of torch; or move the call into a method marked with @torch.jit.ignore, with annotations",
    ),
)

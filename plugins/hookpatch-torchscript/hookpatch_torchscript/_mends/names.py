"""Rules for names that TorchScript does not know or cannot compile."""

from __future__ import annotations

from typing import Final

from hookpatch_torchscript._mends.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        r"Unknown type annotation: '(?P<type>(<class |typing\.).*?)' at",
        "its annotation is no type that TorchScript has ({type})",
        "take the annotation away; or write int, float, str, Tensor, List, Dict, Tuple, Optional or Union of these",
    ),
    Rule(
        r"^Unsupported annotation (?P<type>.+) could not be resolved because",
        "its annotation is no type that TorchScript has ({type})",
        "take the annotation away; or write int, float, str, Tensor, List, Dict, Tuple, Optional or Union of these",
    ),
    Rule(
        r"Error inferring type for (?P<attribute>\w+): .*Can not create tuple with None type",
        "a tuple of any length has no type in TorchScript",
        "write each of its types (Tuple[int, int]); or make it a list",
    ),
    Rule(
        r"Unknown type annotation: '(?P<type>.+?)' at",
        "an annotation is a text ({type}), which TorchScript does not read in a class body, nor of an ignored function",
        "take 'from __future__ import annotations' out of the file, and the quotes from the annotation",
    ),
    Rule(
        r"attribute lookup is not defined on python value of type '(?P<type>[^']+)'",
        "{expression} is of a Python object ({type}), which TorchScript does not know",
        "put it under 'if not torch.jit.is_scripting():', or into a method marked with @torch.jit.ignore, with "
        "annotations",
    ),
    Rule(
        r"cannot call a value of type 'NoneType'",
        "it is None when the module is scripted",
        "test it first: if self.{attribute} is not None: ...",
        r"^self\.(?P<attribute>\w+)",
    ),
    Rule(
        r"^builtin cannot be used as a value",
        "a function stands where a value is expected: there are no functions of functions (map, filter) in TorchScript",
        "write a for loop",
    ),
    Rule(
        r"^Expected a single top-level function",
        "it is a lambda, and there is no lambda in TorchScript",
        "write a function with def at the top of the module",
    ),
    Rule(
        r"^Can't get source for",
        "its source cannot be read: it was not defined in a file, or the file has gone",
        "define it in a file that is there when it is scripted",
    ),
    Rule(
        r"^(?P<type>list|dict|tuple|set|int|float|str|bool) cannot be used as a value",
        "there are no types as values in TorchScript ({type})",
        "ask with isinstance(..., {type})",
    ),
    Rule(
        r"python value of type '(?P<type>TextIOWrapper|EncodedFile|\w*IO)' cannot be used as a value",
        "{expression} is a file, and print writes to none in TorchScript",
        "put it under 'if not torch.jit.is_scripting():'",
    ),
    Rule(
        r"python value of type '(?P<type>[^']+)' cannot be used as a value",
        "{expression} is a global or closed over variable ({type}), which TorchScript does not read",
        "make it an attribute of the module, or an argument",
    ),
    Rule(
        r"cannot create weak reference to '(?P<type>[^']+)' object",
        "{expression} is of another library ({type}), and TorchScript cannot compile it",
        "use torch's function of that name; or move the call into a method marked with @torch.jit.ignore, with "
        "annotations",
    ),
    Rule(
        r"Python builtin <built-in function (?P<name>\w+)> is currently not supported",
        "there is no {name} in TorchScript",
        "write it otherwise, or mark what it is in with @torch.jit.unused or @torch.jit.ignore; of a property name it "
        "in __jit_unused_properties__ of the class",
    ),
    Rule(
        r"method '(?P<name>\w+)' is called recursively",
        "{name} calls itself, and TorchScript compiles no recursive method",
        "write a loop; or make it a function outside of the class, marked with @torch.jit.ignore, with annotations",
    ),
    Rule(
        r"Unknown type (name|constructor) '?(?P<name>[^':\n]+)",
        "the annotation {name} means nothing to TorchScript: it is not imported where it is written, or no type that "
        "TorchScript has",
        "import it at the top of the module; or write int, float, str, Tensor, List, Dict, Tuple, Optional, Union",
    ),
    Rule(
        r"cannot call a value of type '(?P<found>[^']+)'",
        "{expression} is of type {found} here: a local variable of that name hides the function",
        "give the variable another name",
    ),
    Rule(
        r"getattr's second argument must be a string literal",
        "getattr with a name that is computed",
        "write the name out: self.name",
    ),
    Rule(
        r"undefined value (?P<name>\w+)",
        "{name} is not known here",
        "import or define it at the top of the module; names of enclosing functions are found only where they are used",
    ),
    Rule(
        r"Unknown builtin op: (?P<name>[\w:.]+?)\.?\n",
        "{expression} is no operator that TorchScript has ({name})",
        "use another function of torch; or move it into a method marked with @torch.jit.ignore, with annotations",
    ),
)

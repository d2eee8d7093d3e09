"""What torch's messages mean, and what to do: a rule for each, in the order in which they are tried.

A rule's texts are filled with the named groups of its patterns, with ``expression``, the part of the line that torch
has marked, and with ``operand``, the name in it that has the type ``found``. A group ``attribute`` is the name of an
attribute of the module.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, slots=True)
class Failed:
    """What a rule looks at.

    Attributes:
        message: what torch says.
        expression: the part of the line that it has marked.
        operand: of a type, the name in the marked expression that has it; else the expression.
        through: the line that called what the error is in, empty if torch began there.
    """

    message: str
    expression: str
    operand: Callable[[str], str]
    through: str


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """A message of torch, and what it means.

    Attributes:
        says: found in the message.
        problem: what is wrong.
        mend: what to do now.
        at: found in the marked expression, too, or in the operand of the type ``found``; None if that does not matter.
        through: found in the line that called what the error is in, too; None likewise.
    """

    says: str
    problem: str
    mend: str
    at: str | None = None
    through: str | None = None

    def match(self, failed: Failed) -> dict[str, str] | None:
        """Return the named groups, and the operand, if the rule fits; else None."""
        said = re.search(self.says, failed.message, re.DOTALL)
        if said is None:
            return None
        groups = {name: _plain(text) for name, text in said.groupdict().items() if text is not None}
        groups["operand"] = failed.operand(groups.get("found", ""))
        expression = groups["operand"] if "found" in groups else failed.expression
        for pattern, text in ((self.at, expression), (self.through, failed.through)):
            if pattern is not None:
                if (here := re.search(pattern, text)) is None:
                    return None
                groups |= {name: text for name, text in here.groupdict().items() if text is not None}
        return groups


def _plain(text: str) -> str:
    return " ".join(text.split()).removesuffix(" (inferred)")


_LACKS: Final = r"has no attribute '(?P<attribute>\w+)' \(This attribute exists"
_UNREAD: Final = "if forward does not need it, name it in __jit_ignored_attributes__ of the class"
_VARARGS: Final = r"can't take variable number of arguments or use keyword-only arguments with defaults"
_EXPECTED: Final = (
    r"Expected a value of type '(?P<wanted>[^']+)' for argument '(?P<parameter>\w+)' but instead found type"
)


def _syntax(says: str, what: str, mend: str) -> Rule:
    return Rule(rf"^{says} aren't supported", f"{what} in TorchScript", mend)


RULES: Final[tuple[Rule, ...]] = (
    # --- attributes without a type
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
        "its value is of the Python type {type}, which TorchScript has not",
        f"keep what forward reads of it in attributes of their own (numbers, texts, tensors); {_UNREAD}",
    ),
    Rule(
        r"has no attribute '(?P<attribute>\w+)' \(This function exists",
        "it is a function that TorchScript cannot compile",
        "mend the function, or mark it with @torch.jit.ignore and annotate its arguments and what it returns",
    ),
    Rule(
        r"has no attribute '(?P<attribute>\w+)'",
        "there is no such attribute when the module is scripted",
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
    # --- what is written
    Rule(
        rf"{_VARARGS}|aren't supported",
        "TorchScript compiles the context manager {name}, and cannot",
        "put the with around the call of the model, or into a method marked with @torch.jit.ignore; TorchScript has "
        "torch.no_grad and torch.autocast, and classes of your own that it can compile",
        through=r"^with (?P<name>[\w.]+)",
    ),
    Rule(
        _VARARGS,
        "*{name} takes any number of arguments, and TorchScript needs each by its name",
        "name the arguments, one by one, or take a list: {name}: List[Tensor]",
        r"^\*(?P<name>\w+)",
    ),
    Rule(
        _VARARGS,
        "**{name} takes arguments by any name, and TorchScript needs each by its name",
        "name the arguments, one by one, with defaults",
        r"^\*\*(?P<name>\w+)",
    ),
    Rule(
        _VARARGS,
        "a keyword-only argument has a default ({expression}), which TorchScript does not take",
        "take the * out of the parameters",
    ),
    _syntax("Lambda", "there is no lambda", "write a function with def at the top of the module, and call it"),
    _syntax(
        "try blocks", "there is no try", "test for the condition with if, or move it into a @torch.jit.ignore'd method"
    ),
    _syntax("Yield", "there are no generators", "collect what is yielded in a list and return that"),
    _syntax("global variables", "there is no global", "keep the value in an attribute of the module (self.name)"),
    _syntax("nonlocal variables", "there is no nonlocal", "keep the value in an attribute of the module (self.name)"),
    _syntax("Set", "there are no sets", "use a list or the keys of a dict"),
    _syntax("SetComp", "there are no sets", "use a list or the keys of a dict"),
    _syntax("NamedExpr", "there is no :=", "assign on a line of its own"),
    _syntax("Match", "there is no match", "write if, elif and else"),
    _syntax("function definitions", "there are no functions in functions", "define it at the top of the module"),
    _syntax("class definitions", "there are no classes in functions", "define it at the top of the module"),
    _syntax("import statements", "there are no imports in functions", "import at the top of the module"),
    Rule(
        r"^(?P<what>[\w ]+) aren't supported",
        "there is no such syntax in TorchScript ({what})",
        "write it otherwise, or move it into a method marked with @torch.jit.ignore",
    ),
    Rule(
        r"Don't support (formatting|conversion) in JoinedStr",
        "an f-string has no formats or conversions in TorchScript",
        "use the plain form {{value}}, or '...'.format(value)",
    ),
    Rule(r"Comprehension ifs are not supported", "a comprehension has no if in TorchScript", "write a for loop"),
    Rule(
        r"del statements are only supported",
        "del takes away no attribute in TorchScript",
        "leave it where it is",
    ),
    Rule(r"keyword-arg expansion is not supported", "a call cannot unpack a dict", "give the arguments by name"),
    Rule(
        r"cannot statically infer the expected size of a list",
        "a call cannot unpack a list, whose length is not known when it is compiled",
        "give the list itself, if the function takes one; or its elements: {list}[0], {list}[1]",
        r"^\*?(?P<list>.+)",
    ),
    Rule(
        r"incompatible constructor arguments.*ErrorReport",
        "a loop has no else in TorchScript",
        "set a bool in the loop, and write an if behind it",
    ),
    Rule(r"else branches of", "a loop has no else in TorchScript", "set a bool in the loop, and write an if behind it"),
    Rule(
        r"object has no attribute or method '(?P<method>\w+)'",
        "super() means nothing in TorchScript, which compiles methods by their names",
        "write the parent's {method} as a method of another name, and call that here and there; "
        "or make the parent's part a submodule",
        r"^super\(\)",
    ),
    Rule(
        r"^'(?P<found>[^']+)' object has no attribute or method '(?P<method>\w+)'",
        "what is of type {found} has no {method} in TorchScript",
        "use a function of torch; if the value is of another type than {found}, annotate it",
    ),
    # --- values and their types
    Rule(
        _EXPECTED + r" '(?P<found>Optional\[[^']*)'",
        "{operand} may be None here ({found}); TorchScript forgets a test of an attribute",
        "assign it to a local variable, and test that: {attribute} = self.{attribute}; if {attribute} is not None: ...",
        r"^self\.(?P<attribute>\w+)$",
    ),
    Rule(
        _EXPECTED + r" '(?P<found>Optional\[[^']*)'",
        "{operand} may be None here ({found})",
        "test it first: if {operand} is not None: ...",
    ),
    Rule(
        _EXPECTED + r" '(?P<found>NoneType)'",
        "it is None when the module is scripted, so its type is None for ever",
        "annotate it in the class body ({attribute}: Optional[Tensor]), and test it on a local variable; or begin with "
        "an empty tensor",
        r"^self\.(?P<attribute>\w+)$",
    ),
    Rule(_EXPECTED + r" '(?P<found>NoneType)'", "{operand} is None here", "test it first, or give it a value"),
    Rule(
        _EXPECTED + r" '(?P<found>Union\[[^']*)'",
        "{operand} may be of several types here ({found})",
        "test it first: if isinstance({operand}, Tensor): ... else: ...",
    ),
    Rule(
        r"^(?P<callee>\w+)\(.*Expected a value of type 'Tensor \(inferred\)' for argument '(?P<parameter>\w+)' "
        r"but instead found type '(?P<found>[^']+)'",
        "the argument {parameter} of {callee} is not annotated, so TorchScript takes it for a Tensor; it gets: {found}",
        "annotate it where {callee} is defined: {parameter}: {found}",
    ),
    Rule(
        r"all inputs of range must be ints, found Tensor \(inferred\)",
        "the argument {operand} is not annotated, so TorchScript takes it for a Tensor; range takes ints",
        "annotate it: {operand}: int",
    ),
    Rule(
        r"all inputs of range must be ints, found Tensor",
        "{method} says nothing of what it returns, so TorchScript takes that for a Tensor; range takes ints",
        "annotate it where it is defined: def {method}(...) -> int",
        r"self\.(?P<method>\w+)\(",
    ),
    Rule(
        r"Expected a default value of type Tensor \(inferred\) on parameter \"(?P<parameter>\w+)\"",
        "the parameter {parameter} is not annotated, so TorchScript takes it for a Tensor; its default is none",
        "annotate it with the type of its default",
    ),
    Rule(
        r"Previous return statement returned a value of type (?P<one>.+?) but this return statement returns a value of "
        r"type (?P<other>[^:\n]+)",
        "it returns a value of type {other} here and one of type {one} elsewhere",
        "return one type; or annotate what is returned: -> Union[{one}, {other}]",
    ),
    Rule(
        r"(?P<name>\w+) is not defined in the (?P<branch>true|false) branch",
        "{name} is not assigned in one branch (the {branch} one), and used after it",
        "assign it before the if",
    ),
    Rule(
        r"Type mismatch: (?P<name>\w+) is set to type (?P<one>.+?) in the true branch and type (?P<other>.+?) in the ",
        "{name} is of type {one} in one branch and of type {other} in the other",
        "give it one type; or annotate it before the if: {name}: Union[{one}, {other}]",
    ),
    Rule(
        r"python value of type '(?P<type>[^']+)' cannot be used as a value",
        "{expression} is a global or closed over variable ({type}), which TorchScript does not read",
        "make it an attribute of the module, or an argument; or mark it Final: {expression}: Final[{type}]",
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
        r"Expected integer literal for index",
        "a ModuleList or Sequential is indexed by a variable; each of its modules has a type of its own",
        "go through it: for position, layer in enumerate({container}): if position == {index}: ...",
        r"^(?P<container>(self\.(?P<attribute>\w+)|.+))\[(?P<index>.+)\]",
    ),
    Rule(
        r"Unable to extract string literal index",
        "a ModuleDict is indexed by a variable; each of its modules has a type of its own",
        "go through it: for name, layer in {container}.items(): if name == {index}: ...",
        r"^(?P<container>(self\.(?P<attribute>\w+)|.+))\[(?P<index>.+)\]",
    ),
    Rule(
        r"Can not iterate over a module list or tuple with a value that does not have a statically determinable length",
        "modules are zipped with a list, whose length is not known when it is compiled",
        "go through the modules with enumerate, and index the list",
    ),
    Rule(
        r"Cannot index into a (?P<type>Tuple\[.*?\]) with a non-integer literal",
        "a tuple of several types ({type}) is indexed by a variable",
        "index it by a number that is written out; or make it a list of one type",
        r"^(self\.(?P<attribute>\w+)|.+)\[",
    ),
    Rule(
        r"method '(?P<name>\w+)' is called recursively",
        "{name} calls itself, and TorchScript compiles no recursive method",
        "write a loop; or mark it with @torch.jit.ignore, with annotations",
    ),
    Rule(
        r"Unknown type name '(?P<name>[^']+)'",
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
        r"Variable '(?P<name>\w+)' previously had type (?P<one>.+?) but is now being assigned to a value of type "
        r"(?P<other>[^:\n]+)",
        "{name} is of type {one}, and a value of type {other} is assigned to it",
        "use another name, or annotate it at its first assignment: {name}: Union[{one}, {other}]",
    ),
    Rule(
        r"Return value was annotated as having type (?P<one>.+?) but is actually of type (?P<other>[^:\n]+)",
        "the annotation promises the type {one}, and one of type {other} is returned",
        "correct the annotation or what is returned",
    ),
    Rule(
        r"Unknown builtin op: (?P<name>[\w:.]+?)\.?\n",
        "{expression} is no operator that TorchScript has ({name})",
        "use another function of torch; or move it into a method marked with @torch.jit.ignore, with annotations",
    ),
    Rule(
        _EXPECTED + r" '(?P<found>List\[Tensor\])'",
        "sum adds up numbers in TorchScript, not a list of tensors",
        "add them up in a for loop, or stack them: torch.stack([...]).sum(0)",
        r"^sum$",
    ),
    Rule(
        _EXPECTED + r" '(?P<found>[^']+)'",
        "in {expression} a value of type {found} stands where {wanted} is expected (the argument {parameter})",
        "give it that type, or annotate what it comes from: what has no annotation is a Tensor",
    ),
)

"""Values that have another type than TorchScript takes them to have, and names that it does not know."""

from __future__ import annotations

from typing import Final

from hookpatch_torchscript._mends._rule import Rule

_EXPECTED: Final = (
    r"Expected a value of type '(?P<wanted>[^']+)' for argument '(?P<parameter>\w+)' but instead found type"
)

RULES: Final[tuple[Rule, ...]] = (
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
        "write a loop; or make it a function outside of the class, marked with @torch.jit.ignore, with annotations",
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

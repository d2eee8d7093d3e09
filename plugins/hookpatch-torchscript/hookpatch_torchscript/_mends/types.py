"""Rules for values of another type than TorchScript infers."""

from __future__ import annotations

from typing import Final

from hookpatch_torchscript._mends.rule import Rule

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
        r"^'(?P<found>Optional\[[^']*)' object has no attribute or method '(?P<method>\w+)'",
        "{operand} may be None here ({found}), and None has no {method}",
        "test it first: if {operand} is not None: ...",
        r"^(?P<operand>[\w.]+?)(\.\w+)?$",
    ),
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
        r"Expected integer literal for index",
        "a ModuleList or Sequential is indexed by a variable; each of its modules has a type of its own",
        "go through it: for each, layer in enumerate({container}): if each == {index}: ...",
        r"^(?P<container>(self\.(?P<attribute>\w+)|.+))\[(?P<index>.+)\]",
    ),
    Rule(
        r"Unable to extract string literal index",
        "a ModuleDict is indexed by a variable; each of its modules has a type of its own",
        "go through it: for each, layer in {container}.items(): if each == {index}: ...",
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
        _EXPECTED + r" '(?P<found>List\[Tensor\])'",
        "sum adds up numbers in TorchScript, not a list of tensors",
        "add them up in a for loop, or stack them: torch.stack([...]).sum(0)",
        r"^sum$",
    ),
    Rule(
        r"(?P<found>Tensor) \(inferred\) cannot be used as a tuple",
        "{expression} is not annotated, so TorchScript takes it for a Tensor; a Tensor cannot be unpacked",
        "annotate it: {expression}: List[int], or Tuple[int, int], with the types that it has",
    ),
    Rule(
        r"Type variable 't' previously matched to type Tensor is matched to type (?P<found>\w+)",
        "the list was empty when it was made, so it is one of Tensors in TorchScript; a value of type {found} is added",
        "annotate it where it is made: List[{found}] = []",
    ),
    Rule(
        r"Type variable 't' previously matched to type (?P<one>\w+) is matched to type (?P<found>\w+)",
        "the list holds values of type {one}, and a value of type {found} is added",
        "annotate it where it is made: List[{found}]; and add values of that type alone",
    ),
    Rule(
        r"indexing tensor with unsupported index type 'str'",
        "what {expression} indexes is not annotated, so TorchScript takes it for a Tensor; a Tensor has no such index",
        "annotate it: Dict[str, Tensor], with the types that it holds",
    ),
    Rule(
        r"^Mutable default parameters are not supported.*Found <class '(?P<type>\w+)'> on parameter (?P<name>\w+)",
        "the default of {name} is a {type}, which all calls would share",
        "make the default None, annotate it as Optional, and make the {type} in the body",
    ),
    Rule(
        r"Expected at most (?P<most>\d+) arguments but found (?P<given>\d+) positional",
        "{expression} takes at most {most} arguments with self, and gets {given}",
        "give it as many as its definition has",
    ),
    Rule(
        r"Keyword argument (?P<name>\w+) unknown",
        "{expression} has no argument {name} in TorchScript",
        "leave it out",
    ),
    Rule(
        _EXPECTED + r" '(?P<found>[^']+)'",
        "in {expression} a value of type {found} stands where {wanted} is expected (the argument {parameter})",
        "give it that type, or annotate what it comes from: what has no annotation is a Tensor",
    ),
)

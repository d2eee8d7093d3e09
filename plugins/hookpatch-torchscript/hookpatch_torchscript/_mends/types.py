"""Rules for values of another type than TorchScript infers."""

from __future__ import annotations

from typing import Final

from hookpatch_torchscript._mends.rule import Rule

_EXPECTED: Final = (
    r"Expected a value of type '(?P<wanted>[^']+)' for argument '(?P<parameter>\w+)' but instead found type"
)

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        r"^\s*reversed\(.*found type '[^']*ModuleList",
        "reversed takes no ModuleList in TorchScript",
        "make a second list in __init__, nn.ModuleList(reversed(...)), and loop over the second list",
    ),
    Rule(
        r"aten::(?P<name>any|all)\(Tensor self\).*found type 'List\[Tensor\]'",
        "{name} takes no list of tensors in TorchScript",
        "give a list of bools: {name}([bool(...) for ...])",
    ),
    Rule(
        r"for argument 'default_value' but instead found type 'NoneType'",
        "pop takes a default of the type of the values in TorchScript, not None",
        "give a default of that type, or test for the key first",
    ),
    Rule(
        _EXPECTED + r" '(?P<found>Optional\[[^']*)'",
        "{operand} may be None here ({found}); TorchScript forgets a test of an attribute",
        "assign the attribute to a local variable, and test the variable: {attribute} = self.{attribute}; if "
        "{attribute} is not None: ...",
        r"^self\.(?P<attribute>\w+)$",
    ),
    Rule(
        _EXPECTED + r" '(?P<found>Optional\[[^']*)'",
        "{operand} may be None here ({found}); TorchScript forgets a test of an item",
        "assign the item to a local variable, and test the variable: item = {operand}; if item is not None: ...",
        r"\]$",
    ),
    Rule(
        _EXPECTED + r" '(?P<found>Optional\[[^']*)'",
        "{operand} may be None here ({found})",
        "test for None first: if {operand} is not None: ...",
    ),
    Rule(
        _EXPECTED + r" '(?P<found>NoneType)'",
        "the value is None when the module is scripted, which fixes the type as None",
        "annotate the attribute in the class body ({attribute}: Optional[Tensor]), and test a local variable for "
        "None; or begin with an empty tensor",
        r"^self\.(?P<attribute>\w+)$",
    ),
    Rule(_EXPECTED + r" '(?P<found>NoneType)'", "{operand} is None here", "test for None first, or assign a value"),
    Rule(
        r"^'(?P<found>Optional\[[^']*)' object has no attribute or method '(?P<method>\w+)'",
        "{operand} may be None here ({found}), and None has no {method}",
        "test for None first: if {operand} is not None: ...",
        r"^(?P<operand>[\w.]+?)(\.\w+)?$",
    ),
    Rule(
        _EXPECTED + r" '(?P<found>Union\[[^']*)'",
        "{operand} may be of several types here ({found})",
        "test the type first: if isinstance({operand}, Tensor): ... else: ...",
    ),
    Rule(
        r"^(?P<callee>\w+)\(.*Expected a value of type 'Tensor \(inferred\)' for argument '(?P<parameter>\w+)' "
        r"but instead found type '(?P<found>[^']+)'",
        "the argument {parameter} of {callee} is not annotated and counts as a Tensor in TorchScript; the call "
        "passes: {found}",
        "annotate the argument in the definition of {callee}: {parameter}: {found}",
    ),
    Rule(
        r"all inputs of range must be ints, found Tensor \(inferred\)",
        "the argument {operand} is not annotated and counts as a Tensor in TorchScript; range takes ints",
        "annotate the argument: {operand}: int",
    ),
    Rule(
        r"all inputs of range must be ints, found Tensor",
        "{method} has no return annotation, and the result counts as a Tensor in TorchScript; range takes ints",
        "annotate the definition: def {method}(...) -> int",
        r"self\.(?P<method>\w+)\(",
    ),
    Rule(
        r"Expected a default value of type Tensor \(inferred\) on parameter \"(?P<parameter>\w+)\"",
        "the parameter {parameter} is not annotated and counts as a Tensor in TorchScript; the default is of "
        "another type",
        "annotate the parameter with the type of the default",
    ),
    Rule(
        r"Previous return statement returned a value of type (?P<one>.+?) but this return statement returns a value of "
        r"type (?P<other>[^:\n]+)",
        "the function returns a value of type {other} here and of type {one} elsewhere",
        "return a single type; or annotate the result: -> Union[{one}, {other}]",
    ),
    Rule(
        r"(?P<name>\w+) is not defined in the (?P<branch>true|false) branch",
        "{name} is not assigned in the {branch} branch, and used after the if",
        "assign a value before the if",
    ),
    Rule(
        r"Type mismatch: (?P<name>\w+) is set to type (?P<one>.+?) in the true branch and type (?P<other>.+?) in the ",
        "{name} is of type {one} in the true branch and of type {other} in the false branch",
        "assign the same type in both branches; or annotate the name before the if: {name}: Union[{one}, {other}]",
    ),
    Rule(
        r"Expected integer literal for index",
        "a ModuleList or Sequential is indexed by a variable; each module in the container has its own type",
        "go through the container: for each, layer in enumerate({container}): if each == {index}: ...",
        r"^(?P<container>(self\.(?P<attribute>\w+)|.+))\[(?P<index>.+)\]",
    ),
    Rule(
        r"Unable to extract string literal index",
        "a ModuleDict is indexed by a variable; each module in the container has its own type",
        "go through the container: for each, layer in {container}.items(): if each == {index}: ...",
        r"^(?P<container>(self\.(?P<attribute>\w+)|.+))\[(?P<index>.+)\]",
    ),
    Rule(
        r"tuple slice indices must be integer constants",
        "a ModuleList or a tuple is sliced by a variable; each element in the container has its own type",
        "go through the container: for each, layer in enumerate({container}): if each is in the slice: ...",
        r"^(?P<container>(self\.(?P<attribute>\w+)|[^\[]+))",
    ),
    Rule(
        r"Can not iterate over a module list or tuple with a value that does not have a statically determinable length",
        "a tuple is zipped with a value whose length TorchScript does not know when compiling",
        "write the tuple as a list, with values of one type",
        r"^zip\((?!.*self\.)",
    ),
    Rule(
        r"Can not iterate over a module list or tuple with a value that does not have a statically determinable length",
        "modules are zipped with a list, and TorchScript does not know the length of the list when compiling",
        "go through the modules with enumerate, and index the list",
    ),
    Rule(
        r"Cannot index into a (?P<type>Tuple\[.*?\]) with a non-integer literal",
        "a tuple of several types ({type}) is indexed by a variable",
        "index the tuple by a literal number; or use a list of values of the same type",
        r"^(self\.(?P<attribute>\w+)|.+)\[",
    ),
    Rule(
        r"if-expression's true branch has type (?P<one>.+?) but false branch has type (?P<other>[^:\n]+)",
        "the if-expression is of type {one} or of type {other}",
        "give both values one type; of int and float, write float(...) around the int",
    ),
    Rule(
        r"Variable '(?P<name>\w+)' previously had type (?P<one>NoneType) but is now being assigned to a value of type "
        r"(?P<other>[^:\n]+)",
        "{name} begins as None, which fixes the type as None; here a value of type {other} is assigned",
        "annotate the first assignment: {name}: Optional[{other}] = None; and write assert {name} is not None before "
        "the value is used",
    ),
    Rule(
        r"Variable '(?P<name>\w+)' previously had type (?P<one>.+?) but is now being assigned to a value of type "
        r"(?P<other>[^:\n]+)",
        "{name} is of type {one}; here a value of type {other} is assigned",
        "use another name, or annotate the first assignment: {name}: Union[{one}, {other}]",
    ),
    Rule(
        r"Return value was annotated as having type (?P<one>.+?) but is actually of type (?P<other>[^:\n]+)",
        "the annotation promises the type {one}, and the function returns {other}",
        "correct the annotation or the result",
    ),
    Rule(
        _EXPECTED + r" '(?P<found>List\[Tensor\])'",
        "sum adds up numbers in TorchScript, not a list of tensors",
        "add the tensors in a for loop, or stack the list: torch.stack([...]).sum(0)",
        r"^sum$",
    ),
    Rule(
        r"(?P<found>Tensor) \(inferred\) cannot be used as a tuple",
        "{expression} is not annotated and counts as a Tensor in TorchScript; a Tensor cannot be unpacked",
        "annotate the name with the types of the elements: {expression}: List[int], or Tuple[int, int]",
    ),
    Rule(
        r"_set_item\.str\([^\n]*\n\s*Could not match type [^\n]* "
        r"previously matched to type (?P<one>\w+) is matched to type (?P<found>\w+)",
        "the dict holds values of type {one}, and a value of type {found} is put into the dict",
        "keep values of type {found} in a dict of their own, or in names; a dict has one type of value",
    ),
    Rule(
        r"Type variable 't' previously matched to type Tensor is matched to type (?P<found>\w+)",
        "TorchScript takes an empty list for a list of Tensors; here a value of type {found} is added",
        "annotate the first assignment: List[{found}] = []",
    ),
    Rule(
        r"Type variable 't' previously matched to type (?P<one>\w+) is matched to type (?P<found>\w+)",
        "the list holds values of type {one}, and a value of type {found} is added",
        "annotate the first assignment: List[{found}]; and add values of type {found} alone",
    ),
    Rule(
        r"Ellipses followed by tensor indexing is currently not supported",
        "TorchScript takes no tensor or list of indices behind ...",
        "select by the axis: value.index_select(-1, index) for value[..., index], where index is a tensor of one axis",
    ),
    Rule(
        r"Expected type hint for result of tolist\(\)",
        "tolist() gives a type that TorchScript cannot infer",
        "annotate the result: values: List[float] = value.tolist(), or List[List[float]] for two axes",
    ),
    Rule(
        r"indexing tensor with unsupported index type 'str'",
        "{expression} indexes a value without annotation, which counts as a Tensor in TorchScript; a Tensor has "
        "no such index",
        "annotate the indexed value with the types of keys and values: Dict[str, Tensor]",
    ),
    Rule(
        r"^Mutable default parameters are not supported.*Found <class '(?P<type>\w+)'> on parameter (?P<name>\w+)",
        "the default of {name} is a {type}, which all calls would share",
        "make the default None, annotate it as Optional, and make the {type} in the body",
    ),
    Rule(
        r"Expected at most (?P<most>\d+) arguments but found (?P<given>\d+) positional",
        "{expression} takes at most {most} arguments with self, and gets {given}",
        "pass as many arguments as the definition takes",
    ),
    Rule(
        r"Keyword argument (?P<name>\w+) unknown",
        "{expression} has no argument {name} in TorchScript",
        "leave the argument out",
    ),
    Rule(
        _EXPECTED + r" '(?P<found>[^']+)'",
        "in {expression} a value of type {found} stands where {wanted} is expected (the argument {parameter})",
        "pass a value of that type, or annotate the source of the value: a name without annotation counts as a Tensor",
    ),
)

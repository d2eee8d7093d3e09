"""Rules for syntax that TorchScript does not support."""

from __future__ import annotations

from typing import Final

from hookpatch_torchscript._mends.rule import Rule

_VARARGS: Final = r"can't take variable number of arguments or use keyword-only arguments with defaults"


def _syntax(says: str, feature: str, mend: str) -> Rule:
    return Rule(rf"^{says} aren't supported", f"TorchScript has no {feature}", mend)


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        rf"{_VARARGS}|aren't supported",
        "TorchScript compiles the context manager {name}, and cannot",
        "put the with around the call of the model, or into a method marked with @torch.jit.ignore; TorchScript has "
        "torch.no_grad and torch.autocast, and classes of your own that it can compile",
        through=r"^with (?P<name>[\w.]+)",
    ),
    Rule(
        r"^Expected <function (?P<context>\w+)\.__a(enter|exit)__",
        "TorchScript compiles the context manager {context}, and cannot",
        "leave the with out, or put it around the call of the model",
    ),
    Rule(
        _VARARGS,
        "*{name} takes any number of arguments, and TorchScript needs each by its name",
        "write each argument by its name, or take a list: {name}: List[Tensor]",
        r"^\*(?P<name>\w+)",
    ),
    Rule(
        _VARARGS,
        "**{name} takes arguments by any name, and TorchScript needs each by its name",
        "write each argument by its name, with a default",
        r"^\*\*(?P<name>\w+)",
    ),
    Rule(
        _VARARGS,
        "a keyword-only argument has a default ({expression}), which TorchScript does not take",
        "take the * out of the parameters",
    ),
    _syntax(
        "Lambda",
        "lambda",
        "write a function with def at the top of the module, and call it; TorchScript passes no function on: sort with "
        "torch.argsort, and find a greatest value in a for loop",
    ),
    _syntax(
        "try blocks",
        "try",
        "test for the condition with if, or move the code into a method marked with @torch.jit.ignore",
    ),
    _syntax("Yield", "generators", "collect the values in a list, and return the list"),
    _syntax("global variables", "global", "keep the value in an attribute of the module (self.name)"),
    _syntax("nonlocal variables", "nonlocal", "keep the value in an attribute of the module (self.name)"),
    _syntax("Set", "sets", "use a list or the keys of a dict"),
    _syntax("SetComp", "sets", "use a list or the keys of a dict"),
    _syntax("NamedExpr", ":=", "assign the value in the line before"),
    _syntax("Match", "match", "write if, elif and else"),
    _syntax("function definitions", "functions in functions", "define the function at the top of the module"),
    _syntax("class definitions", "classes in functions", "define the class at the top of the module"),
    _syntax("import statements", "imports in functions", "import at the top of the module"),
    Rule(
        r"^(?P<what>[\w ]+) aren't supported",
        "TorchScript does not have this syntax ({what})",
        "use other syntax, or move the code into a method marked with @torch.jit.ignore",
    ),
    Rule(
        r"Don't support (formatting|conversion) in JoinedStr",
        "an f-string has no formats or conversions in TorchScript",
        "use the plain form {{value}}, or '...'.format(value)",
    ),
    Rule(r"Comprehension ifs are not supported", "a comprehension has no if in TorchScript", "write a for loop"),
    Rule(
        r"del statements are only supported",
        "del removes no attribute in TorchScript",
        "keep the attribute",
    ),
    Rule(r"keyword-arg expansion is not supported", "a call cannot unpack a dict", "give the arguments by name"),
    Rule(
        r"cannot statically infer the expected size of a list",
        "tuple() takes no list in TorchScript, which does not know the length of the list when compiling",
        "keep the list, and use {list} itself",
        r"^tuple\((?P<list>.+)\)$",
    ),
    Rule(
        r"cannot statically infer the expected size of a list",
        "a list is assigned to names with a star, and TorchScript does not know the length of the list when compiling",
        "take the elements by index: items = {list}; first, rest = items[0], items[1:]",
        r"^(?P<list>[^*].*)",
    ),
    Rule(
        r"cannot statically infer the expected size of a list",
        "a list is unpacked, and TorchScript does not know the length of the list when compiling",
        "pass the list itself, if the function takes a list; or pass the elements: {list}[0], {list}[1]",
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
        "TorchScript has no super(): TorchScript compiles methods by name",
        "write the parent's {method} under another name, and call that method in both classes; or make the "
        "parent's part a submodule",
        r"^super\(\)",
    ),
    Rule(
        r"^'Enum<(?P<enum>[^']+)>' object has no attribute or method '(?P<method>\w+)'",
        "a member of an Enum has no methods in TorchScript ({method})",
        "call the method in __init__, and keep the result in an attribute of the module",
    ),
    Rule(
        r"^'(?P<found>[^']+)' object has no attribute or method '(?P<method>\w+)'",
        "a value of type {found} has no {method} in TorchScript",
        "use a function of torch; if the value is of another type than {found}, annotate the value",
    ),
)

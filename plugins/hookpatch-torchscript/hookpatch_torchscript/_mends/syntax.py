"""Rules for syntax that TorchScript does not support."""

from __future__ import annotations

from typing import Final

from hookpatch_torchscript._mends.rule import Rule

_VARARGS: Final = r"can't take variable number of arguments or use keyword-only arguments with defaults"


def _syntax(says: str, feature: str, mend: str) -> Rule:
    return Rule(rf"^{says} aren't supported", f"{feature} in TorchScript", mend)


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
        "a list is unpacked, whose length is not known when it is compiled",
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
        r"^'Enum<(?P<enum>[^']+)>' object has no attribute or method '(?P<method>\w+)'",
        "a member of an Enum has no methods in TorchScript ({method})",
        "call it in __init__, and keep what it returns in an attribute of the module",
    ),
    Rule(
        r"^'(?P<found>[^']+)' object has no attribute or method '(?P<method>\w+)'",
        "what is of type {found} has no {method} in TorchScript",
        "use a function of torch; if the value is of another type than {found}, annotate it",
    ),
)

"""Show TorchScript a function to compile for a patched function: the original's parameters, and a call into Python."""

from __future__ import annotations
import __future__

import ast
import inspect
import itertools
import linecache
import typing
from collections.abc import Callable, Iterable
from textwrap import dedent
from types import CellType, FunctionType
from typing import Any, Final, final
from weakref import finalize

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch.errors import BypassError

ATTRIBUTES: Final = frozenset({"_torchscript_modifier", "__prepare_scriptable__", "__script_unsupported"})
ELSEWHERE: Final = "script the function outside of the block"
SCRIPT: Final = "torch.jit.script"
GIVES_ALL: Final = "default fills in missing arguments, and captured code passes every argument"
_numbers: Final = itertools.count(1)
_CALL: Final = "__hookpatch_call__"


def attributes(
    like: FunctionType, link: CellType, wrappers_from: Callable[[CellType], Iterable[Any]], binds: bool
) -> dict[str, Any]:
    """Return the attributes by which TorchScript calls a patched function.

    For a plain function TorchScript gets another function to compile. The capture is counted for each wrapper that
    ``wrappers_from`` finds by the link.
    A method (``binds``) is marked like a function under ``torch.jit.ignore``: TorchScript calls the method in Python.
    The method belongs to a torch module, and torch is imported.
    """
    if not binds:
        return {"__prepare_scriptable__": _Scriptable(like, link, wrappers_from)}
    torch: Any = imports.present("torch._jit_internal")
    if torch is None:
        return {}
    alone = str(BypassError(_name(like), SCRIPT, ELSEWHERE))
    return {"_torchscript_modifier": torch.FunctionModifiers.IGNORE, "__script_unsupported": alone}


@final
class _Scriptable:
    """Gives TorchScript a function to compile. Lives as long as the function in the slot."""

    __slots__ = ("_like", "_link", "_wrappers_from")

    def __init__(self, like: FunctionType, link: CellType, wrappers_from: Callable[[CellType], Iterable[Any]]) -> None:
        self._like: Final = like
        self._link: Final = link
        self._wrappers_from: Final = wrappers_from

    def __call__(self) -> FunctionType:
        """Return the function; raises like ``_scriptable``, and for a patch that has to know each call."""
        wrappers = [*self._wrappers_from(self._link)]
        if need := next(filter(None, map(needs_the_call, wrappers)), None):
            raise BypassError(_name(self._like), SCRIPT, f"{need}; {ELSEWHERE}")
        function = _scriptable(self._like, self._link)
        for tally in [wrapper.tally for wrapper in wrappers if hasattr(wrapper, "tally")]:
            tally.captured("script")
        return function


def needs_the_call(wrapper: Any) -> str:
    """Return in words the facts of each call that a wrapper needs and a capture lacks; empty without a need."""
    return str(getattr(wrapper, "needs_the_call", ""))


def _name(like: FunctionType) -> str:
    return f"{like.__module__}:{like.__qualname__}"


def _scriptable(like: FunctionType, link: CellType) -> FunctionType:
    """Return a function with the original's parameters, defaults and annotations that calls the patch.

    The original under ``torch.jit.ignore`` would not do: TorchScript calls an ignored function without the defaults.

    Raises:
        BypassError: TorchScript cannot compile the function, and the patch would not run.
    """
    name = _name(like)
    try:
        (definition,) = ast.parse(dedent(inspect.getsource(like))).body
    except (OSError, SyntaxError, ValueError) as error:
        if is_interrupt(error):
            raise
        raise BypassError(name, SCRIPT, f"the source cannot be read ({error}); {ELSEWHERE}") from error
    if not isinstance(definition, ast.FunctionDef):
        raise BypassError(name, SCRIPT, f"the value is no function written with def; {ELSEWHERE}")
    parameters = definition.args
    if parameters.vararg or parameters.kwarg or parameters.kwonlyargs:
        raise BypassError(name, SCRIPT, f"TorchScript cannot hand on keyword-only or collected arguments; {ELSEWHERE}")
    names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
    definition.decorator_list, parameters.defaults = [], []
    definition.body = [ast.Return(ast.parse(f"{_CALL}({', '.join(names)})", mode="eval").body)]
    text, file = ast.unparse(definition) + "\n", f"<hookpatch: TorchScript's {name}, {next(_numbers)}>"
    cells = zip(like.__code__.co_freevars, like.__closure__ or (), strict=True)
    space = {**like.__globals__, **{name: cell.cell_contents for name, cell in cells}, _CALL: _ignored(like, link)}
    # Annotations are not evaluated here: TorchScript evaluates the text.
    exec(compile(text, file, "exec", __future__.annotations.compiler_flag, dont_inherit=True), space)
    function: FunctionType = space[definition.name]
    function.__defaults__, function.__annotations__ = like.__defaults__, like.__annotations__
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    finalize(function, linecache.cache.pop, file, None)
    return function


def _ignored(like: FunctionType, link: CellType) -> FunctionType:
    """Return a function that TorchScript calls in Python, with types in place of their names as annotations."""

    def call(*args: Any) -> Any:
        wrapper, below, _ = link.cell_contents
        return wrapper(below, None, args, {})

    hints, signature = typing.get_type_hints(like), inspect.signature(like)
    parameters = [
        parameter.replace(annotation=hints.get(name, parameter.empty), default=parameter.empty)
        for name, parameter in signature.parameters.items()
    ]
    returned = hints.get("return", signature.empty)
    vars(call)["__signature__"] = inspect.Signature(parameters, return_annotation=returned)
    torch: Any = imports.loaded("torch._jit_internal")
    vars(call)["_torchscript_modifier"] = torch.FunctionModifiers.IGNORE
    return typing.cast(FunctionType, call)

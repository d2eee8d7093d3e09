"""The walk: from a model's ``forward`` through everything that it calls."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from pathlib import Path
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, MethodType
from typing import Any, Final

import torch

from hookpatch_export._builtin import call_builtin, is_builtin
from hookpatch_export._consequence import consequence_of, harmless
from hookpatch_export._during import during
from hookpatch_export._expression import value
from hookpatch_export._finding import MODES, Finding, Kind
from hookpatch_export._frame import Frame
from hookpatch_export._iteration import as_sequence
from hookpatch_export._join import join
from hookpatch_export._layer import call_layer
from hookpatch_export._method import call_method
from hookpatch_export._parameters import bind
from hookpatch_export._question import content_kind, has_tensor, is_none
from hookpatch_export._source import NotReadable, belongs_to_python, belongs_to_torch, read
from hookpatch_export._statement import assign, run
from hookpatch_export._stdlib import call_outside, call_stdlib
from hookpatch_export._tensor import call_on_tensors
from hookpatch_export._value import (
    PLAIN,
    UNKNOWN,
    Bound,
    Choice,
    During,
    Inherited,
    Instance,
    Known,
    Local,
    Seq,
    Table,
    Tensor,
    Unknown,
    Value,
    value_of,
)

_DEEPEST: Final = 60
_MOST_CALLS: Final = 20_000
_ROUNDS: Final = 6
_MODULE_CALLS: Final = frozenset(["__call__", "_wrapped_call_impl", "_call_impl"])


class Walk:
    """One walk through a model.

    Args:
        root: read files in this folder alone, or all that are neither Python's nor torch's.
    """

    def __init__(self, root: Path | None) -> None:
        self._root: Final = root
        self._found: Final[dict[tuple[str, int, int, str], tuple[Frame, ast.AST, Kind, frozenset[str]]]] = {}
        self._unread: Final[dict[tuple[str, int, int, str], str]] = {}
        self._written: Final[dict[tuple[int, str], Value]] = {}
        self._kept: Final[list[object]] = []  # what an id in _written stands for
        self._results: Final[dict[object, Value]] = {}
        self._stack: Final[list[tuple[object, object]]] = []
        self._silent = 0
        self._calls = 0

    def findings(self) -> list[Finding]:
        """Return what was found, in the order of the walk."""
        return [self._finding(key, *held) for key, held in self._found.items()]

    def _finding(
        self, key: tuple[str, int, int, str], frame: Frame, node: Any, kind: Kind, modes: frozenset[str]
    ) -> Finding:
        construct = key[3]
        if harmless(kind, construct, modes):
            kind = Kind.SAFE
        told, instead = consequence_of(kind, construct, [mode for mode in MODES if mode in modes])
        return Finding(
            file=frame.file.path,
            line=node.lineno,
            column=node.col_offset + 1,
            kind=kind,
            construct=construct,
            source=frame.file.line(node.lineno),
            route=frame.route,
            consequence=told,
            instead=instead,
            end_line=node.end_lineno,
            end_column=node.end_col_offset + 1,
        )

    def found(self, frame: Frame, node: Any, construct: str, kind: Kind) -> None:
        """Note a finding; of one that is known the worse kind and all modes."""
        if self._silent:
            return
        key = (str(frame.file.path), node.lineno, node.col_offset, construct)
        if (before := self._found.get(key)) is not None:
            frame, node, kind, modes = before[0], before[1], max(kind, before[2]), frame.modes | before[3]
            self._found[key] = (frame, node, kind, modes)
        else:
            self._found[key] = (frame, node, kind, frame.modes)

    def not_read(self, frame: Frame, node: ast.AST, what: str, why: str) -> None:
        """Note that something is called that was not looked into."""
        self.found(frame, node, f"{what}: {why}", Kind.NOT_READ)

    def value(self, frame: Frame, node: ast.expr) -> Value:
        """Return what an expression gives, and note what is found in it."""
        return value(frame, node)

    def assign(self, frame: Frame, target: ast.expr, value: Value) -> None:
        """Give a name, an attribute, an item or several of them a value."""
        assign(frame, target, value)

    def write(self, owner: Value, name: str, value: Value) -> None:
        """Note what an attribute holds from now on."""
        if isinstance(owner, Instance):
            before = owner.attributes.get(name)
            owner.attributes[name] = value if before is None else join([before, value])
        elif isinstance(owner, Known):
            key = (id(owner.obj), name)
            self._kept.append(owner.obj)
            before = self._written.get(key)
            self._written[key] = value if before is None else join([before, value])

    def written(self, owner: object, name: str) -> Value | None:
        """Return what an attribute was seen to be given."""
        return self._written.get((id(owner), name))

    # --- calls

    def call(self, frame: Frame, node: ast.AST, function: Value, args: list[Value], named: dict[str, Value]) -> Value:
        """Return what a call gives."""
        match function:
            case Choice():
                some = [one for one in function.among if not is_none(one)]
                return join([self.call(frame, node, one, args, named) for one in some] or [UNKNOWN])
            case Bound(function=Known(obj=str() as name), first=(owner,)):
                return call_method(frame, node, owner, name, args, named)
            case Bound():
                return self.call(
                    frame, node, function.function, [*function.first, *args], {**dict(function.named), **named}
                )
            case Local():
                return self._call_local(frame, node, function, args, named)
            case Instance():
                return self._call_instance(frame, node, function, args, named)
            case Known():
                return self._call_known(frame, node, function, args, named)
            case Inherited():
                return UNKNOWN
        given = [*args, *named.values()]
        if any(map(has_tensor, given)):
            if isinstance(function, Unknown):
                self.not_read(frame, node, _name_of(node), "it is not known which function that is")
            return Tensor(max(map(content_kind, given)), max(map(content_kind, given)))
        return Unknown(max([Kind.CONFIG, *map(content_kind, given)]))

    def _call_known(
        self, frame: Frame, node: ast.AST, function: Known, args: list[Value], named: dict[str, Value]
    ) -> Value:
        obj = function.obj
        module = _module_of(obj)
        if isinstance(obj, MethodType):
            return self.call(frame, node, Known(obj.__func__), [value_of(obj.__self__), *args], named)
        if isinstance(obj, torch.nn.Module):
            return self._call_module(frame, node, function, type(obj), args, named)
        if obj is super:
            return self._super(frame, args)
        if is_builtin(obj):
            return call_builtin(frame, node, obj, args, named)
        if isinstance(obj, type):
            return self._make(frame, node, obj, args, named)
        if isinstance(obj, BuiltinFunctionType | BuiltinMethodType):
            owner = getattr(obj, "__self__", None)
            if type(owner).__module__ == "random":
                return call_stdlib(frame, node, obj, args, named)
            if owner is not None and not inspect.ismodule(owner) and not belongs_to_torch(module):
                return call_method(frame, node, value_of(owner), obj.__name__, args, named)
        if module is None and (home := getattr(obj, "__objclass__", None)) is not None:
            if args and not belongs_to_torch(home.__module__):
                return call_method(frame, node, args[0], obj.__name__, args[1:], named)
            return self._call_torch(frame, node, obj, args, named)
        if module == "collections.abc" and args:
            return call_method(frame, node, args[0], obj.__name__, args[1:], named)
        if belongs_to_torch(module):
            return self._call_torch(frame, node, obj, args, named)
        if module is not None and belongs_to_python(module) and not _wraps(obj):
            return call_stdlib(frame, node, obj, args, named)
        if isinstance(obj, FunctionType):
            return self._enter(frame, node, obj, args, named)
        if hasattr(obj, "func") and hasattr(obj, "keywords"):
            first = [value_of(one) for one in obj.args]
            more = {key: value_of(one) for key, one in obj.keywords.items()}
            return self.call(frame, node, value_of(obj.func), [*first, *args], {**more, **named})
        inside = inspect.getattr_static(type(obj), "__call__", None)
        if isinstance(inside, FunctionType) and not belongs_to_torch(inside.__module__):
            return self._enter(frame, node, inside, [function, *args], named)
        wrapped = getattr(obj, "__wrapped__", None)  # functools.lru_cache, a patch's proxy
        if isinstance(wrapped, FunctionType):
            return self._enter(frame, node, wrapped, args, named)
        return call_outside(frame, node, obj, module or "", args, named)

    def _call_torch(self, frame: Frame, node: ast.AST, obj: Any, args: list[Value], named: dict[str, Value]) -> Value:
        name = getattr(obj, "__name__", type(obj).__name__)
        if name == "is_current_stream_capturing":
            return Known(False)
        if (modes := during(name)) is not None:
            return During(modes)
        if name in _MODULE_CALLS and args:
            return self._forward(frame, node, args[0], args[1:], named)
        if name == "apply" and isinstance(args[0] if args else None, Known):
            cls = args[0].obj  # type: ignore[union-attr]
            if isinstance(cls, type) and issubclass(cls, torch.autograd.Function):
                forward = inspect.getattr_static(cls, "forward", None)
                inner = getattr(forward, "__func__", forward)
                context = [] if "setup_context" in vars(cls) else [Instance(object)]
                return self.call(frame, node, Known(inner), [*context, *args[1:]], named)
        if name in ("register_buffer", "register_parameter", "register_module", "add_module") and len(args) >= 2:
            held = args[2] if len(args) > 2 else named.get("tensor", named.get("param", named.get("module", UNKNOWN)))
            if isinstance(args[1], Known) and isinstance(args[1].obj, str):
                self.write(args[0], args[1].obj, held)
            return Known(None)
        functions = [one for one in [*args, *named.values()] if _is_function(one)]
        if (
            name in ("checkpoint", "vmap", "cond", "while_loop", "scan", "map", "associative_scan", "compile")
            and functions
        ):
            return self._higher_order(frame, node, name, functions, args, named)
        if name in ("no_grad", "enable_grad", "inference_mode", "autocast", "record_function", "set_grad_enabled"):
            return args[0] if args and _is_function(args[0]) else Unknown(Kind.SAFE)
        if name in ("__init__", "__setattr__", "__init_subclass__", "_check", "_assert", "_assert_async", "check"):
            return Known(None)
        if name in ("append", "extend", "insert") and args and isinstance(args[0], Instance):
            held = as_sequence(args[0].attributes.get("*", Seq((), UNKNOWN)))
            args[0].attributes["*"] = Seq(None, join([held.each, *args[1:]]), held.length)
            return args[0]
        if name == "is_tensor" and args:
            return call_builtin(frame, node, isinstance, [args[0], Known(torch.Tensor)], {})
        given = [*args, *named.values()]
        if isinstance(obj, FunctionType) and not any(map(has_tensor, given)):
            return Unknown(max(map(content_kind, given), default=Kind.CONFIG))  # it asks for a setting
        return call_on_tensors(frame, node, name, args, named)

    def _higher_order(
        self, frame: Frame, node: ast.AST, name: str, functions: list[Value], args: list[Value], named: dict[str, Value]
    ) -> Value:
        if name in ("vmap", "compile"):
            return functions[0]
        rest = [one for one in args if one not in functions]
        if name == "checkpoint":
            more = {key: one for key, one in named.items() if key not in ("use_reentrant", "preserve_rng_state")}
            return self.call(frame, node, functions[0], rest, more)
        operands = as_sequence(rest[-1]) if rest else Seq((), UNKNOWN)
        given = list(operands.items) if operands.items is not None else [operands.each] * 8
        return join(self.call(frame, node, one, given, {}) for one in functions)

    def _forward(self, frame: Frame, node: ast.AST, owner: Value, args: list[Value], named: dict[str, Value]) -> Value:
        from hookpatch_export._attribute import attribute

        return self.call(frame, node, attribute(frame, node, owner, "forward"), args, named)

    def _call_module(
        self,
        frame: Frame,
        node: ast.AST,
        module: Known | Instance,
        cls: type,
        args: list[Value],
        named: dict[str, Value],
    ) -> Value:
        inside = inspect.getattr_static(cls, "__call__", None)
        if isinstance(inside, FunctionType) and not belongs_to_torch(inside.__module__):
            return self._enter(frame, node, inside, [module, *args], named)
        forward = inspect.getattr_static(cls, "forward", None)
        own = isinstance(module, Known) and "forward" in vars(module.obj)
        if not own and belongs_to_torch(getattr(forward, "__module__", None)):
            return call_layer(frame, node, module, _of_torch(cls), [*args, *named.values()])
        return self._forward(frame, node, module, args, named)

    def _call_instance(
        self, frame: Frame, node: ast.AST, function: Instance, args: list[Value], named: dict[str, Value]
    ) -> Value:
        if issubclass(function.cls, torch.nn.Module):
            return self._call_module(frame, node, function, function.cls, args, named)
        inside = inspect.getattr_static(function.cls, "__call__", None)
        if isinstance(inside, FunctionType):
            return self._enter(frame, node, inside, [function, *args], named)
        return Tensor() if any(map(has_tensor, args)) else UNKNOWN

    def _super(self, frame: Frame, args: list[Value]) -> Value:
        if len(args) == 2 and isinstance(args[0], Known) and isinstance(args[0].obj, type):
            return Inherited(args[0].obj, args[1])
        inner: Frame | None = frame
        while inner is not None and inner.cls is None:
            inner = inner.outer
        arguments = inner.node.args if inner is not None else None
        first = [*arguments.posonlyargs, *arguments.args] if arguments is not None else []
        if inner is None or inner.cls is None or not first:
            return UNKNOWN
        return Inherited(inner.cls, inner.variables.get(first[0].arg, UNKNOWN))

    # --- what is made

    def _make(self, frame: Frame, node: ast.AST, cls: type, args: list[Value], named: dict[str, Value]) -> Value:
        if issubclass(cls, torch.nn.Module) and belongs_to_torch(cls.__module__):
            return self._layer(cls, args)
        if cls is torch.Size:
            return as_sequence(args[0]) if args else UNKNOWN
        if belongs_to_torch(cls.__module__):
            if issubclass(cls, torch.Tensor) or cls.__name__.endswith("Tensor"):
                return next((one for one in args if isinstance(one, Tensor)), Tensor(Kind.CONFIG, Kind.CONFIG))
            functions = [one for one in args if _is_function(one)]
            return functions[0] if functions else Unknown(Kind.SAFE)
        if belongs_to_python(cls.__module__) or cls.__module__ == "builtins":
            return call_stdlib(frame, node, cls, args, named)
        made = Instance(cls, of_model=bool(self._silent))
        init = inspect.getattr_static(cls, "__init__", None)
        if dataclasses.is_dataclass(cls) or getattr(init, "__code__", None) is None:
            _fill(made, cls, args, named)
            if not isinstance(init, FunctionType) or init.__code__.co_filename.startswith("<"):
                return made
        if isinstance(init, FunctionType) and not belongs_to_torch(init.__module__):
            self._quietly(frame, node, init, [made, *args], named)
        return made

    def made(self, frame: Frame, node: ast.AST, cls: type) -> Value:
        """Return a model of which only the class is at hand: what its ``__init__`` makes of settings nobody knows."""
        model = Instance(cls, of_model=True)
        init = inspect.getattr_static(cls, "__init__", None)
        if isinstance(init, FunctionType) and not belongs_to_torch(init.__module__):
            count = init.__code__.co_argcount + init.__code__.co_kwonlyargcount - 1
            names = init.__code__.co_varnames[1 : count + 1]
            self._quietly(frame, node, init, [model], {name: Unknown(Kind.CONFIG) for name in names})
        return model

    def _quietly(
        self, frame: Frame, node: ast.AST, init: FunctionType, args: list[Value], named: dict[str, Value]
    ) -> None:
        """Make an object: what is decided meanwhile is decided before the model is called."""
        self._silent += 1
        try:
            self._enter(frame, node, init, args, named)
        finally:
            self._silent -= 1

    def _layer(self, cls: type, args: list[Value]) -> Instance:
        made = Instance(cls, of_model=True)
        if issubclass(cls, torch.nn.ModuleDict) and args and isinstance(args[0], Table):
            made.attributes["*"] = args[0]
        elif issubclass(cls, torch.nn.ModuleList | torch.nn.ParameterList):
            made.attributes["*"] = as_sequence(args[0]) if args else Seq((), UNKNOWN)
        elif issubclass(cls, torch.nn.Sequential):
            inside = args[0] if len(args) == 1 and isinstance(args[0], Table) else None
            items = [one for _, one in inside.items] if inside is not None else args
            made.attributes["*"] = Seq(tuple(items), join(items) if items else UNKNOWN)
        return made

    # --- functions with a source

    def _call_local(
        self, frame: Frame, node: ast.AST, function: Local, args: list[Value], named: dict[str, Value]
    ) -> Value:
        home: Frame = function.frame
        name = getattr(function.node, "name", "<lambda>")
        inner = Frame(
            self, home.file, function.node, home.names, home.cells, (*frame.route, name), frame.modes, outer=home
        )
        inner.variables = bind(function.node.args, args, named, function.defaults)
        return self._walked(frame, node, inner, function.node, name)

    def _enter(
        self, frame: Frame, node: ast.AST, function: FunctionType, args: list[Value], named: dict[str, Value]
    ) -> Value:
        from hookpatch_export._parameters import defaults_of

        name = function.__qualname__
        try:
            file, tree = read(function)
            if self._root is not None and self._root not in file.path.parents:
                raise NotReadable(f"{file.path.name} is outside of {self._root}")
        except NotReadable as why:
            self.not_read(frame, node, f"{name}()", str(why))
            return Tensor() if any(map(has_tensor, [*args, *named.values()])) else UNKNOWN
        inner = Frame(self, file, tree, function.__globals__, {}, (*frame.route, name), frame.modes)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        inner.cells = {key: value_of(held) for key, cell in cells.items() if (held := _content(cell)) is not _EMPTY}
        if isinstance(cls := _content(cells["__class__"]) if "__class__" in cells else None, type):
            inner.cls = cls
        inner.variables = bind(tree.args, args, named, defaults_of(function))
        return self._walked(frame, node, inner, function.__code__, name)

    def _walked(self, caller: Frame, node: ast.AST, inner: Frame, code: object, name: str) -> Value:
        """Walk a function's body, once for each kind of arguments."""
        key = (code, tuple(inner.variables.items()), tuple(inner.cells.items()), inner.modes, bool(self._silent))
        if key in self._results:
            return self._results[key]
        self._calls += 1
        if (why := self._too_far(code, key)) is not None:
            self.not_read(caller, node, f"{name}()", why)
            return Tensor() if any(map(has_tensor, inner.variables.values())) else UNKNOWN
        self._stack.append((code, key))
        try:
            result = self._run(inner)
        except Exception as error:  # a mistake of ours must not stop an export
            self.not_read(caller, node, f"{name}()", f"the scan stumbled over it: {type(error).__name__}: {error}")
            result = Tensor() if any(map(has_tensor, inner.variables.values())) else UNKNOWN
        finally:
            self._stack.pop()
        self._results[key] = result
        return result

    def _too_far(self, code: object, key: object) -> str | None:
        """Say why a function is not looked into once more."""
        if self._calls > _MOST_CALLS:
            return f"the model calls more than {_MOST_CALLS:,} functions"
        if len(self._stack) > _DEEPEST:
            return f"it is called {_DEEPEST} functions down"
        same = [one for other, one in self._stack if other is code]
        if key in same or len(same) >= _ROUNDS:
            return "it calls itself; it was looked at, but what comes back is not known"
        return None

    def _run(self, frame: Frame) -> Value:
        if isinstance(frame.node, ast.Lambda):
            return value(frame, frame.node.body)
        if run(frame, frame.node.body):
            frame.returned.append(Known(None))
        if frame.yielded:
            return Seq(None, join(frame.yielded), Kind.CONFIG)
        return join(frame.returned) if frame.returned else UNKNOWN


_EMPTY: Final = object()


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _fill(made: Instance, cls: type, args: list[Value], named: dict[str, Value]) -> None:
    """Give the fields of a dataclass, a named tuple or the like what is passed for them."""
    try:
        parameters = list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [one.name for one in parameters]
    for name, held in [*zip(names, args, strict=False), *named.items()]:
        made.attributes[name] = held
    for one in parameters:
        if one.name not in made.attributes and one.default is not one.empty:
            made.attributes[one.name] = value_of(one.default)


def _of_torch(cls: type) -> type:
    """Return the class of torch whose ``forward`` it is."""
    return next(one for one in cls.__mro__ if "forward" in vars(one) or belongs_to_torch(one.__module__))


def _module_of(obj: Any) -> str | None:
    module = getattr(obj, "__module__", None)
    if module is None and (owner := getattr(obj, "__self__", None)) is not None:
        module = getattr(owner, "__name__", None) if inspect.ismodule(owner) else type(owner).__module__
    return module if isinstance(module, str) else None


def _wraps(obj: Any) -> bool:
    """Whether it is one of functools' objects around a function that has a source."""
    return hasattr(obj, "__wrapped__") or (hasattr(obj, "func") and hasattr(obj, "keywords"))


def _is_function(value: Value) -> bool:
    if isinstance(value, Known):
        return callable(value.obj) and not isinstance(value.obj, (type, *PLAIN))
    return isinstance(value, Local | Bound) or (isinstance(value, Choice) and all(map(_is_function, value.among)))


def _name_of(node: ast.AST) -> str:
    return f"{ast.unparse(node.func)}()" if isinstance(node, ast.Call) else "a call"

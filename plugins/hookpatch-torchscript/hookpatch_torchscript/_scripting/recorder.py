"""Record one running call of torch.jit.script: the calls of torch's own functions, and their duration."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, final

from hookpatch_torchscript._scripting.builder import described, recording
from hookpatch_torchscript._scripting.type_store import is_known
from hookpatch_torchscript._source.lookup import name_of, place_of, plain, use_of_method
from hookpatch_torchscript._source.torch_message import quoted
from hookpatch_torchscript._values.place import Place
from hookpatch_torchscript._values.record import Failure, Method, Module, Record

Why: TypeAlias = Callable[[BaseException, "Recorder"], Failure]


@dataclass(slots=True)
class Step:
    """A running function of torch.

    Attributes:
        name: ``check``, ``type``, ``attributes``, ``module``, ``compile``, ``read`` or ``function``.
        thing: the module, function or class that torch works on.
        row: the row of the module, else None.
        functions: the Python functions that torch compiles in this step.
        method: the row of a function that torch compiles for a caller, else None.
    """

    name: str
    thing: Any
    row: Module | None = None
    functions: list[Any] = field(default_factory=list)
    method: Method | None = None


@final
class Recorder:
    """Records a call of torch.jit.script.

    Attributes:
        record: the record so far.
        steps: the running steps, outermost first.
        failed_in: the running steps at the time of the current error.
        classes: the class of each module, by the path of the row.
        failures: the failures of functions and classes in attributes: torch drops such errors and goes on.
    """

    def __init__(self, obj: Any, record: Record, store: Any, why: Why) -> None:
        self.record: Final = record
        self.failures: Final[dict[int, tuple[Any, Failure]]] = {}  # by the id of the function or class, which is held
        self._why: Final = why
        self.steps: list[Step] = [Step("script", obj, functions=_functions_of(obj))]
        self.failed_in: tuple[Step, ...] = ()
        self.classes: Final[dict[str, type]] = {}
        self.rows: Final[dict[int, tuple[Module, Any]]] = {}  # by the id of the module, which is held
        self._loc: Place | None = None
        stored = getattr(store, "type_store", {}).values()
        self._types: Final[dict[int, tuple[Any, Module | None]]] = {
            id(kind): (kind, None) for kinds in stored for kind in kinds
        }

    @property
    def row(self) -> Module | None:
        """The row of the innermost module."""
        return next((step.row for step in reversed(self.steps) if step.row is not None), None)

    @contextmanager
    def step(
        self, name: str, target: Any, row: Module | None = None, functions: Any = (), method: Method | None = None
    ) -> Iterator[Step]:
        """Record that a function of torch runs, the duration, and whether the function raises."""
        step = Step(name, target, row, list(functions), method)
        self.steps.append(step)
        begun = time.perf_counter()
        try:
            yield step
        except BaseException:
            self.failed_in = self.failed_in or tuple(self.steps)
            raise
        else:
            self.failed_in = ()  # torch has handled any error inside
        finally:
            self.steps.pop()
            if row is not None and name != "module":
                row.seconds[name] = row.seconds.get(name, 0.0) + time.perf_counter() - begun

    def stumbled(self, error: Exception) -> None:
        """Record an error of the plugin itself, which must not end the program's call."""
        self.record.limits.append(f"not all was recorded: {type(error).__name__}: {error}")

    # --- the wrappers of torch's functions; (wrapped, instance, args, kwargs)

    def check(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run check_module_initialized."""
        with self.step("check", args[0], self._row_of(args[0])):
            return wrapped(*args, **kwargs)

    def concrete_type(
        self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run get_module_concrete_type, for a module and its submodules."""
        module = args[0]
        row = self._new_row(module) if hasattr(module, "_modules") else None
        with self.step("type", module, row):
            concrete = wrapped(*args, **kwargs)
        if row is not None:
            row.type_name = str(getattr(concrete, "jit_type", None) or "")
            stored = self._types.get(id(concrete))
            if hasattr(module, "_concrete_type"):
                row.origin = "scripted before"
            elif stored is None:
                row.origin = "new"
            elif stored[1] is None:
                row.origin = "found in the store"
            else:
                row.origin, row.shared_with = "shared", stored[1].path
            self._types.setdefault(id(concrete), (concrete, row))
        return concrete

    def builder(self, wrapped: type, _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a ConcreteModuleTypeBuilder that records each attribute."""
        step = self.steps[-1]
        if step.name != "type" or step.row is None:
            return wrapped(*args, **kwargs)
        return recording(wrapped)(step.thing, step.row, *args, **kwargs)

    def attributes(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run AttributeTypeIsSupportedChecker.check."""
        with self.step("attributes", args[0], self._row_of(args[0])):
            return wrapped(*args, **kwargs)

    def module(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run create_script_module_impl, for the submodules and then for the methods of the module."""
        with self.step("module", args[0], self._row_of(args[0])):
            return wrapped(*args, **kwargs)

    def read(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run make_stub, which parses a method into TorchScript's tree."""
        with self.step("read", args[0], functions=[args[0]]):
            return wrapped(*args, **kwargs)

    def methods(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run create_methods_and_properties_from_stubs."""
        if self.steps[-1].name == "called":  # one method, recorded already
            return wrapped(*args, **kwargs)
        return self._compile(wrapped, args, kwargs, [*args[1], *args[2]], "method")

    def hooks(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run create_hooks_from_stubs."""
        return self._compile(wrapped, args, kwargs, [*args[1], *args[2]], "hook")

    def called(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run compile_unbound_method, for a method that another method calls."""
        function = args[1]
        caller = next((step for step in reversed(self.steps) if step.functions), None)
        name, place = None, None
        for user in caller.functions if caller else ():
            if (place := use_of_method(user, function.__name__)) is not None:
                name = name_of(user)
                break
        path = self.row.path if self.row else None
        method = Method(name_of(function), "method", path, place_of(function), name, place)
        self._look_for_decorators(function)
        return self._record_method(method, "called", function, wrapped, args, kwargs)

    def reached(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run try_compile_fn or _recursive_compile_class; an argument holds the line of the call."""
        places = quoted(str(args[1])) if len(args) > 1 else []
        self._loc = places[0].place if places else None
        try:
            return wrapped(*args, **kwargs)
        finally:
            self._loc = None

    def nested(self, wrapped: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run torch.jit.script inside another call of torch.jit.script."""
        obj, place = (args[0] if args else kwargs.get("obj")), self._loc
        self._loc = None
        is_compiled = inspect.isfunction(obj) or inspect.ismethod(obj) or inspect.isclass(obj)
        if not is_compiled or obj is self.steps[-1].thing:  # another wrapper has recorded the call
            return wrapped(*args, **kwargs)
        kind = "class" if inspect.isclass(obj) else "function"
        caller = next((function for step in reversed(self.steps) for function in step.functions), None)
        method = Method(name_of(obj), kind, None, place_of(obj), name_of(caller) if place and caller else None, place)
        method.known = is_known(obj)
        self._look_for_decorators(obj)
        if place is None:
            method.why = "asked for"
        return self._record_method(method, "function", obj, wrapped, args, kwargs)

    def script_class(
        self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run _compile_and_register_class."""
        if self.steps[-1].thing is args[0]:  # torch.jit.script of this very class
            return wrapped(*args, **kwargs)
        place, self._loc = self._loc, None
        caller = next((function for step in reversed(self.steps) for function in step.functions), None)
        method = Method(name_of(args[0]), "class", None, place_of(args[0]), name_of(caller) if caller else None, place)
        return self._record_method(method, "function", args[0], wrapped, args, kwargs)

    # --- shared by the wrappers

    def _record_method(self, method: Method, step: str, target: Any, wrapped: Any, args: Any, kwargs: Any) -> Any:
        self.record.methods.append(method)
        method.compiled = False
        functions = _functions_of(target)
        begun = time.perf_counter()
        try:
            with self.step(step, target, functions=functions, method=method):
                result = wrapped(*args, **kwargs)
        except Exception as error:
            if self.steps[-1].name == "type":  # the value of an attribute: torch drops the error
                self.failures[id(target)] = target, self._why(error, self)
                self.failed_in = ()
            raise
        method.seconds, method.compiled = time.perf_counter() - begun, True
        return result

    def _compile(self, wrapped: Any, args: Any, kwargs: Any, stubs: list[Any], kind: str) -> Any:
        row, cls = self.row, type(self.steps[-1].thing)
        path = row.path if row else None
        functions, rows = [], []
        for stub in stubs:
            function = getattr(stub, "original_method", None)
            method_kind, why = kind, None
            if kind == "method" and function is None:  # a property: torch keeps only the name
                function, method_kind = getattr(cls, stub.def_.name().name, None), "property"
            elif kind == "method":
                why = "forward" if getattr(function, "__name__", "") == "forward" else "exported"
            self._look_for_decorators(function)
            functions.append(plain(function))
            rows.append(Method(name_of(function), method_kind, path, place_of(plain(function)), None, None, why))
        self.record.methods += rows
        for method in rows:
            method.compiled = False
        begun = time.perf_counter()
        with self.step("compile", self.steps[-1].thing, row, functions):
            result = wrapped(*args, **kwargs)
        for method in rows:
            method.compiled = True
            method.seconds = time.perf_counter() - begun if len(rows) == 1 else None
        return result

    def _look_for_decorators(self, function: Any) -> None:
        """Record the decorators that torch leaves out: it compiles the function inside ``__wrapped__``."""
        inner = plain(function)
        function = getattr(function.fget if isinstance(function, property) else function, "__func__", function)
        if getattr(inner, "__module__", "").startswith("torch."):
            return
        while hasattr(function, "__wrapped__"):
            code = getattr(function, "__code__", None)
            location = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
            name = code.co_qualname if code is not None else type(function).__qualname__
            line = f"{name_of(inner)}: the result lacks its decorator {name.partition('.<locals>')[0]}{location}; "
            line += (
                "TorchScript compiles the function inside; write the decorator's work into the function or "
                "around the model"
            )
            if line not in self.record.dropped:
                self.record.dropped.append(line)
            function = function.__wrapped__

    def _row_of(self, module: Any) -> Module | None:
        entry = self.rows.get(id(module))
        return entry[0] if entry else None

    def _new_row(self, module: Any) -> Module:
        path, parent = "", self.steps[-1]
        if parent.name == "type" and parent.row is not None:
            name = self._name_in(parent, module)
            path = f"{parent.row.path}.{name}" if parent.row.path else name
        cls = type(module)
        row = Module(path, cls.__name__, cls.__module__, place_of(cls))
        described(module, row)
        self.record.modules.append(row)
        self.classes[path] = cls
        self.rows[id(module)] = row, module
        return row

    def _name_in(self, parent: Step, module: Any) -> str:
        """Return the name under which torch visits a module; torch visits submodules in order."""
        assert parent.row is not None
        prefix = f"{parent.row.path}." if parent.row.path else ""
        names = [name for name, submodule in parent.thing._modules.items() if submodule is module]
        paths = {row.path for row in self.record.modules}
        return next((name for name in names if f"{prefix}{name}" not in paths), names[0] if names else "?")


def _functions_of(target: Any) -> list[Any]:
    """Return a function, or the functions of a class."""
    if inspect.isclass(target):
        return [var for var in vars(target).values() if inspect.isfunction(var)]
    return [target] if inspect.isroutine(target) else []

"""One call of torch.jit.script while it runs: what torch's own functions are called with, and how long they take."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, final

from hookpatch_torchscript._builder import described, recording
from hookpatch_torchscript._message import quoted
from hookpatch_torchscript._record import Explanation, Failure, Method, Module, Place
from hookpatch_torchscript._source import name_of, place_of, plain, use_of_method
from hookpatch_torchscript._store import is_known

Why: TypeAlias = Callable[[BaseException, "Recorder"], Failure]


@dataclass(slots=True)
class Step:
    """A function of torch that is running.

    Attributes:
        name: ``check``, ``type``, ``attributes``, ``module``, ``compile``, ``read`` or ``function``.
        thing: the module, function or class that it runs on.
        row: of a module, its row.
        functions: the Python functions that are compiled in it.
        method: what is compiled because something calls it.
    """

    name: str
    thing: Any
    row: Module | None = None
    functions: list[Any] = field(default_factory=list)
    method: Method | None = None


@final
class Recorder:
    """A call of torch.jit.script, from its beginning to its end.

    Attributes:
        explanation: what is known by now.
        steps: what runs, outermost first.
        failed_in: what ran when the error was raised that is on its way.
        classes: the class of each module, by its row's path.
        failures: of functions that are attributes, and of classes; torch goes on without them, and forgets why.
    """

    def __init__(self, obj: Any, explanation: Explanation, store: Any, why: Why) -> None:
        self.explanation: Final = explanation
        self.failures: Final[dict[int, tuple[Any, Failure]]] = {}  # by the id of what is held
        self._why: Final = why
        self.steps: list[Step] = [Step("script", obj, functions=_functions_of(obj))]
        self.failed_in: tuple[Step, ...] = ()
        self.classes: Final[dict[str, type]] = {}
        self.rows: Final[dict[int, tuple[Module, Any]]] = {}  # by the module's id; it is held, so that the id stays
        self._loc: Place | None = None
        held = getattr(store, "type_store", {}).values()
        self._types: Final[dict[int, tuple[Any, Module | None]]] = {id(one): (one, None) for all in held for one in all}

    @property
    def row(self) -> Module | None:
        """The row of the innermost module at hand."""
        return next((step.row for step in reversed(self.steps) if step.row is not None), None)

    @contextmanager
    def step(
        self, name: str, thing: Any, row: Module | None = None, functions: Any = (), method: Method | None = None
    ) -> Iterator[Step]:
        """Note that a function of torch runs, how long it takes, and whether an error comes out of it."""
        step = Step(name, thing, row, list(functions), method)
        self.steps.append(step)
        begun = time.perf_counter()
        try:
            yield step
        except BaseException:
            self.failed_in = self.failed_in or tuple(self.steps)
            raise
        else:
            self.failed_in = ()  # an error inside was torch's own affair
        finally:
            self.steps.pop()
            if row is not None and name != "module":
                row.seconds[name] = row.seconds.get(name, 0.0) + time.perf_counter() - begun

    def stumbled(self, error: Exception) -> None:
        """Note an error of our own: the program's call is not to fail for it."""
        self.explanation.limits.append(f"not all was recorded: {type(error).__name__}: {error}")

    # --- what the functions of torch are wrapped with; (wrapped, instance, args, kwargs)

    def check(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run check_module_initialized."""
        with self.step("check", args[0], self._row_of(args[0])):
            return wrapped(*args, **kwargs)

    def concrete_type(
        self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run get_module_concrete_type: of a module and, through it, of those inside."""
        module = args[0]
        row = self._new_row(module) if hasattr(module, "_modules") else None
        with self.step("type", module, row):
            made = wrapped(*args, **kwargs)
        if row is not None:
            row.type_name = str(getattr(made, "jit_type", None) or "")
            known = self._types.get(id(made))
            if hasattr(module, "_concrete_type"):
                row.origin = "scripted before"
            elif known is None:
                row.origin = "new"
            elif known[1] is None:
                row.origin = "found in the store"
            else:
                row.origin, row.shared_with = "shared", known[1].path
            self._types.setdefault(id(made), (made, row))
        return made

    def builder(self, wrapped: type, _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a ConcreteModuleTypeBuilder that tells of each attribute."""
        step = self.steps[-1]
        if step.name != "type" or step.row is None:
            return wrapped(*args, **kwargs)
        return recording(wrapped)(step.thing, step.row, *args, **kwargs)

    def attributes(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run AttributeTypeIsSupportedChecker.check."""
        with self.step("attributes", args[0], self._row_of(args[0])):
            return wrapped(*args, **kwargs)

    def module(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run create_script_module_impl: the modules inside, then this one's methods."""
        with self.step("module", args[0], self._row_of(args[0])):
            return wrapped(*args, **kwargs)

    def read(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run make_stub: the text of a method becomes TorchScript's tree."""
        with self.step("read", args[0], functions=[args[0]]):
            return wrapped(*args, **kwargs)

    def methods(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run create_methods_and_properties_from_stubs."""
        if self.steps[-1].name == "called":  # one method, which is noted already
            return wrapped(*args, **kwargs)
        return self._compile(wrapped, args, kwargs, [*args[1], *args[2]], "method")

    def hooks(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run create_hooks_from_stubs."""
        return self._compile(wrapped, args, kwargs, [*args[1], *args[2]], "hook")

    def called(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run compile_unbound_method: of a method that another one calls."""
        function = args[1]
        caller = next((one for one in reversed(self.steps) if one.functions), None)
        name, at = None, None
        for one in caller.functions if caller else ():
            if (at := use_of_method(one, function.__name__)) is not None:
                name = name_of(one)
                break
        path = self.row.path if self.row else None
        method = Method(name_of(function), "method", path, place_of(function), name, at)
        return self._one(method, "called", function, wrapped, args, kwargs)

    def reached(self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run try_compile_fn or _recursive_compile_class: the compiler tells the line in which it met something."""
        places = quoted(str(args[1])) if len(args) > 1 else []
        self._loc = places[0].place if places else None
        try:
            return wrapped(*args, **kwargs)
        finally:
            self._loc = None

    def nested(self, wrapped: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run torch.jit.script inside of another one."""
        obj, at = (args[0] if args else kwargs.get("obj")), self._loc
        self._loc = None
        is_compiled = inspect.isfunction(obj) or inspect.ismethod(obj) or inspect.isclass(obj)
        if not is_compiled or obj is self.steps[-1].thing:  # which another layer of ours has noted
            return wrapped(*args, **kwargs)
        kind = "class" if inspect.isclass(obj) else "function"
        caller = next((one for step in reversed(self.steps) for one in step.functions), None)
        method = Method(name_of(obj), kind, None, place_of(obj), name_of(caller) if at and caller else None, at)
        method.known = is_known(obj)
        if at is None:
            method.why = "asked for"
        return self._one(method, "function", obj, wrapped, args, kwargs)

    def script_class(
        self, wrapped: Callable[..., Any], _: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run _compile_and_register_class."""
        if self.steps[-1].thing is args[0]:  # torch.jit.script of this very class
            return wrapped(*args, **kwargs)
        at, self._loc = self._loc, None
        caller = next((one for step in reversed(self.steps) for one in step.functions), None)
        method = Method(name_of(args[0]), "class", None, place_of(args[0]), name_of(caller) if caller else None, at)
        return self._one(method, "function", args[0], wrapped, args, kwargs)

    # --- what they have in common

    def _one(self, method: Method, step: str, thing: Any, wrapped: Any, args: Any, kwargs: Any) -> Any:
        self.explanation.methods.append(method)
        method.compiled = False
        functions = _functions_of(thing)
        begun = time.perf_counter()
        try:
            with self.step(step, thing, functions=functions, method=method):
                made = wrapped(*args, **kwargs)
        except Exception as error:
            if self.steps[-1].name == "type":  # of an attribute's value: torch goes on without it
                self.failures[id(thing)] = thing, self._why(error, self)
                self.failed_in = ()
            raise
        method.seconds, method.compiled = time.perf_counter() - begun, True
        return made

    def _compile(self, wrapped: Any, args: Any, kwargs: Any, stubs: list[Any], kind: str) -> Any:
        row, cls = self.row, type(self.steps[-1].thing)
        functions, rows = [], []
        for stub in stubs:
            function = getattr(stub, "original_method", None)
            what, why = kind, None
            if kind == "method" and function is None:  # a property, of which torch keeps its name alone
                function, what = getattr(cls, stub.def_.name().name, None), "property"
            elif kind == "method":
                why = "forward" if getattr(function, "__name__", "") == "forward" else "exported"
            functions.append(plain(function))
            rows.append(
                Method(name_of(function), what, row.path if row else None, place_of(plain(function)), None, None, why)
            )
        self.explanation.methods += rows
        for one in rows:
            one.compiled = False
        begun = time.perf_counter()
        with self.step("compile", self.steps[-1].thing, row, functions):
            made = wrapped(*args, **kwargs)
        for one in rows:
            one.compiled = True
            one.seconds = time.perf_counter() - begun if len(rows) == 1 else None
        return made

    def _row_of(self, module: Any) -> Module | None:
        found = self.rows.get(id(module))
        return found[0] if found else None

    def _new_row(self, module: Any) -> Module:
        path, parent = "", self.steps[-1]
        if parent.name == "type" and parent.row is not None:
            name = self._name_in(parent, module)
            path = f"{parent.row.path}.{name}" if parent.row.path else name
        cls = type(module)
        row = Module(path, cls.__name__, cls.__module__, place_of(cls))
        described(module, row)
        self.explanation.modules.append(row)
        self.classes[path] = cls
        self.rows[id(module)] = row, module
        return row

    def _name_in(self, parent: Step, module: Any) -> str:
        """Return the name under which torch is looking at a module: it takes them up in their order."""
        assert parent.row is not None
        prefix = f"{parent.row.path}." if parent.row.path else ""
        names = [name for name, one in parent.thing._modules.items() if one is module]
        taken = {row.path for row in self.explanation.modules}
        return next((name for name in names if f"{prefix}{name}" not in taken), names[0] if names else "?")


def _functions_of(thing: Any) -> list[Any]:
    """Return a function, or those of a class."""
    if inspect.isclass(thing):
        return [one for one in vars(thing).values() if inspect.isfunction(one)]
    return [thing] if inspect.isroutine(thing) else []

"""Proxies: the stand-in for a callable that is no Python function; it pickles by reference."""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch import Target
from hookpatch._inspect.together import outcomes_here
from hookpatch._session.ledger import Requested

MakeModule = Callable[[str, str], ModuleType]

SOURCE = """
    import functools
    import operator
    from math import sqrt

    class Model:
        def __init__(self, size=1):
            self.size = size
        def __eq__(self, other):
            return type(other) is type(self) and other.size == self.size
        def call(self):
            return "call"

    class Callable:
        attribute = "attribute"
        def __call__(self, a, b=2):
            return a, b

    class Rows(list):
        pass

    class Options(dict):
        pass

    class Holder:
        absolute = abs
        item = operator.itemgetter(0)

    @functools.lru_cache
    def cached(n):
        return [n]

    instance = Callable()
    partial = functools.partial(int, base=2)
    bound = Model(3).call
    table = {"sqrt": sqrt}
"""

CALLABLE = {
    "sqrt": lambda m: m.sqrt(4.0),
    "Model": lambda m: m.Model(5),
    "instance": lambda m: m.instance(1),
    "partial": lambda m: m.partial("101"),
    "bound": lambda m: m.bound(),
    "cached": lambda m: m.cached(1),
    "table['sqrt']": lambda m: m.table["sqrt"](4.0),
    "Holder.absolute": lambda m: m.Holder.absolute(-1),
    "Holder.item": lambda m: m.Holder().item("ab"),
    "Rows.append": lambda m: m.Rows().append(1),
    "Options.fromkeys": lambda m: m.Options.fromkeys("ab"),
}


@pytest.fixture
def callables(make_module: MakeModule) -> ModuleType:
    """A module of things that can be called and are no Python functions."""
    return make_module("callables", SOURCE)


def _around(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    return "patched", wrapped(*args, **kwargs)


def _tagged(tag: str) -> Callable[..., Any]:
    return lambda wrapped, instance, args, kwargs: (tag, wrapped(*args, **kwargs))


def _through(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def _contents(module: ModuleType) -> list[list[tuple[Any, Any]]]:
    owners = (vars(module), *map(vars, (module.Model, module.Callable, module.Rows, module.Holder)), module.table)
    return [list(owner.items()) for owner in owners]


@pytest.mark.parametrize("address", CALLABLE)
def test_any_callable_is_wrapped_and_restored_exactly(callables: ModuleType, address: str) -> None:
    """C functions, classes, instances, partials and bound methods are wrapped; the identical object comes back."""
    before, result = _contents(callables), CALLABLE[address](callables)
    with hookpatch.active(hookpatch.wrap(f"callables:{address}", _around)):
        assert CALLABLE[address](callables) == ("patched", result)
    assert CALLABLE[address](callables) == result
    after = _contents(callables)
    assert [[key for key, _ in owner] for owner in before] == [[key for key, _ in owner] for owner in after]
    assert all(
        old is new for owners in zip(before, after, strict=True) for (_, old), (_, new) in zip(*owners, strict=True)
    )


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
@pytest.mark.parametrize("address", ["sqrt", "Model", "partial", "table['sqrt']", "Rows.append"])
def test_overlapping_sessions_come_off_in_any_order(
    callables: ModuleType, address: str, order: tuple[int, ...]
) -> None:
    """Of three sessions on one callable, each can end first; the others hold, the last restores exactly."""
    before, result = _contents(callables), CALLABLE[address](callables)
    tags = ["a", "b", "c"]
    sessions = [hookpatch.active(hookpatch.wrap(f"callables:{address}", _tagged(tag))).open() for tag in tags]
    open_tags = list(tags)
    for index in order:
        sessions[index].close()
        open_tags.remove(tags[index])
        expected = result
        for tag in open_tags:
            expected = (tag, expected)
        assert CALLABLE[address](callables) == expected
    after = _contents(callables)
    assert all(
        old is new for owners in zip(before, after, strict=True) for (_, old), (_, new) in zip(*owners, strict=True)
    )


@pytest.mark.parametrize("address", ["sqrt", "Model", "instance", "partial", "bound", "cached"])
def test_leaked_proxy_passes_through(callables: ModuleType, address: str) -> None:
    """A proxy that got into a variable calls the original after the end, and compares equal to it."""
    original = getattr(callables, address)
    result = CALLABLE[address](callables)
    with hookpatch.active(hookpatch.wrap(f"callables:{address}", _around)):
        leaked = getattr(callables, address)
    assert leaked is not original
    assert leaked == original
    setattr(callables, address, leaked)
    assert CALLABLE[address](callables) == result


def test_leaked_bound_proxy_passes_through(callables: ModuleType) -> None:
    """A method of a proxy bound in the block calls the original after the end."""
    rows = callables.Rows()
    with hookpatch.active(hookpatch.wrap("callables:Rows.append", lambda w, i, a, k: w(a[0] * 2))):
        append = rows.append
        append(1)
        callables.Rows.append(rows, 2)
    append(3)
    assert rows == [2, 4, 3]
    assert "append" not in vars(callables.Rows)


def test_leaked_wrapped_passes_through(callables: ModuleType) -> None:
    """What a wrapper was given as wrapped runs no inner patch after the end."""
    leaked: list[Callable[..., Any]] = []

    def outer(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
        leaked.append(wrapped)
        return wrapped(*args, **kwargs)

    with hookpatch.active(hookpatch.wrap("callables:sqrt", outer), hookpatch.wrap("callables:sqrt", _tagged("b"))):
        assert callables.sqrt(4.0) == ("b", 2.0)
        assert leaked[0](9.0) == ("b", 3.0)
    assert leaked[0](9.0) == 3.0


def test_several_wrappers_in_one_session_lie_in_the_order_given(callables: ModuleType) -> None:
    """The first wrapper given is the outermost; wrapped looks like the original to each."""
    names: list[str] = []

    def named(tag: str) -> Callable[..., Any]:
        def wrapper(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
            names.append(wrapped.__name__)
            return tag, wrapped(*args, **kwargs)

        return wrapper

    with hookpatch.active(*(hookpatch.wrap("callables:sqrt", named(tag)) for tag in "abc")):
        assert callables.sqrt(4.0) == ("a", ("b", ("c", 2.0)))
    assert names == ["sqrt"] * 3


def test_wrapper_of_an_inherited_c_method_gets_its_object(callables: ModuleType) -> None:
    """The wrapper of a C method that a class inherits gets the object and the arguments without it."""
    got: list[Any] = []

    def wrapper(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
        got.append((instance, args))
        return wrapped(*args, **kwargs)

    rows = callables.Rows()
    with hookpatch.active(hookpatch.wrap("callables:Rows.append", wrapper)):
        rows.append(1)
        callables.Rows.append(rows, 2)
    assert [instance is rows for instance, _ in got] == [True, True]
    assert [args for _, args in got] == [(1,), (2,)]


def test_wrapped_class_is_still_a_class(callables: ModuleType) -> None:
    """isinstance, issubclass, subclassing, attributes and type() of instances work while a class is wrapped."""
    original = callables.Model
    with hookpatch.active(hookpatch.wrap("callables:Model", _through)):
        model = callables.Model(2)
        assert type(model) is original
        assert isinstance(model, callables.Model)
        assert issubclass(original, callables.Model)
        sub = type("Sub", (original,), {})
        assert issubclass(sub, callables.Model)

        class Inside(callables.Model):  # type: ignore[name-defined,misc]  # a class made at run time
            pass

        assert Inside.__mro__ == (Inside, original, object)
        assert callables.Model.call(model) == "call"
        assert inspect.isclass(callables.Model)
    assert isinstance(Inside(), callables.Model)


def _by_super(of: Any) -> object:
    return super(of.Model, of.Model(1))


def _by_match(of: Any) -> bool:
    match of.Model(1):
        case of.Model():
            return True
    return False


def _words_of_python() -> str:
    """Return the error of a match with a pattern that is no class: Python's words differ by version."""
    number: Any = 5
    with pytest.raises(TypeError) as refused:
        match number:
            case number():
                pass
    return str(refused.value)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "super": (_by_super, "super() argument 1 must be a type, not {}"),
    "new": (lambda of: object.__new__(of.Model), "object.__new__(X): X is not a type object ({})"),
    "match": (_by_match, _words_of_python()),
}


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("use", REFUSED)
def test_what_a_proxy_of_a_class_refuses_names_hookpatch_or_is_reported(
    callables: ModuleType, use: str, reach: Any
) -> None:
    """Only a class passes as a class there. Plan and report say so of the patch."""
    call, error = REFUSED[use]
    patch = hookpatch.wrap("callables:Model", _through, reach=reach)
    call(callables)
    (planned,) = outcomes_here([Requested(patch)], [True], None)[0].warnings
    with hookpatch.active(patch) as session:
        reported = [row.warnings for row in session.report() if row.place is None]
        with pytest.raises(TypeError) as refused:
            call(callables)
        assert type(callables.Model(1)) is not callables.Model
    assert reported == [(planned,)]
    assert planned == (
        "a proxy stands for the class: `type(x) is Model` is False, and super(Model, self), `except Model` and "
        "`case Model()` raise a TypeError; wrap Model.__init__ or derive a subclass where that matters; "
        "a patch of pydoc shows the class in help()"
    )
    assert str(refused.value).endswith(error.format("proxy of a class by hookpatch"))
    call(callables)
    with hookpatch.active(hookpatch.wrap("callables:Model.__init__", _through, reach=reach)) as session:
        call(callables)
        assert type(callables.Model(1)) is callables.Model
        assert [row.warnings for row in session.report()] == [()]


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("is_imported", [True, False])
def test_help_shows_a_wrapped_class(
    callables: ModuleType, monkeypatch: pytest.MonkeyPatch, reach: Any, is_imported: bool
) -> None:
    """help() shows a class and its module as without the patch, in overlapping blocks; pydoc may be imported inside."""
    pages: list[tuple[ModuleType, Callable[..., Any]]] = []

    def page() -> list[str]:
        module = importlib.import_module("pydoc")
        pages.append((module, module.TextDoc.docclass))
        shown = (callables.Model, "callables.Model", callables, callables.Rows)
        return [module.render_doc(thing, renderer=module.plaintext) for thing in shown]

    expected = page()
    if not is_imported:
        monkeypatch.delitem(sys.modules, "pydoc")
    sessions = [hookpatch.active(hookpatch.wrap("callables:Model", _through, reach=reach)) for _ in range(2)]
    for change in (sessions[0].open, sessions[1].open, sessions[0].close, sessions[1].close):
        change()
        assert page() == expected
    (_, before), *_, (module, after) = pages
    assert (after is before) is is_imported
    assert after.__code__.co_filename == module.__file__


def test_methods_of_a_wrapped_class_are_called_by_name(make_module: MakeModule) -> None:
    """Base.__init__(self), written in a subclass, is the class's own method; the patch goes on."""
    module = make_module(
        "callables",
        """
        class Base:
            def __init__(self, size):
                self.size = size
            def __eq__(self, other):
                return self.size == other.size
        class Sub(Base):
            def __init__(self):
                Base.__init__(self, 5)
            def __eq__(self, other):
                return Base.__eq__(self, other)
            def __repr__(self):
                return Base.__repr__(self)
        """,
    )
    with hookpatch.active(hookpatch.wrap("callables:Base", _around)):
        assert module.Sub().size == 5
        assert module.Sub() == module.Sub()
        assert repr(module.Sub()).startswith("<callables.Sub object at ")
        assert str(inspect.signature(module.Base)) == "(size)"
        patched, base = module.Base(4)
        assert (patched, base.size) == ("patched", 4)


def test_attributes_and_signature_show_through(callables: ModuleType) -> None:
    """Attributes, methods and the signature of what is wrapped can be had from the proxy."""
    before = inspect.signature(callables.instance)
    with hookpatch.active(hookpatch.wrap("callables:instance", _through), hookpatch.wrap("callables:cached", _through)):
        assert callables.instance.attribute == "attribute"
        assert inspect.signature(callables.instance) == before
        callables.cached(1)
        assert callables.cached.cache_info().currsize == 1
        assert (callables.cached.__name__, callables.cached.__module__) == ("cached", "callables")
    assert vars(callables.instance) == {}


def test_attribute_set_on_a_proxy_reaches_the_original(callables: ModuleType) -> None:
    """What the program sets on a wrapped object is on the object itself, before and after the end."""
    with hookpatch.active(hookpatch.wrap("callables:instance", _through)):
        callables.instance.setting = 5
    assert vars(callables.instance) == {"setting": 5}


@pytest.mark.parametrize("address", ["sqrt", "Model", "instance", "partial", "cached"])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_proxy_pickles_by_reference(callables: ModuleType, address: str, protocol: int) -> None:
    """A pickle made in the block loads what stands under the name: the proxy inside, the original outside."""
    original = getattr(callables, address)
    with hookpatch.active(hookpatch.wrap(f"callables:{address}", _through)):
        proxy = getattr(callables, address)
        data = pickle.dumps(proxy, protocol)
        assert pickle.loads(data) is proxy
    assert pickle.loads(data) is original
    assert pickle.loads(pickle.dumps(proxy, protocol)) is original


def test_bound_proxy_pickles_with_its_object(callables: ModuleType) -> None:
    """A bound C method made in the block loads as that method of the copied object."""
    rows = callables.Rows([1])
    with hookpatch.active(hookpatch.wrap("callables:Rows.append", lambda w, i, a, k: w(a[0] * 2))):
        data = pickle.dumps(rows.append)
        inside = pickle.loads(data)
        inside(5)
        assert inside.__self__ == [1, 10]
    outside = pickle.loads(data)
    outside(5)
    assert outside.__self__ == [1, 5]


def test_proxy_of_an_entry_pickles_as_what_it_stands_for(callables: ModuleType) -> None:
    """A proxy in a mapping has no name of its own: its pickle loads the original."""
    with hookpatch.active(hookpatch.wrap("callables:table['sqrt']", _around)):
        data = pickle.dumps(callables.table)
    assert pickle.loads(data) == {"sqrt": math.sqrt}
    assert pickle.loads(data)["sqrt"] is math.sqrt


def test_pickle_loads_in_a_process_that_is_not_patched(callables: ModuleType) -> None:
    """Another process loads the original from a pickle made in the block."""
    with hookpatch.active(hookpatch.wrap("callables:sqrt", _around)):
        data = pickle.dumps(callables.sqrt)
    folder = str(callables.__file__).rpartition("/")[0]
    code = f"import pickle, sys; sys.path.insert(0, {folder!r}); print(pickle.loads({data!r})(4.0))"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (completed.stdout, completed.stderr) == ("2.0\n", "")


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy])
def test_proxy_is_copied_as_a_function_is(callables: ModuleType, copier: Callable[[Any], Any]) -> None:
    """copy and deepcopy give back the proxy itself, alone and inside a container."""
    with hookpatch.active(hookpatch.wrap("callables:sqrt", _around)):
        assert copier(callables.sqrt) is callables.sqrt
        assert copier([callables.sqrt])[0] is callables.sqrt
        append = callables.Rows.append
        assert copier(append) is append


def test_arguments_are_injected_into_c_functions_and_classes(callables: ModuleType) -> None:
    """inject works on what is no Python function, by position where the caller gave one."""
    with hookpatch.active(
        hookpatch.inject("callables:Model", size=9),
        hookpatch.inject("callables:instance", b=8),
        hookpatch.inject("callables:partial", base=16),
    ):
        assert callables.Model().size == callables.Model(1).size == callables.Model(size=1).size == 9
        assert callables.instance(1) == callables.instance(1, 2) == (1, 8)
        assert callables.partial("10") == 16
    assert callables.Model().size == 1


def test_proxy_stays_the_same_object_while_layers_come_and_go(callables: ModuleType) -> None:
    """A proxy that somebody holds sees layers that are added and removed later."""
    first = hookpatch.active(hookpatch.wrap("callables:sqrt", _tagged("a"))).open()
    proxy = callables.sqrt
    second = hookpatch.active(hookpatch.wrap("callables:sqrt", _tagged("b"))).open()
    assert callables.sqrt is proxy
    assert proxy(4.0) == ("b", ("a", 2.0))
    first.close()
    assert callables.sqrt is proxy
    assert proxy(4.0) == ("b", 2.0)
    second.close()
    assert proxy(4.0) == 2.0


def test_c_function_of_the_standard_library_is_restored() -> None:
    """A function of a built-in module, at hand, is the identical object again."""
    before = list(vars(math).items())
    with hookpatch.active(hookpatch.wrap(Target.attribute(math, "sqrt"), lambda w, i, a, k: -w(*a, **k))):
        assert math.sqrt(4) == -2.0
    assert list(vars(math)) == [name for name, _ in before]
    assert all(vars(math)[name] is value for name, value in before)

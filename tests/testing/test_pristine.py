"""pristine(): report each change that a block leaves in a line of its own, and change nothing by looking."""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import pickle
import re
import sys
import warnings
from collections import OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import wrapt

import hookpatch
from hookpatch._bootstrap import imports
from hookpatch.errors import DisplacedWarning, SettingError
from hookpatch.testing import NotPristine, pristine

SOURCE = """
import functools
def speak(word="vendor", *, loud=False):
    return word
def other() -> str:
    return "other"
class Base:
    def inherited(self): return "inherited"
class Rival:
    pass
class Model(Base):
    def run(self): return "run"
    @staticmethod
    def static(): return "static"
    @classmethod
    def made(cls): return "made"
    @property
    def size(self): raise AssertionError("the property was run")
class Slotted:
    __slots__ = ("empty", "weight")
    def __init__(self): self.weight = 1.5
REGISTRY = {"a": 1, "b": 2, "c": 3}
RULES = ["one", "two", "three"]
def closing(variable):
    def inner(): return empty, variable
    return inner
    empty = None
model, slotted, inner = Model(), Slotted(), closing(1)
bound, partly = closing(model).__get__(model), functools.partial(speak)
model.name = "first"
"""


@pytest.fixture
def vendor(make_module: Any) -> ModuleType:
    module: ModuleType = make_module("vendor", SOURCE)
    return module


def shout(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs).upper()


def owners_in(vendor: Any) -> tuple[object, ...]:
    return (
        *(vendor, vendor.Base, vendor.Model, vendor.Slotted, vendor.speak),
        *(vendor.model, vendor.slotted, vendor.REGISTRY, vendor.RULES, vendor.inner),
    )


def lines_of_error(error: NotPristine) -> list[str]:
    """Return the lines of an error without the ids of objects."""
    return [re.sub(r" at 0x[0-9a-f]+", "", line) for line in error.differences]


def test_block_that_ends_as_it_began_passes(vendor: Any) -> None:
    """Patches of every verb on every kind of owner, in a closed session, leave no difference."""
    with pristine(*owners_in(vendor), order=True) as nothing:
        assert nothing is None
        with hookpatch.active(
            hookpatch.wrap("vendor:speak", shout, reach="everywhere"),
            hookpatch.wrap("vendor:other", shout),
            hookpatch.wrap("vendor:Model.run", shout),
            hookpatch.wrap("vendor:Model.static", shout),
            hookpatch.wrap("vendor:Model.made", shout),
            hookpatch.wrap("vendor:Model.inherited", shout),
            hookpatch.replace("vendor:Model.size", 7),
            hookpatch.replace("vendor:REGISTRY['b']", 5),
            hookpatch.remove("vendor:REGISTRY['a']"),
            hookpatch.replace("vendor:RULES[0]", "zero"),
            hookpatch.replace(hookpatch.Target.attribute(vendor.model, "name"), "second"),
            hookpatch.replace(hookpatch.Target.attribute(vendor.slotted, "empty"), "filled"),
        ):
            assert vendor.speak() == "VENDOR"


# New in Python 3.14: what evaluates a function's annotations.
ANNOTATED = [
    ("m.other.__annotate__ = None", "vendor:other.__annotate__ was function vendor:other.__annotate__, is None")
]
if sys.version_info < (3, 14):
    ANNOTATED.clear()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("m.speak = m.other", "vendor:speak was function vendor:speak, is function vendor:other"),
        ("m.new = 'x'", "vendor:new was absent, is 'x'"),
        ("del m.REGISTRY", "vendor:REGISTRY was <dict object>, is absent"),
        ("m.json = __import__('json')", "vendor:json was absent, is module json"),
        ("m.Base = m.Model", "vendor:Base was class vendor:Base, is class vendor:Model"),
        ("m.Model.run = None", "vendor:Model.run was function vendor:Model.run, is None"),
        (
            "m.Model.static = m.Model.static",
            "vendor:Model.static was staticmethod of function vendor:Model.static, is function vendor:Model.static",
        ),
        (
            "m.Model.made = staticmethod(vars(m.Model)['made'].__func__)",
            "vendor:Model.made was classmethod of function vendor:Model.made, "
            "is staticmethod of function vendor:Model.made",
        ),
        ("m.Model.size = property(len)", "vendor:Model.size was <property object>, is <property object>"),
        (
            "m.Model.inherited = m.Base.inherited",
            "vendor:Model.inherited was absent, is function vendor:Base.inherited",
        ),
        ("m.Model.__bases__ = (m.Rival,)", "vendor:Model.__bases__ was (class vendor:Base), is (class vendor:Rival)"),
        ("m.model.name = b'2'", "<Model object>.name was 'first', is b'2'"),
        ("m.model.__class__ = m.Base", "<Model object> was class vendor:Model's, is class vendor:Base's"),
        ("m.slotted.weight = 2.5", "<Slotted object>.weight was 1.5, is 2.5"),
        ("m.slotted.empty = True", "<Slotted object>.empty was absent, is True"),
        ("del m.slotted.weight", "<Slotted object>.weight was 1.5, is absent"),
        ("m.REGISTRY['b'] = 7", "<dict object>['b'] was 2, is 7"),
        ("m.REGISTRY['d'] = m.REGISTRY", "<dict object>['d'] was absent, is <dict object>"),
        ("del m.REGISTRY['b']", "<dict object>['b'] was 2, is absent"),
        (
            "m.REGISTRY['a'] = m.REGISTRY.pop('a')",
            "the order of the keys of <dict object>: 'b' is where 'a' was",
        ),
        ("m.RULES[1] = 'zwei'", "<list object>[1] was 'two', is 'zwei'"),
        ("m.RULES.insert(0, 'zero')", "<list object>[0] was absent, is 'zero'"),
        ("m.RULES.remove('two')", "<list object>[1] was 'two', is absent"),
        ("m.speak.__code__ = m.other.__code__", "vendor:speak.__code__ was <code object>, is <code object>"),
        ("m.speak.__defaults__ = None", "vendor:speak.__defaults__ was ('vendor'), is None"),
        ("m.speak.__kwdefaults__ = {}", "vendor:speak.__kwdefaults__ was <dict object>, is <dict object>"),
        ("m.speak.__kwdefaults__['loud'] = 1", "vendor:speak.__kwdefaults__['loud'] was False, is 1"),
        ("m.speak.__doc__ = 'new'", "vendor:speak.__doc__ was None, is 'new'"),
        ("m.speak.__module__ = 'other'", "vendor:speak.__module__ was 'vendor', is 'other'"),
        *ANNOTATED,
        ("m.speak.mark = 1", "vendor:speak.mark was absent, is 1"),
        ("m.Model.run.mark = 1", "vendor:Model.run.mark was absent, is 1"),
        ("vars(m.Model)['static'].__func__.mark = 1", "vendor:Model.static.mark was absent, is 1"),
        ("vars(m.Model)['size'].fget.mark = 1", "vendor:Model.size.fget.mark was absent, is 1"),
        ("m.bound.__func__.mark = 1", "vendor:bound.mark was absent, is 1"),
        (
            "m.partly.__setstate__((m.other, (), m.partly.keywords, None))",
            "vendor:partly.func was function vendor:speak, is function vendor:other",
        ),
        (
            "m.inner.__closure__[1].cell_contents = 2",
            "vendor:closing.<locals>.inner.__closure__[1].cell_contents was 1, is 2",
        ),
        (
            "m.inner.__closure__[0].cell_contents = 2",
            "vendor:closing.<locals>.inner.__closure__[0].cell_contents was absent, is 2",
        ),
    ],
)
def test_difference_is_told_in_a_line(vendor: Any, change: str, line: str) -> None:
    """A line has the owner, the name, the value before and the value after."""
    owners = [owner for owner in owners_in(vendor) if owner is not vendor.speak]  # reported as vendor's
    with pytest.raises(NotPristine) as caught, pristine(*owners):
        exec(change, {"m": vendor})
    assert lines_of_error(caught.value) == [line]


def test_objects_are_told_apart_by_their_addresses(vendor: Any) -> None:
    """Two functions of one name, as after a reload, differ by their addresses."""
    before = vendor.other
    with pytest.raises(NotPristine) as caught, pristine(vendor):
        exec("def other(): pass", vars(vendor))
    assert caught.value.differences == (
        f"vendor:other was function vendor:other at {id(before):#x}, is function vendor:other at {id(vendor.other):#x}",
    )
    assert str(caught.value) == f"1 not as before:\n  {caught.value.differences[0]}"


class Registry(wrapt.ObjectProxy):  # type: ignore[misc]
    """A proxy."""


class Own(UserDict[str, int]):
    """A mapping of another class than dict."""


@pytest.mark.parametrize(
    ("owner", "place", "moved"),
    [
        (OrderedDict(a=1, b=2), "['c']", lambda owner: owner.move_to_end("a")),
        (defaultdict(list, a=1, b=2), "['c']", lambda owner: owner.update(a=owner.pop("a"))),
        (Own(a=1, b=2), "['c']", lambda owner: owner.update(a=owner.pop("a"))),
        (deque("ab"), "[2]", lambda owner: owner.rotate()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_mappings_and_lists(owner: Any, place: str, moved: Callable[[Any], None]) -> None:
    """Compare entries and order of mappings and lists of any class."""
    with pristine(owner):
        pass
    with pytest.raises(NotPristine) as caught, pristine(owner):
        owner.append(3) if isinstance(owner, deque) else owner.update(c=3)
    assert lines_of_error(caught.value) == [f"<{type(owner).__name__} object>{place} was absent, is 3"]
    with pytest.raises(NotPristine), pristine(owner):
        moved(owner)


def test_key_that_is_equal_but_another(vendor: Any) -> None:
    """1, 1.0 and True are one key to a dict, and different objects."""
    vendor.REGISTRY[1] = "x"
    with pytest.raises(NotPristine) as caught, pristine(vendor.REGISTRY):
        vendor.REGISTRY[True] = vendor.REGISTRY.pop(1)
    assert lines_of_error(caught.value) == ["the order of the keys of <dict object>: True is where 1 was"]


def test_order_of_attributes_is_compared_when_asked(vendor: Any) -> None:
    """A removed attribute comes back at the end, as the guarantees say."""

    def move() -> None:
        vendor.other = vars(vendor).pop("other")

    with pristine(vendor):
        move()
    vars(vendor)["Base"] = vars(vendor).pop("Base")
    with pytest.raises(NotPristine) as caught, pristine(vendor, order=True):
        move()
    assert lines_of_error(caught.value) == ["the order of the names of vendor: 'Base' is where 'other' was"]


class Touchy:
    """An object that raises when an attribute is read."""

    __slots__ = ("__dict__", "kept")

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


def test_reading_wakes_nothing(write_module: Any) -> None:
    """No module put off is loaded, no __getattr__ asked, no property run, no default made, no repr taken."""
    write_module("put_off", "raise AssertionError('loaded')")
    spec = importlib.util.find_spec("put_off")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    put_off = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(put_off)
    kind = type(put_off)
    lazy = ModuleType("lazy")
    vars(lazy)["__getattr__"] = lambda name: pytest.fail(f"asked for {name}")
    touchy, defaults = Touchy(), defaultdict(list)
    holder = {"a": touchy, touchy: put_off}
    with pytest.raises(NotPristine) as caught, pristine(put_off, lazy, touchy, defaults, holder):
        object.__setattr__(touchy, "x", 1)
        object.__setattr__(touchy, "kept", 2)
        holder["a"], holder["b"] = put_off, touchy
        del holder[touchy]
    assert lines_of_error(caught.value) == [
        "<Touchy object>.x was absent, is 1",
        "<Touchy object>.kept was absent, is 2",
        "<dict object>['a'] was <Touchy object>, is module put_off",
        "<dict object>[<Touchy object>] was module put_off, is absent",
        "<dict object>['b'] was absent, is <Touchy object>",
    ]
    assert type(put_off) is kind
    assert not defaults


def test_proxy_is_read_through(vendor: Any) -> None:
    """A proxy forwards setting and deleting, so pristine() compares the object behind the proxy."""
    with pytest.raises(NotPristine) as caught, pristine(Registry(vendor)):
        vendor.new = 1
    assert lines_of_error(caught.value) == ["<Registry object>.new was absent, is 1"]


def test_values_that_an_owner_makes_anew_are_compared_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """os.environ keeps bytes and gives out texts."""
    import os

    monkeypatch.setenv("HOOKPATCH_TESTED", "before")
    with pristine(os.environ):
        monkeypatch.setenv("HOOKPATCH_TESTED", "before")
    with pytest.raises(NotPristine) as caught, pristine(os.environ):
        monkeypatch.setenv("HOOKPATCH_TESTED", "after")
    assert lines_of_error(caught.value) == ["<_Environ object>['HOOKPATCH_TESTED'] was 'before', is 'after'"]


def test_what_the_interpreter_notes_in_a_module_that_warns_is_no_trace(vendor: Any) -> None:
    """__warningregistry__ comes with the first warning."""
    exec("import warnings\ndef warn(): warnings.warn('x')", vars(vendor))
    with pristine(vendor), warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.warns(UserWarning, match="x"):
            vendor.warn()
    assert "__warningregistry__" in vars(vendor)


def test_what_a_copy_notes_in_a_class_is_no_trace(vendor: Any) -> None:
    """__slotnames__ comes with the first copy or pickle of an object."""
    with pristine(vendor.Slotted, vendor.slotted, order=True):
        copy.copy(vendor.slotted)
    assert "__slotnames__" in vars(vendor.Slotted)


def test_where_python_calls_a_partial_is_no_trace(vendor: Any) -> None:
    """The first call of a partial with keywords changes its __vectorcalloffset__."""
    vendor.partly = functools.partial(vendor.speak, loud=True)
    with pristine(vendor, vendor.partly):
        assert vendor.partly("word") == "word"


@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt, SystemExit])
def test_error_of_the_block_goes_on_with_the_differences_as_a_note(vendor: Any, raised: type[BaseException]) -> None:
    """The block's error is neither hidden nor changed, and has no note without a difference."""
    error = raised("x")
    with pytest.raises(raised) as caught, pristine(vendor):
        raise error
    assert caught.value is error
    assert not hasattr(error, "__notes__")
    with pytest.raises(raised) as caught, pristine(vendor):
        vendor.new = 1
        raise error
    assert caught.value is error
    assert error.__notes__ == ["1 not as before:\n  vendor:new was absent, is 1"]


@pytest.mark.parametrize("owner", ["vendor", b"vendor", 1, None, (1,), frozenset()])
def test_owner_that_cannot_change_is_refused(owner: object) -> None:
    """pristine() of a name instead of a module would compare nothing and always pass."""
    with pytest.raises(SettingError) as caught, pristine(owner):
        pytest.fail("the block must not run")
    kind = type(owner).__name__
    expected = f"pristine(): takes modules, classes, mappings and objects, not a{'n' * (kind == 'int')} {kind}"
    assert str(caught.value) == expected


def test_session_left_open_is_told_with_its_patches_and_watches(vendor: Any) -> None:
    """The error lists the patches and watches that outlive the block, and their session."""
    with pytest.raises(NotPristine) as caught, pristine(vendor, vendor.REGISTRY):
        session = hookpatch.active(
            hookpatch.wrap("vendor:other", shout),
            hookpatch.replace("vendor:REGISTRY['b']", 5),
            hookpatch.wrap("later:thing", shout),
        ).open()
    session.close()
    assert lines_of_error(caught.value) == [
        "vendor:other was function vendor:other, is function vendor:other, "
        "patched by a patch given to active() (wrap vendor:other)",
        "<dict object>['b'] was 2, is 5, patched by a patch given to active() (replace vendor:REGISTRY['b'])",
        "<Session of vendor:other, vendor:REGISTRY['b'], later:thing, open> is open",
        "vendor:other is patched by a patch given to active() (wrap vendor:other)",
        "<dict object>['b'] is patched by a patch given to active() (replace vendor:REGISTRY['b'])",
        "module later is waited for",
        "module vendor is waited for",
        "module vendor is waited for",
    ]


def test_plugin_is_named(vendor: Any, make_distribution: Any) -> None:
    """The line names all layers of the slot, the outermost first."""
    plugin = """
    import hookpatch
    @hookpatch.hookimpl
    def hookpatch_patches():
        return [hookpatch.wrap("vendor:other", lambda w, i, a, k: w(*a, **k))]
    """
    make_distribution("loud-dist", "2.1", {"loud": "loud_plugin"}, {"loud_plugin": plugin})
    with pytest.raises(NotPristine) as caught, pristine(vendor):
        session = hookpatch.active("loud", hookpatch.wrap("vendor:other", shout)).open()
    session.close()
    assert lines_of_error(caught.value)[0] == (
        "vendor:other was function vendor:other, is function vendor:other, "
        "patched by plugin 'loud' from loud-dist 2.1 (wrap vendor:other) "
        "and a patch given to active() (wrap vendor:other)"
    )


def test_function_changed_in_place_is_told(vendor: Any) -> None:
    """A function changed in place keeps its identity and its attributes; code and defaults differ."""
    with pytest.raises(NotPristine) as caught, pristine(vendor):
        session = hookpatch.active(hookpatch.wrap("vendor:other", shout, reach="everywhere")).open()
    session.close()
    by = "patched by a patch given to active() (wrap vendor:other)"
    assert lines_of_error(caught.value)[:3] == [
        f"vendor:other.__code__ was <code object>, is <code object>, {by}",
        f"vendor:other.__kwdefaults__ was None, is <dict object>, {by}",
        "<Session of vendor:other, open> is open",
    ]


def test_everywhere_does_not_change_what_was_noted(vendor: Any) -> None:
    """A patch with reach="everywhere" leaves the snapshot alone; the error names each changed place."""
    exec("PAIR = (Model, 1)\npartly = functools.partial(Model)\ndef asks(kind=Model): pass", vars(vendor))
    vendor.REGISTRY["model"] = vendor.RULES[0] = vendor.Model
    with pytest.raises(NotPristine) as caught, pristine(vendor, vendor.REGISTRY, vendor.RULES):
        session = hookpatch.active(hookpatch.replace("vendor:Model", vendor.Rival, reach="everywhere")).open()
    session.close()
    changed = "was class vendor:Model, is class vendor:Rival"
    inside = "was (class vendor:Model{0}), is (class vendor:Rival{0})"
    assert [line.partition(", patched by ")[0] for line in lines_of_error(caught.value) if " was " in line] == [
        f"vendor:Model {changed}",
        f"vendor:PAIR {inside.format(', 1')}",
        f"vendor:partly.func {changed}",
        f"vendor:asks.__defaults__ {inside.format('')}",
        f"<dict object>['model'] {changed}",
        f"<list object>[0] {changed}",
    ]
    by = ", patched by a patch given to active() (replace vendor:Model)"
    assert all(line.endswith(by) for line in lines_of_error(caught.value) if " was " in line)
    with (
        pristine(*owners_in(vendor), order=True),
        hookpatch.active(hookpatch.replace("vendor:Model", vendor.Rival, reach="everywhere")),
    ):
        assert vendor.RULES[0] is vendor.Rival


def test_what_was_there_before_may_stay_or_go(vendor: Any) -> None:
    """Neither a session around the block nor a session that ends in the block is a trace."""
    around, within = (hookpatch.active(hookpatch.wrap("vendor:speak", shout)) for _ in range(2))
    with around, pristine(vendor), within:
        pass
    ended = hookpatch.active(hookpatch.wrap("vendor:speak", shout)).open()
    watching = hookpatch.active(hookpatch.wrap("later:x", shout)).open()
    with pristine():
        ended.close()
    watching.close()


def test_session_is_not_kept_alive_by_looking(vendor: Any) -> None:
    """A session opened before the block and dropped inside ends in the block."""
    session = hookpatch.active(hookpatch.wrap("vendor:speak", shout)).open()
    with pristine():
        with pytest.warns(ResourceWarning, match="was dropped unclosed"):
            del session
        assert vendor.speak() == "vendor"


class Finder:
    """A finder without any module."""

    @staticmethod
    def find_spec(*args: object) -> None:
        return None


def test_finders_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report foreign finders that were added, removed or moved."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    with pytest.raises(NotPristine) as caught, pristine():
        sys.meta_path.insert(1, Finder)  # type: ignore[arg-type]
    assert lines_of_error(caught.value) == [f"sys.meta_path[1] was absent, is class {__name__}:Finder"]
    with pytest.raises(NotPristine) as caught, pristine():
        sys.meta_path.remove(Finder)  # type: ignore[arg-type]
    assert lines_of_error(caught.value) == [f"sys.meta_path[1] was class {__name__}:Finder, is absent"]
    with pytest.raises(NotPristine), pristine():
        sys.meta_path.reverse()


def test_what_stays_beneath_somebody_elses_value_is_told(vendor: Any) -> None:
    """Report an ended patch beneath a foreign value that may write our wrapper back, until that value is gone."""

    def cover() -> Any:
        session = hookpatch.active(hookpatch.wrap("vendor:other", shout)).open()
        ours, vendor.other = vendor.other, len
        with pytest.warns(DisplacedWarning):
            session.close()
        return ours

    with pristine(vendor):
        vendor.other = cover()
    with pytest.raises(NotPristine) as caught, pristine():
        ours = cover()
    vendor.other = ours
    assert lines_of_error(caught.value) == ["vendor:other holds a foreign value, put over a patch that has ended since"]


def test_patch_of_a_session_around_the_block_is_told_where_it_comes_in_the_block(write_module: Any) -> None:
    """The session was open before the block; an import inside the block applied the patch."""
    write_module("late", "def speak(): return 'late'")
    with hookpatch.active(hookpatch.wrap("late:speak", shout)), pytest.raises(NotPristine) as caught, pristine():
        importlib.import_module("late")
    assert lines_of_error(caught.value) == ["late:speak is patched by a patch given to active() (wrap late:speak)"]


def test_finder_without_a_watch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a defect of hookpatch can leave a finder without a watch, which slows down every import."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    with pytest.raises(NotPristine) as caught, pristine():
        sys.meta_path.append(imports._Finder)  # type: ignore[arg-type]
    assert lines_of_error(caught.value) == ["the finder of hookpatch is in place, and nobody waits for a module"]


def test_error_crosses_processes() -> None:
    """The error survives pickling, for tests that run in several processes."""
    error = pickle.loads(pickle.dumps(NotPristine("one", "two")))
    assert type(error) is NotPristine
    assert (error.differences, str(error)) == (("one", "two"), "2 not as before:\n  one\n  two")

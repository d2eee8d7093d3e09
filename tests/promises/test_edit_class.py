"""``edit`` of a class: the class object stays, the edited parts of the body change, and the end restores them."""

from __future__ import annotations

import enum
import inspect
import itertools
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import ConflictError, EditError
from hookpatch.testing import pristine

VENDOR: Final = '''
import abc
import dataclasses
import enum
import functools

STEP = 1

class Base:
    def up(self, x):
        return x

    @classmethod
    def of(cls):
        return cls

class Kind(Base):
    """Doc."""

    SIZE = 3
    TABLE = {"size": SIZE}
    __hidden = 5
    key = lambda self: 7 + 1
    note: str = "note"

    def method(self, x, n=SIZE):
        y = x + 1
        return y

    def default(self, n=SIZE):
        return n

    def up(self, x):
        return super().up(x) + 1

    def private(self):
        return self.__hidden

    def __len__(self):
        return 7 + 1

    async def coroutine(self):
        return 7 + 1

    @property
    def attribute(self):
        return 7 + 1

    @property
    def both(self):
        return self.kept + 1

    @both.setter
    def both(self, value):
        self.kept = value

    @functools.cached_property
    def cached(self):
        return 7 + 1

    @functools.lru_cache
    def wrapped(self):
        return 7 + 1

    @functools.singledispatchmethod
    def single(self, x):
        return 7 + 1

    @staticmethod
    def static():
        return 7 + 1

    @classmethod
    def of_class(cls):
        return 7 + 1

    if STEP:
        def under_if(self):
            return 7 + 1

    alias = private

    class Inner:
        level = 8

        def method(self):
            return 7 + 1

    def __init_subclass__(cls, **options):
        cls.made = 7 + 1

    def leaves(self):
        return 8

    def __reduce__(self):
        return Kind, ()

class Sub(Kind):
    def method(self, x):
        return super().method(x)

class Plain:
    pass

@dataclasses.dataclass
class Record:
    size: int = 1
    label = "one"

    def doubled(self):
        return self.size * 2

class Color(enum.Enum):
    RED = 1

    def shout(self):
        return self.name + "!"

class Abstract(abc.ABC):
    limit = 1

    @abc.abstractmethod
    def run(self): ...

class Slotted:
    __slots__ = ("x",)

    def __init__(self):
        self.x = 7 + 1

class Hooked:
    def __init_subclass__(cls):
        cls.seen = cls.value

class Hears(Hooked):
    value = 1

def make():
    size = 4
    class Local:
        value = size
        def method(self):
            return size + 1
    return Local

Local = make()
instance = Kind()
sub = Sub()
'''


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


def _set(vendor: Any) -> int:
    vendor.instance.both = 7
    return int(vendor.instance.both)


def _await(coroutine: Any) -> Any:
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    return ended.value.value


# By kind: the class, the old and the new piece, and an expression with the value 8 before and 9 inside.
MEMBERS: Final[dict[str, tuple[str, str, str, Callable[[Any], Any]]]] = {
    "method": ("Kind", "y = x + 1", "y = x + 2", lambda vendor: vendor.instance.method(7)),
    "of a subclass": ("Kind", "y = x + 1", "y = x + 2", lambda vendor: vendor.sub.method(7)),
    "super()": ("Kind", "super().up(x) + 1", "super().up(x) + 2", lambda vendor: vendor.instance.up(7)),
    "new super()": ("Kind", "y = x + 1", "y = super().up(x) + 2", lambda vendor: vendor.instance.method(7)),
    "value": ("Kind", "SIZE = 3", "SIZE = 4", lambda vendor: vendor.instance.SIZE + 5),
    "value made of another": ("Kind", "SIZE = 3", "SIZE = 4", lambda vendor: vendor.Kind.TABLE["size"] + 5),
    "default made of a value": ("Kind", "SIZE = 3", "SIZE = 4", lambda vendor: vendor.instance.default() + 5),
    "private value": ("Kind", "__hidden = 5", "__hidden = 6", lambda vendor: vendor.sub.private() + 3),
    "alias": ("Kind", "return self.__hidden", "return self.__hidden + 1", lambda vendor: vendor.sub.alias() + 3),
    "annotated value": ("Kind", '"note"', '"notes"', lambda vendor: len(vendor.Kind.note) + 4),
    "lambda": ("Kind", "lambda self: 7 + 1", "lambda self: 7 + 2", lambda vendor: vendor.instance.key()),
    "docstring": ("Kind", '"""Doc."""', '"""Docs."""', lambda vendor: len(vendor.Kind.__doc__) + 4),
    "dunder": (
        "Kind",
        "def __len__(self):\n    return 7 + 1",
        "def __len__(self):\n    return 7 + 2",
        lambda vendor: len(vendor.sub),
    ),
    "coroutine": (
        "Kind",
        "async def coroutine(self):\n    return 7 + 1",
        "async def coroutine(self):\n    return 9",
        lambda vendor: _await(vendor.instance.coroutine()),
    ),
    "property": (
        "Kind",
        "def attribute(self):\n    return 7 + 1",
        "def attribute(self):\n    return 7 + 2",
        lambda vendor: vendor.instance.attribute,
    ),
    "getter of two": ("Kind", "self.kept + 1", "self.kept + 2", _set),
    "setter": ("Kind", "self.kept = value", "self.kept = value + 1", _set),
    "cached property": (
        "Kind",
        "def cached(self):\n    return 7 + 1",
        "def cached(self):\n    return 7 + 2",
        lambda vendor: vendor.Kind().cached,
    ),
    "cached function": (
        "Kind",
        "def wrapped(self):\n    return 7 + 1",
        "def wrapped(self):\n    return 7 + 2",
        lambda vendor: vendor.Kind().wrapped(),
    ),
    "single dispatch": (
        "Kind",
        "def single(self, x):\n    return 7 + 1",
        "def single(self, x):\n    return 7 + 2",
        lambda vendor: vendor.instance.single(1),
    ),
    "static method": (
        "Kind",
        "def static():\n    return 7 + 1",
        "def static():\n    return 7 + 2",
        lambda vendor: vendor.Sub.static(),
    ),
    "class method": (
        "Kind",
        "def of_class(cls):\n    return 7 + 1",
        "def of_class(cls):\n    return 7 + 2",
        lambda vendor: vendor.Sub.of_class(),
    ),
    "under an if": (
        "Kind",
        "def under_if(self):\n    return 7 + 1",
        "def under_if(self):\n    return 7 + 2",
        lambda vendor: vendor.sub.under_if(),
    ),
    "decorator": (
        "Kind",
        "@staticmethod\ndef static():\n    return 7 + 1",
        "@classmethod\ndef static(cls):\n    return len(cls.__name__) + 6",
        lambda vendor: vendor.Sub.static(),
    ),
    "method of an inner class": (
        "Kind",
        "class Inner:\n    level = 8\n    def method(self):\n        return 7 + 1",
        "class Inner:\n    level = 8\n    def method(self):\n        return 7 + 2",
        lambda vendor: vendor.Kind.Inner().method(),
    ),
    "value of an inner class": ("Kind", "level = 8", "level = 9", lambda vendor: vendor.Kind.Inner.level),
    "__init_subclass__": (
        "Kind",
        "cls.made = 7 + 1",
        "cls.made = 7 + 2",
        lambda vendor: type("New", (vendor.Kind,), {}).made,
    ),
    "added method": (
        "Kind",
        "SIZE = 3",
        "SIZE = 3\ndef added(self):\n    return super().up(self.__hidden) + 4",
        lambda vendor: vendor.sub.added() if hasattr(vendor.sub, "added") else 8,
    ),
    "added value": (
        "Kind",
        "SIZE = 3",
        "SIZE = 3\nmore = SIZE + STEP + 5",
        lambda vendor: getattr(vendor.Kind, "more", 8),
    ),
    "added cached property": (
        "Kind",
        "SIZE = 3",
        "SIZE = 3\n@functools.cached_property\ndef more(self): return 9",
        lambda vendor: getattr(vendor.Kind(), "more", 8),
    ),
    "removed method": (
        "Kind",
        "def leaves(self):\n    return 8",
        "",
        lambda vendor: vendor.instance.leaves() if hasattr(vendor.instance, "leaves") else 9,
    ),
    "to an empty class": ("Plain", "pass", "x = 9", lambda vendor: getattr(vendor.Plain, "x", 8)),
    "method of a dataclass": ("Record", "self.size * 2", "self.size * 3", lambda vendor: vendor.Record().doubled() + 6),
    "method of an enum": (
        "Color",
        'self.name + "!"',
        'self.name + "!!"',
        lambda vendor: len(vendor.Color.RED.shout()) + 4,
    ),
    "value of an abstract class": ("Abstract", "limit = 1", "limit = 2", lambda vendor: vendor.Abstract.limit + 7),
    "method of a class with slots": ("Slotted", "7 + 1", "7 + 2", lambda vendor: vendor.Slotted().x),
    "method of a local class": ("Local", "size + 1", "size + 2", lambda vendor: vendor.Local().method() + 3),
    "value of a local class": ("Local", "value = size", "value = size + 1", lambda vendor: vendor.Local.value + 4),
}
IN_PLACE: Final = {
    *("method", "of a subclass", "super()", "new super()", "alias", "dunder", "coroutine", "property", "getter of two"),
    *(
        "cached function",
        "static method",
        "class method",
        "under an if",
        "method of an inner class",
        "__init_subclass__",
    ),
    *("method of a dataclass", "method of an enum", "method of a class with slots", "method of a local class"),
}
# With the reach "slot" a decorated function is refused, and an alias is another slot.
CELLS: Final = [
    *((kind, "everywhere") for kind in MEMBERS),
    *(
        pytest.param(kind, "slot", marks=pytest.mark.ends)
        for kind in MEMBERS
        if kind not in ("alias", "cached function")
    ),
]


def _classes(vendor: ModuleType) -> list[type]:
    classes = [value for value in vars(vendor).values() if isinstance(value, type)]
    return [*classes, vendor.Kind.Inner]


@pytest.mark.parametrize(("kind", "reach"), CELLS)
@pytest.mark.sampled(10)
def test_member_is_edited_inside_and_itself_again(vendor: ModuleType, kind: str, reach: Any) -> None:
    """Living instances, subclasses and who holds the class see the edit; each name has the object from before after."""
    name, old, new, show = MEMBERS[kind]
    cls = getattr(vendor, name)
    with pristine(*_classes(vendor), vendor):
        assert show(vendor) == 8
        with hookpatch.active(hookpatch.edit(f"vendor:{name}", old, new, reach=reach)) as session:
            assert show(vendor) == 9
            assert getattr(vendor, name) is cls
            report = [*session.report()]
            assert {entry.state for entry in report} == {"applied"}
            assert str(report[0].target) == f"vendor:{name}"
        assert show(vendor) == 8
        assert {entry.state for entry in session.report()} == {"restored"}


@pytest.mark.parametrize("kind", sorted(IN_PLACE))
def test_function_is_edited_where_it_is(vendor: ModuleType, kind: str) -> None:
    """Earlier references to a function of the class call the edited function: no attribute changes."""
    name, old, new, _ = MEMBERS[kind]
    before = [{**vars(cls)} for cls in _classes(vendor)]
    with hookpatch.active(hookpatch.edit(f"vendor:{name}", old, new)):
        assert [{**vars(cls)} for cls in _classes(vendor)] == before


REFUSED: Final = {
    "base": (
        "Kind",
        "class Kind(Base):",
        "class Kind(Base, dict):",
        "name, a base, the metaclass or a decorator of Kind",
    ),
    "name": ("Kind", "class Kind(Base):", "class Kinds(Base):", "another class"),
    "metaclass": ("Plain", "class Plain:", "class Plain(metaclass=abc.ABCMeta):", "metaclass or a decorator of Plain"),
    "__slots__": ("Slotted", '("x",)', '("x", "y")', "changes __slots__, which counted when Slotted was made"),
    "new __slots__": ("Plain", "pass", "__slots__ = ()", "changes __slots__, which counted when Plain was made"),
    "annotation": ("Kind", "note: str", "note: int", "changes an annotation"),
    "new annotation": ("Plain", "pass", "x: int = 1", "changes an annotation"),
    "annotation of a method": ("Kind", "def private(self)", "def private(self) -> int", "changes an annotation"),
    "field of a dataclass": ("Record", "size: int = 1", "size: int = 2", "a field of Record"),
    "member of an enum": ("Color", "RED = 1", "RED = 2", "which its metaclass enum:Enum"),
    "abstract method": (
        "Abstract",
        "@abc.abstractmethod\ndef run(self): ...",
        "def run(self): ...",
        "'run' is abstract",
    ),
    "a call": ("Plain", "pass", "print(1)", "would run 'print(1)' of Plain again"),
    "unknown name": ("Plain", "pass", "x = nowhere", "raised NameError: name 'nowhere' is not defined"),
    "no Python": ("Plain", "pass", "x = = 1", "cannot be read: invalid syntax"),
    "not there": ("Plain", "passed", "x = 1", "'passed' is not in the source; nearest is line"),
    "twice": ("Kind", "7 + 1", "7 + 2", "is there 12 times"),
    "nothing": ("Kind", "pass", "1", "'pass' is not in the source"),
    "no effect": ("Kind", "SIZE = 3", "SIZE = (3)", "changes no code that runs"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_edited_is_said_and_nothing_changes(vendor: ModuleType, case: str) -> None:
    name, old, new, text = REFUSED[case]
    with pristine(*_classes(vendor), vendor, order=True):
        with pytest.raises(EditError) as raised:
            hookpatch.active(hookpatch.edit(f"vendor:{name}", old, new)).open()
        assert text in str(raised.value)
        assert f"target vendor:{name}" in str(raised.value)


def test_class_without_source_is_refused() -> None:
    with pytest.raises(
        EditError, match=r"collections/__init__.py has no class deque: it is written in C, or was made by a call"
    ):
        hookpatch.active(hookpatch.edit("collections:deque", "a", "b")).open()


def test_changed_file_is_refused(vendor: ModuleType) -> None:
    """The file differs from the running code: the lines of another version would be edited."""
    with open(vendor.__file__ or "", "a+", encoding="utf-8") as file:
        file.seek(0)
        text = file.read()
        file.truncate(0)
        file.write(text.replace("y = x + 1", "y = x + 1 + 0").replace("SIZE = 3", "SIZE = 5"))
    with pytest.raises(EditError, match="the source of Kind is not what runs"):
        hookpatch.active(hookpatch.edit("vendor:Kind", "SIZE = 5", "SIZE = 6")).open()


def test_optional_edit_is_skipped_whole(vendor: ModuleType) -> None:
    optional = hookpatch.edit("vendor:Plain", "passed", "x = 1", required=False)
    with pristine(*_classes(vendor), vendor), hookpatch.active(optional) as session:
        assert [entry.state for entry in session.report()] == ["skipped"]


def test_part_that_fails_takes_the_others_back(vendor: ModuleType) -> None:
    """A single part does not fit: the whole class stays unchanged, at once and at an import inside."""
    diff = """
@@ -1,9 +1,9 @@
-    SIZE = 3
+    SIZE = 4
     TABLE = {"size": SIZE}
     __hidden = 5
     key = lambda self: 7 + 1
     note: str = "note"

-    def method(self, x, n=SIZE):
+    def method(self, x, n=SIZE, *, must):
         y = x + 1
"""
    with pristine(*_classes(vendor), vendor):
        with pytest.raises(hookpatch.errors.SignatureError, match=r"vendor:Kind\.method"):
            hookpatch.active(hookpatch.edit("vendor:Kind", diff=diff)).open()
        optional = hookpatch.edit("vendor:Kind", diff=diff, required=False)
        with hookpatch.active(optional) as session:
            assert vendor.Kind.SIZE == 3
            assert "skipped" in {entry.state for entry in session.report()}


PIECES: Final = {
    "class": ("vendor:Kind", "y = x + 1", "y = x + 10"),
    "other part of the class": ("vendor:Kind", "SIZE = 3", "SIZE = 4"),
    "method": ("vendor:Kind.method", "return y", "return [y]"),
}


@pytest.mark.ends
@pytest.mark.parametrize("order", [*itertools.permutations(PIECES)])
@pytest.mark.parametrize("together", [True, False])
def test_several_edits_join_and_end_in_any_order(vendor: ModuleType, order: tuple[str, ...], together: bool) -> None:
    def expected(on: set[str]) -> list[Any]:
        low = 1 + (10 if "class" in on else 1)
        size = 4 if "other part of the class" in on else 3
        return [[low] if "method" in on else low, size, size]

    def seen() -> list[Any]:
        parameters = inspect.signature(vendor.Kind.method).parameters
        return [vendor.instance.method(1), vendor.Kind.SIZE, parameters["n"].default]

    patches = {name: hookpatch.edit(*PIECES[name]) for name in order}
    with pristine(*_classes(vendor), vendor):
        if together:
            with hookpatch.active(*patches.values()):
                assert seen() == expected({*order})
            return
        sessions = {name: hookpatch.active(patch).open() for name, patch in patches.items()}
        on = {*order}
        for name in sorted(order):
            assert seen() == expected(on)
            sessions[name].close()
            on.remove(name)
        assert seen() == expected(set())


@pytest.mark.parametrize("second", ["vendor:Kind", "vendor:Kind.method"])
@pytest.mark.parametrize("is_class_first", [True, False])
def test_pieces_that_meet_are_a_conflict(vendor: ModuleType, second: str, is_class_first: bool) -> None:
    patches = [hookpatch.edit("vendor:Kind", "y = x + 1", "y = 2"), hookpatch.edit(second, "y = x + 1", "y = 3")]
    with pristine(*_classes(vendor), vendor), pytest.raises(ConflictError, match="edits the same lines"):
        hookpatch.active(*(patches if is_class_first else patches[::-1])).open()


def test_two_values_of_one_attribute_are_a_conflict(vendor: ModuleType, make_distribution: Callable[..., Any]) -> None:
    for name, new in (("one", "SIZE = 4"), ("two", "SIZE = 5")):
        patch = f"hookpatch.edit('vendor:Kind', 'SIZE = 3', '{new}')"
        source = f"import hookpatch\n@hookpatch.hookimpl\ndef hookpatch_patches():\n    yield {patch}\n"
        make_distribution(f"d-{name}", plugins={name: f"plugin_{name}"}, modules={f"plugin_{name}": source})
    with pristine(*_classes(vendor), vendor), pytest.raises(ConflictError, match="by an edit of vendor:Kind"):
        hookpatch.active("one", "two").open()


def test_beside_a_wrap(vendor: ModuleType) -> None:
    """A wrapper runs around the edited method, whichever came first."""
    wrap = hookpatch.wrap("vendor:Kind.method", lambda wrapped, instance, args, kwargs: [wrapped(*args, **kwargs)])
    edit = hookpatch.edit("vendor:Kind", "y = x + 1", "y = x + 2")
    for patches in ((wrap, edit), (edit, wrap)):
        with pristine(*_classes(vendor), vendor), hookpatch.active(*patches):
            assert vendor.instance.method(7) == [9]


def test_lines_and_source_of_what_is_made_anew(vendor: ModuleType) -> None:
    """Tracebacks and inspect show the edited lines, of functions in place as of added ones."""
    edit = hookpatch.edit("vendor:Kind", "SIZE = 3", "SIZE = 3\ndef added(self):\n    return 1 / 0  # here")
    with hookpatch.active(edit):
        assert inspect.getsource(vendor.Kind.added) == "    def added(self):\n        return 1 / 0  # here\n"
        assert vendor.Kind.added.__qualname__ == "Kind.added"
        try:
            vendor.instance.added()
        except ZeroDivisionError as error:
            shown = traceback.format_exception(error)
        assert "return 1 / 0  # here" in "".join(shown)
        assert "edited by a patch given to active()" in "".join(shown)


def test_what_used_the_class_before_is_said(vendor: ModuleType) -> None:
    doubts = {
        ("Record", 'label = "one"', 'label = "two"'): "the decorators of Record ran before",
        ("Hears", "value = 1", "value = 2"): "__init_subclass__ of vendor:Hooked ran before",
        ("Kind", "cls.made = 7 + 1", "cls.made = 7 + 2"): "the subclasses of Kind were made before",
    }
    for (name, old, new), text in doubts.items():
        with hookpatch.active(hookpatch.edit(f"vendor:{name}", old, new)) as session:
            assert text in str(session.report())


def test_class_that_is_imported_inside(write_module: Callable[[str, str], Any]) -> None:
    """The patch waits for the module, and follows a reload."""
    import importlib

    write_module("later", "class Kind:\n    size = 1\n    def f(self):\n        return 7 + 1\n")
    patch = hookpatch.edit("later:Kind", "size = 1", "size = 2\nmore = 3")
    with hookpatch.active(patch) as session:
        later = importlib.import_module("later")
        assert (later.Kind.size, later.Kind.more) == (2, 3)
        first = later.Kind
        importlib.reload(later)
        assert (later.Kind.size, later.Kind.more) == (2, 3)
        assert later.Kind is not first
        assert {entry.state for entry in session.report()} == {"applied"}
    assert (later.Kind.size, hasattr(later.Kind, "more"), first.size, hasattr(first, "more")) == (1, False, 1, False)


def test_object_at_hand(vendor: ModuleType) -> None:
    with pristine(*_classes(vendor), vendor):
        target = hookpatch.Target.attribute(vendor, "Kind")
        with hookpatch.active(hookpatch.edit(target, "level = 8", "level = 9")):
            assert vendor.Kind.Inner.level == 9


def test_instances_pickle_inside(vendor: ModuleType) -> None:
    import pickle

    with hookpatch.active(hookpatch.edit("vendor:Kind", "SIZE = 3", "SIZE = 4")):
        assert pickle.loads(pickle.dumps(vendor.instance)).SIZE == 4
    assert isinstance(vendor.Color.RED, enum.Enum)


def test_plan_says_what_the_run_does(vendor: ModuleType) -> None:
    """Each part has a row in the plan, as in the report; no line of the body runs in this process."""
    patch = hookpatch.edit("vendor:Kind", "SIZE = 3", "SIZE = 4")
    with pristine(*_classes(vendor), vendor, order=True):
        plan = hookpatch.plan(patch)
    planned = {(str(target.target), row.verb, row.finding) for target in plan.targets for row in target.patches}
    with hookpatch.active(patch) as session:
        run = {(str(entry.target), entry.verb, "fits") for entry in session.report()}
    assert planned == run
    assert ("vendor:Kind.SIZE", "replace", "fits") in run
    [target] = hookpatch.plan(hookpatch.edit("vendor:Kind", "SIZES = 3", "SIZES = 4")).targets
    assert [row.finding for row in target.patches] == ["unfit"]


def test_why_names_the_class(vendor: ModuleType) -> None:
    with hookpatch.active(hookpatch.edit("vendor:Kind", "SIZE = 3", "SIZE = 4")):
        assert "by an edit of vendor:Kind" in str(hookpatch.why("vendor:Kind.SIZE"))

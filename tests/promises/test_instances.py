"""``m:Class().name`` holds for each instance of a class, alive and to come, and ends for each of them exactly."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from functools import partial
from itertools import product
from textwrap import dedent
from types import ModuleType
from typing import Any, Final
from weakref import ref

import pytest

import hookpatch
from hookpatch._engine.site.sites import all_sites, patched
from hookpatch.errors import PatchError, PatchFailedWarning, SignatureError, TargetNotFound, TargetRefused
from hookpatch.testing import pristine

VENDOR: Final = """
    from dataclasses import dataclass, field

    def called(x=1): return "own", x

    class Plain:
        shared = "shared"
        def __init__(self, n=0):
            self.n = n
            self.own = called
        def f(self, x=1): return self.n, x
        @classmethod
        def of_class(cls, x=1): return "class", x
        @staticmethod
        def static(x=1): return "static", x

    class Child(Plain):
        def __init__(self):
            super().__init__(5)
            self.n = 6
        def f(self, x=1): return "child", *super().f(x)

    @dataclass
    class Data:
        n: int = 0
        own: object = field(default_factory=lambda: called)
        shared = "shared"
        def f(self, x=1): return self.n, x

    class Bare:
        shared = "shared"
        n = 0
        own = staticmethod(called)
        def f(self, x=1): return self.n, x

    class Given(Bare):
        def __new__(cls, n=0):
            self = super().__new__(cls)
            self.n, self.own = n, called
            return self

    class Mapping(dict):
        shared = "shared"
        def __init__(self, n=0):
            super().__init__(n=n)
            self.n, self.own = n, called
        def f(self, x=1): return self.n, x

    class Failure(Exception):
        shared = "shared"
        def __init__(self, n=0):
            self.n, self.own = n, called
        def f(self, x=1): return self.n, x

    class Meta(type):
        def __call__(cls, n=0):
            made = super().__call__()
            made.n, made.own = n, called
            return made

    class Made(metaclass=Meta):
        shared = "shared"
        def f(self, x=1): return self.n, x

    class Stated(Plain):
        def __getstate__(self): return {"n": self.n, "own": self.own}
        def __setstate__(self, state): vars(self).update(state)

    class Copying(Plain):
        def __copy__(self):
            made = Copying()
            vars(made).update(vars(self))
            return made
        def __deepcopy__(self, memo): return self.__copy__()

    class Setting(Plain):
        def __setattr__(self, name, value): super().__setattr__(name, value)

    class Shared(Plain):
        all_have = {}
        def __init__(self):
            self.__dict__ = self.all_have
            if not self.all_have: super().__init__()

    class Slots:
        __slots__ = ("__weakref__", "n", "own")
        shared = "shared"
        def __init__(self, n=0): self.n, self.own = n, called
        def f(self, x=1): return self.n, x

    class NoPlace:
        __slots__ = ("__weakref__",)
        limit = 1
        def f(self, x=1): return "no place", x

    class NoWeak:
        __slots__ = ("n",)
        def __init__(self, n=0): self.n = n
    """
CLASSES: Final = [
    *("Plain", "Child", "Data", "Bare", "Given", "Mapping", "Failure", "Made", "Stated", "Copying", "Setting", "Slots")
]


def loud(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return ("loud", *wrapped(*args, **kwargs))


def new(self: Any, x: int = 1) -> Any:
    return "new", self.n, x


def new_own(x: int = 1) -> Any:
    return "new", x


def _times(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: (original(*args, **kwargs), 2)


def _f(instance: Any) -> Any:
    return instance.f()


def _f3(instance: Any) -> Any:
    return instance.f(3)


def _own(instance: Any) -> Any:
    return instance.own()


# Each patch, a read of an instance, and the patched result from the original result.
PATCHES: Final[dict[str, tuple[Callable[[str], Any], Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "wrap a method": (lambda c: hookpatch.wrap(f"{c}().f", loud), _f, lambda was: ("loud", *was)),
    "inject": (lambda c: hookpatch.inject(f"{c}().f", x=7), _f3, lambda was: (*was[:-1], 7)),
    "default": (lambda c: hookpatch.default(f"{c}().f", x=7), _f, lambda was: (*was[:-1], 7)),
    "default, given": (lambda c: hookpatch.default(f"{c}().f", x=7), _f3, lambda was: was),
    "replace a method": (lambda c: hookpatch.replace(f"{c}().f", new), _f, lambda was: ("new", *was[-2:])),
    "derive a method": (lambda c: hookpatch.derive(f"{c}().f", _times), _f, lambda was: (was, 2)),
    "wrap a value": (lambda c: hookpatch.wrap(f"{c}().own", loud), _own, lambda was: ("loud", *was)),
    "inject into a value": (lambda c: hookpatch.inject(f"{c}().own", x=7), _own, lambda was: ("own", 7)),
    "replace a value": (lambda c: hookpatch.replace(f"{c}().n", 9), lambda instance: instance.n, lambda was: 9),
    "replace a callable": (lambda c: hookpatch.replace(f"{c}().own", new_own), _own, lambda was: ("new", 1)),
    "derive a value": (
        lambda c: hookpatch.derive(f"{c}().n", lambda n: [n]),
        lambda instance: instance.n,
        lambda was: [was],
    ),
}
_SHARED: Final = "replace what the class has"
PATCHES[_SHARED] = (
    lambda c: hookpatch.replace(f"{c}().shared", 8),
    lambda instance: instance.shared,
    lambda was: 8,
)
WAYS: Final[dict[str, Callable[[Any], Any]]] = {
    "made": lambda instance: type(instance)(),
    "copied": copy.copy,
    "deep copied": copy.deepcopy,
    "pickled": lambda instance: pickle.loads(pickle.dumps(instance)),
    "pickled, protocol 0": lambda instance: pickle.loads(pickle.dumps(instance, 0)),
}


@pytest.fixture
def vendor(make_module: Callable[..., ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


def state(instance: Any) -> dict[str, Any]:
    """Return an instance's own state, without the class."""
    own = dict(vars(instance)) if hasattr(instance, "__dict__") else {}
    return own | {
        name: getattr(instance, name, "absent")
        for name in getattr(type(instance), "__slots__", ())
        if name != "__weakref__"
    }


def _cells() -> list[Any]:
    cells = [(name, case) for name in CLASSES for case in PATCHES]
    cells = [cell for cell in cells if cell != ("Slots", _SHARED) and (cell[0] != "Bare" or "method" in cell[1])]
    few = {"Plain", "Made"}
    return [cell if cell[0] in few else pytest.param(*cell, marks=pytest.mark.ends) for cell in cells]


@pytest.mark.parametrize(("name", "case"), _cells())
@pytest.mark.sampled(8)
def test_alive_and_to_come(vendor: ModuleType, name: str, case: str) -> None:
    """Each instance, made in any way, is patched inside, and afterwards as without a patch."""
    cls, (patch, read, patched) = getattr(vendor, name), PATCHES[case]
    pickle.dumps(cls())  # copyreg notes the slots in the class
    alive = cls()
    was, state_before = read(alive), state(alive)
    ways = {way: make for way, make in WAYS.items() if not (name == "Slots" and "protocol" in way)}
    with pristine(cls, alive, vendor.Plain, vendor.Child, vendor.Meta):
        with hookpatch.active(patch(f"vendor:{name}"), children="local") as session:
            assert read(alive) == patched(was)
            instances = {way: make(alive) for way, make in ways.items()}
            assert {way: read(instance) for way, instance in instances.items()} == dict.fromkeys(ways, patched(was))
            data = pickle.dumps(alive)
            [row] = session.report()
            assert (row.state, row.instances) == ("applied", row.instances)
            assert str(row.instances).startswith(f"{1 + len(instances)} alive")
        assert state(alive) == state_before
        assert {way: read(instance) for way, instance in instances.items()} == dict.fromkeys(ways, was)
        assert {way: state(instance) for way, instance in instances.items()} == dict.fromkeys(ways, state_before)
        assert state(pickle.loads(data)) == state_before  # the pickle has no trace of a patch
    [row] = session.report()
    assert row.state == "restored"


@pytest.mark.parametrize("case", PATCHES)
@pytest.mark.sampled(4)
def test_subclasses(vendor: ModuleType, case: str) -> None:
    """Class() is exact, and the report names the classes left out; Class+() takes subclasses, too."""
    patch, read, patched = PATCHES[case]
    plain, child = vendor.Plain(), vendor.Child()
    was, of_child = read(plain), read(child)
    with hookpatch.active(patch("vendor:Plain"), children="local") as session:
        assert (read(plain), read(child)) == (patched(was), of_child)
        [row] = session.report()
        assert row.warnings[-1].startswith("without effect on instances of subclasses: vendor:Child (1)")
    wider = hookpatch.active(patch("vendor:Plain+"), children="local")
    with pristine(plain, child, vendor.Plain, vendor.Child), wider:
        assert (read(plain), read(child)) == (patched(was), patched(of_child))
        assert (read(vendor.Plain()), read(vendor.Child())) == (patched(was), patched(of_child))
        [row] = wider.report()
        assert (row.warnings, str(row.instances)[:7]) == ((), "2 alive")


def test_an_abstract_class_has_no_instances_of_its_own(make_module: Callable[[str, str], ModuleType]) -> None:
    """Class() is exact: of an abstract class the patch has no effect, and the report says so."""
    shop: Any = make_module(
        "shop",
        """
        import abc
        class Shop(abc.ABC):
            def price(self): return 1
            @abc.abstractmethod
            def name(self): ...
        class Stall(Shop):
            def name(self): return "stall"
        """,
    )
    for address, price in ("shop:Shop()", 1), ("shop:Shop+()", 2):
        patch = hookpatch.wrap(f"{address}.price", lambda wrapped, instance, args, kwargs: 2)
        with hookpatch.active(patch, children="local") as session:
            assert shop.Stall().price() == price
            assert any("is abstract" in text for text in session.report().patches[0].warnings) is (price == 1)


_LATER: Final = """
    import vendor

    class {name}(vendor.Plain):
        def __init__(self):
            super().__init__(5)
            self.later = True
        def f(self, x=1): return "later", *super().f(x)
    """


@pytest.mark.parametrize("case", PATCHES)
@pytest.mark.parametrize("way", ["imported", "made", pytest.param("made of such a class", marks=pytest.mark.ends)])
@pytest.mark.sampled(8)
def test_subclasses_to_come(
    vendor: ModuleType, write_module: Callable[[str, str], object], case: str, way: str
) -> None:
    """A subclass that comes inside, with an __init__ and a method of its own, is patched from the first instance on."""
    patch, read, patched = PATCHES[case]
    write_module("later", _LATER.format(name="Later"))
    was = ("later", 5, *read(vendor.Plain())[1:]) if read in (_f, _f3) else read(vendor.Plain(5))

    def come() -> type:
        if way == "imported":
            import later

            return later.Later  # type: ignore[no-any-return]  # a module written above
        namespace: dict[str, Any] = {}
        exec(dedent(_LATER.format(name="Later")), namespace)  # a class without a module
        later_class: type = namespace["Later"]
        return type("Last", (later_class,), {}) if "such" in way else later_class

    with pristine(vendor.Plain, vendor.Child), hookpatch.active(patch("vendor:Plain+"), children="local") as session:
        cls = come()
        instances = [cls(), cls(), copy.copy(cls())]
        assert [read(instance) for instance in instances] == [patched(was)] * 3
        [row] = session.report()
        assert (row.state, row.warnings, str(row.instances)[:7]) == ("applied", (), "3 alive")
    assert [read(instance) for instance in instances] == [was] * 3
    assert [{*vars(instance)} for instance in instances] == [{"n", "own", "later"}] * 3
    assert {*vars(cls)} & {"__reduce_ex__", "__setstate__", "__copy__"} == set()


def test_a_class_that_no_instance_tells_of(vendor: ModuleType) -> None:
    """Without a call of the base's __init__, the next report finds the class and its instances."""

    class Silent(vendor.Plain):  # type: ignore[misc]  # the fixture is Any
        def __init__(self) -> None:
            self.n = 2

        def f(self, x: int = 1) -> Any:
            return "silent", self.n, x

    with hookpatch.active(
        hookpatch.wrap("vendor:Plain+().f", loud), hookpatch.replace("vendor:Plain+().n", 9), children="local"
    ) as session:

        class Later(vendor.Plain):  # type: ignore[misc]  # likewise
            __init__, f = Silent.__init__, Silent.f

        early = Later()
        session.report()
        assert [Silent().f(), early.f(), Later().f()] == [("loud", "silent", 9, 1)] * 3
    assert early.f() == ("silent", 2, 1)


def _bare(cls: Any) -> Any:
    instance = object.__new__(cls)
    instance.n = 1
    return instance


def _of_parent(cls: Any) -> Any:
    instance = cls.__mro__[1](1)
    instance.__class__ = cls
    return instance


@pytest.mark.parametrize("make", [_bare, _of_parent])
@pytest.mark.parametrize("address", ["Child()", "Child+()", "Plain+()"])
def test_an_instance_that_came_without_notice(vendor: ModuleType, make: Any, address: str) -> None:
    """Made without ``__init__``, or given the class by an assignment: patched at the next report."""
    with hookpatch.active(hookpatch.replace(f"vendor:{address}.n", 9), children="local") as session:
        instance = make(vendor.Child)
        [row] = session.report()
        assert (instance.n, str(row.instances)[:7], row.warnings) == (9, "1 alive", ())
    assert instance.n == 1


def test_an_instance_that_does_not_fit_hides_no_other(vendor: ModuleType) -> None:
    """Of two instances that came without notice one is refused: a warning once, and the other is patched."""
    with hookpatch.active(hookpatch.wrap("vendor:Child().own", loud), children="local") as session:
        odd, fitting = _of_parent(vendor.Child), _of_parent(vendor.Child)
        odd.own = 5
        with pytest.warns(PatchFailedWarning, match="not patched: an instance that came without notice: .*own"):
            rows = [session.report().patches[0], session.report().patches[0]]
        assert [(row.instances, len(row.warnings)) for row in rows] == [("1 alive", 1)] * 2
        assert (odd.own, fitting.own()) == (5, ("loud", "own", 1))


def test_an_instance_with_another_class_stays_patched(vendor: ModuleType) -> None:
    """The value of an instance stays patched under another class, as the report says, and is restored at the end."""
    instance = vendor.Plain(1)
    with hookpatch.active(hookpatch.replace("vendor:Plain().n", 9), children="local") as session:
        instance.__class__ = vendor.Child
        [row] = session.report()
        assert (instance.n, row.instances, row.warnings) == (9, "1 alive", ())
    assert instance.n == 1


def test_a_method_to_come_that_does_not_fit(vendor: ModuleType) -> None:
    """A subclass made inside, whose method lacks the parameter: a warning, in the report, too; others are patched."""
    with hookpatch.active(hookpatch.inject("vendor:Plain+().f", x=7), children="local") as session:

        class Other(vendor.Plain):  # type: ignore[misc]  # the fixture is Any
            def f(self) -> Any:
                return "other"

        with pytest.warns(PatchFailedWarning, match=r"not patched: .*x"):
            assert Other().f() == "other"
        assert (Other().f(), vendor.Plain(1).f()) == ("other", (1, 7))
        [row] = session.report()
        [warning] = row.warnings
        assert warning.startswith("not patched: instances of a class made inside: vendor:Plain+().f")


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("verb", ["wrap", "replace", "derive"])
def test_others_call_what_the_class_inherits_now(vendor: ModuleType, verb: str, is_first: bool) -> None:
    """An instance that is not meant calls the inherited method with the patches of the base class, early or late."""

    class Middle(vendor.Plain):  # type: ignore[misc]  # the fixture is Any
        pass

    class Last(Middle):
        pass

    vendor.Middle = Middle
    change = {"wrap": loud, "replace": new, "derive": _times}[verb]
    of_middle = hookpatch.active(getattr(hookpatch, verb)("vendor:Middle().f", change), children="local")
    of_base = hookpatch.active(hookpatch.wrap("vendor:Plain.f", lambda w, i, a, k: ("base", *w(*a, **k))))
    between = hookpatch.wrap(hookpatch.Target.attribute(Middle, "f"), lambda w, i, a, k: ("between", *w(*a, **k)))
    with of_middle if is_first else of_base, of_base if is_first else of_middle:
        assert Last().f() == ("base", 0, 1)
        assert Middle().f() != Last().f()
    with hookpatch.active(between), of_middle, of_base:
        assert Last().f() == ("between", "base", 0, 1)


def test_another_patch_between_class_and_subclass(vendor: ModuleType) -> None:
    """A slot filled by another session between both does not let the wrapper run twice, nor not at all."""

    class Middle(vendor.Plain):  # type: ignore[misc]  # the fixture is Any
        pass

    with (
        hookpatch.active(hookpatch.wrap("vendor:Plain+().f", loud), children="local"),
        hookpatch.active(
            hookpatch.wrap(hookpatch.Target.attribute(Middle, "f"), lambda w, i, a, k: ("middle", *w(*a, **k)))
        ),
    ):

        class Last(Middle):
            pass

        assert (Middle().f(), Last().f()) == (("middle", "loud", 0, 1), ("middle", "loud", 0, 1))


@pytest.mark.parametrize("case", PATCHES)
@pytest.mark.parametrize("first", ["the first", pytest.param("the last", marks=pytest.mark.ends)])
def test_sessions_end_in_any_order(vendor: ModuleType, case: str, first: str) -> None:
    """Two sessions over the same instances; also for an instance made while both were open."""
    patch, read, patched = PATCHES[case]
    alive = vendor.Plain()
    was = read(alive)
    earlier, later = (hookpatch.active(patch("vendor:Plain"), children="local") for _ in range(2))
    with pristine(alive, vendor.Plain):
        earlier.open()
        later.open()
        newcomer = vendor.Plain()
        assert read(newcomer) == read(alive) != was or case == "default, given"
        (earlier if first == "the first" else later).close()
        assert (read(newcomer), read(alive)) == (patched(was), patched(was))
        (later if first == "the first" else earlier).close()
        assert (read(newcomer), read(alive)) == (was, was)
        assert state(newcomer) == state(vendor.Plain())


def test_an_instance_may_die(vendor: ModuleType) -> None:
    """No patch keeps an instance alive, neither by a reference nor by a cycle; and a call on a temporary works."""
    patches = [PATCHES[case][0]("vendor:Plain") for case in ("wrap a method", "replace a value", "wrap a value")]
    alive = vendor.Plain(1)
    gc.disable()
    try:
        with hookpatch.active(*patches, children="local") as session:
            assert vendor.Plain(4).f() == ("loud", 9, 1)
            newcomer = vendor.Plain(2)
            died = [ref(alive), ref(newcomer)]
            del alive, newcomer
            assert [weak() for weak in died] == [None, None]
            assert [row.instances for row in session.report()] == ["0 alive, 2 made inside"] * 3
            again = vendor.Plain(3)  # perhaps at the same address
            assert (again.n, again.f(), again.own()) == (9, ("loud", 9, 1), ("loud", "own", 1))
        assert state(again) == {"n": 3, "own": vendor.called}
    finally:
        gc.enable()


def test_an_instance_where_a_dead_one_was(vendor: ModuleType) -> None:
    """The new instance gets the patch anew, although other code still holds values of the dead instance."""
    with hookpatch.active(hookpatch.replace("vendor:Plain().own", new_own), children="local") as session:
        belongings: list[Any] = []
        place = 0
        for _ in range(100):
            newcomer = vendor.Plain()
            belongings, place = [*belongings, *all_sites()], id(newcomer)
            del newcomer
            newcomer = vendor.Plain()
            if id(newcomer) == place:
                break
        assert id(newcomer) == place
        assert newcomer.own is new_own
        assert not any(slot.owner is None for slot in (site.slot for site in patched()))
        [row] = session.report()
        assert (row.state, len(belongings) > 0) == ("applied", True)
    assert newcomer.own is vendor.called


@pytest.mark.parametrize("first", ["the oldest dies", "the oldest lives"])
@pytest.mark.parametrize("case", ["wrap a value", "replace a value", "replace a callable"])
def test_instances_that_share_one_dict(vendor: ModuleType, case: str, first: str) -> None:
    """The patch lies in the shared dict once, until the last instance has died or the block ends."""
    patch, read, patched_by = PATCHES[case]
    oldest, middle = vendor.Shared(), vendor.Shared()
    was, dict_before = read(middle), {**vars(middle)}
    with hookpatch.active(patch("vendor:Shared"), children="local"):
        youngest = vendor.Shared()
        assert [read(instance) for instance in (oldest, middle, youngest)] == [patched_by(was)] * 3
        if first == "the oldest dies":
            del oldest
        assert [read(instance) for instance in (middle, youngest)] == [patched_by(was)] * 2
    assert vars(middle) == vars(youngest) == dict_before


def test_what_init_calls_and_sets(vendor: ModuleType) -> None:
    """The patch wins over what the outermost __init__ set, and the end gives that back."""
    with hookpatch.active(hookpatch.replace("vendor:Child().n", 9), children="local"):
        child = vendor.Child()
        assert child.n == 9
        child.n = 7
        child.__init__()  # again
        assert child.n == 9
    assert child.n == 6


def test_a_foreign_value_is_left_alone(vendor: ModuleType) -> None:
    """One of two instances is overwritten: the report says so, and the end leaves the foreign value."""
    first, second = vendor.Plain(1), vendor.Plain(2)
    session = hookpatch.active(hookpatch.replace("vendor:Plain().n", 9), children="local").open()
    first.n = 4
    [row] = session.report()
    assert row.state == "overwritten"
    assert "wrote 4 into" in str(row.reason)
    with pytest.warns(hookpatch.errors.DisplacedWarning):
        session.close()
    assert (first.n, second.n) == (4, 2)
    [row] = session.report()
    assert row.state == "overwritten"


def _calling(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: ("outside", method(*args))


# Other code puts a method into an instance: what it puts there, and whether calls still get to the patch.
COVERING: Final[dict[str, tuple[Callable[[Any], Any], bool]]] = {
    "a new method": (lambda instance: lambda x=1: ("foreign", x), False),
    "a wrapper": (lambda instance: _calling(instance.f), True),
    "a call of the class's method": (lambda instance: lambda x=1: type(instance).f(instance, x), True),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case == "a wrapper" else pytest.mark.ends) for case in COVERING]
)
@pytest.mark.parametrize("is_made_inside", [True, pytest.param(False, marks=pytest.mark.ends)])
@pytest.mark.parametrize("name", [name for name in CLASSES if name != "Slots"])  # has no place for a method
def test_a_method_that_other_code_puts_into_an_instance(
    name: str, is_made_inside: bool, case: str, vendor: ModuleType
) -> None:
    """The patch lies in the class: report, why and the end say if calls of an instance go past the patch."""
    make, calls_on = COVERING[case]
    cls = getattr(vendor, name)
    before, other = cls(), cls()
    session = hookpatch.active(hookpatch.wrap(f"vendor:{name}().f", loud), children="local").open()
    instance = cls() if is_made_inside else before
    instance.f = covering = make(instance)
    [row] = session.report()
    layer = hookpatch.why(f"vendor:{name}().f").layers[0]
    assert (row.state, layer.state) == (("applied", "applied") if calls_on else ("overwritten", "overwritten"))
    assert ("loud" in str(instance.f())) is calls_on
    if calls_on:
        session.close()
    else:
        assert f"into f of an instance of vendor:{name}; in 1 of the instances patched: " in str(row.reason)
        assert "into f of an instance" in str(layer.note)
        with pytest.warns(hookpatch.errors.DisplacedWarning, match="into f of an instance"):
            session.close()
    [row] = session.report()
    assert row.state == ("restored" if calls_on else "overwritten")
    assert (vars(instance)["f"], "f" in vars(other)) == (covering, False)
    assert "loud" not in str(instance.f())


OF_N: Final[dict[str, Callable[[str], hookpatch.Patch]]] = {
    "replace": lambda address: hookpatch.replace(f"{address}.n", 7),
    "derive": lambda address: hookpatch.derive(f"{address}.n", lambda n: n + 100),
    "remove": lambda address: hookpatch.remove(f"{address}.n"),
}


@pytest.mark.parametrize(
    "way", ["copied", *(pytest.param(way, marks=pytest.mark.ends) for way in ("deep copied", "pickled"))]
)
@pytest.mark.parametrize(("verb", "change"), [*product(OF_N, ["set"]), ("replace", "deleted"), ("derive", "deleted")])
@pytest.mark.parametrize("name", [name for name in CLASSES if name != "Stated"])  # its __getstate__ reads the attribute
def test_a_copy_has_the_value_of_other_code(name: str, verb: str, change: str, way: str, vendor: ModuleType) -> None:
    """Copies made inside of changed and of unchanged instances are at the end what they are without a patch."""
    cls = getattr(vendor, name)
    instances = [cls() for _ in range(4)]
    if name == "Bare":
        for instance in instances:
            instance.n = 5

    def changed_and_copied(changed: Any, unchanged: Any) -> list[Any]:
        if change == "set":
            changed.n = 50
        else:
            del changed.n
        return [changed, WAYS[way](changed), WAYS[way](unchanged)]

    session = hookpatch.active(OF_N[verb](f"vendor:{name}()"), children="local").open()
    inside = changed_and_copied(*instances[:2])
    with pytest.warns(hookpatch.errors.DisplacedWarning):
        session.close()
    assert [*map(state, inside)] == [*map(state, changed_and_copied(*instances[2:]))]


def test_remove(vendor: ModuleType) -> None:
    """Own values are absent inside; a copy has the value afterwards."""
    alive = vendor.Plain(1)
    state_before = state(alive)
    with hookpatch.active(hookpatch.remove("vendor:Plain().n"), children="local"):
        copies = [make(alive) for make in WAYS.values()]
        assert not any(hasattr(instance, "n") for instance in (alive, *copies))
    assert [state(instance) for instance in (alive, *copies[1:])] == [state_before] * len(copies)


def test_calls_are_counted_for_all(vendor: ModuleType) -> None:
    """One count for the class and for instances with a method of their own."""
    first, second = vendor.Plain(1), vendor.Plain(2)
    second.f = partial(vendor.Plain.f, second)
    wrapped = hookpatch.wrap("vendor:Plain().f", loud, required_calls=2)
    with hookpatch.active(wrapped, children="local") as session:
        assert (first.f(), second.f(), vendor.Child().f()) == (("loud", 1, 1), ("loud", 2, 1), ("child", 6, 1))
        [row] = session.report()
        assert row.calls == {"eager": 2}


def test_a_task_alone(vendor: ModuleType) -> None:
    """scope="task": other threads call the original, of a class and of an instance's own value."""
    instance, answers = vendor.Plain(1), []
    patches = [hookpatch.wrap("vendor:Plain().f", loud), hookpatch.wrap("vendor:Plain().own", loud)]
    opened, called = threading.Event(), threading.Event()

    def other() -> None:
        opened.wait(10)
        answers.append((instance.f(), instance.own(), vendor.Plain(2).f()))
        called.set()

    thread = threading.Thread(target=other)
    thread.start()
    with hookpatch.active(*patches, scope="task", children="local"):
        opened.set()
        assert called.wait(10)
        assert (instance.f(), instance.own()) == (("loud", 1, 1), ("loud", "own", 1))
        assert vendor.Plain(2).f() == ("loud", 2, 1)
    thread.join()
    assert answers == [((1, 1), ("own", 1), (2, 1))]


def test_an_import_to_come(write_module: Callable[[str, str], object]) -> None:
    """The class may be imported later, and again."""
    write_module("later", "class Class:\n    def __init__(self): self.n = 1\n    def f(self): return self.n,\n")
    with hookpatch.active(hookpatch.wrap("later:Class().f", loud), hookpatch.replace("later:Class().n", 2)) as session:
        import later  # type: ignore[import-not-found]

        instance = later.Class()
        assert instance.f() == ("loud", 2)
        assert [row.instances for row in session.report()] == ["1 alive, 1 made inside"] * 2
    assert instance.f() == (1,)
    assert [row.state for row in session.report()] == ["restored"] * 2


REFUSED: Final[dict[str, tuple[Callable[[], Any], type[Exception], str]]] = {
    "a dunder": (
        lambda: hookpatch.replace("vendor:Plain().__call__", new),
        TargetRefused,
        "Python looks '__call__' up in the class, not in an instance; patch vendor:Plain.__call__",
    ),
    "the class": (
        lambda: hookpatch.replace("vendor:Plain().__class__", new),
        TargetRefused,
        "the class of an instance stays; patch the methods, or exchange submodules of a model by derive",
    ),
    "no place": (
        lambda: hookpatch.replace("vendor:NoPlace().limit", 2),
        TargetRefused,
        "instances of vendor:NoPlace have no place for one of their own (__slots__ or a C class); "
        "patch vendor:NoPlace.limit",
    ),
    "no weak reference": (
        lambda: hookpatch.replace("vendor:NoWeak().n", 2),
        TargetRefused,
        "instances of vendor:NoWeak cannot be referred to weakly (__slots__ or a C class); patch vendor:NoWeak.n",
    ),
    "no class": (
        lambda: hookpatch.replace("vendor:called().n", 2),
        TargetRefused,
        "vendor:called is a function, and '()' stands behind a class, for its instances",
    ),
    "no such attribute": (
        lambda: hookpatch.replace("vendor:Plain().nn", 2),
        TargetNotFound,
        "vendor:Plain() has no attribute 'nn'",
    ),
    "a signature": (
        lambda: hookpatch.replace("vendor:Plain().f", new_own),
        SignatureError,
        "what replace puts at vendor:Plain().f takes",
    ),
    "further steps": (
        lambda: hookpatch.replace("vendor:Plain().n.m", 2),
        PatchError,
        "replace(): vendor:Plain().n.m goes on behind an attribute of the instances; write m:Class().name",
    ),
    "everywhere": (
        lambda: hookpatch.wrap("vendor:Plain().f", loud, reach="everywhere"),
        PatchError,
        "wrap(): reach='everywhere' is for one object, and vendor:Plain().f stands for many",
    ),
    "an edit": (
        lambda: hookpatch.edit("vendor:Plain().n", "1", "2"),
        PatchError,
        "edit(): vendor:Plain().n stands for instances, which share the functions of their class; write m:C.name",
    ),
    "remove a method": (
        lambda: hookpatch.remove("vendor:Plain().f"),
        TargetRefused,
        "is inherited; remove the attribute from the class of its definition",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(vendor: ModuleType, case: str) -> None:
    """A clear error, and no trace of the patch; of another patch in the session no trace either."""
    make, kind, text = REFUSED[case]
    alive = vendor.Plain(1)
    with pristine(vendor.Plain, alive):
        for beside in ([], [hookpatch.replace("vendor:Plain().own", 3)]):
            with pytest.raises(kind) as raised:
                hookpatch.active(*beside, make(), children="local").open()
            assert text in str(raised.value)


def test_an_instance_that_refuses(vendor: ModuleType) -> None:
    """An instance to come that does not take the value is warned of, and its construction goes on."""
    patch = hookpatch.wrap("vendor:Plain().own", loud)
    with hookpatch.active(patch, children="local"):
        vendor.called = None
        with pytest.warns(PatchFailedWarning, match="an instance made just now: .* cannot be called"):
            instance = vendor.Plain()
        assert instance.own is None

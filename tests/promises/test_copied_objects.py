"""Copies and pickles of an object with a patched attribute: verb x kind of value x way of copying x reach x scope.

Inside, a copy has the patch for itself, or the report says what the copy lacks. After the end, a copy is as a copy made
without the patch.
"""

from __future__ import annotations

import copy
import copyreg
import dataclasses
import gc
import pickle
import random
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations, product
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch._engine.instances import duplicates
from hookpatch._engine.site.sites import patched
from hookpatch.errors import HookpatchError

MODULE: Final = """
    import copy, dataclasses

    class Called:
        def __call__(self, x=0): return ['called', x]

    def function(x=0): return ['function', x]

    class Base:
        __slots__ = ()
        number = 1
        listed = [1]
        def method(self, x=0): return ['method', x, self.name]
        @classmethod
        def of_class(cls, x=0): return ['of class', x]
        @staticmethod
        def static(x=0): return ['static', x]
        called = Called()

    @dataclasses.dataclass
    class Plain(Base):
        name: str = "object"
        own_number: int = 1
        own_list: list = dataclasses.field(default_factory=lambda: [1])
        own_called: object = dataclasses.field(default_factory=Called)
        own_function: object = dataclasses.field(default_factory=lambda: function)
        def __post_init__(self):
            self.own_method = self.method

    class Slots(Base):
        __slots__ = ("__dict__", "__weakref__", "own_number", "own_list", "own_called", "own_function", "own_method")
        def __init__(self):
            self.name, self.own_number, self.own_list, self.own_called = "object", 1, [1], Called()
            self.own_function, self.own_method = function, self.method

    class States(Plain):
        def __getstate__(self): return dict(vars(self))
        def __setstate__(self, state): vars(self).update(state)

    class Reduced(Plain):
        def __reduce__(self): return Reduced, (), dict(vars(self))

    class Entries(dict, Base):
        def __init__(self):
            self.name, self.own_number, self.own_list, self.own_called = "object", 1, [1], Called()
            self.own_function, self.own_method = function, self.method
            self["key"] = "value"

    class Copying(Plain):
        def __copy__(self):
            made = type(self).__new__(type(self))
            vars(made).update(vars(self))
            return made
        def __deepcopy__(self, memo):
            made = memo[id(self)] = type(self).__new__(type(self))
            vars(made).update(copy.deepcopy(vars(self), memo))
            return made

    k = {kind}()
"""
KINDS: Final = ("Plain", "Slots", "States", "Reduced", "Entries", "Copying")
METHODS: Final = ("method", "of_class", "static", "called", "own_called", "own_function", "own_method")
NAMES: Final = (*METHODS, "number", "listed", "own_number", "own_list")
COPIES: Final[dict[str, Callable[[Any], Any]]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "copy of a copy": lambda k: copy.copy(copy.deepcopy(k)),
    "deepcopy of a container": lambda k: copy.deepcopy({"key": [k, k]})["key"][1],
    "pickle": lambda k: pickle.loads(pickle.dumps(k)),
    "pickle, oldest": lambda k: pickle.loads(pickle.dumps(k, 0)),
    "pickle in Python": lambda k: pickle.loads(pickle._dumps(k, 2)),  # type: ignore[attr-defined]
}
IN_DICT: Final[dict[str, Callable[[Any], Any]]] = {
    "reduced": lambda k: copy._reconstruct(k, None, *k.__reduce_ex__(4)),  # type: ignore[attr-defined]
    "dict": lambda k: _with_attributes(k, dict(vars(k))),
    "dict.copy": lambda k: _with_attributes(k, vars(k).copy()),
    "deepcopy of dict": lambda k: _with_attributes(k, copy.deepcopy(vars(k))),
    "dataclasses.replace": lambda k: dataclasses.replace(k),
}


def _with_attributes(k: Any, attributes: dict[str, Any]) -> Any:
    duplicate = type(k).__new__(type(k))
    vars(duplicate).update(attributes)
    return duplicate


def _wrapper(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    return ["patched", *wrapped(*args, **kwargs)]


def _derived(original: Any) -> Any:
    return (lambda *args, **kwargs: ["patched", *original(*args, **kwargs)]) if callable(original) else ["patched"]


def _patch(verb: str, name: str) -> hookpatch.Patch:
    address = f"copied:k.{name}"
    if verb == "wrap":
        return hookpatch.wrap(address, _wrapper)
    if verb in ("inject", "default"):
        return getattr(hookpatch, verb)(address, x="patched")  # type: ignore[no-any-return]
    if verb == "derive":
        return hookpatch.derive(address, _derived)
    if verb == "edit":
        return hookpatch.edit(address, f"['{name.removeprefix('own_').replace('_', ' ')}', x", "['patched', x")
    if verb == "remove":
        return hookpatch.remove(address)

    def new(*args: Any, **kwargs: Any) -> list[str]:
        return ["patched"]

    value = new if name in METHODS else ["patched"]
    return hookpatch.replace(address, value, check_signature=False, why="it takes any call")


def _shown(k: Any, name: str) -> Any:
    """Return what an object shows under a name: the answer of a call, or the value."""
    value = getattr(k, name, "absent")
    return value() if callable(value) else value


def _own(k: Any) -> list[str]:
    names = [*vars(k), *(name for name in getattr(type(k), "__slots__", ()) if name[:2] != "__" and hasattr(k, name))]
    return sorted(names)


def _is_as(duplicate: Any, other: Any, name: str) -> bool:
    """Return True if two copies have the same names, and show the same; each for itself."""
    is_bound = [getattr(getattr(k, name, None), "__self__", None) is k for k in (duplicate, other)]
    return _own(duplicate) == _own(other) and _shown(duplicate, name) == _shown(other, name) and len(set(is_bound)) == 1


def _nothing_is_followed() -> bool:
    return not (duplicates._followed or duplicates._copies or duplicates._reducers)


LONG: Final = [pytest.mark.ends, pytest.mark.once]
CELLS: Final = [
    pytest.param(
        kind,
        way,
        marks=() if (kind, way) in (("Plain", "deepcopy"), ("Slots", "copy")) else LONG,
    )
    for kind, way in product(KINDS, COPIES)
    if (kind, way) != ("Slots", "pickle, oldest")  # Python refuses
]

VERBS: Final = ("wrap", "inject", "default", "derive", "replace", "edit", "remove")
PATCHES: Final = list(product(VERBS, NAMES, ("slot", "everywhere"), ("process", "task")))  # each row tries a quarter


@pytest.mark.parametrize(("kind", "way"), CELLS)
@pytest.mark.filterwarnings("ignore::hookpatch.errors.HookpatchWarning")
@pytest.mark.sampled(1)
def test_a_copy_has_the_patch_for_itself_or_the_report_says_so(
    make_module: Callable[[str, str], ModuleType], kind: str, way: str
) -> None:
    """Each verb and each kind of value, at the object's slot and everywhere, for the process and for a task."""
    module: Any = make_module("copied", MODULE.format(kind=kind))
    table, make = dict(copyreg.dispatch_table), COPIES[way]
    silent, left, applied = [], [], 0
    for verb, name, reach, scope in random.Random(f"{kind} {way}").sample(PATCHES, 80):
        cell = (verb, name, reach, scope)
        unpatched = make(module.k)
        own, shown = _own(module.k), _shown(module.k, name)
        try:
            patch = replace(_patch(verb, name), reach=reach)  # type: ignore[arg-type]
            session = hookpatch.active(patch, children="local", scope=scope).open()  # type: ignore[arg-type]
        except HookpatchError:
            continue
        applied += 1
        duplicate = make(module.k)
        duplicate.name = unpatched.name = "copy"
        inside, said = _shown(duplicate, name), " ".join(session.report().patches[0].warnings)
        if ("patched" in inside) if isinstance(inside, list) else inside == "absent":
            if "object" in inside:
                silent.append((cell, inside))  # the copy calls the object
        elif inside != _shown(module.k, name) and "inside" not in said:
            silent.append((cell, inside))
        session.close()
        if not _is_as(duplicate, unpatched, name) and "left alone" not in str(session.report()):
            left.append((cell, _own(duplicate), _shown(duplicate, name)))
        assert (_own(module.k), _shown(module.k, name)) == (own, shown), cell
        assert copyreg.dispatch_table == table, cell
    assert (silent, left) == ([], [])
    assert applied > 20
    assert patched() == []
    assert _nothing_is_followed()


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        pytest.param(kind, way, marks=() if (kind, way) == ("Plain", "dict") else LONG)
        for kind, way in product(("Plain", "Slots", "Copying"), IN_DICT)
        if (kind, way) != ("Slots", "dataclasses.replace")  # no dataclass
    ],
)
@pytest.mark.filterwarnings("ignore::hookpatch.errors.HookpatchWarning")
@pytest.mark.ends
def test_a_copied_dict_is_named(make_module: Callable[[str, str], ModuleType], kind: str, way: str) -> None:
    """Nothing tells of a copy of a ``__dict__``: the report inside and after the end counts the objects."""
    module: Any = make_module("copied", MODULE.format(kind=kind))
    make, silent, applied = IN_DICT[way], [], 0
    names = METHODS if way == "deepcopy of dict" else NAMES  # a list would be another list
    for verb, name in product(("wrap", "inject", "default", "derive", "replace", "edit"), names):
        unpatched = make(module.k)
        try:
            session = hookpatch.active(_patch(verb, name), children="local").open()
        except HookpatchError:
            continue
        applied += 1
        duplicate = make(module.k)
        duplicate.name = unpatched.name = "copy"
        if "object" in str(_shown(duplicate, name)) and "left alone" not in str(session.report()):
            silent.append((verb, name, "inside"))
        session.close()
        if not _is_as(duplicate, unpatched, name) and "left alone" not in str(session.report()):
            silent.append((verb, name, "after the end"))
    assert silent == []
    assert applied > 20
    assert _nothing_is_followed()


@pytest.mark.parametrize("ends", list(permutations(range(3))))
@pytest.mark.parametrize(
    "verbs",
    [
        ("replace", "wrap", "wrap"),
        pytest.param(("wrap", "derive", "inject"), marks=LONG),
        pytest.param(("derive",) * 3, marks=LONG),
    ],
)
def test_copies_are_restored_whatever_ends_first(
    make_module: Callable[[str, str], ModuleType], verbs: tuple[str, ...], ends: tuple[int, ...]
) -> None:
    """Three patches of one attribute; copies are made before and after each opening and closing."""
    module: Any = make_module("copied", MODULE.format(kind="Plain"))
    for name in ("method", "own_function"):
        table = dict(copyreg.dispatch_table)
        unpatched = copy.deepcopy(module.k)
        duplicate, sessions = [copy.copy(module.k)], []
        for verb in verbs:
            sessions.append(hookpatch.active(_patch(verb, name), children="local").open())
            duplicate += [copy.copy(module.k), copy.deepcopy(module.k)]
        for place in ends:
            sessions[place].close()
            duplicate += [copy.copy(module.k), copy.deepcopy(module.k)]
        assert [_own(copied) for copied in duplicate] == [_own(unpatched)] * len(duplicate)
        assert [_shown(copied, name) for copied in duplicate] == [_shown(unpatched, name)] * len(duplicate)
        assert copyreg.dispatch_table == table
    assert _nothing_is_followed()


def test_a_copy_with_a_value_of_other_code_is_left_alone(make_module: Callable[[str, str], ModuleType]) -> None:
    """The program sets the attribute of the copy; the end keeps that value, and the entry of other code in copyreg."""
    module: Any = make_module("copied", MODULE.format(kind="Plain"))
    with hookpatch.active(hookpatch.replace("copied:k.own_list", ["patched"]), children="local"):
        duplicate = copy.copy(module.k)
        duplicate.own_list = ["own"]
        reducer = copyreg.dispatch_table[module.Plain] = lambda k: (module.Plain, ())
    assert duplicate.own_list == ["own"]
    assert copyreg.dispatch_table.pop(module.Plain) is reducer
    assert module.k.own_list == [1]


def test_a_reducer_of_other_code_is_asked(make_module: Callable[[str, str], ModuleType]) -> None:
    """A class with a reducer in copyreg keeps the reducer, inside and after the end."""
    module: Any = make_module("copied", MODULE.format(kind="Plain"))
    reducer = copyreg.dispatch_table[module.Plain] = lambda k: (module.Plain, ("reduced",), dict(vars(k)))
    try:
        with hookpatch.active(hookpatch.replace("copied:k.own_list", ["patched"]), children="local"):
            duplicate, loaded = copy.copy(module.k), pickle.loads(pickle.dumps(module.k))
            assert (duplicate.own_list, loaded.own_list) == (["patched"], [1])
        assert duplicate.own_list == [1]
        assert copyreg.dispatch_table[module.Plain] is reducer
    finally:
        del copyreg.dispatch_table[module.Plain]


def test_an_original_that_holds_the_object_or_cannot_be_copied(make_module: Callable[[str, str], ModuleType]) -> None:
    """Deepcopy copies the original for the copy: with a way back to the object, or not at all for a lock."""
    module: Any = make_module("copied", MODULE.format(kind="Plain"))
    module.k.own_list = [module.k]
    with hookpatch.active(hookpatch.replace("copied:k.own_list", ["patched"]), children="local"):
        duplicate = copy.deepcopy(module.k)
        assert duplicate.own_list == ["patched"]
    assert duplicate.own_list[0] is duplicate
    module.k.own_list = lock = threading.Lock()
    with hookpatch.active(hookpatch.replace("copied:k.own_list", ["patched"]), children="local"):
        duplicate = copy.deepcopy(module.k)
    assert duplicate.own_list is lock


def test_copies_die(make_module: Callable[[str, str], ModuleType]) -> None:
    """A session keeps no copy alive."""
    module: Any = make_module("copied", MODULE.format(kind="Plain"))
    with hookpatch.active(hookpatch.replace("copied:k.own_list", ["patched"]), children="local"):
        duplicate = [copy.deepcopy(module.k) for _ in range(10)]
        deaths = [weakref.ref(copied) for copied in duplicate]
        assert len(duplicates._copies) == 10
        del duplicate
        gc.collect()
        assert [death() for death in deaths] == [None] * 10
        assert duplicates._copies == {}


def test_a_class_without_weak_references(make_module: Callable[[str, str], ModuleType]) -> None:
    """A class of C is followed, too. Without weak references, few dead copies are kept until the end."""
    module: Any = make_module(
        "copied_plainly",
        """
        import types
        class Small:
            __slots__ = ("value",)
        space, small = types.SimpleNamespace(value=1), Small()
        small.value = 1
        """,
    )
    for name in ("space", "small"):
        k = getattr(module, name)
        with hookpatch.active(hookpatch.replace(f"copied_plainly:{name}.value", 2), children="local"):
            duplicate, loaded = [copy.copy(k), copy.deepcopy(k)], pickle.loads(pickle.dumps(k))
            assert ([copied.value for copied in duplicate], loaded.value) == ([2, 2], 1)
            for _ in range(100):
                copy.copy(k)
            assert len(duplicates._copies) < 70
        assert [copied.value for copied in duplicate] == [1, 1]
        assert _nothing_is_followed()


@pytest.mark.model
@pytest.mark.parametrize("make", [copy.deepcopy, lambda k: pickle.loads(pickle.dumps(k))])
def test_a_copied_model_computes_with_its_own_weights(
    make_module: Callable[[str, str], ModuleType], make: Callable[[Any], Any]
) -> None:
    """torch's modules keep parts in dicts of their own; a copied model runs no method of the other model."""
    torch = pytest.importorskip("torch")
    module: Any = make_module("model_module", "import torch\nmodel = torch.nn.Linear(2, 2)")
    x, state = torch.ones(1, 2), module.model.state_dict()
    expected = module.model(x)
    with hookpatch.active(
        hookpatch.wrap("model_module:model.forward", lambda wrapped, instance, args, kwargs: wrapped(*args) + 1),
        children="local",
    ) as session:
        copied = make(module.model)
        assert torch.equal(module.model(x), expected + 1)
        with torch.no_grad():
            copied.weight.zero_()
        inside = copied(x)
        assert list(module.model.state_dict()) == list(state)
        assert "made inside" in str(session.report())
    assert torch.equal(module.model(x), expected)
    assert "forward" not in vars(copied)
    assert torch.equal(inside, module.model.bias.expand(1, 2))
    assert torch.equal(copied(x), inside)


@pytest.mark.parametrize("name", ["own_list", "own_number", "own_function"])
def test_copies_after_the_end_of_a_rule(make_module: Callable[[str, str], ModuleType], name: str) -> None:
    """A patch of each instance has ended, and the patch of one object goes on: its copies are restored."""
    module: Any = make_module("copied", MODULE.format(kind="Plain"))
    unpatched = copy.copy(module.k)
    rule = hookpatch.active(replace(_patch("derive", name), target=_of_instances(name)), children="local").open()
    session = hookpatch.active(_patch("derive", name), children="local").open()
    rule.close()
    duplicate = [copy.copy(module.k), copy.deepcopy(module.k)]
    assert [_shown(copied, name) for copied in duplicate] == [_shown(module.k, name)] * 2
    session.close()
    assert [_shown(copied, name) for copied in duplicate] == [_shown(unpatched, name)] * 2
    assert _nothing_is_followed()


def test_end_looks_at_all_objects_only_for_a_copy(
    make_module: Callable[[str, str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object's attribute that holds a function patched everywhere: hookpatch's own notes are no sign of a copy."""
    box = "class Box: __slots__ = 'run'\nbox = Box()\nbox.run = run"
    module: Any = make_module("held", f"from operator import concat as run\n{box}")
    looks: list[object] = []
    get_referrers = gc.get_referrers
    monkeypatch.setattr(gc, "get_referrers", lambda *values: looks.append(values) or get_referrers(*values))

    def ended(*copies: Any) -> tuple[bool, str]:
        session = hookpatch.active(hookpatch.wrap("held:run", _around, reach="everywhere"), children="local").open()
        for copied in copies:
            copied.run = module.box.run
        looks.clear()
        session.close()
        return bool(looks), " ".join(warning for entry in session.report() for warning in entry.warnings)

    assert ended() == (False, "")
    looked, warnings = ended(module.Box())
    assert looked
    assert "in the __dict__ of other objects of the class, made by other code: 1" in warnings


def _around(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def _of_instances(name: str) -> Any:
    return hookpatch.remove(f"copied:Plain().{name}").target


HEIRS: Final = """
    class Base:
        def method(self, x=0): return "original"

    class Plain(Base):
        pass

    k = Plain()
"""


@pytest.mark.parametrize("own", [False, pytest.param(True, marks=LONG)])
@pytest.mark.parametrize(
    ("rule", "is_first"),
    [
        pytest.param(rule, is_first, marks=() if rule == "Plain().method" and is_first else LONG)
        for rule, is_first in product(
            ("Plain().method", "Base+().method", "Plain.method", "Base.method"), (True, False)
        )
    ],
)
def test_copies_of_an_object_that_a_rule_patches_too(
    make_module: Callable[[str, str], ModuleType], is_first: bool, rule: str, own: bool
) -> None:
    """A copy has the patch of the object, without a warning; after the end it has the original, or nothing, again."""
    module: Any = make_module("heirs", HEIRS)
    if own:
        module.k.method = module.k.method
    before = vars(module.k).copy()
    values = () if own and "()" in rule else ("derive", "replace")  # two values in instance slot are a conflict
    for verb, of_rule in product(("wrap", "derive", "replace"), ("wrap", *values)):
        patches = [_of_heirs(verb, "k.method", "object"), _of_heirs(of_rule, rule, "rule")]
        with hookpatch.active(*(patches if is_first else patches[::-1]), children="local") as session:
            copies = [copy.copy(module.k), copy.deepcopy(module.k)]
            inside = session.report()
            if verb == "replace":  # another value calls the object, and stays out of its copies
                is_as_the_object = [instance.method() for instance in copies] == [module.k.method()] * 2
                assert is_as_the_object or "of all instances of the class alone" in str(inside)
                assert is_as_the_object or own
        for report in (inside, session.report()):
            words = str(report)
            assert not any(part in words for part in ("not patched", "left alone", "other code")), words
            assert {row.state for row in report} <= {"applied", "restored"}
        assert [sorted(vars(instance)) for instance in copies] == [sorted(before)] * 2
        assert {instance.method() for instance in (*copies, module.k, module.Plain())} == {"original"}
        assert vars(module.k) == before
    assert _nothing_is_followed()
    assert patched() == []


def _of_heirs(verb: str, name: str, word: str) -> hookpatch.Patch:
    address = f"heirs:{name}"
    if verb == "wrap":
        return hookpatch.wrap(address, lambda wrapped, instance, args, kwargs: [word, *wrapped(*args, **kwargs)])
    if verb == "derive":
        return hookpatch.derive(address, lambda own: _derive_heir(own, word, is_of_object=name.startswith("k.")))
    if name.startswith("k."):
        return hookpatch.replace(address, lambda x=0: [word])
    return hookpatch.replace(address, lambda self, x=0: [word])


def _derive_heir(own: Any, word: str, is_of_object: bool) -> Any:
    if is_of_object:
        return lambda x=0: [word, *own(x)]
    return lambda self, x=0: [word, *own(self, x)]

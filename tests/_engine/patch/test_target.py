"""Target: an address is parsed, or refused with the position of the mistake."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hookpatch
from hookpatch import Target
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.patch.steps import EachItem, Instances, NameGlob, Subclasses
from hookpatch._engine.patch.target import Attribute, Item, Step, is_module_name
from hookpatch._engine.slots.resolve import resolve
from hookpatch.errors import HookpatchError, TargetRefused, TargetSyntaxError

MakeModule = Callable[..., ModuleType]

FORMS = "write module:name, module:Class.method or module:mapping['key']"

NAMES = st.from_regex(r"[^\W\d]\w*", fullmatch=True)
MODULES = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
LITERALS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)


def written(module: str, steps: list[Step]) -> str:
    """Return the address of a module and steps."""
    return f"{module}:{''.join(map(str, steps))[1:]}"


def addresses(keys: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[str, list[Step]]]:
    """Return addresses of a module and steps; the first step is an attribute."""
    steps = st.lists(NAMES.map(Attribute) | keys.map(Item), max_size=4)
    return st.tuples(MODULES, st.builds(lambda first, further: [Attribute(first), *further], NAMES, steps))


PATTERNS = st.tuples(st.just("") | NAMES, st.just("") | st.from_regex(r"\w+", fullmatch=True)).map("*".join)


def rules(keys: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[str, list[Step]]]:
    """Return addresses of many slots: groups of a name and further steps, with instances."""
    name: st.SearchStrategy[Step] = NAMES.map(Attribute) | PATTERNS.map(NameGlob)
    step: st.SearchStrategy[list[Step]] = st.one_of(
        name.map(lambda part: [part]),
        keys.map(lambda key: [Item(key)]),
        st.just([EachItem()]),
        name.map(lambda part: [Subclasses(), part]),
    )
    plain: st.SearchStrategy[list[Step]] = st.lists(NAMES.map(Attribute) | keys.map(Item), max_size=2)
    instances = st.booleans().flatmap(
        lambda with_subclasses: plain.map(lambda further: [Instances(with_subclasses), *further])
    )
    module = st.lists(NAMES | PATTERNS, min_size=1, max_size=3).map(".".join)
    ways = st.tuples(name, st.lists(step, max_size=3), st.just([]) | instances)
    return st.tuples(module, ways.map(lambda way: [way[0], *(part for group in way[1] for part in group), *way[2]]))


ADDRESSES = addresses(LITERALS | addresses(LITERALS).map(lambda parts: Target(written(*parts)))) | rules(LITERALS)


@pytest.mark.parametrize(
    ("address", "module", "steps"),
    [
        ("onnxsim:simplify", "onnxsim", (Attribute("simplify"),)),
        ("a.b.c:Class.method", "a.b.c", (Attribute("Class"), Attribute("method"))),
        ("m:mapping['text']", "m", (Attribute("mapping"), Item("text"))),
        ('m:mapping["text"]', "m", (Attribute("mapping"), Item("text"))),
        ("m:entries[3]", "m", (Attribute("entries"), Item(3))),
        ("m:entries[-1]", "m", (Attribute("entries"), Item(-1))),
        ("m:mapping[(1, 'a')]", "m", (Attribute("mapping"), Item((1, "a")))),
        ("m:mapping[None]", "m", (Attribute("mapping"), Item(None))),
        ("m:mapping[ 'text' ]", "m", (Attribute("mapping"), Item("text"))),
        ("m:mapping[torch.nn:Linear]", "m", (Attribute("mapping"), Item(Target("torch.nn:Linear")))),
        ("m:mapping[ n:C ]", "m", (Attribute("mapping"), Item(Target("n:C")))),
        ("m:a['x'].b[0][1].c", "m", (Attribute("a"), Item("x"), Attribute("b"), Item(0), Item(1), Attribute("c"))),
        ("m:a['not ] the end']", "m", (Attribute("a"), Item("not ] the end"))),
        (r"m:a['it\'s [']", "m", (Attribute("a"), Item("it's ["))),
        ("m:a[n:b[o:c['x']]]", "m", (Attribute("a"), Item(Target("n:b[o:c['x']]")))),
        ("módulo:größe", "módulo", (Attribute("größe"),)),
    ],
)
def test_address_is_read_into_module_and_steps(address: str, module: str, steps: tuple[Attribute | Item, ...]) -> None:
    """Each form of address gives the module, the way to the slot and, as its last step, the slot."""
    target = Target(address)
    assert (target.module, target.steps, target.slot) == (module, steps, steps[-1])


RULES = [
    (
        "transformers.models.*.modeling_*:*RMSNorm.forward",
        "transformers.models.*.modeling_*",
        (NameGlob("*RMSNorm"), Attribute("forward")),
    ),
    ("*:a", "*", (Attribute("a"),)),
    ("a.*b*.c:d", "a.*b*.c", (Attribute("d"),)),
    ("torch.cuda:*", "torch.cuda", (NameGlob("*"),)),
    ("m:C.get_*_x", "m", (Attribute("C"), NameGlob("get_*_x"))),
    ("m:C+.method", "m", (Attribute("C"), Subclasses(), Attribute("method"))),
    ("m:*Base+.on_*", "m", (NameGlob("*Base"), Subclasses(), NameGlob("on_*"))),
    ("m:mapping[*]", "m", (Attribute("mapping"), EachItem())),
    ("m:mapping[ * ].forward", "m", (Attribute("mapping"), EachItem(), Attribute("forward"))),
    ("m:a['x'].*[*]", "m", (Attribute("a"), Item("x"), NameGlob("*"), EachItem())),
]
OF_INSTANCES = [
    ("m:C().attr", "m", (Attribute("C"), Instances(), Attribute("attr"))),
    ("m:C+().attr", "m", (Attribute("C"), Instances(with_subclasses=True), Attribute("attr"))),
    ("torch.nn:Linear()", "torch.nn", (Attribute("Linear"), Instances())),
    ("m:C()['key'].a", "m", (Attribute("C"), Instances(), Item("key"), Attribute("a"))),
    ("m:a[n:C]().b", "m", (Attribute("a"), Item(Target("n:C")), Instances(), Attribute("b"))),
]
OF_INSTANCES_AND_RULES = [
    ("m.*:*Norm().eps", "m.*", (NameGlob("*Norm"), Instances(), Attribute("eps"))),
    ("m:classes[*]+().eps", "m", (Attribute("classes"), EachItem(), Instances(with_subclasses=True), Attribute("eps"))),
]


@pytest.mark.parametrize(("address", "module", "steps"), [*RULES, *OF_INSTANCES, *OF_INSTANCES_AND_RULES])
def test_address_of_many_slots_is_read_into_steps(address: str, module: str, steps: tuple[Step, ...]) -> None:
    """Patterns, subclasses, instances and entries are steps of an address."""
    target = Target(address)
    assert (target.module, target.steps) == (module, steps)
    assert (str(target), written(module, list(steps))) == (address, address.replace("[ * ]", "[*]"))
    assert target.is_rule == (address not in [row[0] for row in OF_INSTANCES])
    assert target.of_instances == next((step for step in steps if isinstance(step, Instances)), None)


@pytest.mark.parametrize("address", ["m:a", "a.b:C.d['*']", "m:a[n:C]", "m:a['()']"])
def test_address_of_one_slot_is_no_rule(address: str) -> None:
    """A sign inside a quoted key is no pattern."""
    assert (Target(address).is_rule, Target(address).of_instances) == (False, None)


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("*", "a", True),
        ("*", "_private", True),
        ("*", "__name__", False),
        ("__*__", "__init__", False),
        ("*Norm", "RMSNorm", True),
        ("*Norm", "RMSNorms", False),
        ("*norm", "RMSNorm", False),
        ("get_*_x", "get__x", True),
        ("get_*_x", "get_x", False),
    ],
)
def test_pattern_of_names_matches(pattern: str, name: str, is_match: bool) -> None:
    """``*`` stands for any characters, also none; a name with two underscores at both ends never matches."""
    assert NameGlob(pattern).matches(name) == is_match


@pytest.mark.parametrize("address", [row[0] for row in [*RULES, *OF_INSTANCES]])
def test_address_of_many_slots_is_refused_where_one_is_needed(address: str) -> None:
    """An address of many slots is refused by name; a verb takes a rule."""
    with pytest.raises(TargetRefused) as refused:
        resolve(Target(address), None, "owner")
    assert refused.value.problem == f"{address} stands for several slots; write the address of a single slot"
    assert not Target(address).is_rule or hookpatch.remove(address).is_rule


def test_text_of_a_target_is_its_address() -> None:
    """str() returns the address as written."""
    assert str(Target('m:mapping[ "text" ]')) == 'm:mapping[ "text" ]'


def test_text_of_a_step_is_how_it_is_written() -> None:
    """Steps write themselves as an address does."""
    assert [str(step) for step in Target("m:a.b['x'][n:C]").steps] == [".a", ".b", "['x']", "[n:C]"]


def test_targets_of_one_address_are_equal() -> None:
    """Targets of equal address are equal and hash alike; others are not."""
    assert Target("m:a") == Target("m:a")
    assert hash(Target("m:a")) == hash(Target("m:a"))
    assert Target("m:a") != Target("m:b")


def test_target_is_frozen() -> None:
    """A target cannot be changed."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Target("m:a").address = "m:b"  # type: ignore[misc]  # what is tested


def test_making_a_target_imports_nothing(write_module: Callable[[str, str], object]) -> None:
    """Neither the module of an address nor the module of a key is imported."""
    write_module("untouched", "raise AssertionError('imported')")
    write_module("untouched_key", "raise AssertionError('imported')")
    assert Target("untouched:mapping[untouched_key:C]").module == "untouched"
    assert not {"untouched", "untouched_key"} & set(sys.modules)


@settings(derandomize=True, deadline=None)
@given(parts=ADDRESSES)
def test_steps_written_and_read_again_are_the_same(parts: tuple[str, list[Step]]) -> None:
    """Whatever the names and keys, an address written from steps is read into the same steps."""
    module, steps = parts
    target = Target(written(module, steps))
    assert (target.module, target.steps) == (module, tuple(steps))
    assert Target(str(target)) == target


@settings(derandomize=True, deadline=None)
@given(text=st.text() | st.text("ab.:[]'\"\\ 01\n*+()", max_size=12).map(lambda inner: f"m:a[{inner}]"))
def test_any_text_is_a_target_or_a_syntax_error(text: str) -> None:
    """Any text is a target with the same text, or a TargetSyntaxError."""
    try:
        target = Target(text)
    except TargetSyntaxError:
        return
    assert str(target) == text


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("", "has no colon between module and name"),
        ("onnxsim.simplify", "has no colon between module and name; did you mean 'onnxsim:simplify'?"),
        ("a.b.Linear.forward", "has no colon between module and name; did you mean 'a.b:Linear.forward'?"),
        ("Linear.forward", "has no colon between module and name; did you mean 'Linear:forward'?"),
        ("simplify", "has no colon between module and name"),
        ("fixes.py", "has no colon between module and name; a module is named without '.py'"),
        (":name", "has no module's name before the colon, but ''"),
        ("a-b:name", "has no module's name before the colon, but 'a-b'"),
        ("a..b:name", "has no module's name before the colon, but 'a..b'"),
        ("3m:name", "has no module's name before the colon, but '3m'"),
        ("m:", "has no name after the colon"),
        ("m:['key']", "has no name after the colon"),
        ("m:.name", "has no name after the colon"),
        ("m:name.", "has no name after a dot"),
        ("m:name other", "cannot be read from ' other' on"),
        ("m:a['x']b", "cannot be read from 'b' on"),
        ("m:a:b", "cannot be read from ':b' on"),
        ("m:a]", "cannot be read from ']' on"),
        ("a.*b-c:d", "has no module's name before the colon, but 'a.*b-c'"),
        ("a.?:d", "has no module's name before the colon, but 'a.?'"),
        ("m:a?", "cannot be read from '?' on"),
        ("m:()", "has no name after the colon"),
        ("m:+.a", "has no name after the colon"),
        ("m:C+", "has no name after the '+'"),
        ("m:C+.", "has no name after a dot"),
        ("m:C+['x']", "has no name after the '+', but '['x']'"),
        ("m:C+[*]", "has no name after the '+', but '[*]'"),
        ("m:C++.a", "has '+' behind '+', which is no class"),
        ("m:C()().a", "has '()' behind '()', which is no class"),
        ("m:C()+.a", "has '+' behind '()', which is no class"),
        ("m:C+()+().a", "has '+()' behind '+()', which is no class"),
        ("m:C().a().b", "has '()' behind the instances of a class"),
        ("m:C().a+.b", "has '+' behind the instances of a class"),
        ("m:C().*", "has '.*' behind the instances of a class"),
        ("m:C().a[*]", "has '[*]' behind the instances of a class"),
        ("m:C(", "cannot be read from '(' on"),
        ("m:C(1).a", "cannot be read from '(1).a' on"),
        ("m:a[n:*]", "has the key n:*, which stands for several objects"),
        ("m:a[n:C()]", "has the key n:C(), which stands for several objects"),
        ("m:a[**]", "has the key **, which is neither a Python literal (quote a text) nor an address such as m:Class"),
        ("m:a['x'", "has a bracket that is not closed"),
        ("m:a['x]", "has a bracket that is not closed"),
        ("m:a[[1]", "has a bracket that is not closed"),
        ("m:a[[1, 2]]", "has the key [1, 2], which cannot be a key"),
        ("m:a[{'x': 1}]", "has the key {'x': 1}, which cannot be a key"),
        (
            "m:a[text]",
            "has the key text, which is neither a Python literal (quote a text) nor an address such as m:Class",
        ),
        (
            "m:a[1 + x]",
            "has the key 1 + x, which is neither a Python literal (quote a text) nor an address such as m:Class",
        ),
    ],
)
def test_address_that_cannot_be_read_is_refused(address: str, problem: str) -> None:
    """The message has the address, the wrong place and the valid forms."""
    with pytest.raises(TargetSyntaxError) as caught:
        Target(address)
    assert str(caught.value) == f"target '{address}' {problem}{'' if problem.endswith('?') else ';'} {FORMS}"
    assert (caught.value.address, caught.value.problem) == (address, problem)
    assert isinstance(caught.value, HookpatchError)
    assert isinstance(caught.value, ValueError)


def test_address_inside_a_key_that_cannot_be_read_is_refused() -> None:
    """An address as a key follows the same rules."""
    with pytest.raises(TargetSyntaxError) as caught:
        Target("m:mapping[torch nn:Linear]")
    assert (
        str(caught.value) == "target 'm:mapping[torch nn:Linear]' has the key torch nn:Linear, which has no module's "
        f"name before the colon, but 'torch nn'; {FORMS}"
    )


def test_object_given_as_an_address_is_refused() -> None:
    """The message says how to patch an object that has no address."""
    with pytest.raises(TargetSyntaxError) as caught:
        hookpatch.remove(["a", "b"])  # type: ignore[arg-type]  # what is tested
    assert str(caught.value) == (
        "target '['a', 'b']' is a list, not text; for an object without an address take "
        f"hookpatch.Target.attribute(owner, name) or hookpatch.Target.item(mapping, key); {FORMS}"
    )


# --- objects without an address


class Machine:
    """A class for an object without an address."""

    speed = 1

    def __init__(self) -> None:
        self.parts = {"wheel": 4}


def test_attribute_of_a_class_at_hand_is_a_target() -> None:
    """A class at hand is named by address; the target waits for no module."""
    target = Target.attribute(Machine, "speed")
    assert (target.module, target.slot, target.start) == (None, Attribute("speed"), Machine)
    assert str(target) == f"{__name__}:Machine.speed"


def test_attribute_of_a_module_at_hand_is_a_target(make_module: MakeModule) -> None:
    """A module is named as in an address."""
    vendor = make_module("vendor", "speed = 1")
    target = Target.attribute(vendor, "speed")
    assert (target.module, target.start, str(target)) == (None, vendor, "vendor:speed")


def test_item_of_a_mapping_at_hand_is_a_target() -> None:
    """A mapping at hand has no address, only a type and a place in memory."""
    parts: dict[str, int] = {}
    target = Target.item(parts, "wheel")
    assert target.start is parts
    assert (target.module, target.slot) == (None, Item("wheel"))
    assert str(target) == f"<dict object at {id(parts):#x}>['wheel']"


def test_attribute_at_hand_is_patched() -> None:
    """A patch of an attribute of an object without an address holds for the block."""
    machine = Machine()
    with hookpatch.active(hookpatch.replace(Target.attribute(machine, "speed"), 2)):
        assert (machine.speed, Machine.speed) == (2, 1)
    assert "speed" not in vars(machine)


def test_item_at_hand_is_patched() -> None:
    """A patch of an item of a mapping at hand holds for the block."""
    machine = Machine()
    with hookpatch.active(hookpatch.replace(Target.item(machine.parts, "wheel"), 3)):
        assert machine.parts == {"wheel": 3}
    assert machine.parts == {"wheel": 4}


def test_things_are_described_by_address_or_type(make_module: MakeModule) -> None:
    """Modules and classes are named by address, all else by type and place in memory."""
    machine = Machine()
    assert describe(make_module("vendor", "")) == "vendor"
    assert describe(Machine) == f"{__name__}:Machine"
    assert describe(machine) == f"<Machine object at {id(machine):#x}>"


@pytest.mark.parametrize("name", ["m", "a.b.c", "_private", "größe"])
def test_name_of_a_module_is_one(name: str) -> None:
    """Dotted identifiers can be the names of modules."""
    assert is_module_name(name)


@pytest.mark.parametrize("name", ["", ".a", "a.", "a..b", "a-b", "1a", "a b", "a\n", "a:b", None, 3])
def test_anything_else_is_no_name_of_a_module(name: object) -> None:
    """Whatever is no dotted identifier is not."""
    assert not is_module_name(name)


@pytest.mark.parametrize("key", ["{[]}", "{{}: 1}", "-" * 20000 + "1", "[]"])
def test_key_that_python_cannot_build_is_refused(key: str) -> None:
    """Whatever reading a literal raises is an error of ours."""
    with pytest.raises(TargetSyntaxError) as caught:
        Target(f"m:a[{key}]")
    message = f"target 'm:a[{key}]' has the key {key}, which cannot be a key; {FORMS}"
    if len(message) > 4_000:
        message = f"{message[:2_000]} [{len(message) - 4_000} characters left out] {message[-2_000:]}"
    assert str(caught.value) == message


def test_keys_nested_too_deeply_are_refused() -> None:
    """Addresses in addresses end somewhere."""
    address = "m:a[" * 2000 + "m:b" + "]" * 2000
    with pytest.raises(TargetSyntaxError, match="has keys nested too deeply"):
        Target(address)


def test_empty_key_is_refused() -> None:
    """The message says that the key is empty."""
    with pytest.raises(TargetSyntaxError) as caught:
        Target("m:a[]")
    assert str(caught.value) == f"target 'm:a[]' has an empty key; {FORMS}"


def test_name_of_an_attribute_at_hand_is_a_text() -> None:
    """A name other than text is refused at the declaration."""
    with pytest.raises(TargetSyntaxError) as caught:
        Target.attribute(Machine, 3)  # type: ignore[arg-type]  # the mistake under test
    assert caught.value.problem == "has an attribute's name that is an int, not text"


def test_key_at_hand_is_shown_as_it_is() -> None:
    """Only a module's colon takes the place of the dot."""
    assert str(Target.item(Machine, ":.x")).endswith("[':.x']")

"""Steps of an address read any object with entries; the last step is a mapping, a list or an attribute."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import HookpatchError, PatchError, SignatureError, TargetNotFound, TargetRefused
from hookpatch.testing import pristine

SOURCE: Final = """
    import collections, enum, types

    class Part:
        def forward(self): return "plain"
        @property
        def size(self): return "plain"
        @property
        def both(self): return self.kept
        @both.setter
        def both(self, value): self.kept = value

    class Child(Part): pass

    class Layers:
        def __init__(self, *parts): self.parts = parts
        def __getitem__(self, index): return self.parts[index]

    class Kinds(enum.Enum):
        RED = 1
        def forward(self): return "plain"

    part = Part()
    tuple_ = (Part(), part)
    layers = Layers(Part(), part)
    queue = collections.deque([Part(), part])
    shown = types.MappingProxyType({"a": part})
    nested = ((Layers(part),),)
    pair = collections.namedtuple("Pair", "one two")(Part(), part)
    listed = [1, 2, 3]
    other = [1, 2, 3]
    def takes_x(x=0): return x
    def takes_all(*args, **kwargs): return takes_x(*args, **kwargs)
    def plain(x): return x
    """
READ: Final = ["tuple_[1]", "tuple_[-1]", "layers[1]", "queue[-1]", "shown['a']", "nested[0][0][0]", "pair[1]"]


def named(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return ("new", wrapped(*args, **kwargs))


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", SOURCE)


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("way", READ)
def test_what_is_read_may_be_read_only(vendor: ModuleType, way: str, reach: Any) -> None:
    with pristine(), hookpatch.active(hookpatch.wrap(f"vendor:{way}.forward", named, reach=reach)):
        assert vendor.part.forward() == ("new", "plain")
        assert vendor.Part().forward() == "plain"


def test_a_patched_entry_on_the_way_is_looked_through(make_module: Callable[[str, str], ModuleType]) -> None:
    """A step through a patched entry goes to the original, even if the entry's patch ends first."""
    vendor = make_module(
        "vendor",
        """
        class Table:
            def __init__(self, **entries): self.entries = entries
            def __getitem__(self, key): return self.entries[key]
            def __setitem__(self, key, value): self.entries[key] = value
            def __delitem__(self, key): del self.entries[key]
            def __contains__(self, key): return key in self.entries
        class Part:
            def forward(self): return "plain"
        part = Part()
        table = Table(a=part)
        """,
    )
    entry = hookpatch.active(hookpatch.replace("vendor:table['a']", vendor.Part())).open()
    method = hookpatch.active(hookpatch.wrap("vendor:table['a'].forward", named)).open()
    entry.close()
    assert vendor.table["a"].forward() == vendor.part.forward() == ("new", "plain")
    method.close()
    assert (vendor.table["a"], vars(vendor.part)) == (vendor.part, {})


def test_an_entry_of_an_enum(vendor: ModuleType) -> None:
    with pristine(), hookpatch.active(hookpatch.replace("vendor:Kinds['RED'].__doc__", "told")):
        assert vendor.Kinds.RED.__doc__ == "told"


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        ("tuple_[7].forward", TargetNotFound, "vendor:tuple_ has no key 7"),
        ("tuple_['a'].forward", TargetNotFound, "vendor:tuple_ has no key 'a'"),
        ("shown['b'].forward", TargetNotFound, "vendor:shown has no key 'b'"),
        ("layers[2].forward", TargetNotFound, "vendor:layers has no key 2"),
        ("part[0].forward", TargetRefused, "vendor:part is a Part, which has no items"),
        ("tuple_[0]", TargetRefused, "vendor:tuple_ is a read-only tuple; patch the mapping or list behind it"),
        ("layers[0]", TargetRefused, "vendor:layers is a read-only Layers; patch the mapping or list behind it"),
    ],
)
def test_what_cannot_be_read_or_set(
    vendor: ModuleType, address: str, error: type[HookpatchError], message: str
) -> None:
    with pytest.raises(error) as raised:
        hookpatch.active(hookpatch.wrap(f"vendor:{address}", named)).open()
    assert str(raised.value).startswith(f"{message} (target vendor:{address} of ")


@pytest.mark.model
def test_layers_of_a_torch_model(make_module: Callable[[str, str], ModuleType]) -> None:
    """Patch a method of a layer, and the layer itself in torch's own storage."""
    import torch

    vendor = make_module(
        "vendor",
        """
        import torch
        model = torch.nn.Module()
        model.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2))])
        """,
    )
    tensor = torch.ones(2)
    with hookpatch.active(hookpatch.wrap("vendor:model.layers[1][0].forward", lambda w, i, a, k: w(*a, **k) * 0)):
        assert vendor.model.layers[1](tensor).tolist() == [0.0, 0.0]
    with pytest.raises(
        TargetRefused, match=r"read-only ModuleList; take vendor:model\.layers\._modules\['1'\] \(target"
    ):
        hookpatch.active(hookpatch.replace("vendor:model.layers[1]", torch.nn.Identity())).open()
    layers = list(vendor.model.layers)
    with hookpatch.active(hookpatch.replace("vendor:model.layers._modules['1']", torch.nn.Identity())):
        assert vendor.model.layers[1](tensor).tolist() == [1.0, 1.0]
    assert list(vendor.model.layers) == layers


# --- a list's next place


def test_an_entry_is_appended_and_removed(vendor: ModuleType) -> None:
    """Entries appended by other code stay."""
    listed = vendor.listed
    with pristine(), hookpatch.active(hookpatch.replace("vendor:listed[3]", "new", add=True)) as session:
        assert listed == [1, 2, 3, "new"]
        with hookpatch.active(hookpatch.replace("vendor:listed[3]", "newer", add=True)):
            assert listed == [1, 2, 3, "newer"]
        assert listed == [1, 2, 3, "new"]
        listed.append("theirs")
    assert listed == [1, 2, 3, "theirs"]
    assert [patch.state for patch in session.report()] == ["restored"]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (lambda: hookpatch.replace("vendor:other[3]", 4), "vendor:other has no key 3; add=True adds it"),
        (lambda: hookpatch.replace("vendor:other[4]", 4, add=True), "vendor:other has no key 4"),
        (lambda: hookpatch.wrap("vendor:other[3]", named), "vendor:other has no key 3"),
        (lambda: hookpatch.derive("vendor:other[3]", lambda original: original), "vendor:other has no key 3"),
        (lambda: hookpatch.remove("vendor:other[3]"), "vendor:other has no key 3"),
        (lambda: hookpatch.wrap("vendor:other[3].x", named), "vendor:other has no key 3"),
    ],
)
def test_there_is_nothing_at_the_end_of_a_list(
    vendor: ModuleType, patch: Callable[[], hookpatch.Patch], message: str
) -> None:
    with pytest.raises(TargetNotFound) as raised:
        hookpatch.active(patch()).open()
    assert str(raised.value).partition(" (target")[0] == message
    assert vendor.other == [1, 2, 3]


# --- properties


@pytest.mark.parametrize("address", ["vendor:Part.size", "vendor:Part.size.fget"])
@pytest.mark.parametrize("scope", ["process", "task"])
def test_a_property_is_wrapped_in_place(vendor: ModuleType, address: str, scope: Any) -> None:
    """A property's getter is changed in place; the property stays the same object."""
    instances: list[object] = []

    def noting(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        instances.append(instance)
        return ("new", wrapped(*args, **kwargs))

    before = vars(vendor.Part)["size"]
    with pristine(), hookpatch.active(hookpatch.wrap(address, noting, reach="everywhere"), scope=scope) as session:
        assert (vendor.part.size, vendor.Child().size) == (("new", "plain"), ("new", "plain"))
        assert vars(vendor.Part)["size"] is before
        assert session.report().patches[0].state == "applied"
    assert vendor.part.size == "plain"
    assert instances[0] is (None if address.endswith("fget") else vendor.part)


def test_a_property_keeps_its_setter(vendor: ModuleType) -> None:
    vendor.part.both = 1
    with hookpatch.active(hookpatch.wrap("vendor:Part.both", named, reach="everywhere")):
        vendor.part.both = 2
        assert vendor.part.both == ("new", 2)
    assert vendor.part.both == 2


def test_a_property_in_its_slot_is_refused_with_the_way(vendor: ModuleType) -> None:
    for address in ("vendor:Part.size", "vendor:Child.size"):
        with pytest.raises(
            TargetRefused, match="whose getter is changed in place: take reach='everywhere', at the class"
        ):
            hookpatch.active(hookpatch.wrap(address, named)).open()


# --- an unchecked signature


@pytest.mark.parametrize(
    "declare",
    [
        lambda **facts: hookpatch.inject("vendor:plain", y=1, **facts),
        lambda **facts: hookpatch.wrap("vendor:plain", named, expects="y", **facts),
        lambda **facts: hookpatch.replace("vendor:plain", lambda: "new", **facts),
        lambda **facts: hookpatch.derive("vendor:plain", lambda original: lambda: "new", **facts),
        lambda **facts: hookpatch.inject("vendor:takes_all", {"x": 1}, uptream="y", **facts),
    ],
)
def test_a_signature_that_tells_a_lie(vendor: ModuleType, declare: Callable[..., hookpatch.Patch]) -> None:
    """A false signature is refused, or applied with check_signature=False and a reason for plan and report."""
    with pytest.raises(SignatureError):
        hookpatch.active(declare()).open()
    patch = declare(check_signature=False, why="it takes more than it says")
    warning = "the signature is not checked (check_signature=False)"
    with pristine(), hookpatch.active(patch) as session:
        (report,) = session.report()
        further = ["shows no parameter"] if report.target == "vendor:takes_all" else []  # an argument for **kwargs
        assert (report.state, report.warnings[0], report.why) == ("applied", warning, "it takes more than it says")
        assert [text for text in further if text in report.warnings[-1]] == further
        assert len(report.warnings) == 1 + len(further)
    (planned,) = hookpatch.plan(patch).targets[0].patches
    assert warning in planned.warnings
    assert planned.why == "it takes more than it says"


def test_no_check_without_a_reason() -> None:
    with pytest.raises(PatchError, match="check_signature=False needs why=: what the signature does not tell"):
        hookpatch.replace("vendor:plain", print, check_signature=False)
    with pytest.raises(PatchError, match="check_signature= is an int, not True or False"):
        hookpatch.replace("vendor:plain", print, check_signature=0, why="x")  # type: ignore[arg-type]


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("verb", ["wrap", "inject", "default"])
@pytest.mark.parametrize("is_patched_twice", [False, True])
def test_an_inherited_property_is_refused_around_calls(
    make_module: Callable[[str, str], ModuleType], verb: str, reach: Any, is_patched_twice: bool
) -> None:
    """With reach="everywhere" the report said *applied*, and what the attribute gave was a proxy of the value."""
    text = "class Base:\n    @property\n    def it(self): return 1\nclass Mine(Base): pass\nclass Other(Base): pass"
    module = make_module("heirs", text)
    patch = {
        "wrap": hookpatch.wrap("heirs:Mine.it", lambda wrapped, instance, args, kwargs: 2, reach=reach),
        "inject": hookpatch.inject("heirs:Mine.it", self=2, reach=reach),
        "default": hookpatch.default("heirs:Mine.it", self=2, reach=reach),
    }[verb]
    own = hookpatch.wrap("heirs:Base.it", lambda wrapped, instance, args, kwargs: 3, reach="everywhere")
    with hookpatch.active(*[own] * is_patched_twice):
        with pytest.raises(TargetRefused, match="holds a property, whose getter is changed in place"):
            hookpatch.active(patch).open()
        assert "it" not in vars(module.Mine)
        assert (module.Mine().it, module.Other().it) == ((3, 3) if is_patched_twice else (1, 1))
    with hookpatch.active(hookpatch.derive("heirs:Mine.it", lambda below: property(lambda self: 2), reach=reach)):
        assert (module.Mine().it, module.Other().it) == (2, 1)
    assert (module.Mine().it, module.Other().it) == (1, 1)

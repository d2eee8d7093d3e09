"""Options: convert texts to the types of a plugin's dataclass, or refuse with a list of these types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import pytest

from hookpatch._plugins.options import option_from_text, options_of
from hookpatch.errors import OptionsError, SelectionError

WHO = ("trim", "hookpatch-trim 1.0")
HEAD = "options of plugin 'trim' (hookpatch-trim 1.0): "


class Mode(Enum):
    """A choice of words."""

    FAST = "fast"
    SAFE = "safe"


@dataclass(frozen=True)
class Options:
    """Options of every kind for a single word or a comma list."""

    passes: list[str]
    times: int = 1
    ratio: float = 0.5
    dry: bool = False
    mode: Mode = Mode.FAST
    level: Literal["low", "high"] = "low"
    limit: int | None = None
    sizes: tuple[int, ...] = ()
    names: frozenset[str] = frozenset()
    table: dict[str, int] = field(default_factory=dict)


TAKES = (
    "it takes passes: list[str], times: int, ratio: float, dry: bool, mode: Mode, level: Literal['low', 'high'], "
    "limit: int | None, sizes: tuple[int, ...], names: frozenset[str], table: dict[str, int]"
)


@dataclass(frozen=True)
class Checked:
    """Options with a check of their own values."""

    times: int = 1

    def __post_init__(self) -> None:
        if self.times < 1:
            raise ValueError("times is at least 1")


@dataclass(frozen=True)
class Empty:
    """A dataclass without a field."""


def refused(call: Callable[[], object]) -> str:
    """Return the message of the error for options."""
    with pytest.raises(OptionsError) as caught:
        call()
    assert (caught.value.plugin, caught.value.distribution) == WHO
    assert str(caught.value) == HEAD + caught.value.problem
    assert isinstance(caught.value, SelectionError)
    return str(caught.value)


# --- values


def test_plugin_without_options_gets_none() -> None:
    """A plugin without Options gets None."""
    assert options_of(None, {}, *WHO) is None


def test_options_have_the_declared_types() -> None:
    """Values become an instance of the plugin's own class; what is not given has its default."""
    options = options_of(Options, {"passes": ["a"], "mode": "safe", "sizes": [1, 2], "limit": None}, *WHO)
    assert options == Options(passes=["a"], mode=Mode.SAFE, sizes=(1, 2))
    assert type(options) is Options


def test_options_with_defaults_need_not_be_given() -> None:
    """A plugin with defaults for all options can be selected without options."""
    assert options_of(Checked, {}, *WHO) == Checked()
    assert options_of(Empty, {}, *WHO) == Empty()


def test_given_mapping_is_not_changed() -> None:
    """The user's mapping is not changed."""
    mapping: dict[str, Any] = {"passes": ["a"]}
    options_of(Options, mapping, *WHO).passes.append("b")
    assert mapping == {"passes": ["a"]}


def test_options_for_a_plugin_that_has_none_are_refused() -> None:
    """The message names the option, of several the first by name."""
    assert (
        refused(lambda: options_of(None, {"b": 1, "a": 2}, *WHO))
        == f"{HEAD}the plugin has no options, but 'a' was given"
    )


def test_unknown_option_is_refused() -> None:
    """The message proposes the nearest option and lists all options with types."""
    assert refused(lambda: options_of(Options, {"passes": [], "time": 2}, *WHO)) == (
        f"{HEAD}no option 'time'; did you mean 'times'? {TAKES}"
    )


def test_option_unlike_any_is_refused_without_a_proposal() -> None:
    """A distant name gets no proposal; a dataclass without fields takes no option."""
    assert refused(lambda: options_of(Checked, {"zeal": 2}, *WHO)) == f"{HEAD}no option 'zeal'; it takes times: int"
    assert refused(lambda: options_of(Empty, {"zeal": 2}, *WHO)) == f"{HEAD}no option 'zeal'; it takes nothing"


def test_option_that_must_be_given_is_missed() -> None:
    """An option without a default must be given."""
    assert refused(lambda: options_of(Options, {}, *WHO)) == (f"{HEAD}'passes' must be given; {TAKES}")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"passes": "fuse_qkv"}, "Expected 'array', got 'str' - at 'passes'"),
        ({"passes": ["a", 3]}, "Expected 'str', got 'int' - at 'passes[1]'"),
        ({"passes": [], "times": "3"}, "Expected 'int', got 'str' - at 'times'"),
        ({"passes": [], "times": 1.5}, "Expected 'int', got 'float' - at 'times'"),
        ({"passes": [], "dry": 1}, "Expected 'bool', got 'int' - at 'dry'"),
        ({"passes": [], "mode": "slow"}, "Invalid enum value 'slow' - at 'mode'"),
        ({"passes": [], "limit": "no"}, "Expected 'int | null', got 'str' - at 'limit'"),
    ],
)
def test_option_of_another_type_is_refused(options: dict[str, Any], problem: str) -> None:
    """The message has the expected type, the given type and the place; text is not converted into a number."""
    assert refused(lambda: options_of(Options, options, *WHO)) == f"{HEAD}{problem}; {TAKES}"


def test_value_that_the_options_refuse_themselves_is_refused() -> None:
    """A ValueError of the dataclass becomes an error with the plugin's name."""
    assert refused(lambda: options_of(Checked, {"times": 0}, *WHO)) == f"{HEAD}times is at least 1; it takes times: int"


# --- an option from the command line


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("passes", "a,b", ["a", "b"]),
        ("passes", " a , b,", ["a", "b"]),
        ("passes", "a", ["a"]),
        ("passes", "", []),
        ("times", "3", 3),
        ("ratio", "0.25", 0.25),
        ("ratio", "2", 2.0),
        ("dry", "true", True),
        ("dry", "false", False),
        ("dry", "1", True),
        ("mode", "safe", "safe"),
        ("level", "high", "high"),
        ("limit", "4", 4),
        ("limit", "null", None),
        ("sizes", "1,2", (1, 2)),
        ("names", "a,a", ["a"]),
    ],
)
def test_text_becomes_the_declared_type(name: str, text: str, value: object) -> None:
    """A word becomes a JSON value, a comma list a sequence of JSON values."""
    option = option_from_text(Options, name, text, *WHO)
    assert option == value
    assert type(option) is type(value)


@pytest.mark.parametrize(("name", "text"), [("passes", "a,b"), ("times", "3"), ("mode", "safe"), ("sizes", "1,2")])
def test_value_from_text_fits_the_options(name: str, text: str) -> None:
    """A value from the command line fits the options also when sent through the environment."""
    value = option_from_text(Options, name, text, *WHO)
    assert type(options_of(Options, {"passes": [], name: value}, *WHO)) is Options


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("times", "three", "times=three: Expected 'int', and the text 'three' is none"),
        ("times", "1.5", "times=1.5: Expected 'int', and the text '1.5' is none"),
        ("dry", "yes", "dry=yes: Expected 'bool', and the text 'yes' is none"),
        ("sizes", "1,x", "sizes=1,x: Expected 'int', got 'str' - at '$[1]'"),
        ("mode", "slow", "mode=slow: Invalid enum value 'slow'"),
    ],
)
def test_text_that_cannot_be_of_the_type_is_refused(name: str, text: str, problem: str) -> None:
    """The message quotes the word and lists the options."""
    assert refused(lambda: option_from_text(Options, name, text, *WHO)) == f"{HEAD}{problem}; {TAKES}"


def test_unknown_option_from_text_is_refused() -> None:
    """The same message as for options that come otherwise."""
    assert refused(lambda: option_from_text(Options, "pases", "a", *WHO)) == (
        f"{HEAD}no option 'pases'; did you mean 'passes'? {TAKES}"
    )


def test_text_for_a_plugin_without_options_is_refused() -> None:
    """The same message as for options that come otherwise."""
    assert (
        refused(lambda: option_from_text(None, "x", "1", *WHO)) == f"{HEAD}the plugin has no options, but 'x' was given"
    )


def test_types_that_are_no_text_are_named_as_they_are_written() -> None:
    """A module without postponed annotations has types, not texts, in the fields."""
    namespace: dict[str, Any] = {"dataclass": dataclass}
    exec(
        compile(
            "@dataclass\nclass Plain:\n    a: int = 0\n    b: list[str] | None = None\n    c: int | None = None\n",
            "plain.py",
            "exec",
            dont_inherit=True,
        ),
        namespace,
    )
    assert refused(lambda: options_of(namespace["Plain"], {"z": 1}, *WHO)) == (
        f"{HEAD}no option 'z'; it takes a: int, b: list[str] | None, c: int | None"
    )

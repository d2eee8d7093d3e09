"""Code objects and signatures: a patched function shows the original's."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
import wrapt
from function_kinds import FUNCTIONS, REACHES, passing_through, wrap_of

import hookpatch

# --- the look of a function


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_patched_function_has_the_code_name_of_the_original(kinds: ModuleType, name: str, reach: str) -> None:
    """A traceback and a profile show the original's name; the wrapper also names the owner of the patch."""
    code = getattr(kinds, name).__code__
    owner = " [hookpatch: a patch given to active()]"
    with hookpatch.active(wrap_of(name, reach)):
        patched = getattr(kinds, name).__code__
        assert (patched.co_name, patched.co_qualname) == (code.co_name + owner, code.co_qualname)


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("name", [*FUNCTIONS, "Model.coroutine", "Model.class_coroutine", "Model.static_generator"])
def test_signature_is_that_of_the_original(kinds: ModuleType, name: str, reach: str) -> None:
    """inspect.signature answers the same before, during and after, bound or not."""

    def signatures() -> list[inspect.Signature]:
        *path, last = name.split(".")
        owners = [kinds.Model, kinds.Model()] if path else [kinds]
        return [inspect.signature(getattr(owner, last)) for owner in owners]

    before = signatures()
    with hookpatch.active(wrap_of(name, reach)):
        assert signatures() == before
    assert signatures() == before


@pytest.mark.parametrize("name", ["plain", "Model.generator", "Model.own"])
def test_signature_over_a_proxy_of_somebody_else(kinds: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The signature equals the unpatched signature over a wrapt wrapper, own or inherited."""
    owner, last = (kinds.Model, name[6:]) if "." in name else (kinds, name)
    of = owner if last in vars(owner) else kinds.Base
    monkeypatch.setattr(of, last, wrapt.FunctionWrapper(vars(of)[last], passing_through))
    before = inspect.signature(getattr(owner, last))
    with hookpatch.active(wrap_of(name, "slot")):
        assert inspect.signature(getattr(owner, last)) == before


@pytest.mark.parametrize("reach", REACHES)
def test_type_hints_are_found_in_the_module_of_the_original(kinds: ModuleType, reach: str) -> None:
    """typing.get_type_hints evaluates annotations in text where the original was defined."""
    with hookpatch.active(wrap_of("plain", reach)):
        hints = typing.get_type_hints(kinds.plain)
    assert hints["a"] is kinds.Marker
    assert hints == typing.get_type_hints(kinds.plain)


# --- reach="everywhere": changed in place

LOOKS: dict[str, Callable[[inspect.Signature], Any]] = {
    **{f.__name__: f for f in (str, repr, hash, pickle.dumps, copy.copy, copy.deepcopy)},
    "equal to": lambda signature: signature == inspect.Signature(),
    "that is equal": lambda signature: inspect.Signature() == signature,
    "parameters": lambda signature: [*signature.parameters],
    "returns": lambda signature: signature.return_annotation,
    "class": lambda signature: signature.__class__,
    "replace": lambda signature: signature.replace(parameters=[]),
    "bind": lambda signature: signature.bind(1, c=2.0),
}


@pytest.mark.parametrize("look", LOOKS)
def test_signature_is_a_plain_one_after_any_look(kinds: ModuleType, look: str) -> None:
    """A signature read from a patched function equals the original's, and is an inspect.Signature."""
    before = LOOKS[look](inspect.signature(kinds.plain))
    with hookpatch.active(hookpatch.wrap("kinds:plain", passing_through)):
        signature = inspect.signature(kinds.plain)
        assert isinstance(signature, inspect.Signature)
        assert LOOKS[look](signature) == before
        assert type(signature) is inspect.Signature


def test_signature_is_read_by_many_threads_at_once(kinds: ModuleType) -> None:
    """Threads reading at once each get a whole signature."""
    before = str(inspect.signature(kinds.plain))
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            with hookpatch.active(hookpatch.wrap("kinds:plain", passing_through)):
                signature = inspect.signature(kinds.plain)
                assert {*pool.map(lambda _, signature=signature: str(signature), range(16))} == {before}


def test_own_signature_attribute_is_kept(kinds: ModuleType) -> None:
    """An assigned __signature__ is the identical object inside and after."""
    signature = inspect.Signature()
    kinds.plain.__signature__ = signature
    with hookpatch.active(wrap_of("plain", "everywhere")):
        assert inspect.signature(kinds.plain) is signature
    assert vars(kinds.plain)["__signature__"] is signature


# --- awaitables, and ways to call a method


def test_slot_over_everywhere_shows_the_keyword_defaults_of_the_original(kinds: ModuleType) -> None:
    """A wrapper over a function changed in place shows no hidden argument."""
    before = kinds.plain.__kwdefaults__
    with hookpatch.active(wrap_of("plain", "everywhere")), hookpatch.active(wrap_of("plain", "slot")):
        assert kinds.plain.__kwdefaults__ == {"c": 3.0}
    assert kinds.plain.__kwdefaults__ is before

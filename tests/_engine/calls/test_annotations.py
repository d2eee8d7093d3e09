"""Annotations evaluated at reading (PEP 649, Python 3.14): a patch does not read annotations."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import hookpatch

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated at the def before 3.14")
if sys.version_info >= (3, 14):
    import annotationlib
    from annotationlib import Format

SOURCE = """
import functools
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from decimal import Decimal

evaluated = []
def noted(kind):
    evaluated.append(kind)
    return kind

def unknown(x: Decimal, y: int = 1, *, z: Decimal | None = None) -> Decimal:
    return x
def noting(x: noted(int), *more: noted(str)) -> noted(float):
    return x
async def unknown_coroutine(x: Decimal) -> Decimal:
    return x
def unknown_generator(x: Decimal):
    yield x
async def unknown_async_generator(x: Decimal):
    yield x

def through(function):
    @functools.wraps(function)
    def inside(*args, **kwargs):
        return function(*args, **kwargs)
    return inside

@through
def decorated(x: Decimal, y: noted(int) = 2) -> None:
    return x

class Base:
    def inherited(self, x: Decimal) -> Decimal:
        return x
class Model(Base):
    def method(self, x: Decimal) -> Decimal:
        return x
    @classmethod
    def of_class(cls, x: Decimal) -> Decimal:
        return x
    @staticmethod
    def static(x: Decimal) -> Decimal:
        return x

@functools.singledispatch
def dispatcher(value):
    return "object"
def of_int(value: int) -> str:
    return "int"
"""
ADDRESSES = [
    *("unknown", "noting", "unknown_coroutine", "unknown_generator", "unknown_async_generator", "decorated"),
    *("Model.inherited", "Model.method", "Model.of_class", "Model.static"),
]
PATCHES: dict[str, Callable[..., Any]] = {
    "wrap": lambda target, reach: hookpatch.wrap(target, _through, reach=reach),
    "inject": lambda target, reach: hookpatch.inject(target, x=5, reach=reach),
    "derive": lambda target, reach: hookpatch.derive(target, lambda original: original, reach=reach),
    "replace": lambda target, reach: hookpatch.replace(target, _anything, reach=reach),
}


def _through(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def _anything(*args: Any, **kwargs: Any) -> Any:
    return args


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    """Make a module with annotations that raise at evaluation, and annotations that note the evaluation."""
    return make_module("vendor", SOURCE)


def _function(vendor: ModuleType, address: str) -> Any:
    value: Any = functools.reduce(getattr, address.split("."), vendor)
    return getattr(value, "__func__", value)


def _asked(function: Any) -> list[str]:
    """Return the annotations of a function in each format."""

    def ask(question: Callable[[], Any]) -> str:
        try:
            return re.sub(r", owner=<.*?>", "", repr(question()))  # without the owner of a forward reference
        except NameError as error:
            return str(error)

    return [
        *(ask(lambda format=format: annotationlib.get_annotations(function, format=format)) for format in FORMATS),
        ask(lambda: function.__annotations__),
        ask(
            lambda: [str(kind) for kind in inspect.signature(function, annotation_format=Format.FORWARDREF).parameters]
        ),
    ]


FORMATS = [Format.VALUE, Format.FORWARDREF, Format.STRING] if sys.version_info >= (3, 14) else []


@pytest.mark.filterwarnings("ignore:.*the factory returned the original")
@pytest.mark.parametrize(
    ("address", "verb", "reach"),
    [
        cell
        for cell in itertools.product(ADDRESSES, PATCHES, ["slot", "everywhere"])
        # Only a function's own kind can be put into a function: test_everywhere.py.
        if cell[1:] != ("replace", "everywhere") or not re.search("coroutine|generator", cell[0])
    ],
)
def test_patch_evaluates_no_annotation(vendor: ModuleType, address: str, verb: str, reach: str) -> None:
    """No annotation is evaluated when a patch is applied, restored, reported, planned or explained."""
    with hookpatch.active(PATCHES[verb](f"vendor:{address}", reach), count=False) as session:
        str(session.report())
        str(hookpatch.why(f"vendor:{address}"))
        assert vendor.evaluated == []
        if verb == "wrap":
            assert _function(vendor, address).__annotate__ is not None
    assert vendor.evaluated == []
    original = _function(vendor, address)
    assert annotationlib.get_annotations(original, format=Format.STRING)


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("address", ADDRESSES)
def test_patched_function_answers_in_each_format(vendor: ModuleType, address: str, reach: str) -> None:
    """Values, forward references and text equal the original's, evaluated on demand."""
    before = _asked(_function(vendor, address))
    with hookpatch.active(hookpatch.wrap(f"vendor:{address}", _through, reach=reach)):  # type: ignore[arg-type]
        assert _asked(_function(vendor, address)) == before
    assert _asked(_function(vendor, address)) == before


def test_annotate_function_is_the_original_s_own(vendor: ModuleType) -> None:
    """Before any evaluation the patched function shares the original's ``__annotate__``."""
    annotate = vendor.unknown.__annotate__
    with hookpatch.active(hookpatch.wrap("vendor:unknown", _through)):
        assert vendor.unknown.__annotate__ is annotate
    assert vendor.unknown.__annotate__ is annotate


def test_annotations_that_were_evaluated_are_shared(vendor: ModuleType) -> None:
    """Evaluated annotations may be changed in place, before the patch or through the patch."""
    vendor.noting.__annotations__["x"] = bool
    with hookpatch.active(hookpatch.wrap("vendor:noting", _through)):
        assert vendor.noting.__annotations__["x"] is bool
        assert annotationlib.get_annotations(vendor.noting, format=Format.STRING)["x"] == "noted(int)"
        vendor.noting.__annotations__["return"] = str
    assert vendor.noting.__annotations__["return"] is str


def test_annotations_that_were_set_by_hand_are_shared(vendor: ModuleType) -> None:
    """A function with assigned annotations has no ``__annotate__``."""
    vendor.noting.__annotations__ = annotations = {"x": "text"}
    with hookpatch.active(hookpatch.wrap("vendor:noting", _through)):
        assert vendor.noting.__annotations__ is annotations
        assert vendor.noting.__annotate__ is None
    assert vendor.evaluated == []


def test_patched_function_is_registered_with_a_dispatcher(vendor: ModuleType) -> None:
    """functools.singledispatch registers a patched function by the annotation."""
    with hookpatch.active(hookpatch.wrap("vendor:of_int", _through)):
        assert vendor.dispatcher.register(vendor.of_int) is vendor.of_int
        assert vendor.dispatcher(1) == "int"


def test_signature_shows_forward_references_for_what_cannot_be_evaluated(vendor: ModuleType) -> None:
    """The names, kinds and defaults of the parameters are the original's; no look raises."""
    expected = inspect.signature(vendor.unknown, annotation_format=Format.FORWARDREF)
    with hookpatch.active(hookpatch.wrap("vendor:unknown", _through)):
        assert str(inspect.signature(vendor.unknown)) == str(expected)


def test_signatures_are_compared_without_their_annotations(vendor: ModuleType) -> None:
    """Signatures are compared without annotations, which may be impossible to evaluate."""
    namespace: dict[str, Any] = {"evaluated": vendor.evaluated}
    exec("def like(x: Nowhere, *more: evaluated.append(1)): pass", namespace)
    with hookpatch.active(hookpatch.replace("vendor:noting", namespace["like"])):
        assert vendor.noting is namespace["like"]
    with (
        pytest.raises(hookpatch.errors.SignatureError, match="missing a required argument: 'x'"),
        hookpatch.active(hookpatch.replace("vendor:through", namespace["like"])),
    ):
        pass
    with (
        pytest.raises(hookpatch.errors.SignatureError, match="takes no argument 'nope'"),
        hookpatch.active(hookpatch.inject("vendor:unknown", nope=1)),
    ):
        pass
    assert vendor.evaluated == []

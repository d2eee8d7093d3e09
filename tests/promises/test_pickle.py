"""Pickles and copies of a patched function are made by name, and loading one looks the name up."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest

import hookpatch

SOURCE = """
    import functools
    from math import sqrt

    import hookpatch

    def double(n):
        return 2 * n

    async def coroutine():
        pass

    async def async_generator():
        yield

    class Model:
        def __init__(self, size):
            self.size = size
        def area(self, n):
            return self.size * n
        async def own_coroutine(self):
            pass
        @staticmethod
        def negative(n):
            return -n
        @classmethod
        def named(cls, n):
            return cls.__name__ * n

    def area_of(model, n):
        return model.area(n)

    @functools.lru_cache
    def cached(n):
        return n

    partial = functools.partial(int, base=2)

    def around(wrapped, instance, args, kwargs):
        return "patched", wrapped(*args, **kwargs)

    def patches(reach):
        for name in "double", "Model.area", "Model.negative", "Model.named":
            yield hookpatch.wrap(f"pooled:{name}", around, reach=reach)
        yield hookpatch.wrap("__main__:triple", around, reach=reach)

    sessions = []

    def patch(reach):
        sessions.append(hookpatch.active(*patches(reach), children="local").open())
"""
FUNCTIONS = ["double", "coroutine", "async_generator", "Model.area", "Model.own_coroutine", "Model.negative"]
PROXIES = ["sqrt", "partial", "cached", "Model"]
REACHES = ["slot", "everywhere"]
PICKLERS: dict[str, Callable[[Any], bytes]] = {
    **{f"protocol {number}": partial(pickle.dumps, protocol=number) for number in range(pickle.HIGHEST_PROTOCOL + 1)},
    "cloudpickle": cloudpickle.dumps,
}


@pytest.fixture
def pooled(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    """Make a module of callables, and of patches for these."""
    return make_module("pooled", SOURCE)


def _patched(module: ModuleType, address: str, reach: Any = "slot") -> hookpatch.Session:
    return hookpatch.active(hookpatch.wrap(f"pooled:{address}", module.around, reach=reach))


def _found(owner: Any, address: str) -> Any:
    for name in address.split("."):
        owner = getattr(owner, name)
    return owner


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("address", [*FUNCTIONS, "Model.named"])
def test_copy_is_the_thing_itself(pooled: ModuleType, address: str, reach: str) -> None:
    """copy and deepcopy leave a patched function as it is, alone and in a list."""
    with _patched(pooled, address, reach):
        function = _found(pooled, address)
        for copied in (copy.copy(function), copy.deepcopy(function), copy.deepcopy([function])[0]):
            assert copied is function if address != "Model.named" else copied == function  # each read binds anew


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize(
    ("pickler", "address"),
    [(pickler, name) for pickler in PICKLERS for name in FUNCTIONS] + [("protocol 4", "Model.named")],
)
def test_pickle_of_a_function_is_that_of_the_original(
    pooled: ModuleType, address: str, reach: str, pickler: str
) -> None:
    """Every pickle holds the name alone, and loads the slot's value, inside and after the end."""
    dumps, original = PICKLERS[pickler], _found(pooled, address)
    before = dumps(original)
    with _patched(pooled, address, reach):
        function = _found(pooled, address)
        assert dumps(function) == before
        assert pickle.loads(before) == function
    assert pickle.loads(before) == original


@pytest.mark.parametrize("address", PROXIES)
@pytest.mark.parametrize("pickler", PICKLERS)
def test_pickle_of_a_proxy_needs_nothing_of_ours(pooled: ModuleType, address: str, pickler: str) -> None:
    """A proxy's pickle names the standard library and the target alone, and loads the slot's value."""
    with _patched(pooled, address):
        leaked = _found(pooled, address)
        data = PICKLERS[pickler](leaked)
        assert pickle.loads(data) is leaked
    assert PICKLERS[pickler](leaked) == data
    assert b"hookpatch" not in data
    assert b"wrapt" not in data
    assert pickle.loads(data) is _found(pooled, address)


def test_what_does_not_stand_under_its_name_is_refused_by_pickle(pooled: ModuleType) -> None:
    """pickle refuses the original inside and the wrapper after the end; cloudpickle copies."""
    original = pooled.double
    with _patched(pooled, "double"):
        leaked = pooled.double
        with pytest.raises(pickle.PicklingError, match="not the same object"):
            pickle.dumps(original)
        assert pickle.loads(cloudpickle.dumps(original))(2) == 4
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(leaked)
    assert pickle.loads(cloudpickle.dumps(leaked))(2) == 4


def test_in_place_every_name_is_pickled(pooled: ModuleType) -> None:
    """With reach="everywhere" the function stays under its name at all times."""
    original = pooled.double
    with _patched(pooled, "double", "everywhere"):
        leaked = pooled.double
        assert pickle.loads(pickle.dumps(original)) is leaked
    assert pickle.loads(pickle.dumps(leaked)) is original


@pytest.mark.parametrize("reach", REACHES)
def test_what_cloudpickle_takes_by_value_takes_its_patch_along(pooled: ModuleType, reach: str) -> None:
    """cloudpickle copies the present code of a bound class method, patched or not."""
    with _patched(pooled, "Model.named", reach):
        data = cloudpickle.dumps(pooled.Model.named)
    assert pickle.loads(data)(1) == ("patched", "Model")
    assert pickle.loads(cloudpickle.dumps(pooled.Model.named))(1) == "Model"


SCRIPT = """
    import json
    import multiprocessing
    import pickle
    import sys

    import cloudpickle
    import hookpatch
    import pooled

    def triple(n):
        return 3 * n

    def call(data, n):
        return pickle.loads(data)(n)

    def functions():
        return pooled.double, pooled.Model.negative, pooled.Model(5).area

    def show(pool, pickled):
        calls = [(function, 3) for function in [*functions(), pooled.Model.named, triple]]
        calls.append((pooled.area_of, pooled.Model(5), 3))
        print(json.dumps([pool.apply(function, arguments) for function, *arguments in calls]))
        print(json.dumps([pool.apply(call, (data, 3)) for data in pickled]))

    if __name__ == "__main__":
        method, reach = sys.argv[1:]
        context = multiprocessing.get_context(method)
        with context.Pool(1) as other:
            with hookpatch.active(*pooled.patches(reach), children="local"):
                pickled = [cloudpickle.dumps(function) for function in functions()]
                # A fork of a patched process is patched; another child is when it says so.
                with context.Pool(1, *[] if method == "fork" else [pooled.patch, [reach]]) as patched:
                    show(patched, pickled)
                show(other, pickled)
            show(other, pickled)
"""


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_pools_run_what_stands_under_the_name_there(
    write_module: Callable[[str, str], Path], method: str, reach: str
) -> None:
    """A patched function sent to another process is patched there if the process is patched, and plain otherwise."""
    write_module("pooled", SOURCE)
    script = write_module("script", SCRIPT)
    completed = subprocess.run([sys.executable, script, method, reach], capture_output=True, text=True, timeout=120)
    assert completed.stderr == ""
    plain = [6, -3, 15, "ModelModelModel", 9, 15]
    patched = [["patched", result] for result in plain]
    expected = [patched, patched[:3], plain, plain[:3], plain, plain[:3]]
    assert [json.loads(line) for line in completed.stdout.splitlines()] == expected

"""Patches of builtins: hookpatch itself calls builtins of its own, so each patch of a builtin can be restored."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import pytest

SOME: Final = ("len", "isinstance", "list", "dict", "getattr", "__import__")
PROGRAM: Final = """
    import builtins, json, os, signal, sys, types
    import hookpatch
    way, *names = sys.argv[1:]
    functions = vars(builtins)
    names = names or [
        name for name, value in functions.items()
        if isinstance(value, types.BuiltinFunctionType)
        or (isinstance(value, type) and not issubclass(value, BaseException) and value.__module__ == "builtins")
    ]

    def raises(*args, **kwargs):
        raise RuntimeError(args)

    def answers_nonsense(*args, **kwargs):
        return ("nonsense",)

    def session_of(name, new):
        address, reach = f"builtins:{name}", "everywhere" if way == "everywhere" else "slot"
        if way == "replace":
            return hookpatch.active(hookpatch.replace(address, new))
        wrapper = lambda wrapped, instance, args, kwargs: new(*args, **kwargs)
        return hookpatch.active(hookpatch.wrap(address, wrapper, reach=reach))

    def is_restored(name, new, original):
        session = session_of(name, new)
        try:
            with session:
                if new is not original and functions[name] is original:
                    return False
                if way == "report":
                    try:
                        session.report()
                    except Exception:
                        pass  # of the standard library, which calls the patched builtin
        except BaseException as error:
            os.write(2, f"{name}: {error!r}".encode())
            return False
        return functions[name] is original

    if way != "first":  # else each child process imports hookpatch's other files inside the block
        for name in ("len", "set"):
            with session_of(name, functions[name]) as session:
                session.report()
    bad = []
    for name in names:
        original = functions[name]
        for new in (raises, answers_nonsense, original):
            if not (child := os.fork()):
                signal.alarm(60)
                status = 1
                try:
                    status = 0 if is_restored(name, new, original) else 1
                finally:
                    os._exit(status)
            if os.waitpid(child, 0)[1]:
                bad.append((name, "original" if new is original else new.__name__))
    print(json.dumps([len(names), bad]))
"""


def _failures(way: str, names: Sequence[str] = ()) -> tuple[int, list[list[str]]]:
    """Return how many builtins were patched, and which patches were not restored or raised an error at the end."""
    command = [sys.executable, "-W", "ignore", "-c", inspect.cleandoc(PROGRAM), way, *names]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert completed.returncode == 0, completed.stderr
    count, bad = json.loads(completed.stdout)
    return count, bad


@pytest.mark.parametrize("way", ["replace", "wrap", pytest.param("report", marks=pytest.mark.ends)])
@pytest.mark.sampled(2)
def test_each_builtin_is_restored_whatever_the_patch_does(way: str) -> None:
    """A function that raises an error or answers nonsense in place of a builtin, also with a report inside."""
    count, bad = _failures(way)
    assert count > 60
    assert bad == []


@pytest.mark.ends
def test_first_block_of_a_process_is_restored() -> None:
    """Hookpatch imports most of its files inside the block."""
    assert _failures("first", SOME) == (len(SOME), [])


def test_patch_everywhere_leaves_hookpatch_alone() -> None:
    """With reach="everywhere" the factories of hookpatch's own dataclasses stay as they are."""
    assert _failures("everywhere", SOME) == (len(SOME), [])


def test_files_of_hookpatch_have_its_own_builtins() -> None:
    """In every function of every file that the first public name brings in."""
    code = """
        import sys, types
        import hookpatch
        with hookpatch.active(hookpatch.wrap("operator:add", print)) as session: session.report()
        files = {name: vars(module) for name, module in sys.modules.items() if name.startswith("hookpatch.")}
        own = files["hookpatch._bootstrap.imports"]["__builtins__"]
        functions = [value for names in files.values() for value in names.values() if type(value) is types.FunctionType]
        theirs = [function for function in functions if function.__module__ in files]
        print(len(theirs) > 500, {function.__module__ for function in theirs if function.__builtins__ is not own})
    """
    output = subprocess.check_output([sys.executable, "-W", "ignore", "-c", inspect.cleandoc(code)], text=True)
    assert output == "True set()\n"


def test_patch_of_the_function_for_frames_is_restored() -> None:
    """Each lock of hookpatch notes its frame by the function from before the patch."""
    code = """
        import sys
        import hookpatch
        def raises(wrapped, instance, args, kwargs): raise RuntimeError
        original = sys._getframe
        with hookpatch.active(hookpatch.wrap("sys:_getframe", raises), count=True):
            is_patched = sys._getframe is not original
        print(is_patched, sys._getframe is original)
    """
    output = subprocess.check_output([sys.executable, "-W", "ignore", "-c", inspect.cleandoc(code)], text=True)
    assert output == "True True\n"


LATER: Final = """
    import importlib, sys, types
    import hookpatch
    module, name = sys.argv[1:]
    original = getattr(importlib.import_module(module), name)
    vendor = types.ModuleType("vendor")
    exec("from functools import partial; number = partial(int, '1')", vars(vendor))
    sys.modules["vendor"] = vendor

    def raises(*args, **kwargs):
        raise RuntimeError(name)

    def tenfold(wrapped, instance, args, kwargs):
        return wrapped(*args, **kwargs) * 10

    def block():
        with hookpatch.active(hookpatch.wrap("vendor:number", tenfold, reach="everywhere")) as session:
            assert vendor.number() == 10
            session.report()

    how = dict(check_signature=False, why="raises in all calls")
    with hookpatch.active(hookpatch.replace(f"{module}:{name}", raises, **how)):
        block()
    block()
    assert getattr(importlib.import_module(module), name) is original
    ours = [module for name, module in sys.modules.items() if name.partition(".")[0] == "hookpatch"]
    print([module.__name__ for module in ours if raises in vars(module).values()])
"""


@pytest.mark.parametrize(
    "function",
    [
        "operator:is_",
        "weakref:getweakrefs",
        "dataclasses:asdict",
        "pkgutil:resolve_name",
        "threading:get_ident",
    ],
)
def test_a_file_imported_inside_a_block_has_the_originals(function: str) -> None:
    """Files of hookpatch import functions of the standard library by name, and keep them after the block."""
    command = [sys.executable, "-c", inspect.cleandoc(LATER), *function.split(":")]
    completed = subprocess.run(command, capture_output=True, text=True)
    assert (completed.stdout, completed.returncode) == ("[]\n", 0), completed.stderr

"""The leftovers of a tool: one probe for each question, on a new module, with an answer of a word or two.

    python tests/benchmarks/restore_probes.py TOOL

prints a JSON object with the answer of each probe: "yes" for the wanted result, "-" if the tool has no way to do the
task. With --costs the costs of the tool are included. The script is a single file, because only the tool is installed
in the environment.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import pickle
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from types import FunctionType, ModuleType
from typing import Final

from restore_tools import TOOLS, Tool, Undo

SOURCE: Final = """
def f():
    return "f"

class Base:
    def m(self):
        return "m"

    @classmethod
    def c(cls):
        return cls.__name__

    @staticmethod
    def s():
        return "s"

class Sub(Base):
    pass

registry = {"a": 1, "b": 2, "c": 3}
"""
YES: Final = "yes"
NO_WAY: Final = "-"

_numbers: Final = itertools.count()


def vendor() -> ModuleType:
    """Return a new module of the source above."""
    name = f"vendor{next(_numbers)}"
    Path(sys.path[0], f"{name}.py").write_text(SOURCE)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def raised(undo: Undo) -> str:
    """Undo, and return the name of the raised error, or an empty text."""
    try:
        undo()
    except Exception as error:
        return type(error).__name__
    return ""


# --- the object


def ends_in_order(tool: Tool) -> str:
    """One patch, applied and undone, restores the identical object with the original behaviour."""
    module = vendor()
    before, code, names = module.f, module.f.__code__, set(vars(module))
    undo = tool.wrap(module, "f", "p")
    if module.f() != "p(f)":
        return f"on: {module.f()}"
    undo()
    if module.f is not before:
        return "another object"
    added = sorted(set(vars(module)) - names)
    return f"leaves {added[0]}" if added else YES if module.f() == "f" and module.f.__code__ is code else module.f()


def ends_out_of_order(tool: Tool) -> str:
    """After patches a and b, the undo of a leaves b, and the undo of b leaves no patch."""
    module = vendor()
    before = module.f
    first, second = tool.wrap(module, "f", "a"), tool.wrap(module, "f", "b")
    errors = raised(first)
    between = module.f()
    errors = errors or raised(second)
    if module.f() != "f":
        return f"stays patched: {module.f()}"
    if between != "b(f)":
        return f"a off: {between}, not b(f)"
    return errors or (YES if module.f is before else "another object")


def closure_on_top(tool: Tool) -> str:
    """A foreign functools.wraps closure over the patch stays after the undo, and the patch goes."""
    module = vendor()
    undo = tool.wrap(module, "f", "p")
    theirs = module.f

    @functools.wraps(theirs)
    def over() -> str:
        return f"theirs({theirs()})"

    module.f = over  # type: ignore[attr-defined]
    return _after_theirs(module, raised(undo))


def wrapt_on_top(tool: Tool) -> str:
    """A foreign wrapt wrapper over the patch stays after the undo, and the patch goes."""
    try:
        import wrapt
    except ImportError:
        return NO_WAY
    module = vendor()
    undo = tool.wrap(module, "f", "p")
    wrapt.wrap_function_wrapper(module, "f", lambda wrapped, instance, args, kwargs: f"theirs({wrapped()})")
    return _after_theirs(module, raised(undo))


def _after_theirs(module: ModuleType, error: str) -> str:
    result = module.f()
    if result == "theirs(f)":
        return error or YES
    ends = {
        "f": "foreign wrapper is gone",
        "theirs(p(f))": "patch stays on",
        "p(f)": "foreign wrapper is gone, patch stays on",
    }
    problem = ends.get(result, result)
    return f"{error}, {problem}" if error else problem


def subclass_residue(tool: Tool) -> str:
    """After the undo of a patch of an inherited method, the subclass has no attribute of the name."""
    module = vendor()
    undo = tool.wrap(module.Sub, "m", "p")
    on, base = module.Sub().m(), module.Base().m()
    undo()
    if "m" in vars(module.Sub):
        return "left on the subclass"
    if on != "p(m)":
        return "not in effect"
    return "base is patched, too" if base != "m" else YES


def kinds(tool: Tool) -> str:
    """A class method and a static method are restored as the identical descriptors, which bind as before."""
    module = vendor()
    before = vars(module.Base)["c"], vars(module.Base)["s"]
    try:
        undos = [tool.wrap(module.Base, name, "p") for name in ("c", "s")]
        on = module.Sub.c(), module.Base().s()
    except Exception as error:
        return f"on: {type(error).__name__}"
    for undo in undos:
        undo()
    try:
        off = module.Sub.c(), module.Base().s()
    except TypeError:
        return "TypeError for good"
    if off != ("Sub", "s"):
        return f"Sub.c() gives {off[0]} for good"
    if on != ("p(Sub)", "p(s)"):
        return f"on: {on[0]}, {on[1]}"
    return YES if (vars(module.Base)["c"], vars(module.Base)["s"]) == before else "another object"


# --- holders of the function


def early_alias(tool: Tool) -> str:
    """An alias from ``from vendor import f`` before the patch is patched, too."""
    module = vendor()
    alias = module.f
    undo = tool.everywhere(module, "f", "p")
    on = alias()
    undo()
    return YES if (on, alias()) == ("p(f)", "f") else "no"


def pickles(tool: Tool) -> str:
    """A patched function can be pickled by name for a pool's worker."""
    module = vendor()
    undo = tool.wrap(module, "f", "p")
    try:
        return YES if pickle.loads(pickle.dumps(module.f)) is module.f else "another object"
    except Exception as error:
        return type(error).__name__
    finally:
        undo()


def one_thread(tool: Tool) -> str:
    """A patch is active in one thread and inactive in the neighbour thread."""
    module = vendor()
    undo = tool.for_task(module, "f", "p")
    if undo is None:
        return NO_WAY
    undo()
    answers: list[str] = []
    is_on = threading.Event()

    def ask() -> None:
        is_on.wait()
        answers.append(module.f())

    neighbour = threading.Thread(target=ask)
    neighbour.start()  # before the patch: a thread started inside inherits the patch
    undo = tool.for_task(module, "f", "p")
    is_on.set()
    neighbour.join()
    own_answer = module.f()
    if undo is not None:
        undo()
    return YES if (own_answer, answers) == ("p(f)", ["f"]) else "no"


# --- mappings


def entries_out_of_order(tool: Tool) -> str:
    """Two patches of a registry's entry can end out of order."""
    registry = {"a": 1, "b": 2, "c": 3}
    first = tool.entry(registry, "b", 10)
    if first is None:
        return NO_WAY
    second = tool.entry(registry, "b", 20)
    assert second is not None
    first()
    between = registry["b"]
    second()
    if registry["b"] != 2:
        return f"stays patched: {registry['b']}"
    return YES if between == 20 else f"a off: {between}, not 20"


def position_of_a_key(tool: Tool) -> str:
    """A removed key returns to the same position."""
    registry = {"a": 1, "b": 2, "c": 3}
    undo = tool.absent(registry, "b")
    if undo is None:
        return NO_WAY
    undo()
    return YES if list(registry.items()) == [("a", 1), ("b", 2), ("c", 3)] else f"comes back as {', '.join(registry)}"


def key_of_others(tool: Tool) -> str:
    """A foreign key added during the patch remains afterwards."""
    registry = {"a": 1}
    undo = tool.entry(registry, "a", 10)
    if undo is None:
        return NO_WAY
    registry["theirs"] = 3
    undo()
    return YES if registry == {"a": 1, "theirs": 3} else "dropped"


# --- imports, and errors


def reloaded(tool: Tool) -> str:
    """importlib.reload during a patch gives a patched function, and afterwards the reloaded original."""
    module = vendor()
    undo = tool.wrap(module, "f", "p")
    importlib.reload(module)
    on = module.f()
    error = raised(undo)
    if on != "p(f)":
        return "patch is lost"
    return error or (YES if module.f() == "f" and type(module.f) is FunctionType else f"left: {module.f()}")


def imported_after_the_end(tool: Tool) -> str:
    """A patch that ended before the import of the module does not patch the module."""
    name = f"vendor{next(_numbers)}"
    Path(sys.path[0], f"{name}.py").write_text(SOURCE)
    importlib.invalidate_caches()
    undo = tool.later(name, "f", "p")
    if undo is None:
        return NO_WAY
    raised(undo)
    module = importlib.import_module(name)
    return YES if type(module.f) is FunctionType and module.f() == "f" else "patched then"


class _Refuses(type):
    """A metaclass that lets ``second`` be set once, but not restored."""

    def __setattr__(cls, name: str, value: object) -> None:
        if name == "second" and "sealed" in vars(cls):
            raise AttributeError("sealed")
        super().__setattr__(name, value)


def undo_that_raises(tool: Tool) -> str:
    """Three patches end as one. If the owner refuses the undo of one patch, the other two are restored."""

    class Owner(metaclass=_Refuses):
        def first(self) -> str:
            return "f"

        def second(self) -> str:
            return "f"

        def third(self) -> str:
            return "f"

    undo = tool.several(Owner, ["first", "second", "third"])
    if undo is None:
        return NO_WAY
    Owner.sealed = True
    error = raised(undo)
    still_patched = [name for name in ("first", "third") if getattr(Owner(), name)() != "f"]
    return f"{' and '.join(still_patched)} left patched" if still_patched else YES if error else "says nothing"


PROBES: Final[dict[str, Callable[[Tool], str]]] = {
    "the identical object is back at the end": ends_in_order,
    "two patches of a function end in any order": ends_out_of_order,
    "a foreign closure over the patch stays": closure_on_top,
    "a foreign wrapt proxy over the patch stays": wrapt_on_top,
    "a subclass is patched alone, and restored": subclass_residue,
    "class and static methods keep their kind": kinds,
    "a name bound before the patch is patched": early_alias,
    "a patched function can be pickled": pickles,
    "a patch can be for one thread or task": one_thread,
    "two patches of an entry end in any order": entries_out_of_order,
    "a removed key returns to its position": position_of_a_key,
    "a key added by foreign code stays": key_of_others,
    "the patch survives a reload": reloaded,
    "a module imported after the end is unpatched": imported_after_the_end,
    "one undo fails, the others still run": undo_that_raises,
}


# --- costs


def turn(tool: Tool) -> str:
    """Apply and undo a patch of a function, in µs."""
    module = vendor()

    def taken(number: int = 50) -> float:
        start = process_time()
        for _ in range(number):
            tool.wrap(module, "f", "p")()
        return (process_time() - start) / number

    return f"{median(taken() for _ in range(25)) * 1e6:.0f} µs"


def call(tool: Tool) -> str:
    """Call the patched function, in ns more than the bare function."""
    module = vendor()

    def taken(number: int = 20_000) -> float:
        function = module.f
        start = process_time()
        for _ in range(number):
            function()
        return (process_time() - start) / number

    bare = median(taken() for _ in range(25))
    undo = tool.wrap(module, "f", "p")
    patched = median(taken() for _ in range(25))
    undo()
    return f"{(patched - bare) * 1e9:.0f} ns"


COSTS: Final[dict[str, Callable[[Tool], str]]] = {"time to apply and end a patch": turn, "time added to a call": call}


def main(name: str, costs: bool) -> dict[str, str]:
    tool = TOOLS[name]()
    tool.wrap(vendor(), "f", "p")()  # the import of the tool may change modules, too
    answers = {}
    for question, probe in {**PROBES, **(COSTS if costs else {})}.items():
        try:
            answers[question] = probe(tool)
        except Exception as error:  # each tool raises another error for an impossible task
            answers[question] = type(error).__name__
    return answers


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        print(json.dumps(main(sys.argv[1], costs="--costs" in sys.argv)))

"""An unsupported Python: each fact about Python behind hookpatch is broken on purpose.

No traceback at import: a replacement is used, or a patch in need of the fact is refused by name; doctor and the report
say so.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from environments import Environment

from hookpatch._engine.slots.trial import NEWEST, OLDEST, functions_change_inside, functions_stand_in

THIS = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
VENDOR = '''
def plain(x, *, y=2):
    """What plain does."""
    return x, y
async def coroutine(x, *, y=2):
    return x, y
def generator(x, *, y=2):
    yield x, y
async def async_generator(x, *, y=2):
    yield x, y
class Model:
    def method(self, x, *, y=2):
        return x, y
    @classmethod
    def of_class(cls, x, *, y=2):
        return x, y
    @staticmethod
    def static(x, *, y=2):
        return x, y
class Sub(Model):
    pass
'''
# Run before the import of hookpatch.
BREAKS = {
    "code is laid out otherwise": """
import hookpatch._engine.calls.code
def inner(code, name):
    raise ValueError("too many values to unpack (expected 1)")
hookpatch._engine.calls.code.inner = inner
""",
    "code cannot be exchanged": """
import hookpatch._engine.calls.code
def in_place(cells):
    raise TypeError("code objects cannot be exchanged")
hookpatch._engine.calls.code.in_place = in_place
""",
    "the collector shows a proxy's dict no more": """
import gc
gc.get_referents = lambda *things: []
""",
    "importlib has other insides": """
import sys, _frozen_importlib
bare = type(sys)("_frozen_importlib")
bare.BuiltinImporter = _frozen_importlib.BuiltinImporter
sys.modules["_frozen_importlib"] = bare
import hookpatch._bootstrap.imports
sys.modules["_frozen_importlib"] = _frozen_importlib
""",
    "no frames of other threads": "import sys; del sys._current_frames",
}
HEAD = """
import asyncio, warnings
import hookpatch, vendor
from hookpatch import errors

CALLS = {
    "plain": lambda: vendor.plain(1),
    "coroutine": lambda: asyncio.run(vendor.coroutine(1)),
    "generator": lambda: next(vendor.generator(1)),
    "async_generator": lambda: asyncio.run(anext(vendor.async_generator(1))),
    "Model.method": lambda: vendor.Model().method(1),
    "Model.of_class": lambda: vendor.Model.of_class(1),
    "Model.static": lambda: vendor.Model.static(1),
    "Sub.method": lambda: vendor.Sub().method(1),
}
def own(address):
    names = address.split(".")
    owner = vendor if len(names) == 1 else getattr(vendor, names[0])
    return vars(owner).get(names[-1], "ABSENT")
def through(wrapped, instance, args, kwargs):
    return wrapped(*args, **{**kwargs, "y": 5})
"""
MATRIX = """
for address, call in CALLS.items():
    before = own(address)
    for patch in (hookpatch.wrap(f"vendor:{address}", through), hookpatch.inject(f"vendor:{address}", y=5)):
        with hookpatch.active(patch) as session:
            inside, (report,) = call(), session.report()
        print(address, inside, call(), own(address) is before or own(address), *report.warnings)
"""
EVERYWHERE = """
try:
    hookpatch.active(hookpatch.wrap("vendor:plain", through, reach="everywhere")).open()
except errors.TargetRefused as error:
    print(error.problem)
class Other(vendor.Model): pass
try:
    hookpatch.active(hookpatch.replace("vendor:Model", Other, reach="everywhere")).open()
except errors.TargetRefused as error:
    print(error.problem)
"""


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Environment:
    """Make an environment with the vendor's module."""
    environment.work_in(tmp_path / "work", {"vendor.py": VENDOR})
    return environment


def _printed(home: Environment, broken: str, program: str) -> list[str]:
    (home.folder / "program.py").write_text(BREAKS[broken] + HEAD + program)
    completed = home.run("program.py")
    assert (completed.stderr, completed.returncode) == ("", 0)
    return completed.stdout.splitlines()


def _doctor(home: Environment, broken: str) -> str:
    """Return the output of doctor."""
    program = "import sys\nsys.argv = ['hookpatch', 'doctor']\nfrom hookpatch.command import main\nmain()"
    (home.folder / "hookpatch_doctor.py").write_text(BREAKS.get(broken, broken) + "\n" + program)
    completed = home.run("hookpatch_doctor.py", COLUMNS="1000")
    assert completed.stderr == ""
    return completed.stdout


PROXIES = f"{THIS} lays out functions as hookpatch does not know: a wrapt proxy stands for each function"
UNSEEN = f"{THIS} tells who refers to an object as hookpatch does not know: early names are not looked for"
REFUSED = f"reach='everywhere' relies on what {THIS} does otherwise than hookpatch knows; take reach='slot'"


def test_nothing_fails_on_this_python() -> None:
    """The trials pass on each tested Python, and the list of these is documented."""
    assert functions_stand_in()
    assert functions_change_inside()
    assert OLDEST <= sys.version_info[:2] <= NEWEST


@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.sampled(3)
def test_patch_holds_and_is_restored_whatever_is_broken(home: Environment, broken: str) -> None:
    """Patches hold and are restored for functions of each kind; the report says where a proxy is used."""
    warned = f" {PROXIES}" if broken == "code is laid out otherwise" else ""
    warned += f" {UNSEEN}" if "collector" in broken else ""
    names = ["plain", "coroutine", "generator", "async_generator", "Model.method", "Model.of_class", "Model.static"]
    names += ["Sub.method"]
    expected = [f"{name} (1, 5) (1, 2) True{warned}" for name in names for _ in range(2)]
    assert _printed(home, broken, MATRIX) == expected


@pytest.mark.parametrize(
    ("broken", "functions", "objects"),
    [
        ("code is laid out otherwise", True, False),
        ("code cannot be exchanged", True, False),
        ("the collector shows a proxy's dict no more", False, True),
        ("importlib has other insides", False, False),
        ("no frames of other threads", False, False),
    ],
)
def test_reach_everywhere_is_refused_by_name_where_it_cannot_be(
    home: Environment, broken: str, functions: bool, objects: bool
) -> None:
    """Not as a traceback, and not half done."""
    message = f"{REFUSED}, and one patch for each place"
    assert _printed(home, broken, EVERYWHERE) == [message] * (functions + objects)


MODULES = {"late.py": "def speak():\n    return 'original'\n", "space/inside.py": "x = 1\n"}
LATE = """
import importlib, sys, threading
patches = hookpatch.wrap("late:speak", lambda *call: "patched"), hookpatch.replace("space:x", 5, add=True)
with hookpatch.active(*patches) as session:
    import late, space.inside
    print(late.speak(), *(patch.state for patch in session.report()), space.x)
print(late.speak(), hasattr(space, "x"), any("hookpatch" in finder.__module__ for finder in sys.meta_path))
"""


@pytest.mark.parametrize("broken", ["importlib has other insides", "no frames of other threads"])
def test_modules_that_come_later_are_patched(home: Environment, broken: str) -> None:
    """A namespace package, too."""
    home.work_in(home.folder, MODULES)
    assert _printed(home, broken, LATE) == ["patched applied applied 5", "original False False"]


@pytest.mark.parametrize(
    ("broken", "messages"),
    [
        ("code is laid out otherwise", [PROXIES, "reach='everywhere' is refused for functions"]),
        ("code cannot be exchanged", ["reach='everywhere' is refused for functions"]),
        (
            "the collector shows a proxy's dict no more",
            [f"{UNSEEN}; reach='everywhere' is refused for what is no function"],
        ),
        (
            "importlib has other insides",
            [
                "the locks of modules cannot be seen: a module that another thread has begun to import is patched late",
                "the search for modules cannot be seen: sys.meta_path becomes another list with each session",
                "the end of an import cannot be seen: a namespace package, or a module that is half imported, is",
            ],
        ),
        ("no frames of other threads", ["the search for modules cannot be seen"]),
    ],
)
def test_doctor_says_what_is_broken(home: Environment, broken: str, messages: list[str]) -> None:
    """doctor names the broken fact and the replacement."""
    printed = _doctor(home, broken)
    for text in messages:
        assert text in printed
    assert printed.count("install a hookpatch that knows this Python") == len(messages)


def test_doctor_says_that_a_python_is_newer_than_any_that_was_tested(home: Environment) -> None:
    """A newer Python alone is no fault: the trials decide."""
    printed = _doctor(home, "import hookpatch._engine.slots.trial\nhookpatch._engine.slots.trial.NEWEST = (3, 10)")
    assert "hookpatch was tested on Python 3.11 to 3.10; hookpatch tries out the interpreter's internals" in printed


def test_doctor_calls_a_free_threaded_build_untested(home: Environment) -> None:
    """A free-threaded build is simulated by a false answer about the GIL."""
    printed = _doctor(home, "import sys\nsys._is_gil_enabled = lambda: False")
    assert "a free-threaded build, its GIL is off" in printed
    assert "run the program with PYTHON_GIL=1" in printed

"""The plan of the house: imports point downwards, and every dangerous act has a single address."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from house import DOORS, FILES, HOUSE, PACKAGE, PLUGINS, ROOMS, ROOT, Package, picture

pytestmark = pytest.mark.once

LONG: Final = 300  # lines
MOST_FILES: Final = 12  # files in a folder, without __init__


def test_every_file_has_its_room() -> None:
    """The rooms and doors above are the whole house, and nine rooms are enough."""
    assert {name for name in FILES if HOUSE.room(name) is None} == DOORS
    assert len({room.split("/")[0] for room in ROOMS if (PACKAGE / room).is_dir()}) == 9


def test_imports_point_one_way() -> None:
    """No file imports a room above its own, or a door."""
    assert HOUSE.arrows_up() == []


@pytest.mark.parametrize("package", [HOUSE, *PLUGINS], ids=lambda package: package.name)
def test_imports_make_no_circle(package: Package) -> None:
    """Imports make no circle in hookpatch or a plugin, not even inside functions."""
    assert package.circle() == []
    assert package.arrows_up() == []


def test_a_folder_can_be_read_at_a_glance() -> None:
    """A folder has at most a dozen files."""
    count = Counter(path.parent for path in [*FILES.values(), *plugin_files()] if path.name != "__init__.py")
    assert {str(folder): files for folder, files in count.items() if files > MOST_FILES} == {}


def test_a_room_begins_with_its_law() -> None:
    """The ``__init__`` of a room is a docstring; the two rooms for users also have their names."""
    for room in ROOMS:
        if (PACKAGE / room).is_dir() and room not in ("testing", "command"):
            [law] = (PACKAGE / room / "__init__.py").read_text().splitlines()
            assert law.startswith('"""'), room


def plugin_files() -> list[Path]:
    return [path for package in PLUGINS for path in package.files.values()]


def test_the_picture_of_the_house_is_true() -> None:
    """docs/design.md shows the rooms above; `python tests/house.py` prints them."""
    assert picture() in (ROOT / "docs" / "design.md").read_text()


@pytest.mark.repository
@pytest.mark.parametrize(("page", "least"), [("docs/design.md", 30), ("CONTRIBUTING.md", 5)])
def test_files_named_in_a_page_exist(page: str, least: int) -> None:
    """Each file named in a page exists."""
    root = PACKAGE.parent
    named = set(re.findall(r"\w+\.py\b", (root / page).read_text()))
    existing = {
        path.name for folder in ("hookpatch", "plugins", "tests", "docs") for path in (root / folder).rglob("*.py")
    }
    assert len(named) >= least
    assert named - existing == set()


def test_the_imports_are_seen(tmp_path: Path) -> None:
    """The checks above can fail: every form of import is seen, at the top and inside functions."""
    assert "_session.load" in HOUSE.imports("_startup")
    assert "_bootstrap.imports" in HOUSE.imports("_session.load")  # from hookpatch._bootstrap import imports
    folder = tmp_path / "small"
    (folder / "low").mkdir(parents=True)
    (folder / "__init__.py").write_text("version = 1\n")
    (folder / "low" / "a.py").write_text("def f():\n    from small import version\n")
    (folder / "b.py").write_text("import small.low.a\n")
    assert Package(folder, ["low"]).arrows_up() == ["low.a imports __init__"]
    assert Package(folder).circle() == []
    (folder / "__init__.py").write_text("from small import b\n")
    assert Package(folder).circle() == ["__init__", "b", "low.a"]


@pytest.mark.repository
def test_a_long_file_says_why() -> None:
    """A file of more than 300 lines gives the reason in its docstring (`Long because ...`)."""
    files = [*FILES.values(), *plugin_files()]
    assert len(files) > 150
    long = [path for path in files if len(path.read_text().splitlines()) > LONG]
    saying = [path for path in files if "\nLong because " in (ast.get_docstring(ast.parse(path.read_text())) or "")]
    assert sorted(map(str, saying)) == sorted(map(str, long))  # and no short file gives such a reason


@pytest.mark.parametrize(
    ("act", "addresses"),
    [
        (r"\bos\.environ\b", {"_bootstrap.environment"}),
        (r"\bsys\.meta_path\b", {"_bootstrap.imports", "testing._pristine"}),  # _pristine: in a message
        (
            r"\bsys\.modules\b",
            {"__init__", "_bootstrap.imports", "_inspect.doctor", "_inspect.audit.compare"},
        ),  # __init__: a second import  # _compare: in an address  # _doctor: looks into another process's
        (r"\bsys\.path_(hooks|importer_cache)\b", {"_bootstrap.imports"}),
        (r"\b(setattr|delattr)\(", {"_engine.slots.attribute"}),
        (r"__(set|del)item__'\)\(|\bdict\.(update|pop)\b", {"_engine.slots.item"}),
        (r"\.__code__ = ", {"_engine.slots.function", "_engine.calls.trampoline"}),
        (
            r"\.__kwdefaults__ = ",
            {"_engine.slots.function", "_engine.calls.code", "_engine.calls.trampoline"},
        ),  # likewise
        (r"^\s*(import|from) wrapt\b", {"_engine.site.proxy"}),
        (r"^\s*(import|from) pluggy\b", {"_plugins.host", "hookspecs"}),
        (r"^\s*(import|from) packaging\b", {"_engine.patch.versions"}),
        (r"^\s*(import|from) msgspec\b", {"_plugins.options", "_processes.run_report"}),
        (r"^\s*(import|from) pytest\b", {"testing._fixtures", "_pytest"}),
        (r"^\s*(import|from) IPython\b", {"notebook"}),
        (
            r"^\s*(import|from) typer\b",
            {
                f"command.{name}"
                for name in (
                    *(
                        "_app",
                        "_check",
                        "_doctor",
                        "_explain",
                        "_list",
                        "_new",
                        "_plan",
                        "_report",
                        "_why",
                        "audit._audit",
                        "audit._adopt",
                    ),
                )
            },
        ),
        (r"^\s*(import|from) rich\b", {"command._explain", "command._tables"}),  # _tables: for explain
        (
            r"\bstderr\.write\(",
            {"_bootstrap.stderr", "command.__init__"},
        ),  # help; python's own words
        (r"\bsite\.exec\w+ = ", {"_startup"}),
        (r"\bos\.exec", {"command.run._run", "_processes.starts"}),  # _starts: names an event
        (r"\bos\._exit\(|\.fork\(", {"_engine.patch.process_end", "_startup"}),  # names a call; the last resort
        (r"\._exit = ", {"_engine.patch.process_end"}),
        (r"\baddaudithook\(", {"_startup", "_processes.starts", "_inspect.audit.recorder", "_inspect.cache"}),
    ],
)
def test_dangerous_act_has_one_address(act: str, addresses: set[str]) -> None:
    """A reviewer finds each dangerous act in a single file."""
    actual = {name for name, path in FILES.items() if re.search(act, code_of(path), re.MULTILINE)}
    assert actual == addresses


@cache
def code_of(path: Path) -> str:
    """Return a file's code without docstrings and comments."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node
        ):
            node.body[0] = ast.Pass()
    return ast.unparse(tree)


def modules_after(code: str) -> set[str]:
    """Return the modules imported by code in a new interpreter."""
    program = f"import sys; before = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(completed.stdout.split())


# Handlers that may catch the error of a signal handler: a time limit raises TimeoutError, which is an OSError.
_WIDE: Final = {"Exception", "BaseException", "OSError", "TimeoutError"}
_PASSING_ON: Final = ("is_interrupt", "is_of_code", "_graver")
# For commands and their child processes, and at interpreter start, before a program has set a handler.
_WITHOUT_HANDLERS: Final = ("command", "testing", "_inspect", "_startup.py", "program.py", "run_report.py")


def test_errors_of_signal_handlers_pass() -> None:
    """Code that catches any error, or an OSError, asks whether a signal handler raised the error."""
    swallowing, seen = [], 0
    for name, path in FILES.items():
        if set(path.relative_to(PACKAGE).parts) & set(_WITHOUT_HANDLERS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler):
                caught = {part.id for part in ast.walk(node.type) if isinstance(part, ast.Name)} if node.type else _WIDE
                text = ast.unparse(node)
                passes = text.splitlines()[-1] == "    raise" or any(word in text for word in _PASSING_ON)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("suppress", "contextlib.suppress"):
                caught, passes = {ast.unparse(kind) for kind in node.args}, False
            else:
                continue
            if caught & _WIDE:
                seen += 1
                if not passes:
                    swallowing.append(f"{name}:{node.lineno}")
    assert swallowing == []
    assert seen > 30


def test_importing_the_face_imports_nothing() -> None:
    """`import hookpatch` brings in itself alone."""
    assert modules_after("import hookpatch") == {"hookpatch"}


def test_a_patch_on_a_function_needs_neither_wrapt_nor_pluggy() -> None:
    """pluggy is imported for a plugin, and wrapt for a wrapper of another callable than a Python function."""
    code = "import hookpatch\nwith hookpatch.active(hookpatch.inject('inspect:signature', eval_str=True)): pass"
    assert not {"wrapt", "pluggy", "msgspec", "packaging", "typer", "rich"} & modules_after(code)
    assert "wrapt" in modules_after(
        code.replace("inject('inspect:signature', eval_str=True)", "wrap('time:sleep', print)")
    )


def test_a_program_is_run_without_typer_and_rich() -> None:
    """Nor what a plugin needs: `hookpatch run` starts as fast as it can."""
    code = "from hookpatch.command.run import _run; _run.parsed(['-p', 'x', '-c', 'pass'])"
    assert not {"typer", "rich", "pydantic", "pluggy", "msgspec", "dataclasses"} & modules_after(code)


def test_the_pytest_plugin_needs_nothing_but_the_face() -> None:
    """Every pytest run loads the pytest plugin, patched or not."""
    loaded = modules_after("import pytest, hookpatch._pytest")
    assert {name for name in loaded if name.startswith("hookpatch")} == {
        *("hookpatch", "hookpatch.testing", "hookpatch.testing._fixtures", "hookpatch._pytest")
    }


def test_the_start_up_file_needs_nothing_that_is_not_there() -> None:
    """From Python 3.15 on each start of the interpreter imports the start-up file."""
    ours = {"hookpatch", "hookpatch._bootstrap", "hookpatch._bootstrap.environment", "hookpatch._startup"}
    assert modules_after("import hookpatch._startup") == ours | {"__future__"}


def test_the_face_is_sorted_and_whole() -> None:
    """The face lists every public name, and no other."""
    import hookpatch

    assert hookpatch.__all__ == sorted(hookpatch.__all__)
    for name in hookpatch.__all__:
        assert getattr(hookpatch, name) is not None
    assert set(hookpatch.__all__) < set(dir(hookpatch))
    with pytest.raises(AttributeError, match="module 'hookpatch' has no attribute 'unpatch'"):
        hookpatch.unpatch  # noqa: B018 - looked at, not called

"""The plan of the house: imports point one way, and every dangerous act has one address."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

PACKAGE = Path(__file__).parents[1] / "hookpatch"
LONG: Final = 300  # lines

# From the ground up: a file imports only files that stand before it, on its own floor or on one below.
FLOORS: Final = {
    "the world outside": "_stderr _json _environment _imports errors _presence _config _selection _variables",
    "what is declared": "_target _patch",
    "functions of ours": "_torchscript _signature _code _trampoline",
    "places": "_slot _attribute_slot _item_slot _function_slot _part_slot _beneath _resolve _referrers _holders",
    "guards": "_requirement _calls _guard",
    "sites and layers": (
        "_layer _proxy _standing _order _leftover _hold _turn _outcome _site _sites _tally _counted _everywhere"
    ),
    "what was locked": "_source _fingerprint _difference _lock _drift",
    "plugins": "_discovery _relations _options hookspecs _host",
    "sessions": "_ledger _missed _place _task _changes _attempt _report _session",
    "torch": "_shared _dynamo _torch_patches _torch",
    "processes": "_load _python_command _luggage _programs _children _receipts _receipt _active _exit _startup",
    "questions": (
        "_verdict _release _check _location _origin _foreign _slot_report _why _plan _new _doctor _messages "
        "_footprint _snapshot"
    ),
    "for tests": "_pristine _patched _pip _releases _fresh_process _effect _capture _judge",
    "faces": "testing notebook __init__ _fixtures _pytest",
    "the command": (
        "command._arguments command._error command._explain command._list command._of_plugin command._graph_diff "
        "command._page command._report command._in_process command._verify command._option_words _take_over "
        "command._targets command._lock command._against command._check command._plan command._why command._doctor "
        "command._new command._run command.__init__ __main__"
    ),
}
HOUSE: Final = [name for floor in FLOORS.values() for name in floor.split()]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py")) if path.parent.name != "_bootstrap"}


def own_imports(name: str) -> set[str]:
    """Return the files of ours that a file imports, inside functions too, for types too."""
    found = set()
    for node in ast.walk(ast.parse(FILES[name].read_text())):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        for module in modules:
            own = module.removeprefix("hookpatch").lstrip(".")
            if module.startswith("hookpatch") and (own in FILES or f"{own}.__init__" in FILES):
                found.add(own if own in FILES else f"{own}.__init__")
    return found


def test_every_file_has_its_floor() -> None:
    """The list above is the whole house."""
    assert sorted(HOUSE) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
def test_imports_point_one_way(name: str) -> None:
    """No file imports one that stands above it: there are no cycles, not even hidden in functions."""
    below = HOUSE[: HOUSE.index(name)]
    assert own_imports(name) <= set(below)


def picture() -> str:
    """Return the floors as docs/design.md shows them: the highest first, and on which others each stands."""
    names = list(FLOORS)
    floor_of = {name: names.index(floor) + 1 for floor, files in FLOORS.items() for name in files.split()}
    lines = ["| | floor | files | stands on |", "|---|---|---|---|"]
    for number, (floor, files) in reversed([*enumerate(FLOORS.items(), 1)]):
        below = {floor_of[other] for name in files.split() for other in own_imports(name)} - {number}
        shown = " ".join(f"`{name.replace('.', '/')}`" for name in files.split())
        lines.append(f"| {number} | {floor} | {shown} | {' '.join(map(str, sorted(below)))} |")
    return "\n".join(lines) + "\n"


def test_the_picture_of_the_house_is_true() -> None:
    """docs/design.md shows the floors above; `python tests/test_architecture.py` prints them."""
    assert picture() in (PACKAGE.parent / "docs" / "design.md").read_text()


@pytest.mark.repository
@pytest.mark.parametrize("page", ["docs/design.md", "CONTRIBUTING.md"])
def test_files_named_in_a_page_exist(page: str) -> None:
    """Who looks for a file that a page names finds it; what is said of other people's files is left out."""
    root = PACKAGE.parent
    text = re.sub(r"^## Beside the models.*?(?=^## )", "", (root / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    named = set(re.findall(r"\w+\.py\b", text))
    there = {
        path.name for folder in ("hookpatch", "plugins", "tests", "docs") for path in (root / folder).rglob("*.py")
    }
    assert len(named) > 40
    assert named - there == set()


def test_the_imports_are_seen() -> None:
    """The check above can fail: it sees what a file imports at its top and inside its functions."""
    assert {"_order", "_standing"} <= own_imports("_outcome")
    assert "_proxy" in own_imports("_standing")
    assert "_load" in own_imports("_startup")


@pytest.mark.repository
def test_a_long_file_says_why() -> None:
    """One idea a file: one of more than 300 lines tells in its docstring why it is one (`Long because ...`)."""
    plugins = (path for path in (PACKAGE.parent / "plugins").rglob("*.py") if "tests" not in path.parts)
    files = [*FILES.values(), *plugins]
    assert len(files) > 150
    long = [path for path in files if len(path.read_text().splitlines()) > LONG]
    saying = [path for path in files if "\nLong because " in (ast.get_docstring(ast.parse(path.read_text())) or "")]
    assert sorted(map(str, saying)) == sorted(map(str, long))  # and none says so that is not


@pytest.mark.parametrize(
    ("act", "addresses"),
    [
        (r"\bos\.environ\b", {"_environment", "_startup"}),  # _startup: the text of the start-up line
        (r"\bsys\.meta_path\b", {"_imports", "_pristine"}),  # _pristine: names it in a message
        (r"\bsys\.modules\b", {"_imports", "_doctor"}),  # _doctor: looks into another process's
        (r"\b(setattr|delattr)\(", {"_attribute_slot"}),
        (r"__(set|del)item__'\)\(|\bdict\.(update|pop)\b", {"_item_slot"}),
        (r"\.__code__ = ", {"_function_slot", "_trampoline"}),  # _trampoline: of functions of ours
        (r"\.__kwdefaults__ = ", {"_function_slot", "_trampoline"}),  # likewise
        (r"^\s*(import|from) wrapt\b", {"_proxy"}),
        (r"^\s*(import|from) pluggy\b", {"_host", "hookspecs"}),
        (r"^\s*(import|from) packaging\b", {"_requirement"}),
        (r"^\s*(import|from) msgspec\b", {"_options"}),
        (r"^\s*(import|from) pytest\b", {"_fixtures", "_pytest"}),
        (r"^\s*(import|from) IPython\b", {"notebook"}),
        (
            r"^\s*(import|from) (typer|rich)\b",
            {
                f"command.{name}"
                for name in (
                    *(
                        "__init__",
                        "_against",
                        "_check",
                        "_arguments",
                        "_doctor",
                        "_error",
                        "_explain",
                        "_list",
                        "_lock",
                    ),
                    *("_new", "_of_plugin", "_plan", "_report", "_run", "_targets", "_verify", "_why"),
                )
            },
        ),
        (r"\bstderr\.write\(", {"_stderr", "command._error", "command._in_process"}),  # help; python's own words
        (r"\bsite\.exec\w+ = ", {"_startup"}),
        (r"\bos\.exec", {"command._run"}),
        (r"\bos\._exit\(|\.fork\(", {"_exit"}),
        (r"\baddaudithook\(", {"_startup"}),
    ],
)
def test_dangerous_act_has_one_address(act: str, addresses: set[str]) -> None:
    """A reviewer who looks for it finds one file."""
    found = {name for name, path in FILES.items() if re.search(act, code_of(path), re.MULTILINE)}
    assert found == addresses


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
    """Return the modules that code brings into a new interpreter."""
    program = f"import sys; before = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_face_imports_nothing() -> None:
    """`import hookpatch` brings in itself alone."""
    assert modules_after("import hookpatch") == {"hookpatch"}


def test_a_patch_on_a_function_needs_neither_wrapt_nor_pluggy() -> None:
    """They are imported when a plugin is selected, or something else than a Python function is wrapped."""
    code = "import hookpatch\nwith hookpatch.active(hookpatch.inject('inspect:signature', eval_str=True)): pass"
    assert not {"wrapt", "pluggy", "msgspec", "packaging", "typer", "rich"} & modules_after(code)
    assert "wrapt" in modules_after(
        code.replace("inject('inspect:signature', eval_str=True)", "wrap('time:sleep', print)")
    )


def test_the_pytest_plugin_needs_nothing_but_the_face() -> None:
    """It is loaded by every pytest run, patched or not."""
    loaded = modules_after("import pytest, hookpatch._pytest")
    assert {name for name in loaded if name.startswith("hookpatch")} == {
        *("hookpatch", "hookpatch._fixtures", "hookpatch._pytest")
    }


def test_the_start_up_file_needs_nothing_that_is_not_there() -> None:
    """What each start of the interpreter imports from Python 3.15 on, asked for or not."""
    ours = {"hookpatch", "hookpatch._environment", "hookpatch._startup"}
    assert modules_after("import hookpatch._startup") == ours | {"__future__"}


def test_the_face_is_sorted_and_whole() -> None:
    """Every public name is there, and nothing else."""
    import hookpatch

    assert hookpatch.__all__ == sorted(hookpatch.__all__)
    for name in hookpatch.__all__:
        assert getattr(hookpatch, name) is not None
    assert set(hookpatch.__all__) < set(dir(hookpatch))
    with pytest.raises(AttributeError, match="module 'hookpatch' has no attribute 'unpatch'"):
        hookpatch.unpatch  # noqa: B018 - looked at, not called


if __name__ == "__main__":
    print(picture(), end="")

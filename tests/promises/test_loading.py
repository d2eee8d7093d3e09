"""The source of a module is changed before the module runs: in memory, by the module's own loader."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.machinery
import inspect
import itertools
import json
import linecache
import multiprocessing
import os
import py_compile
import subprocess
import sys
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import ApplyError, ConflictError, PatchError, PatchFailedWarning, TargetRefused
from hookpatch.testing import pristine

SOURCE: Final = '''
"""A vendor.

>>> answer()
43
"""
from __future__ import annotations

LIMIT = 42


class Shop:
    def answer(self):
        return answer()


def answer():
    """Answer.

    >>> answer() + 1
    44
    """
    return LIMIT


def fail():
    raise ValueError(LIMIT)  # stays
'''.lstrip("\n")
DIFF: Final = """
@@ -8 +8,2 @@
-LIMIT = 42
+LIMIT = 43
+NEW = 1
"""


def by_text(text: str) -> str:
    return text.replace("LIMIT = 42\n", "LIMIT = 43\nNEW = 1\n")


def by_tree(tree: ast.Module) -> ast.Module:
    place = next(place for place, node in enumerate(tree.body) if ast.unparse(node) == "LIMIT = 42")
    tree.body[place : place + 1] = ast.parse("LIMIT = 43\nNEW = 1").body
    return tree


CHANGES: Final[dict[str, Callable[..., hookpatch.Patch]]] = {
    "edit": lambda name, **facts: hookpatch.edit(name, "LIMIT = 42", "LIMIT = 43\nNEW = 1", **facts),
    "diff": lambda name, **facts: hookpatch.edit(name, diff=DIFF, **facts),
    "transform": lambda name, **facts: hookpatch.transform(name, by_text, **facts),
    "tree": lambda name, **facts: hookpatch.transform(name, by_tree, ast=True, **facts),
}
_numbers: Final = itertools.count()


@pytest.fixture(params=["module", "package", "submodule", "latin-1", "bom", "crlf", "zip", "rewritten"])
def written(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of a module in one of many forms, not imported."""
    name, kind = f"loaded_{next(_numbers)}", request.param
    path, text = folder / f"{name}.py", SOURCE
    if kind == "package":
        path = folder / name / "__init__.py"
    if kind == "submodule":
        path = folder / name / "inner.py"
    path.parent.mkdir(exist_ok=True)
    if kind == "submodule":
        (folder / name / "__init__.py").touch()
        name = f"{name}.inner"
    encoding = {"latin-1": "latin-1", "bom": "utf-8-sig"}.get(kind, "utf-8")
    if kind == "latin-1":
        text = f"# -*- coding: latin-1 -*-\nUMLAUT = 'ä'\n{text}".replace("from __future__ import annotations\n", "")
    if kind == "crlf":
        text = text.replace("\n", "\r\n")
    if kind == "zip":
        with zipfile.ZipFile(folder / "all.zip", "w") as archive:
            archive.writestr(f"{name}.py", text)
        monkeypatch.syspath_prepend(str(folder / "all.zip"))
    else:
        path.write_bytes(text.encode(encoding))
    if kind == "rewritten":
        monkeypatch.setattr(sys, "meta_path", [_Rewriting(name, path), *sys.meta_path])
    importlib.invalidate_caches()
    yield name
    for loaded in [module for module in sys.modules if module.split(".")[0] == name.split(".")[0]]:
        del sys.modules[loaded]


class _Loader(importlib.machinery.SourceFileLoader):
    """A loader that rewrites modules, as beartype and typeguard do."""

    def source_to_code(self, data: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        tree = ast.parse(data)
        tree.body.append(ast.parse("REWRITTEN = True").body[0])
        return super().source_to_code(tree, path, *args, **kwargs)  # type: ignore[arg-type]


class _Rewriting(MetaPathFinder):
    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=_Loader(name, str(self.path)))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def is_changed(module: ModuleType) -> bool:
    assert hasattr(module, "NEW") == (module.LIMIT == 43)
    assert module.Shop().answer() == module.LIMIT
    assert "UMLAUT" not in vars(module) or module.UMLAUT == "ä"
    assert not isinstance(module.__spec__ and module.__spec__.loader, _Loader) or module.REWRITTEN
    return module.LIMIT == 43


@pytest.mark.parametrize("way", ["kept", "anew at the end", "anew at both ends"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_module_runs_changed(
    written: str, change: str, way: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of each form runs changed, also after a reload; no file changes, no bytecode is read or written."""
    if way == "anew at both ends":
        assert not is_changed(importlib.import_module(written))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    if "." in written:
        importlib.import_module(written.split(".")[0])  # an unchanged package has its bytecode written
    before = files(folder)
    facts = {"keep": True} if way == "kept" else {"reload": True}
    with pristine():
        with hookpatch.active(CHANGES[change](written, **facts)) as session:
            module = importlib.import_module(written)
            assert is_changed(module)
            assert is_changed(importlib.reload(module))
            assert [entry.state for entry in session.report()] == ["applied"]
            assert files(folder) == before
            shown = inspect.getsource(module)
            assert "LIMIT = 43" in shown
            for member in (module.answer, module.Shop, module.Shop.answer):
                assert inspect.getsource(member) in shown
            assert inspect.getsource(module.Shop).startswith("class Shop:\n")
            with pytest.raises(ValueError, match="43") as caught:
                module.fail()
            (*_, frame) = traceback.extract_tb(caught.value.__traceback__)
            assert (frame.line or "").startswith("raise ValueError(LIMIT)")
            assert "edited by a patch given to active()" in frame.filename
        state = "kept" if way == "kept" else "restored"
        assert [entry.state for entry in session.report()] == [state]
        assert is_changed(module) == (way == "kept")
        assert vars(sys.modules[written]) is vars(module)
        if way != "kept":
            assert "LIMIT = 42" in inspect.getsource(module)
            assert not [name for name in linecache.cache if written.split(".")[0] in name and name.startswith("<")]


def test_bytecode_of_the_vendor_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (folder / "vendor.py").write_text(SOURCE)
    compiled = Path(py_compile.compile(str(folder / "vendor.py")))  # type: ignore[arg-type]
    before = compiled.read_bytes()
    with hookpatch.active(CHANGES["edit"]("vendor", reload=True)):
        assert is_changed(importlib.import_module("vendor"))
        assert compiled.read_bytes() == before
    assert not is_changed(sys.modules["vendor"])


def test_doctests_are_those_of_what_runs(folder: Path) -> None:
    (folder / "vendor.py").write_text(SOURCE)
    with hookpatch.active(CHANGES["edit"]("vendor", reload=True)):
        module = importlib.import_module("vendor")
        assert doctest.testmod(module).failed == 0
        tests = {test.name: test for test in doctest.DocTestFinder().find(module)}
        assert "LIMIT = 43\n" in linecache.getlines(str(tests["vendor.answer"].filename), vars(module))
    assert doctest.testmod(module).failed == 2


def test_it_is_refused_where_it_cannot_be_ended_or_has_run(folder: Path) -> None:
    (folder / "vendor.py").write_text(SOURCE)
    with pytest.raises(
        TargetRefused, match="a module that ran from changed source stays changed after the block; pass keep=True"
    ):
        hookpatch.active(CHANGES["edit"]("vendor"))
    module = importlib.import_module("vendor")
    for patches in ([CHANGES["edit"]("vendor", keep=True)], [CHANGES["tree"]("vendor", keep=True)] * 2):
        with pytest.raises(TargetRefused, match="vendor is imported already, and its source has run; reload=True"):
            hookpatch.active(*patches).open()
    with hookpatch.active(CHANGES["edit"]("vendor", keep=True, required=False)) as session:
        assert [entry.state for entry in session.report()] == ["skipped"]
    assert not is_changed(module)
    with pytest.raises(TargetRefused, match=r"json\.dumps is no module; did you mean 'json:dumps'\?"):
        hookpatch.active(hookpatch.edit("json.dumps", "a", "b", keep=True)).open()
    for wrong, text in (
        (
            lambda: hookpatch.edit("vendor", "a", "b", reload=True, keep=True),
            "reload=, which runs .* or keep=, not both",
        ),
        (lambda: hookpatch.edit("vendor:answer", "a", "b", reload=True), "takes reload= for a module alone"),
        (lambda: hookpatch.edit("vendor", "a", "b", reach="slot"), "takes no reach= for a module"),
        (lambda: hookpatch.edit("__main__", "a", "b"), "'__main__' is the program, which Python compiles before"),
        (lambda: hookpatch.transform("vendor:answer", by_text), "'vendor:answer' is not a module's name"),
        (lambda: hookpatch.transform("vendor", 3), "the function is an int and cannot be called"),  # type: ignore[arg-type]
        (lambda: hookpatch.transform("vendor", lambda: ""), r"called as function\(text\), and cannot be"),
        (lambda: hookpatch.transform("vendor", by_text, required_calls=1), "takes no required_calls="),
        (lambda: hookpatch.transform("vendor", by_text, callers="a"), "takes no callers="),
    ):
        with pytest.raises(PatchError, match=text):
            wrong()
    with pytest.raises(TargetRefused, match="scope='task' is for"):
        hookpatch.active(CHANGES["edit"]("later", keep=True), scope="task").open()


UNFIT: Final[dict[str, tuple[Callable[..., hookpatch.Patch], str]]] = {
    "not there": (
        lambda **facts: hookpatch.edit("vendor", "LIMITS = 42", "", **facts),
        "'LIMITS = 42' is not in the source; nearest is line 8: 'LIMIT = 42'",
    ),
    "twice": (
        lambda **facts: hookpatch.edit("vendor", "LIMIT", "OTHER", **facts),
        "'LIMIT' is there 3 times (line 8, 22, 26); say count=3 for all, or give a longer piece",
    ),
    "no source": (
        lambda **facts: hookpatch.edit("vendor", "LIMIT = 42", "LIMIT = = 1", **facts),
        "what comes of the edit cannot be read: invalid syntax (line 8: 'LIMIT = = 1')",
    ),
    "nothing": (lambda **facts: hookpatch.transform("vendor", str, **facts), "the transform changes no code that runs"),
    "no text": (
        lambda **facts: hookpatch.transform("vendor", lambda text: None, **facts),
        "the function returned a NoneType, not text",
    ),
    "no tree": (
        lambda **facts: hookpatch.transform("vendor", lambda tree: "", ast=True, **facts),
        "the function returned a str, not an ast.Module",
    ),
    "raises": (
        lambda **facts: hookpatch.transform("vendor", lambda text: 1 / 0, **facts),
        "the function raised ZeroDivisionError: division by zero",
    ),
    "version": (
        lambda **facts: hookpatch.edit("vendor", "LIMIT = 42", "", requires="pluggy>=99", **facts),
        "made for pluggy>=99, but pluggy",
    ),
}


@pytest.mark.parametrize("unfit", UNFIT)
def test_what_does_not_fit(folder: Path, unfit: str) -> None:
    """An unfit change is a warning at an import, and an error on entering; the module is unchanged."""
    make, text = UNFIT[unfit]
    (folder / "vendor.py").write_text(SOURCE + "import builtins\nbuiltins.runs += 1\n")
    import builtins

    builtins.runs = 0  # type: ignore[attr-defined]
    with hookpatch.active(make(keep=True)) as session:
        with pytest.warns(PatchFailedWarning) as caught:
            module = importlib.import_module("vendor")
        assert not is_changed(module)
        (entry,) = session.report()
        assert entry.state == "failed"
        assert text in str(entry.reason)
    assert [text in str(warning.message) for warning in caught] == [True]
    with hookpatch.active(make(reload=True, required=False)) as session:
        assert [entry.state for entry in session.report()] == ["skipped"]
    with pytest.raises(ApplyError) as error:
        hookpatch.active(make(reload=True)).open()
    assert text in str(error.value)
    assert builtins.runs == 1  # type: ignore[attr-defined]


def test_what_has_no_source_is_refused_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "spaced").mkdir()
    (folder / "vendor.py").write_text(SOURCE)
    py_compile.compile(str(folder / "vendor.py"), cfile=str(folder / "bare.pyc"))
    extension = next(
        name
        for name in ("_xxtestfuzz", "_testbuffer", "_testcapi", "_zoneinfo", "_lsprof", "audioop", "_queue")
        if name not in sys.modules and importlib.util.find_spec(name) is not None
    )
    cases = {
        "spaced": "spaced is a namespace package, and has no source",
        "bare": "SourcelessFileLoader) has no Python source of it, or compiles by itself",
        extension: "has no Python source of it",
        "assisted": "_Own) has no Python source of it, or compiles by itself",
        "executed": "_Executing) compiles by itself, and has executed the module as it is",
    }

    class Finder(MetaPathFinder):
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
            if name == "executed":
                return importlib.util.spec_from_loader(name, _Executing(name, str(folder / "vendor.py")))
            return importlib.machinery.ModuleSpec(name, _Own()) if name == "assisted" else None  # type: ignore[arg-type]

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    importlib.invalidate_caches()
    for name, text in cases.items():
        with hookpatch.active(hookpatch.edit(name, "a = 1", "a = 2", keep=True)) as session:
            with pytest.warns(PatchFailedWarning) as caught:
                importlib.import_module(name)
            assert [entry.state for entry in session.report()] == ["failed"], name
        assert text in str(caught[0].message)
    for name in ("bare", "assisted", "spaced", "executed"):
        del sys.modules[name]


class _Executing(importlib.machinery.SourceFileLoader):
    """A loader with its own compile, like pytest's."""

    def exec_module(self, module: ModuleType) -> None:
        exec(Path(self.path).read_text(), vars(module))


class _Own:
    """A loader that executes other code."""

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.LIMIT = 42  # type: ignore[attr-defined]


def test_several_changes_are_made_in_order(folder: Path, make_distribution: Callable[..., Path]) -> None:
    """Edits of different pieces join, transforms lie over edits, and transforms of two plugins need an order."""
    (folder / "vendor.py").write_text(SOURCE)
    plugins = {
        "one": "edit('vendor', 'LIMIT = 42', 'LIMIT = 43', reload=True)",
        "two": "edit('vendor', 'return LIMIT', 'return LIMIT * 2', reload=True)",
        "same": "edit('vendor', 'LIMIT = 42', 'LIMIT = 44', reload=True)",
        "appends": "transform('vendor', lambda text: text + 'SEEN = [LIMIT]\\n', reload=True)",
        "adds": "transform('vendor', lambda text: text + 'SEEN.append(2)\\n', reload=True, before='appends')",
        "other": "transform('vendor', lambda text: text + 'OTHER = 1\\n', reload=True)",
    }
    for name, patch in plugins.items():
        source = f"import hookpatch\n@hookpatch.hookimpl\ndef hookpatch_patches():\n    yield hookpatch.{patch}\n"
        make_distribution(f"d-{name}", plugins={name: f"plugin_{name}"}, modules={f"plugin_{name}": source})
    for names in itertools.permutations(("one", "two", "appends", "adds")):
        with hookpatch.active(*names) as session:
            module = importlib.import_module("vendor")
            assert (module.answer(), module.SEEN) == (86, [43, 2])
            assert {entry.state for entry in session.report()} == {"applied"}
        assert module.answer() == 42
        assert not hasattr(module, "SEEN")
    with pytest.raises(ConflictError, match=r"plugin 'one' from d-one 1\.0 edits the same lines"):
        hookpatch.active("same", "one").open()
    with pytest.raises(
        ConflictError, match=r"plugin 'appends' from d-appends 1\.0 also puts a value into the same slot"
    ):
        hookpatch.active("appends", "other").open()
    assert module.answer() == 42
    outer, inner = hookpatch.active("one"), hookpatch.active("two")
    for first, second in ((outer, inner), (inner, outer)):
        for session in (outer, inner):
            session.open()
        assert module.answer() == 86
        first.close()
        assert module.answer() == (84 if first is outer else 43)
        second.close()
        assert module.answer() == 42


def test_other_patches_of_the_module_stay_on(folder: Path) -> None:
    """A wrap and an edit of a function of the module, made before or after, are on what the new source defines."""
    (folder / "vendor.py").write_text(SOURCE)
    module = importlib.import_module("vendor")
    tenfold = hookpatch.derive("vendor:answer", lambda answer: lambda: answer() * 10)
    line = hookpatch.edit("vendor:answer", "return LIMIT", "return LIMIT + 1")
    source = CHANGES["edit"]("vendor", reload=True)
    with pristine():
        with hookpatch.active(tenfold, line):
            with hookpatch.active(source):
                assert module.answer() == 440
            assert module.answer() == 430
        with hookpatch.active(source):
            with hookpatch.active(tenfold, line):
                assert module.answer() == 440
                assert "LIMIT + 1" in inspect.getsource(module.answer) or module.answer.__name__ == "<lambda>"
            assert module.answer() == 43
    assert module.answer() == 42


def test_a_module_that_fails_when_it_runs_anew(folder: Path) -> None:
    """On entering: the error names the patch, and the module is as it was. At the end: a RestoreError."""
    (folder / "vendor.py").write_text(SOURCE)
    module = importlib.import_module("vendor")
    with pytest.raises(ApplyError, match="running it anew raised ZeroDivisionError"):
        hookpatch.active(hookpatch.edit("vendor", "LIMIT = 42", "LIMIT = 43\n1 / 0", reload=True)).open()
    assert not is_changed(module)
    session = hookpatch.active(CHANGES["edit"]("vendor", reload=True)).open()
    (folder / "vendor.py").write_text("1 / 0\n")
    with pytest.raises(hookpatch.errors.RestoreError) as caught:
        session.close()
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]
    assert "could not be run anew: ZeroDivisionError" in str(session.report())


def test_the_first_import_fails(folder: Path) -> None:
    (folder / "vendor.py").write_text(SOURCE)
    with hookpatch.active(hookpatch.edit("vendor", "LIMIT = 42", "LIMIT = 1 / 0", keep=True)) as session:
        with pytest.raises(ZeroDivisionError):
            importlib.import_module("vendor")
        assert [entry.state for entry in session.report()] == ["waiting"]
    assert not is_changed(importlib.import_module("vendor"))


def test_plan_why_and_report(folder: Path) -> None:
    (folder / "vendor.py").write_text(SOURCE)
    fits, unfit = CHANGES["edit"]("vendor", keep=True), hookpatch.edit("vendor", "NONE = 1", "", keep=True)
    for patch, finding, text in (
        (fits, "fits", None),
        (unfit, "unfit", "'NONE = 1' is not in the source"),
        (CHANGES["edit"]("vendor"), "unfit", "pass keep=True"),
        (CHANGES["edit"]("vandor", keep=True), "absent", "there is no module vandor"),
    ):
        ((planned,),) = (target.patches for target in hookpatch.plan(patch).targets)
        assert (planned.verb, planned.finding) == ("edit", finding)
        assert (text or "") in (planned.reason or "")
    assert "vendor" not in sys.modules
    module = importlib.import_module("vendor")
    for facts, finding in (({"keep": True}, "unfit"), ({"reload": True}, "fits")):
        ((planned,),) = (target.patches for target in hookpatch.plan(CHANGES["edit"]("vendor", **facts)).targets)
        assert planned.finding == finding
    with hookpatch.active(CHANGES["edit"]("vendor", reload=True)):
        assert hookpatch.why("vendor:answer").note == (
            "vendor runs from changed source: edit by a patch given to active()"
        )
    assert hookpatch.why("vendor:answer").note is None
    assert not is_changed(module)


PROGRAM: Final = """
import json, sys, vendor
print(json.dumps([vendor.LIMIT, vendor.answer()]))
"""


def test_processes(folder: Path, make_distribution: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A child process has the change; from the environment no keep= is needed, and an unfit change ends the program."""
    monkeypatch.setenv("PYTHONPATH", str(folder))
    (folder / "vendor.py").write_text(SOURCE)
    for name, piece in (("raised", "LIMIT = 42"), ("unfit", "LIMIT = 41")):
        source = f"""
            import hookpatch
            @hookpatch.hookimpl
            def hookpatch_patches():
                yield hookpatch.edit("vendor", "{piece}", "LIMIT = 43")
            """
        make_distribution(f"d-{name}", plugins={name: f"plugin_{name}"}, modules={f"plugin_{name}": source})

    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}, check=False)

    with hookpatch.active(hookpatch.edit("vendor", "LIMIT = 42", "LIMIT = 43", keep=True)):
        completed = run()
        assert json.loads(completed.stdout) == [43, 43], completed.stderr
    assert json.loads(run().stdout) == [42, 42]
    assert json.loads(run(HOOKPATCH_PLUGINS="raised").stdout) == [43, 43]
    failed = run(HOOKPATCH_PLUGINS="unfit")
    assert failed.returncode == 78
    assert "'LIMIT = 41' is not in the source; nearest is line 8: 'LIMIT = 42'" in failed.stderr
    warned = run(HOOKPATCH_PLUGINS="unfit", HOOKPATCH_ON_ERROR="warn")
    assert json.loads(warned.stdout) == [42, 42]
    assert "is not in the source" in warned.stderr


@pytest.mark.parametrize("way", ["spawn", "fork"])
def test_workers(folder: Path, way: str) -> None:
    """A worker runs the changed module; all functions are of modules that a worker can import from any folder."""
    (folder / "vendor.py").write_text(SOURCE)
    (folder / "changing.py").write_text("def change(text): return text.replace('LIMIT = 42', 'LIMIT = 43')\n")
    change = importlib.import_module("changing").change
    with hookpatch.active(hookpatch.transform("vendor", change, keep=True)):
        vendor = importlib.import_module("vendor")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
            with multiprocessing.get_context(way).Pool(1) as pool:
                assert pool.apply(vendor.answer) == 43


def test_why_tells_the_changes_of_this_module_alone(write_module: Callable[[str, str], Any]) -> None:
    """Another module with the name of one that runs changed has nothing of that."""
    write_module("twin", "x = 1\n")
    with hookpatch.active(hookpatch.edit("twin", "x = 1", "x = 2", keep=True)):
        assert importlib.import_module("twin").x == 2
    assert "runs from changed source" in str(hookpatch.why("twin:x"))
    del sys.modules["twin"]
    assert importlib.import_module("twin").x == 1
    assert "runs from changed source" not in str(hookpatch.why("twin:x"))

"""``hookpatch new``: write the distribution of a new plugin. The plugin passes its own tests."""

from __future__ import annotations

import keyword
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from importlib import metadata
from pathlib import Path
from string import Template
from typing import Annotated, Final, NamedTuple

import typer

from hookpatch._bootstrap.installed import installed
from hookpatch._engine.patch.module_lookup import nearly, presence_of
from hookpatch._engine.patch.target import Target
from hookpatch._engine.patch.versions import release_of, releases_like
from hookpatch.command._app import print_text
from hookpatch.errors import NewPluginError

# A function of the standard library without side effects; neither hookpatch nor pytest imports the module.
DEFAULT: Final = "statistics:mean"
_DEFAULT_USE: Final = "print(statistics.mean([1, 2, 3]))"


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the plugin, and of its module.")],
    target: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to patch, such as json:dumps.")] = DEFAULT,
    into: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="A new or empty folder for the files; default: hookpatch-NAME.")
    ] = None,
) -> None:
    """Write a new plugin, with a test that passes.

    Writes a distribution: a module, a README, a test. The plugin prints each call of its target. Each place for you to
    edit is marked CHANGE. Imports nothing of the target. After an error no file is written.

    Example: hookpatch new keep_linear --target onnxsim.onnx_simplifier:simplify
    """
    written = write_plugin(name, target, into)
    print_text("\n".join([f"{written.folder}:", *(f"  {path}" for path in written.files)]))
    if written.missing:
        stop = "" if written.missing.endswith("?") else "."
        print_text(f"Note: {written.missing}{stop} Without the module two tests of the plugin are skipped.")
    default = "" if target != DEFAULT else "; `--target ADDRESS` names another"
    print_text(f"The plugin prints each call of {target}{default}. Lines to change are marked CHANGE. Next:")
    folder = str(written.folder)
    steps = [
        *([f"cd {shlex.quote(folder)}"] if folder != "." else []),
        "python -m pip install --editable '.[test]'",
        "python -m pytest",
        f"hookpatch plan {name}",
        f"HOOKPATCH_PLUGINS={name} python program.py",
    ]
    print_text("\n".join(f"  {step}" for step in steps))


_TEMPLATE: Final = Path(__file__).parent / "_template"
_SUFFIX: Final = ".in"  # of files with placeholders: no tool takes them for Python files or for a project
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")


class Written(NamedTuple):
    """The new distribution of a plugin."""

    folder: Path
    files: tuple[str, ...]  # relative to the folder
    missing: str  # the reason why the target's module cannot be found; empty if found


def write_plugin(name: str, address: str = DEFAULT, into: str | None = None) -> Written:
    """Write the distribution of a new plugin: all files or none. Imports no target.

    Raises:
        NewPluginError: the name is invalid or taken; the folder cannot be written, or is not empty; the target's
            package is installed and lacks the module.
        TargetSyntaxError: the address cannot be parsed.
    """
    target = Target(address)
    distribution = f"hookpatch-{name.replace('_', '-')}"
    check_name(name, distribution)
    module = target.module or ""  # never empty for a parsed address
    presence = presence_of(module)
    if presence.missing and presence_of(module.partition(".")[0]).installed:
        raise NewPluginError(name, f"target '{address}': {presence.missing}")
    files = dict(sorted(files_for(words_for(name, distribution, target))))
    folder = Path(into or distribution)
    try:
        write_files(folder, name, files)
    except OSError as error:
        problem = f"{folder} cannot be written ({error.strerror}); name another one with --into"
        raise NewPluginError(name, problem) from None
    return Written(folder, tuple(files), nearly(module) or presence.missing)


def check_name(name: str, distribution: str) -> None:
    """Refuse an invalid name, and the name of an installed plugin or distribution."""
    if _NAME.fullmatch(name) is None or keyword.iskeyword(name):
        near = "_".join(re.findall(r"[A-Za-z0-9]+", name)).lstrip("0123456789_")
        hint = f"; did you mean '{near}'?" if near and not keyword.iskeyword(near) else ""
        takes = "a letter, then letters, digits and single '_', no word of Python's own, since it names a module, too"
        raise NewPluginError(name, f"not a valid plugin name{hint or ';'} a name is {takes}")
    for plugin in installed():
        if plugin.answers_to(name):
            problem = f"{plugin.origin} has a plugin '{plugin.name}'; choose another name, or uninstall it"
            raise NewPluginError(name, problem)
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return
    problem = (
        f"the distribution {distribution} {version} is installed, and the new plugin would replace the distribution"
    )
    raise NewPluginError(name, f"{problem}; choose another name")


def words_for(name: str, distribution: str, target: Target) -> Mapping[str, str]:
    """Return the value of each placeholder."""
    address, module = target.up_to(len(target.steps)), target.module or ""
    installed_as, version = release_of(module)
    requires = releases_like(installed_as, version) if installed_as else ""
    is_default = address == DEFAULT
    program = f"import {module}; {_DEFAULT_USE}" if is_default else f"import {module}"
    shown = program if is_default else f"{program}  # CHANGE: and call it"
    package = module.partition(".")[0]
    no_release = f"CHANGE: the releases of `{module}`."
    if package in sys.stdlib_module_names:
        no_release = f"Python {sys.version_info.major}.{sys.version_info.minor}, whose standard library has `{module}`."
    return {
        "name": name,
        "distribution": distribution,
        "package": distribution.replace("-", "_"),
        "hookpatch": ".".join(metadata.version("hookpatch").split(".")[:2]),
        "waits_for": package,
        "module": literal(module),
        "module_shown": module,
        "target": literal(address),
        "target_shown": address,
        "target_in_docstring": address.replace("\\", r"\\").replace('"""', r"\"\"\""),
        "requires": f"\n        requires={literal(requires)}," if requires else "",
        "versions": f"{requires}; tested on {version}." if requires else no_release,
        "program": literal(program),
        "calls": str(int(is_default)),
        "try_it": f"HOOKPATCH_PLUGINS={name} python -c {shlex.quote(shown)}",
        "year": str(date.today().year),
    }


def literal(text: str) -> str:
    """Return a Python literal as ruff formats it: in the quotes that need fewer escapes."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    escaped = text.replace("\\", r"\\").replace(quote, rf"\{quote}")
    return f"{quote}{escaped}{quote}"


def write_files(folder: Path, name: str, files: Mapping[str, str]) -> None:
    """Write the files; on an error delete all of them. Refuse a folder that is not empty."""
    exists = folder.exists() or folder.is_symlink()
    if exists and not (folder.is_dir() and not any(folder.iterdir())):
        raise NewPluginError(name, f"{folder} exists already and is not empty; name another folder with --into")
    if not exists:
        folder.mkdir()
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except BaseException:
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        if not exists:
            folder.rmdir()
        raise


def files_for(words: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file."""
    for source in _TEMPLATE.rglob(f"*{_SUFFIX}"):
        path = source.relative_to(_TEMPLATE).as_posix().removesuffix(_SUFFIX)
        path = path.replace("package/", f"{words['package']}/").replace("plugin.py", f"{words['name']}.py")
        yield path, Template(source.read_text(encoding="utf-8")).substitute(words)

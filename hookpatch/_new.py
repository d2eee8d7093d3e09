"""What ``hookpatch new`` writes: the distribution of a plugin, from the files of ``_template``, whole or not at all."""

from __future__ import annotations

import keyword
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from importlib import metadata
from pathlib import Path
from string import Template
from typing import Final

from hookpatch import __version__
from hookpatch._discovery import installed
from hookpatch._presence import presence_of
from hookpatch._release import release_of
from hookpatch._requirement import releases_like
from hookpatch._target import Target
from hookpatch.errors import NewPluginError

# In each Python, without side effects, and nothing that hookpatch or pytest import themselves.
DEFAULT: Final = "statistics:mean"
_DEFAULT_USE: Final = "print(statistics.mean([1, 2, 3]))"

_TEMPLATE: Final = Path(__file__).parent / "_template"
_SUFFIX: Final = ".in"  # of files with placeholders: nobody takes them for Python, or for a project of their own
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Written:
    """A plugin's distribution that was written. A value.

    Attributes:
        folder: where.
        files: its files, from there.
        missing: why its target's module is not there, in words; empty if it is.
    """

    folder: Path
    files: tuple[str, ...]
    missing: str


def write_plugin(name: str, address: str = DEFAULT, into: str | None = None) -> Written:
    """Write the distribution of a new plugin: all of it or nothing.

    Nothing of the target is imported.

    Args:
        name: the plugin's name, which also names its module.
        address: what it patches.
        into: the folder that becomes the distribution's; if None, one of its name in the current folder.

    Raises:
        NewPluginError: the name cannot be one, or is taken; the folder cannot be written, or is not empty; the module
            that the address names is missing in a package that is there.
        TargetSyntaxError: the address cannot be read.
    """
    target = Target(address)
    distribution = f"hookpatch-{name.replace('_', '-')}"
    _check_name(name, distribution)
    module = target.module or ""  # an address has one
    presence = presence_of(module)
    if presence.missing and presence_of(module.partition(".")[0]).installed:
        raise NewPluginError(name, f"target '{address}': {presence.missing}")
    files = dict(sorted(_files(_words(name, distribution, target))))
    folder = Path(into or distribution)
    try:
        _write(folder, name, files)
    except OSError as error:
        problem = f"{folder} cannot be written ({error.strerror}); name another one with --into"
        raise NewPluginError(name, problem) from None
    return Written(folder, tuple(files), presence.missing)


def _check_name(name: str, distribution: str) -> None:
    """Refuse a name that is none, or that would take the place of something installed."""
    if _NAME.fullmatch(name) is None or keyword.iskeyword(name):
        near = "_".join(re.findall(r"[A-Za-z0-9]+", name)).lstrip("0123456789_")
        hint = f"; did you mean '{near}'?" if near and not keyword.iskeyword(near) else ""
        takes = "a letter, then letters, digits and single '_', no word of Python's own, since it names a module, too"
        raise NewPluginError(name, f"that cannot be a plugin's name{hint or ';'} it takes {takes}")
    for plugin in installed():
        if plugin.answers_to(name):
            problem = f"{plugin.origin} has a plugin '{plugin.name}'; choose another name, or uninstall it"
            raise NewPluginError(name, problem)
    try:
        there = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return
    problem = f"the distribution {distribution} {there} is installed, and this one would take its place"
    raise NewPluginError(name, f"{problem}; choose another name")


def _words(name: str, distribution: str, target: Target) -> Mapping[str, str]:
    """Return what stands in the place of each placeholder."""
    address, module = target.up_to(len(target.steps)), target.module or ""
    of, version = release_of(module)
    requires = releases_like(of, version) if of else ""
    is_default = address == DEFAULT
    program = f"import {module}; {_DEFAULT_USE}" if is_default else f"import {module}"
    shown = program if is_default else f"{program}  # CHANGE: and call it"
    of_python = f"Python {sys.version_info.major}.{sys.version_info.minor}, whose standard library has `{module}`."
    untold = (
        of_python if module.partition(".")[0] in sys.stdlib_module_names else f"CHANGE: the releases of `{module}`."
    )
    return {
        "name": name,
        "distribution": distribution,
        "package": distribution.replace("-", "_"),
        "hookpatch": ".".join(__version__.split(".")[:2]),
        "waits_for": module.partition(".")[0],
        "module": _literal(module),
        "module_shown": module,
        "target": _literal(address),
        "target_shown": address,
        "target_told": address.replace("\\", r"\\").replace('"""', r"\"\"\""),
        "requires": f"\n        requires={_literal(requires)}," if requires else "",
        "versions": f"{requires}; tested on {version}." if requires else untold,
        "program": _literal(program),
        "calls": str(int(is_default)),
        "try_it": f"HOOKPATCH_PLUGINS={name} python -c {shlex.quote(shown)}",
        "year": str(date.today().year),
    }


def _literal(text: str) -> str:
    """Return a text as it is written in Python by who formats with ruff: in the quotes that need fewer escapes."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    escaped = text.replace("\\", r"\\").replace(quote, rf"\{quote}")
    return f"{quote}{escaped}{quote}"


def _write(folder: Path, name: str, files: Mapping[str, str]) -> None:
    """Write the files; if one cannot be, take back those that were.

    Raises:
        NewPluginError: there is something already.
        OSError: the folder cannot be written.
    """
    is_there = folder.exists() or folder.is_symlink()
    if is_there and not (folder.is_dir() and not any(folder.iterdir())):
        raise NewPluginError(name, f"{folder} is there already, and no empty folder; name another one with --into")
    if not is_there:
        folder.mkdir()
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except BaseException:
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        if not is_there:
            folder.rmdir()
        raise


def _files(words: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each file's name and text."""
    for source in _TEMPLATE.rglob(f"*{_SUFFIX}"):
        path = source.relative_to(_TEMPLATE).as_posix().removesuffix(_SUFFIX)
        path = path.replace("package/", f"{words['package']}/").replace("plugin.py", f"{words['name']}.py")
        yield path, Template(source.read_text(encoding="utf-8")).substitute(words)

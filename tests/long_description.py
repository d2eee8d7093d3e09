"""`make dist`: build each project with a README for an index, where a link relative to the repository leads nowhere.

usage: python tests/long_description.py OUT PROJECT...   build sdists and wheels
       python tests/long_description.py --check FILE...  fail if the description of a built file has a relative link

The one setting is `Source` in `[project.urls]` of the repository's pyproject.toml: the repository's address. Without
an address each link becomes its text.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
# ``[text](path)`` and ``![text](path)``: a path of this repository begins with one of its folders.
_LINK = re.compile(r"(!?)\[([^\[\]]+)\]\(((?:\.\./|docs/|plugins/|tests/)[^()\s]*)\)")
_AWAY = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__", "build", "dist", "plugins", "*.egg-info")


def source() -> str:
    """Return the address of the repository; empty as long as there is none."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
    return str(urls.get("Source", "")).rstrip("/")


def rewritten(text: str, folder: str, address: str) -> str:
    """Return a README with absolute links.

    Args:
        text: the README.
        folder: the README's folder in the repository, such as ``plugins/hookpatch-onnx``; ``.`` for the root.
        address: the address of the repository; without it each link becomes its text.
    """

    def absolute(match: re.Match[str]) -> str:
        mark, words, path = match.groups()
        if not address:
            return words
        file, hash_, part = path.partition("#")
        inside = (ROOT / folder / file).resolve().relative_to(ROOT.resolve()).as_posix()
        return f"{mark}[{words}]({address}/{'raw' if mark else 'blob'}/HEAD/{inside}{hash_}{part})"

    return _LINK.sub(absolute, text)


def relative_links(text: str) -> Iterator[str]:
    """Yield the links and images of a Markdown text that are no absolute addresses and no parts of the text."""
    for block in MarkdownIt().parse(text):
        for token in block.children or ():
            target = token.attrGet("href") or token.attrGet("src")
            if target is not None and not re.match(r"https?://|mailto:|#", str(target)):
                yield str(target)


def description(path: Path) -> str:
    """Return the long description of a wheel or an sdist."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            text = wheel.read(name).decode()
    else:
        with tarfile.open(path) as sdist:
            file = sdist.extractfile(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO")
            assert file is not None
            text = file.read().decode()
    return str(HeaderParser().parsestr(text).get_payload())


def build(project: Path, out: Path) -> None:
    """Build sdist and wheel of a project from a copy with the rewritten README."""
    folder = project.resolve().relative_to(ROOT.resolve()).as_posix()
    with tempfile.TemporaryDirectory() as away:
        shutil.copy(ROOT / ".gitignore", away)
        copy = Path(away, folder)
        shutil.copytree(project, copy, ignore=_AWAY, dirs_exist_ok=True)
        readme = copy / "README.md"
        readme.write_text(rewritten(readme.read_text(), folder, source()))
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out.resolve()), str(copy)]
        completed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if completed.returncode:
            raise SystemExit(f"{completed.stdout}\n{project} was not built")


def check(*paths: Path) -> None:
    """Exit with a line for each relative link in the descriptions of built files."""
    problems = [f"{path.name}: {link}" for path in paths for link in relative_links(description(path))]
    if problems:
        raise SystemExit("\n".join(["relative links in long descriptions:", *problems]))
    print(f"{len(paths)} long descriptions have no relative link")


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        check(*map(Path, sys.argv[2:]))
    else:
        for word in sys.argv[2:]:
            build(Path(word), Path(sys.argv[1]))

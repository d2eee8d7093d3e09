"""Virtual environments for tests, with the real wheels installed in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import venv
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
_rest: list[Path] = []  # the folder of the first environment with links to all packages but hookpatch, for all others
PROJECTS = (ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml")))


def build(project: Path, out: Path, *kinds: str) -> None:
    """Build distributions of a project with the tools of this environment; raise RuntimeError with what these wrote."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), *kinds, str(project)]
    completed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if completed.returncode:
        raise RuntimeError(f"{project} was not built:\n{completed.stdout}")


class Environment:
    """A virtual environment with its own site-packages; other packages come from the environment of the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        (self.site_packages,) = folder.glob("lib/python3*/site-packages")
        packages = folder / "rest"
        if _rest and _rest[0].is_dir():
            packages.symlink_to(_rest[0])
        else:
            packages.mkdir()
            for entry in Path(sysconfig.get_path("purelib")).iterdir():
                if "hookpatch" not in entry.name:
                    (packages / entry.name).symlink_to(entry)
            _rest[:] = [packages]
        # A path line, after hookpatch.pth in the alphabet: site reads the line after hookpatch.pth.
        (self.site_packages / "zz_rest.pth").write_text(f"{packages}\n")
        releases = Path(sys.prefix, "hookpatch-releases")  # installed by the fixture fresh_process, or by `make`
        if releases.is_dir():
            (folder / releases.name).symlink_to(releases)

    def take_over(self, source: Environment) -> None:
        """Take hookpatch from another environment, in a fiftieth of the time of pip: files in folders are links.

        A test unlinks such a file before a change: else the file changes in all environments.
        """
        for entry in source.site_packages.glob("hookpatch*"):
            target = self.site_packages / entry.name
            if entry.is_dir():
                shutil.copytree(entry, target, copy_function=os.link)
            else:
                shutil.copy(entry, target)
        script = self.python.parent / "hookpatch"
        script.write_text(
            (source.python.parent / "hookpatch").read_text().replace(str(source.python), str(self.python))
        )
        script.chmod(0o755)

    def add_scripts(self) -> None:
        """Add the commands of the test environment, such as pip and pytest, for the python of this environment."""
        for script in Path(sys.executable).parent.iterdir():
            target = self.python.parent / script.name
            if (
                script.is_file()
                and not target.exists()
                and script.read_bytes().startswith(f"#!{sys.executable}".encode())
            ):
                target.write_text(script.read_text().replace(sys.executable, str(self.python), 1))
                target.chmod(0o755)

    def install(self, *arguments: str | Path) -> None:
        """Install with pip, as a user does, without dependencies."""
        self._pip("install", "--no-deps", "--no-index", "--no-build-isolation", *map(str, arguments))

    def uninstall(self, name: str) -> None:
        """Uninstall with pip."""
        self._pip("uninstall", "--yes", name)

    def _pip(self, *words: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "--disable-pip-version-check", *words]
        subprocess.run(command, check=True, capture_output=True, text=True)

    def add_plugin(self, name: str, source: str, distribution: str | None = None, waits_for: str = "") -> None:
        """Put a plugin of a single module into site-packages, with its dist-info; ``waits_for`` may name a module."""
        distribution = distribution or f"{name.replace('_', '-')}-dist"
        module = f"{distribution.replace('-', '_')}_{name}"
        (self.site_packages / f"{module}.py").write_text(textwrap.dedent(source))
        info = self.site_packages / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        waits = f"[hookpatch.waits_for]\n{name} = {waits_for}\n" if waits_for else ""
        (info / "entry_points.txt").write_text(f"[hookpatch]\n{name} = {module}\n{waits}")

    def work_in(self, folder: Path, files: Mapping[str, str]) -> None:
        """Write files into a folder, and make the folder the current folder of all programs run later."""
        self.folder = folder
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run(
        self, *command: str | Path, cwd: Path | None = None, timeout: float = 300, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the environment's python in a new process, with its cache and the given variables of hookpatch."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
        return subprocess.run(
            [str(self.python), *map(str, command)],
            env={**clean, "HOOKPATCH_CACHE": str(self.python.parents[1] / "cache"), **variables},
            cwd=cwd or self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
        )


# A plugin that changes the result of vendor.speak(), with any arguments.
LOUD = """
    '''Speak louder.'''
    import hookpatch

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap("vendor:speak", lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs).upper())
"""


VENDOR = """
def speak(word="vendor"):
    return word
REGISTRY = {"a": 1}
"""

LOUDER = """
    '''Speak louder.'''
    import hookpatch

    def louder(wrapped, instance, args, kwargs):
        return wrapped(*args, **kwargs).upper() + "!"

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap("vendor:speak", louder)
"""

SCRIPT = "import vendor; print(vendor.speak(), __name__)"


def hookpatch(home: Environment, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command in an environment."""
    return home.run(home.python.parent / "hookpatch", *words, **variables)


def furnished(folder: Path, wheels: Path, plugins: Mapping[str, str], files: Mapping[str, str]) -> Environment:
    """Return an environment with hookpatch and the given plugins, and with the files in its current folder."""
    environment = Environment(folder / "venv")
    environment.install(*wheels.glob("hookpatch-*.whl"))
    for name, source in plugins.items():
        environment.add_plugin(name, source)
    environment.work_in(folder / "work", files)
    return environment


if __name__ == "__main__":  # run by the documentation's tests for `python -m venv FOLDER`
    Environment(Path(sys.argv[1]).absolute()).add_scripts()

"""The pictures of the README: what the commands print and draw, from a real run of the example.

    python docs/images/pictures.py

writes two terminals, timeout.svg and session.svg, and the page of a graph diff in Chromium, graph.png, into this
folder. It takes two minutes. tests/docs/test_pictures.py compares a terminal with what the commands print.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

HERE: Final = Path(__file__).parent
EXAMPLE: Final = HERE.parent / "examples" / "prepare_model"
COLUMNS: Final = 88
COMMANDS: Final = (
    "hookpatch plan fuse_qkv_off linear_kept",
    "hookpatch run -p fuse_qkv_off --report reports export.py --small &> log",
    "hookpatch report reports",
)
# The first picture of the README: a program of the gallery that waits for ever, and its end with a plugin.
TIMEOUT: Final = (
    'timeout 2 python fetch.py; echo "status $?"',
    "hookpatch run -p requests_timeout -o requests_timeout.seconds=1 fetch.py",
)
FETCH: Final = HERE.parent / "gallery" / "web" / "requests-timeout.md"
# Rich's frame without the fonts that it fetches from the network and the title of a window.
FRAME: Final = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#ffffff" stroke="#d0d7de"/>
<g transform="translate({terminal_x}, 16)" class="{unique_id}-matrix">
{matrix}
</g>
</svg>
"""


def printed(command: str, folder: Path) -> str:
    """Return what a command prints in a terminal of this width."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    terminal = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "PATH": path}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**clean, **terminal}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def draw(session: list[tuple[str, str]]) -> str:
    """Return commands and what they printed as a terminal in SVG."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    for at, (command, output) in enumerate(session):
        console.print(Text.assemble("\n" if at else "", ("$ ", "dim"), (command, "bold")))
        lines = [line.rstrip() for line in output.rstrip("\n").splitlines()]
        if lines:
            console.print(Text.from_ansi("\n".join(lines)), no_wrap=True, crop=False, soft_wrap=True)
    svg = console.export_svg(theme=DEFAULT_TERMINAL_THEME, code_format=FRAME, unique_id="t")
    height = float(re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)"', svg)[1])  # type: ignore[index]  # the frame has one
    return svg.replace(f'{height:g}"', f'{height - 28:g}"')  # the title's place


def fetch(folder: Path) -> None:
    """Write the program of the gallery's page into a folder."""
    [program] = re.findall(r"```python\n# fetch\.py\n((?:.*\n)*?)```", FETCH.read_text())
    (folder / "fetch.py").write_text(program)


def graph(folder: Path, out: Path) -> None:
    """Draw what fuse_qkv_off changes in the example's model, and take the page's picture."""
    printed("hookpatch run --graph-diff diff -p fuse_qkv_off export.py --small &> log", folder)
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no Chromium on PATH, which takes the picture of the graph")
    page = (folder / "diff" / "simplified.html").as_uri()
    shot = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,590"]
    subprocess.run([*shot, f"--screenshot={out}", page], check=True, capture_output=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("export.py", "third_party_api.py"):
            shutil.copy(EXAMPLE / name, folder)
        fetch(folder)
        for name, commands in (("timeout", TIMEOUT), ("session", COMMANDS)):
            picture = draw([(command, printed(command, folder)) for command in commands])
            (HERE / f"{name}.svg").write_text(picture)
        graph(folder, HERE / "graph.png")


if __name__ == "__main__":
    main()

"""Foreign collections of patches, beside the ports to hookpatch: the table of docs/reference/collections.md.

    python tests/benchmarks/wild.py docs/reference/collections.md

measures each collection of tests/wild in a separate process, and rewrites the text between the marks of the page.
Packages missing from requirements-dev.txt are installed into a temporary folder from a package index.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
WILD: Final = ROOT / "tests" / "wild"
PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install")
BEGIN, END = "<!-- figures: make bench-wild -->\n", "<!-- end of figures -->\n"
TITLES: Final = {  # collections without a distribution, or with another name
    "torch_npu": "transfer_to_npu's way",
    "unsloth": "unsloth's way",
}
WITHOUT_DEPENDENCIES: Final = ("liger-kernel",)  # liger-kernel needs triton, and triton kernels do not run here
DOES_NOT_FIT: Final = "optimum-onnx"


def names() -> list[str]:
    """Return the collections, first the collections without torch, which are cheap to measure."""
    stems = [path.stem for path in sorted((WILD / "beside").glob("*.py"))]
    return sorted(stems, key=lambda name: "import torch" in (WILD / "beside" / f"{name}.py").read_text())


def measured(name: str, folder: Path) -> Any:
    command = [sys.executable, "-W", "ignore", str(WILD / "measure.py"), name]
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    completed = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=600
    )
    if completed.returncode:
        raise SystemExit(f"{name}: {completed.stderr[-2000:]}")
    return json.loads(completed.stdout)


def why_not(distribution: str) -> str:
    """Return the reason why pip does not install a distribution beside the pinned releases."""
    pinned = str(ROOT / "constraints.txt")
    command = [*PIP, "--dry-run", "-c", pinned, distribution]
    completed = subprocess.run(command, capture_output=True, text=True)
    reasons = re.findall(
        r"^ +(\S+ \S+ depends on transformers\S*[^\n]*)", completed.stdout + completed.stderr, re.MULTILINE
    )
    if completed.returncode == 0:
        return "it installs now, so it is to be ported"
    return sorted(reasons)[-1].strip() if reasons else completed.stderr.strip().splitlines()[-1]


def row(name: str, result: Any) -> str:
    """Return a line of the table."""
    own, port = result["own"], result["port"]

    def takes(side: Any) -> str:
        return f"{sum(side['effect'].values())} of {len(side['effect'])}"

    def leaves(side: Any) -> str:
        places = [line for line in side["left"] if not line.startswith("in effect: ")]
        return f"**{len(places)}**" if places else "nothing"

    cells = [TITLES.get(name, result["release"]), takes(own), takes(port), leaves(own), leaves(port)]
    if "covered" in own:
        cells += ["stays" if not side["covered"] else f"**{short(side['covered'])}**" for side in (own, port)]
    else:
        cells += ["", ""]
    cells += [str(own["lines"] or "-"), str(port["lines"]), str(result["patches"])]
    return f"| {' | '.join(cells)} |"


def short(wrong: list[str]) -> str:
    return "goes, the patch stays" if len(wrong) > 1 else "goes"


def line_about(name: str, result: Any) -> str:
    """Return a line about the missing effects and the leftovers of a collection."""
    own = result["own"]
    lacks = [effect for effect, holds in own["effect"].items() if not holds]
    places = [re.sub(r"^model\.[\w.]*\.(?=\w)", "", line) for line in own["left"] if not line.startswith("in effect")]
    lacks_of_port = [effect for effect, holds in result["port"]["effect"].items() if not holds]
    parts = [f"does not reach *{', '.join(lacks)}*"] if lacks else []
    parts += [f"the port does not reach *{', '.join(lacks_of_port)}*"] if lacks_of_port else []
    if places:
        counted = Counter(places)
        shown = [f"`{place}`" + (f" x {count}" if count > 1 else "") for place, count in [*counted.items()][:4]]
        hidden_count = len(counted) - len(shown)
        parts.append(f"leaves {', '.join(shown)}{f' and {hidden_count} more' if hidden_count else ''}")
    if any(line.startswith("in effect") for line in own["left"]):
        parts.append("is still in effect at the end")
    if result["misfits"]:
        parts.append(f"of its functions {len(result['misfits'])} refuse calls that the replaced functions take")
    return f"- {TITLES.get(name, result['release'])}: {'; '.join(parts) or 'nothing'}."


def page(results: dict[str, Any], reason: str) -> str:
    titles = (
        "collection",
        "places reached",
        "by the port",
        "leaves behind",
        "the port",
        "a foreign wrapper",
        "over the port",
        "lines",
        "of the port",
        "patches",
    )
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    lines += [row(name, result) for name, result in results.items()]
    ours = [result for result in results.values() if result["own"]["lines"]]
    count = {side: sum(result[side]["lines"] for result in ours) for side in ("own", "port")}
    patches = sum(result["patches"] for result in ours)
    each = f"{count['port'] / patches:.1f} for each of {patches} patches"
    lines += [
        "",
        f"Where both are counted, {count['own']} lines become {count['port']}: {each}.",
        "",
        "How each collection differs from its port:",
        "",
        *(line_about(name, result) for name, result in results.items()),
        f"- {DOES_NOT_FIT} is not among them: {reason}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    arguments = parser.parse_args()
    head, begin, after_begin = arguments.page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = after_begin.partition(END)
    if not (begin and end):
        raise SystemExit(f"{arguments.page} has no lines {BEGIN.strip()} and {END.strip()}")
    with tempfile.TemporaryDirectory() as temporary:
        pinned = ("-c", str(ROOT / "constraints.txt"))
        subprocess.run([*PIP, "-qq", *pinned, "--no-deps", "--target", temporary, *WITHOUT_DEPENDENCIES], check=True)
        results = {}
        for name in names():
            sys.stderr.write(f"{name}\n")
            results[name] = measured(name, Path(temporary))
    written = page(results, why_not(DOES_NOT_FIT))
    arguments.page.write_text(f"{head}{BEGIN}{written}{END}{tail}", encoding="utf-8")
    print(written)


if __name__ == "__main__":
    main()

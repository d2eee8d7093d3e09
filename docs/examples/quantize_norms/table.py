"""Quantizers per RMSNorm without and with the plugin rmsnorm_node: quantize.py twice, the second time patched."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).with_name("quantize.py")
HEAD = ("RMSNorm", "nodes", "QDQ pairs", "error", "nodes", "QDQ pairs", "error")


def run(plugins: str, folder: str) -> dict:
    """Return what quantize.py finds in a process with these plugins."""
    output = Path(folder, "found.json")
    environment = {**os.environ, "HOOKPATCH_PLUGINS": plugins}
    subprocess.run([sys.executable, SCRIPT, "--output", output], env=environment, check=True)
    return json.loads(output.read_text())


def line(*cells: str) -> str:
    return "".join(f"{cell:<10}" if index == 0 else f"{cell:>11}" for index, cell in enumerate(cells)).rstrip()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        plain, patched = run("", folder), run("rmsnorm_node", folder)
    print(f"{'':<10}{'without':>33}{'HOOKPATCH_PLUGINS=rmsnorm_node':>33}")
    print(line(*HEAD))
    for kind in plain:
        both = plain[kind], patched[kind]
        cells = (cell for one in both for cell in (str(one["nodes"]), str(one["pairs"]), f"{one['error']:.2%}"))
        print(line(kind, *cells))


if __name__ == "__main__":
    main()

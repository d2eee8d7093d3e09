"""Compare real captures of many models with the findings of the scan.

    python bench_scan.py bench/models.txt --cache FOLDER [--write FOLDER]

The truth is established once and kept in the cache, an hour for a hundred models on two cores; the scan is
measured each time, in seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench import truths


def main() -> None:
    """Establish the truth of new models, scan all models, and write the results."""
    options = argparse.ArgumentParser(description="What captures did with many models, and what the scan says.")
    options.add_argument("models", type=Path, help="a file: transformers:CLASS or zoo:CLASS a line")
    options.add_argument("--cache", type=Path, required=True, help="the folder that the truth is kept in")
    options.add_argument("--seconds", type=float, default=60, help="the most for one mode of a model")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--write", type=Path, help="the folder for scan.json and scan.md; the cache without it")
    options.add_argument("--truth-only", action="store_true", help="do not scan")
    options.add_argument("--known", action="store_true", help="scan what the truth is known of, and establish no more")
    options.add_argument("--lines-again", action="store_true", help="establish the lines anew, not the captures")
    options.add_argument("--longer", action="store_true", help="capture again what took too long, with --seconds")
    options.add_argument("--without-inputs", action="store_true", help="scan the module alone, as no inputs are known")
    arguments = options.parse_args()
    lines = (line.partition("#")[0].strip() for line in arguments.models.read_text().splitlines())
    names = [line for line in lines if line]
    truths.quiet()
    if arguments.lines_again:
        truths.again(names, arguments.cache)
    elif arguments.longer:
        truths.longer(names, arguments.cache, arguments.seconds)
    elif not arguments.known:
        truths.measure(names, arguments.cache, arguments.seconds, arguments.workers)
    if arguments.truth_only:
        return
    from bench import report

    report.write(names, arguments.cache, arguments.write or arguments.cache, with_inputs=not arguments.without_inputs)


if __name__ == "__main__":
    main()

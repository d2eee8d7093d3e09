"""Pair the recorded models of two folders."""

from __future__ import annotations

from collections import defaultdict
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from hookpatch_onnx.errors import PictureError


class Pair(NamedTuple):
    """A model of the first run with a model of the second run.

    Attributes:
        name: the kind, with a number if there are several of the kind.
        before, after: the files; None if a run has recorded fewer models of the kind.
    """

    name: str
    before: Path | None
    after: Path | None


def pairs_of(before: Path, after: Path) -> list[Pair]:
    """Return the pairs, by kind and order, in the order in which the models were recorded.

    Raises:
        PictureError: nothing was recorded.
    """
    ours, theirs = _by_kind(before), _by_kind(after)
    if not ours and not theirs:
        raise PictureError(
            f"{before} and {after}", "no model was recorded: neither torch.onnx.export nor onnxsim.simplify was called"
        )
    pairs: list[tuple[str, Pair]] = []
    for kind in ours.keys() | theirs.keys():
        couples = list(zip_longest(ours.get(kind, ()), theirs.get(kind, ())))
        for index, (our_path, their_path) in enumerate(couples, 1):
            name = kind if len(couples) == 1 else f"{kind}-{index}"
            first = our_path or their_path
            pairs.append((first.name, Pair(name, our_path, their_path)))
    return [pair for _, pair in sorted(pairs)]


def _by_kind(folder: Path) -> dict[str, list[Path]]:
    paths: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.glob("*.onnx")):
        paths[path.stem.partition("-")[2] or path.stem].append(path)
    return paths

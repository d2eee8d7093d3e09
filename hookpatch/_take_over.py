"""Installed distributions, taken over into another environment of the same Python, file by file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from importlib import metadata

from hookpatch._requirement import needs_of
from hookpatch._selection import normalise
from hookpatch.errors import SettingError


def take_over(names: Iterable[str], site: str, with_needs: bool = True) -> None:
    """Have an environment have distributions as this one has them, and what they need; not what it has already.

    By the record of their files: so it works without a package index. What is installed as editable stays where it is,
    since what is recorded is a path that leads there.

    Args:
        names: the distributions.
        site: the other environment's site-packages.
        with_needs: False to leave what they need.

    Raises:
        SettingError: one has no record of its files.
    """
    there = {normalise(one.metadata["Name"]) for one in metadata.distributions(path=[site])}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if normalise(name) in there:
            continue
        there.add(normalise(name))
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # needed and not installed: it is missed here as it will be there
        _copy(distribution, site)
        if with_needs:
            waiting += needs_of(name)


def _copy(distribution: metadata.Distribution, site: str) -> None:
    if distribution.read_text("RECORD") is None:
        name = distribution.metadata["Name"]
        raise SettingError("--against", f"{name} has no RECORD of its files; install it with pip to take it along")
    for file in distribution.files or ():
        if ".." in file.parts or file.suffix == ".pyc" or os.path.isabs(str(file)):
            continue  # scripts, which are run as modules, and what each Python makes by itself
        target = os.path.join(site, *file.parts)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(str(file.locate()), target)

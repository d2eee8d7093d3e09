"""Which installed distribution a module is of, and its version. Imports nothing of it."""

from __future__ import annotations

from functools import lru_cache
from importlib import metadata


def release_of(module: str | None) -> tuple[str, str]:
    """Return the distribution that has a module, and its version; two empty texts if none has."""
    top = (module or "").partition(".")[0]
    name = _of_that_name(top) or next(iter(_by_package().get(top, ())), None) if top else None
    return (name, metadata.version(name)) if name else ("", "")


def _of_that_name(top: str) -> str | None:
    """Return the distribution that is named as its package, as most are: it is found without reading all others."""
    try:
        distribution = metadata.distribution(top)
    except metadata.PackageNotFoundError:
        return None
    record = f"\n{distribution.read_text('RECORD') or ''}"
    return distribution.metadata["Name"] if f"\n{top}/" in record or f"\n{top}.py," in record else None


@lru_cache(maxsize=1)
def _by_package() -> dict[str, list[str]]:
    return dict(metadata.packages_distributions())

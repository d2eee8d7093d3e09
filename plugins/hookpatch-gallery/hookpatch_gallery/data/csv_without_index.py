"""Write CSV files of pandas without the column of row numbers."""

from __future__ import annotations

from collections.abc import Iterator

import hookpatch


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Give the argument to the calls that have none; a Series keeps its index."""
    yield hookpatch.default(
        "pandas:DataFrame.to_csv",
        index=False,
        requires="pandas>=2,<4",
        why="a file that is read back has a column more, 'Unnamed: 0'",
        upstream="https://github.com/pandas-dev/pandas/issues/12627",
    )

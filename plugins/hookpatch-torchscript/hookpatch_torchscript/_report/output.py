"""Write explanations to stderr, to one file, or to a folder with one file each."""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from itertools import count
from pathlib import Path
from typing import Final, Literal, final

from hookpatch_torchscript._report.explanation import Explanation
from hookpatch_torchscript._report.tree import as_text, show
from hookpatch_torchscript.errors import NotWrittenWarning


@final
class Output:
    """Writes explanations while the plugin is active. Processes may share a file: each appends whole explanations.

    Args:
        to: ``stderr``, a file, or a folder.
        form: ``text`` or ``json``.
        failures_only: True to write only explanations of failures and of decorators that were left out.
    """

    def __init__(self, to: str, form: Literal["text", "json"], failures_only: bool) -> None:
        self._to: Final = to
        self._form: Final = form
        self._failures_only: Final = failures_only
        self._numbers: Final = count(1)

    def __call__(self, explanation: Explanation) -> None:
        """Write an explanation; a failure to write is a warning, not an error of the program."""
        if self._failures_only and explanation.failure is None and not explanation.dropped:
            return
        try:
            self._write(explanation)
        except OSError as error:
            warnings.warn(NotWrittenWarning(self._to, error.strerror or str(error)), stacklevel=2)

    def _write(self, explanation: Explanation) -> None:
        if self._to == "stderr" and self._form == "text":
            show(explanation, sys.stderr)
            return
        text = json.dumps(explanation.to_dict()) if self._form == "json" else as_text(explanation)
        if self._to == "stderr":
            sys.stderr.write(text + "\n")
            return
        path = Path(self._to)
        if self._to.endswith(("/", os.sep)) or path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            path = path / self._name(explanation)
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def _name(self, explanation: Explanation) -> str:
        name = re.sub(r"[^\w.-]", "_", explanation.name)
        return f"{os.getpid()}-{next(self._numbers):03d}-{name}.{'json' if self._form == 'json' else 'txt'}"

"""Run a program twice, plain and patched, and compare the ONNX models that it makes: ``hookpatch run --graph-diff``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hookpatch.errors import HookpatchError, SettingError
from hookpatch_onnx._picture.command import diff


def run_twice(folder: str, run: Any) -> int:
    """Run a program twice and print what its models differ in.

    Args:
        folder: where the models, the words and the pages go.
        run: the program, as ``hookpatch_run`` gets it.

    Returns:
        The patched run's status.

    Raises:
        SettingError: the folder has models of another run, or cannot be written; the program cannot be run twice.
        PictureError: the patched run ended with status 0, and its models cannot be compared.
    """
    if run.target[0] == "-":
        raise SettingError(run.option, "runs the program twice, and stdin can be read once; put it into a file")
    if os.environ.get("HOOKPATCH_DISABLE", "") not in ("", "0"):
        raise SettingError(run.option, "HOOKPATCH_DISABLE is set, and turns all patches off; unset the variable")
    plain, patched = (Path(folder).absolute() / name for name in ("plain", "patched"))
    for path in (plain, patched):
        if path.exists():
            raise SettingError(run.option, f"{Path(folder) / path.name} is of an earlier run; name another folder")
    try:
        for path in (plain, patched):
            path.mkdir(parents=True)
    except OSError as error:
        raise SettingError(run.option, f"{folder} cannot be written: {error.strerror}") from None
    run.write_line("the program is run twice; now plain")
    status = run.plain({"onnx": {"folder": str(plain)}})
    if status:
        run.write_line(f"the plain run ended with status {status}; the models exported before are compared")
    run.write_line("now patched")
    status = int(run.patched({"onnx": {"folder": str(patched)}}))
    try:
        diff(plain, patched, Path(folder))
    except HookpatchError as error:
        if not status:
            raise
        run.write_line(str(error))  # the status is that of the program
    return status

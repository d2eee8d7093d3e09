"""Hand open blocks on to programs started by this process: one environment variable with a JSON list.

The length of the variable is limited: Linux starts no program with a longer variable. Earlier blocks come first.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, Final

from hookpatch._bootstrap import command_line
from hookpatch._bootstrap import environment as _environment
from hookpatch._bootstrap.json import parsed, written
from hookpatch._engine.site.turn_lock import SiteLock
from hookpatch._processes import liveness, starts
from hookpatch._processes.payload import NotCarried, OpenBlock, key_of
from hookpatch._processes.starts import EXEC, Launch
from hookpatch.errors import NotCarriedError

_ROOM: Final = 115_000  # bytes: Linux starts no program with a variable of 128 KiB or more
_WITH_NOTES: Final = 125_000

_open: Final[dict[int, OpenBlock]] = {}  # by the number of the session, in the order of opening
_writing: Final = SiteLock()
_is_stale = False  # True while the environment may hold other blocks


def hand_on(number: int, block: OpenBlock) -> None:
    """Hand a block on to programs. Called under a lock, as ``hand_on_no_longer`` is."""
    global _is_stale
    _is_stale = True
    _open[number] = block
    _write()


def hand_on_no_longer(number: int) -> None:
    """Stop handing on a block; a second call has no effect."""
    global _is_stale
    _is_stale = _is_stale or number in _open
    _open.pop(number, None)
    if _is_stale:
        _write()


def hand_on_again(number: int, block: OpenBlock) -> bool:
    """Hand on a block as the only block; change nothing and return False if a lock is needed. On the road.

    An interrupted call is undone by ``hand_on_no_longer``.
    """
    global _is_stale
    if _open or _is_stale:
        return False
    block.variable = block.variable or _environment.encoded(_text([block]))
    _is_stale = True
    _open[number] = block
    if not _environment.hand_on_first(block.variable):
        del _open[number]
    _is_stale = False
    return bool(_open)


def hand_on_again_no_longer(number: int) -> bool:
    """Undo ``hand_on_again``; change nothing and return False if a lock is needed. On the road."""
    global _is_stale
    if _is_stale or len(_open) != 1 or number not in _open:
        return False
    _is_stale = True
    if is_ended := _environment.hand_on_no_longer():
        del _open[number]
    _is_stale = False
    return is_ended


def environment(blocks: Iterable[OpenBlock], env: Mapping[str, str] | None) -> dict[str, str]:
    """Return a copy of an environment that hands on only the given blocks; None is the environment of this process."""
    text = _text(blocks)
    return _environment.handing_on(text) if env is None else _environment.with_text(env, text)


def read(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the blocks of a text, with the name of the process that hands on the blocks."""
    try:
        handed = parsed(text)
        return str(handed["from"]), [block for block in handed["blocks"] if block["what"] and is_block(block)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise NotCarriedError([f"what {_environment.INHERIT} holds: it cannot be read ({problem}); unset it"]) from None


def is_block(block: Any) -> bool:
    """Return True for a block in the form of ``text``; raise TypeError or KeyError for a damaged block."""
    items = [
        isinstance(item["options"], dict) and [item["plugin"]]
        if "plugin" in item
        else [item["of"], item.get("patch") or item["why"]]
        for item in block["what"]
    ]
    lock = [] if block["lock"] is None else [*block["lock"]]
    words = [block["id"], *lock, *(word for words in items for word in words or [None])]
    if len(lock) not in (0, 2) or not all(isinstance(word, str) for word in words):
        raise TypeError("a block has an id, items and a lock file, which are texts")
    return {type(block["require"]), type(block["count"])} == {bool}


def check(launch: Launch, blocks: Sequence[OpenBlock], open_keys: Set[int]) -> None:
    """Warn of blocks not inherited by a program about to start; raise NotCarriedError if a block is required.

    A program with a copy of the environment from inside an ended block must see the end of the block.
    """
    liveness.pass_on_nothing()
    opener, handed = _keys(_environment.handed_on(launch.environment))
    for key in handed - open_keys if opener.endswith(liveness.PROGRAM) else ():
        if launch.event == EXEC:
            liveness.pass_on_end()
        liveness.outwait(key)
    words = python_command(launch.args, launch.path) if blocks else []
    ignores = ignores_environment(words)
    for block in blocks if words else ():
        block.payload.warn()
        if not block.payload.pieces or not (ignores or block.key not in handed):
            continue
        why = _IGNORED if ignores else _OTHER if block.payload.is_in_environment else _OF_TASK
        lost = NotCarried(block.names, why)
        if block.payload.is_required:
            raise NotCarriedError([str(lost)])
        if not ignores:  # -I and -E are meant to
            starts.lost(f"{' '.join(command_line.for_report(words))} starts without {lost}")
            starts.warn(f"a process starts without {lost}")


_OTHER: Final = "its environment is not of this block; pass the environment from inside the block"
_OF_TASK: Final = f"{_OTHER}, or start the program by subprocess, which knows the block of this task"
_IGNORED: Final = "-I and -E have Python ignore its environment"


def _keys(text: str) -> tuple[str, set[int]]:
    """Return the keys of a text's blocks, with the name of the handing process; empty for a foreign text."""
    try:
        opener, blocks = read(text) if text else ("", [])
    except NotCarriedError:
        return "", set()
    return opener, {key_of(written(block["id"])) for block in blocks}


def python_command(args: Any = "", executable: Any = None, shell: bool = False, **_: Any) -> list[str]:
    """Return the words of a command that runs Python, or a script installed beside Python; empty for other commands."""
    words = args.split() if isinstance(args, str) else _words(args)
    if len(words) > 2 and os.path.basename(words[0]) in _SHELLS and words[1] == "-c":
        words, shell = words[2].split(), True
    is_behind = False
    while words and (
        "=" in words[0] or os.path.basename(words[0]) in _BEFORE or (is_behind and words[0].startswith(_OPTION))
    ):
        is_behind, executable = True, None  # the executable belongs to the removed word
        words = words[1:]
    program = os.fsdecode(executable) if words and executable is not None and not shell else "".join(words[:1])
    if os.path.basename(program) == "uv" and words[1:2] == ["run"]:
        return words
    return words if program and (os.path.basename(program).startswith("python") or _is_script(program)) else []


def _is_script(program: str) -> bool:
    """Return True for a file with Python named in the first line, for example a zip file of zipapp or pex."""
    folders = [""] if os.path.dirname(program) else [os.path.dirname(sys.executable), *os.get_exec_path()]
    for folder in folders:
        with suppress(OSError, ValueError), open(os.path.join(folder, program), "rb") as file:
            return (first := file.readline(_LINE)).startswith(b"#!") and b"python" in first
    return False


def _words(args: Any) -> list[str]:
    return os.fsdecode(args).split() if isinstance(args, (bytes, os.PathLike)) else [*map(os.fsdecode, args or ())]


def ignores_environment(words: Sequence[str]) -> bool:
    """Return True if a command has Python ignore the environment: -I, -E, or both among other letters."""
    for word in words[1:]:
        if not word.startswith("-") or word.startswith("--") or word == "-":
            break
        flags = re.split("[cmWX]", word[1:])[0]
        if "I" in flags or "E" in flags:
            return True
        if flags != word[1:]:
            break
    return False


_LINE: Final = 512  # bytes: more of a first line is not read
_SHELLS: Final = ("sh", "bash", "dash", "zsh", "ash", "ksh")
# Programs that run the command behind their own name and options.
_BEFORE: Final = (
    *("env", "exec", "nice", "nohup", "setsid", "time", "timeout", "stdbuf", "taskset", "numactl", "ionice", "chrt"),
    *("sudo", "doas", "setpriv", "unshare", "xvfb-run", "strace"),
)
_OPTION: Final = tuple("-0123456789")  # the first character of an option or of an option's value


def _write() -> None:
    """Write all open blocks. A finalizer that closes a session meanwhile writes after this call."""
    global _is_stale
    if not _writing.take():
        return _writing.later(_write)
    try:
        _environment.hand_on(_text(list(_open.values())))  # copied in one operation, as tuple() is not
        _is_stale = False
    finally:
        _writing.end()


def _text(blocks: Iterable[OpenBlock]) -> str:
    """Return the JSON list of blocks; of a block without room, a note of the missing items."""
    texts: list[str] = []
    length = 0
    for block in blocks:
        text = block.text(main=False)
        text = text if length + len(text) <= _ROOM else block.notes
        if text and length + len(text) <= _WITH_NOTES:
            texts.append(text)
            length += len(text) + 1
    return f'{{"from": "{liveness.process()}", "blocks": [{",".join(texts)}]}}' if texts else ""


def _after_fork() -> None:
    if _open:
        _write()  # from now on the forked process hands the blocks on, and knows their end


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""Hand open blocks on to programs started by this process: one environment variable with a JSON list.

The length of the variable is limited: Linux starts no program with a longer variable. Earlier blocks come first.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple, final

from hookpatch._bootstrap import command_line
from hookpatch._bootstrap import environment as _environment
from hookpatch._bootstrap.interrupts import ErrorsOfCode
from hookpatch._bootstrap.json import parsed, written
from hookpatch._bootstrap.program import flags_of
from hookpatch._engine.site.turn_lock import SiteLock
from hookpatch._processes import liveness, starts
from hookpatch._processes.payload import NotCarried, OpenBlock, key_of
from hookpatch._processes.starts import EXEC, Launch
from hookpatch._session.span.leftovers import looks
from hookpatch.errors import NotCarriedError

_ROOM: Final = 115_000  # bytes: Linux starts no program with a variable of 128 KiB or more
_WITH_NOTES: Final = 125_000

# By the number of the session, in the order of opening. GIL: copied in one operation.
open_blocks: Final[dict[int, OpenBlock]] = {}
_writing: Final = SiteLock()
_is_stale = False  # True while the environment may hold other blocks


def hand_on(block: OpenBlock) -> None:
    """Hand an open block on to programs. Called under a lock, as ``hand_on_no_longer`` is."""
    global _is_stale
    _is_stale = block.is_handed_on = True
    _write()


def hand_on_no_longer(block: OpenBlock) -> None:
    """Stop handing on a block; a second call has no effect."""
    global _is_stale
    _is_stale = _is_stale or block.is_handed_on
    block.is_handed_on = False
    if _is_stale:
        _write()


def keep_variable(block: OpenBlock) -> None:
    """Keep the value of the environment variable for a single block; empty if no item can be handed on."""
    block.variable = _environment.encoded(_text([block]))


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
        raise NotCarriedError(
            [f"the variable {_environment.INHERIT} cannot be read ({problem}); unset the variable"]
        ) from None


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
            liveness.pass_on_end(opener)
        liveness.outwait(key)
    for block, lost, is_meant in missing(launch, blocks):
        block.payload.warn()
        if lost is None:
            continue
        if block.payload.is_required:
            raise NotCarriedError([str(lost)])
        if not is_meant:
            starts.lost(without(launch, lost))
            starts.warn_of_child(f"a process starts without {lost}")


def missing(launch: Launch, blocks: Sequence[OpenBlock]) -> Iterator[tuple[OpenBlock, NotCarried | None, bool]]:
    """Yield each block around a program of Python, why the program lacks the block or None, and if that is meant."""
    command = command_of(launch.args, launch.path) if blocks else _NONE
    handed = _keys(_environment.handed_on(launch.environment))[1]
    is_meant = not command.flags.isdisjoint("IES")
    is_unread = starts.starts_without_us("".join(command.words[:1]), launch.environment)
    for block in blocks if command.words else ():
        is_handed = block.key in handed
        why = _OTHER if block.payload.is_in_environment else _OF_TASK
        why = _IGNORED if is_meant else starts.NOT_STARTED if is_unread else _REMOVED if is_handed else why
        is_lost = block.payload.pieces and (is_meant or is_unread or command.removes_blocks or not is_handed)
        yield block, NotCarried(block.names, why) if is_lost else None, is_meant


def without(launch: Launch, lost: NotCarried) -> str:
    """Return the message of a lack, with the program."""
    return f"{' '.join(command_line.for_report(python_command(launch.args, launch.path)))} starts without {lost}"


_OTHER: Final = "the program gets an environment from outside the block; pass the environment from inside the block"
_OF_TASK: Final = f"{_OTHER}, or start the program by subprocess"
_IGNORED: Final = "-I and -E make Python ignore the environment, and -S the start-up file"
_REMOVED: Final = f"the command takes {_environment.INHERIT} out of the environment"


def _keys(text: str) -> tuple[str, set[int]]:
    """Return the keys of a text's blocks, with the name of the handing process; empty for a foreign text."""
    try:
        opener, blocks = read(text) if text else ("", [])
    except NotCarriedError:
        return "", set()
    return opener, {key_of(written(block["id"])) for block in blocks}


@final
class Command(NamedTuple):
    """A command that runs Python: its words, and what is known of the start. Without words: another command.

    Attributes:
        words: the words from Python on, or from a script that names Python in the first line.
        argv: the words as a command line of Python.
        flags: the letters of Python's flags.
        removes_blocks: True if words before these take the blocks from the environment.
    """

    words: list[str]
    argv: list[str]
    flags: set[str]
    removes_blocks: bool


_NONE: Final = Command([], [], set(), False)


def command_of(args: Any = "", executable: Any = None, shell: bool = False, **_: Any) -> Command:
    """Return the part of a command that runs Python. Takes the arguments of Popen."""
    words = words_of(args)
    text = args if isinstance(args, str) else ""
    if len(words) > 2 and os.path.basename(words[0]) in _SHELLS and re.fullmatch("-[a-z]*c", words[1]):
        text, shell = words[2], True
    begin = _BEGIN.match(text) if shell else None
    words = [word.strip("'\"") for word in text[begin.end() :].split()] if begin else words
    before, is_behind = [*begin[0].split()] if begin else [], False
    while words and (
        "=" in words[0]
        or os.path.basename(words[0]) in _BEFORE
        or (is_behind and (words[0].startswith(_OPTION) or _is_value(before[-1], words[0])))
    ):
        is_behind, executable = True, None  # the executable was that of the removed word
        before.append(words[0])
        words = [*words[1].split(), *words[2:]] if words[0] == "-S" and words[1:] else words[1:]
    program = os.fsdecode(executable) if words and executable is not None and not shell else "".join(words[:1])
    if os.path.basename(program) == "uv" and words[1:2] == ["run"]:
        return Command(words, words, set(), _removes_blocks(before))
    if (script := _script_of(program)) is None:
        return _NONE
    argv = ["", script, *words[1:]] if script else words
    return Command(words, argv, flags_of(argv), _removes_blocks(before))


def python_command(args: Any = "", executable: Any = None, shell: bool = False, **_: Any) -> list[str]:
    """Return the words of ``command_of``."""
    return command_of(args, executable, shell).words


def _is_value(option: str, word: str) -> bool:
    """Return True for the value of an option, not a program."""
    return len(option) == 2 and option[0] == "-" and option[1] in _WITH_VALUE and _script_of(word) is None


def _removes_blocks(words: Sequence[str]) -> bool:
    """Return True if the words before a program, such as ``env -i``, take our variable from the environment."""
    names = {os.path.basename(word) for word in words}
    is_reset = "sudo" in names and not any(word.startswith(("-E", "--preserve-env")) for word in words)
    is_named = any(_environment.INHERIT in word.rstrip(";").partition("=")[::2] for word in words)
    is_reset = is_reset or ("setpriv" in names and "--reset-env" in words)
    return is_reset or is_named or ("env" in names and not {"-i", "-", "--ignore-environment"}.isdisjoint(words))


def _script_of(program: str) -> str | None:
    """Return the path of a file that names Python in the first line, as of zipapp or pex.

    Return an empty text for Python and a link to Python, None for another program.
    """
    if not program or _PYTHON.fullmatch(os.path.basename(program)):
        return "" if program else None
    folders = [""] if os.path.dirname(program) else [os.path.dirname(sys.executable), *os.get_exec_path()]
    for path in filter(os.path.isfile, (os.path.join(folder, program) for folder in folders)):  # no pipe: it would wait
        with ErrorsOfCode(OSError, ValueError), open(path, "rb") as file:
            if _PYTHON.fullmatch(os.path.basename(os.path.realpath(path))):
                return ""
            return path if (first := file.readline(_LINE)).startswith(b"#!") and b"python" in first else None
    return None


def words_of(args: Any) -> list[str]:
    """Return the words of a command as given to Popen: a text or a list."""
    return os.fsdecode(args).split() if isinstance(args, (str, bytes, os.PathLike)) else [*map(os.fsdecode, args or ())]


_LINE: Final = 512  # bytes: more of a first line is not read
_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*[a-z]?(?:\.exe)?")
_SHELLS: Final = ("sh", "bash", "dash", "zsh", "ash", "ksh")
_BEGIN: Final = re.compile(r"\s*(?:(?:cd|export|unset|set|umask|ulimit)\s[^;&|\n]*(?:&&|[;\n])\s*)*")
# Programs that run the command behind their own name and options.
_BEFORE: Final = (
    *("env", "exec", "nice", "nohup", "setsid", "time", "timeout", "stdbuf", "taskset", "numactl", "ionice", "chrt"),
    *("sudo", "doas", "setpriv", "unshare", "xvfb-run", "strace", "xargs"),
)
_OPTION: Final = tuple("-0123456789")  # the first character of an option or of an option's value
_WITH_VALUE: Final = "uCgksnILPdaoe"  # options of these programs with a value in the next word


def _write() -> None:
    """Write all open blocks. A finalizer that closes a session meanwhile writes after this call."""
    global _is_stale
    if not _writing.take_turn():
        return _writing.later(_write)
    try:
        blocks = list(open_blocks.values())  # list() copies in one operation, tuple() does not
        _environment.hand_on(_text(block for block in blocks if block.is_handed_on), liveness.PROGRAM)
        _is_stale = False
    finally:
        _writing.end()


def _text(blocks: Iterable[OpenBlock]) -> str:
    """Return the JSON list of blocks; of a block without room a note, and a last note if notes have no room, either."""
    texts: list[str] = []
    length = 0
    for block in blocks:
        text = block.elsewhere = block.elsewhere or block.text(main=False)
        text = text if length + len(text) <= _ROOM else block.note()
        if length + len(text) > _WITH_NOTES:
            texts.append(block.note("the patches of this block and of all blocks opened later"))
            break  # no look at the blocks behind: with very many open, each opening and closing would look at all
        if text:
            texts.append(text)
            length += len(text) + 1
    return f'{{"from": "{liveness.process()}", "blocks": [{",".join(texts)}]}}' if texts else ""


def _look_again() -> None:
    if not open_blocks and _environment.hands_on_ended(liveness.PROGRAM):
        _write()


looks.append(_look_again)


def _after_fork() -> None:
    if open_blocks:
        _write()  # from now on the forked process hands the blocks on, and knows their end


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

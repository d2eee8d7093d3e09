"""Carries the patches of a block to the processes that are started inside it.

To programs that inherit the environment by a variable of it. To processes of multiprocessing with the process object
itself: a fork server that is running has another environment, and what is defined in ``__main__`` is there only then.
"""

from __future__ import annotations

import base64
import io
import json
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import Any, Final, Literal, TypeAlias, final

from hookpatch import _changes, _imports, _selection, _task
from hookpatch._attempt import Policy
from hookpatch._ledger import Asked
from hookpatch._load import load
from hookpatch._patch import Patch, Scope, Wrapper, wrap
from hookpatch._selection import EXIT_STATUS, Selection, normalise
from hookpatch._session import Begin, Session
from hookpatch._shared import Shared
from hookpatch.errors import HookpatchError, NotCarriedError, NotCarriedWarning

Children: TypeAlias = Literal["inherit", "local", "require"]
Item: TypeAlias = dict[str, Any]  # a plugin's name with its options, or a patch as text: what JSON can hold

_ROOM: Final = 60_000  # bytes of a patch
_VARIABLE: Final = 100_000  # bytes of all: Linux starts no program with a variable of 128 KiB or more


@final
class Luggage:
    """What a block hands on to processes that are started inside it. Lives as long as the block's session.

    Attributes:
        left: why something stays in this process, by its place among what was asked for.
    """

    def __init__(self, items: Sequence[Item], left: Mapping[int, _Left], scope: Scope, **head: Any) -> None:
        self.left: Final = left
        self._items: Final = items
        self._scope: Final = scope
        self._head: Final = head
        self._number = 0
        self._texts: dict[bool, str] = {}

    def begin(self, number: int) -> Callable[[], None]:
        """Hand it on from now on, in the session of this number; return the undo."""
        if not self._items and not self.left:
            return _nothing
        self._number = number
        self._texts = {}
        return _begin(number, self)

    @property
    def is_here(self) -> bool:
        """True where a process that is started is started inside the block."""
        return self._scope == "process" or _task.is_here(self._number)

    @property
    def is_in_environment(self) -> bool:
        """True when all that this process starts is started inside the block."""
        return self._scope == "process"

    @property
    def needs(self) -> set[str]:
        """The targets of those of our patches that it needs."""
        return {*_LAUNCHES, _POPEN} if self.left or self._scope == "task" else _LAUNCHES

    def text(self, main: bool) -> str:
        """Return it as JSON; what can only be found in ``__main__`` as a note if ``main`` is not to be there."""
        if main not in self._texts:
            items = [_note(item, _MAIN) if "main" in item and not main else item for item in self._items]
            self._texts[main] = self._text(items)
        return self._texts[main]

    @property
    def notes(self) -> str:
        """What to hand on when there is no room for it: what is missing, and why."""
        return self._text([_note(item, "the blocks that are open have too much to hand on") for item in self._items])

    def _text(self, items: Sequence[Item]) -> str:
        head = {"id": f"{os.getpid()}-{self._number}", **self._head}
        return json.dumps({**head, "what": items}) if items else ""

    def warn(self) -> None:
        """Say what a process that is about to start does not get."""
        for one in self.left.values():
            warnings.warn(f"a process starts without {one}", NotCarriedWarning, stacklevel=4)


def pack(
    what: Sequence[str | Patch], options: Mapping[str, Mapping[str, Any]], children: Children, scope: Scope, count: bool
) -> Luggage:
    """Return what of a block can be handed on.

    Raises:
        NotCarriedError: ``children`` is "require", and something cannot be.
    """
    items: list[Item] = []
    left: dict[int, _Left] = {}
    for at, one in enumerate(what if children != "local" else ()):
        try:
            items.append(_packed_plugin(one, options) if isinstance(one, str) else _packed_patch(one))
        except _Left as error:
            left[at] = _Left(error.of, error.why)  # another one: that has the frames of those who call us
    if children == "require" and left:
        raise NotCarriedError([str(error) for error in left.values()])
    return Luggage(items, left, scope, require=children == "require", count=count)


class _Left(Exception):
    """Something stays here.

    Attributes:
        of: what.
        why: why.
    """

    def __init__(self, of: str, why: str) -> None:
        self.of: Final = of
        self.why: Final = why
        super().__init__(f"{of}: {why}")


def _packed_plugin(name: str, options: Mapping[str, Mapping[str, Any]]) -> Item:
    meant = [key for key in options if normalise(key.partition("@")[0]) == normalise(name.partition("@")[0])]
    item = {"plugin": name, "options": {key: options[key] for key in meant}}
    try:
        json.dumps(item)
    except (TypeError, ValueError) as error:
        raise _Left(f"plugin '{name}'", f"its options are no JSON ({error})") from None
    return item


def _packed_patch(patch: Patch) -> Item:
    of = f"the patch of {patch.address}"
    if patch.target is not None and patch.module is None and not isinstance(patch.target.start, type):
        raise _Left(of, "its target is an object at hand, which another process does not have")
    if type(patch.change) is FunctionType and "<" in patch.change.__qualname__:
        kind = "a lambda" if patch.change.__name__ == "<lambda>" else f"{patch.change.__name__}(), a local function"
        raise _Left(of, f"it is made of {kind}, which another process does not find; define a function in a module")
    try:
        packed = _packed(patch)
    except _TooLarge:
        raise _Left(of, f"more than {_ROOM} bytes are too many to be handed on") from None
    except Exception as error:  # whatever some object's own __reduce__ raises
        raise _Left(of, f"it cannot be pickled ({error})") from None
    text = base64.b64encode(packed).decode()
    item: Item = {"of": of, "patch": text}
    if b"__main__" in packed:
        if getattr(_imports.loaded("__main__"), "__file__", None) is None:
            raise _Left(of, "it is defined in an interactive session; define it in a module")
        item["main"] = True
    return item


class _TooLarge(Exception):
    """More than there is room for."""


@final
class _Packer(pickle.Pickler):
    """Gives up as soon as it is too much: a model of some gigabytes is not to be copied for each block."""

    def reducer_override(self, thing: Any) -> Any:
        """Look at the size of arrays and tensors before they are asked for what they hold."""
        if hasattr(type(thing), "nbytes") and isinstance(thing.nbytes, int) and thing.nbytes > _ROOM:
            raise _TooLarge
        return NotImplemented


@final
class _Room(io.BytesIO):
    """A buffer that takes as much as there is room for."""

    def write(self, text: Any) -> int:
        """Take bytes."""
        if self.tell() + len(text) > _ROOM:
            raise _TooLarge
        return super().write(text)


def _packed(patch: Patch) -> bytes:
    room = _Room()
    _Packer(room, protocol=5).dump(patch)
    return room.getvalue()


def _note(item: Item, why: str) -> Item:
    return {"of": item.get("of", f"plugin '{item.get('plugin')}'"), "why": why}


_MAIN: Final = "it is defined in __main__ of the program that started this one; define it in a module"


# --- in the process that hands on

_open: Final[dict[int, Luggage]] = {}  # by the number of the session, as they were opened
_watches: Final[dict[str, _imports.Watch]] = {}  # for modules that are to be patched when they come


def is_for_blocks(watch: _imports.Watch) -> bool:
    """Tell whether a watch is ours, and there because some block is open."""
    return bool(_open) and watch in _watches.values()


def _begin(number: int, luggage: Luggage) -> Callable[[], None]:
    with _carriers.lock:
        _open[number] = luggage
        _hand_on()
    _carriers.settle(_needed)
    return partial(_end, number)


def _end(number: int) -> None:
    with _carriers.lock:
        _open.pop(number, None)
        _hand_on()
    _carriers.settle(_needed)


def _nothing() -> None:
    """End nothing."""


def _hand_on() -> None:
    _selection.hand_on(_for_programs([luggage for luggage in list(_open.values()) if luggage.is_in_environment]))


def _for_programs(luggage: Sequence[Luggage]) -> str | None:
    """Return what goes into the environment: no more than there is room for, of which the first opened have theirs."""
    texts: list[str] = []
    for one in luggage:
        text = one.text(main=False)
        texts.append(text if sum(map(len, texts)) + len(text) <= _VARIABLE else one.notes)
    return _joined(texts)


def _joined(texts: Iterable[str]) -> str | None:
    text = ",".join(filter(None, texts))
    return f"[{text}]" if text else None


def _needed() -> set[str]:
    """Return the targets of those patches of ours that are needed now; wait for their modules."""
    targets = {target for luggage in list(_open.values()) for target in luggage.needs}
    modules = {target: target.partition(":")[0] for target in targets}
    waiting = {module for module in modules.values() if not _imports.begun(module)}
    for module in _watches.keys() - waiting:
        _watches.pop(module).cancel()
    for module in waiting - _watches.keys():
        _watches[module] = _imports.watch(module, lambda _: _carriers.settle(_needed))
    return {target for target, module in modules.items() if module not in waiting}


def _launch(wrapped: Callable[..., Any], popen: Any, args: Any, kwargs: Any) -> Any:
    """Start a process of multiprocessing otherwise than by a fork, which has everything."""
    here = [luggage for luggage in list(_open.values()) if luggage.is_here]
    for luggage in here:
        luggage.warn()
    process = args[0] if args else kwargs["process_obj"]
    process._config["hookpatch"] = _Parcel(_joined(luggage.text(main=True) for luggage in here) or "[]")
    try:
        return wrapped(*args, **kwargs)
    finally:
        del process._config["hookpatch"]


def _run(wrapped: Callable[..., Any], popen: Any, args: Any, kwargs: Any) -> Any:
    """Run a program, with what is open here and not in the environment."""
    here = [luggage for luggage in list(_open.values()) if luggage.is_here]
    given = kwargs.get("env", args[_ENV] if len(args) > _ENV else None)
    if given is None and any(not luggage.is_in_environment for luggage in here):
        kwargs = {**kwargs, "env": _selection.handing_on(_for_programs(here))}
        args = args[:_ENV]
    if is_python(*args[:1], **kwargs):
        for luggage in here:
            luggage.warn()
    return wrapped(*args, **kwargs)


_ENV: Final = 10  # the place of env among the arguments of Popen


def is_python(args: Any = "", shell: bool = False, **_: Any) -> list[str]:
    """Return the words of a command that runs Python, or a script that is installed beside it; none of another."""
    words = os.fsdecode(args).split() if isinstance(args, (str, bytes, os.PathLike)) else [*map(os.fsdecode, args)]
    name = os.path.basename(words[0]) if words else ""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    runs_python = name.startswith("python") or (sys.prefix != sys.base_prefix and name and os.path.exists(beside))
    return words if runs_python else []


@final
class _Parcel:
    """What a process object bears when it is pickled: unpickled it opens what is in it."""

    def __init__(self, text: str) -> None:
        self._text: Final = text

    def __reduce__(self) -> Any:
        return receive, (self._text,)


_POPEN: Final = "subprocess:Popen.__init__"
_OF_WINDOWS: Final = "multiprocessing.popen_spawn_win32:Popen.__init__"
_OF_OTHERS: Final = (
    "multiprocessing.popen_spawn_posix:Popen._launch",
    "multiprocessing.popen_forkserver:Popen._launch",
)
_LAUNCHES: Final = {_OF_WINDOWS} if os.name == "nt" else {*_OF_OTHERS}
_CARRIERS: Final[dict[str, Wrapper]] = {**dict.fromkeys(_LAUNCHES, _launch), _POPEN: _run}
_carriers: Final = Shared(
    lambda target: Asked(
        wrap(target, _CARRIERS[target], why="hands patches on to other processes", required=False),
        "hookpatch",
        "hookpatch",
    ),
    are_listed=False,
)


# --- in the process that was started


_received: Final[dict[str, tuple[list[Item], Session]]] = {}  # by the block's id


def receive(text: str) -> None:
    """Open what a process of multiprocessing was handed, for the rest of its life. Called when it is unpickled."""
    for block in json.loads(text):
        try:
            _open_block(block)
        except HookpatchError as error:
            sys.stderr.write(f"hookpatch[{os.getpid()}]: error: {error}\n")
            raise SystemExit(EXIT_STATUS) from None


def open_inherited() -> Callable[[], None] | None:
    """Open what the environment hands on from a block, for the rest of the process.

    Returns:
        What opens the rest, if some of it cannot be found now: it may lie beside the script, which is found when the
        script runs.

    Raises:
        HookpatchError: something of it cannot be had, and is required.
    """
    text = _selection.inherited()
    _selection.hand_on(None)  # it is handed on from here by the sessions that are opened now
    rest: list[dict[str, Any]] = []
    for block in _blocks(text):
        try:
            for item in block["what"]:
                if "patch" in item:
                    _unpacked(item)
        except _Left:
            rest.append(block)
        else:
            _open_block(block)
    return partial(_open_rest, rest) if rest else None


def _open_rest(blocks: Sequence[dict[str, Any]]) -> None:
    for block in blocks:
        _open_block(block)


def _blocks(text: str) -> list[dict[str, Any]]:
    try:
        blocks = json.loads(text)
        return [block for block in blocks if block["id"] and block["what"]]
    except (ValueError, TypeError, KeyError) as error:
        raise NotCarriedError([f"what {_selection.INHERIT} holds: it cannot be read ({error}); unset it"]) from None


def _open_block(block: Mapping[str, Any]) -> None:
    items: list[Item] = block["what"]
    known, session = _received.get(block["id"], (None, None))
    if known == items:
        return  # it came by the environment, too
    origin = f"the block of process {block['id'].partition('-')[0]}"
    problems: list[str] = []
    asked: list[Asked] = []
    also: list[Begin] = []
    for item in items:
        try:
            if "plugin" in item:
                host, by_name = load(Selection([item["plugin"]], item["options"], origin))
                asked += (one for ones in by_name.values() for one in ones)
                if host is not None:
                    also.append(partial(_changes.listen, host=host))
            elif "patch" in item:
                asked.append(Asked(_unpacked(item)))
            else:
                raise _Left(**item)
        except (HookpatchError, _Left) as error:
            problems.append(str(error))
    luggage = Luggage(items, {}, "process", id=block["id"], require=block["require"], count=block["count"])
    also.append(luggage.begin)
    try:
        policy: Policy = "exit" if block["require"] else "warn"
        _received[block["id"]] = items, Session(asked, policy, count=block["count"], also=also).open()
    except HookpatchError as error:
        problems.append(str(error))
    if session is not None:
        session.close()
    if problems and block["require"]:
        raise NotCarriedError(problems)
    for problem in problems:
        sys.stderr.write(f"hookpatch[{os.getpid()}]: warning: this process runs without {problem}\n")


def _unpacked(item: Item) -> Patch:
    try:
        patch = pickle.loads(base64.b64decode(item["patch"]))
    except Exception as error:  # whatever the modules that it needs raise when they are imported
        raise _Left(item["of"], f"{type(error).__name__}: {error}") from error
    assert isinstance(patch, Patch)
    return patch

"""Carries the patches of a block to the processes that are started inside it.

To programs that inherit the environment by a variable of it. To processes of multiprocessing with the process object
itself: a fork server that is running has another environment, and what is defined in ``__main__`` is there only then.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from hookpatch import _environment, _imports, _programs
from hookpatch._attempt import Policy
from hookpatch._json import parsed
from hookpatch._layer import Layer
from hookpatch._ledger import Asked
from hookpatch._load import load, load_drift, switch_on
from hookpatch._luggage import Carried, Item, Left, Luggage, piece, unpacked
from hookpatch._patch import Wrapper, wrap
from hookpatch._python_command import python_command
from hookpatch._selection import Selection
from hookpatch._session import Begin, Session
from hookpatch._shared import Shared
from hookpatch._stderr import of_this_process, refusal, say
from hookpatch.errors import HookpatchError, NotCarriedError, NotCarriedWarning, for_stderr

if TYPE_CHECKING:
    from hookpatch._host import Host  # as in _load.py

# --- in the process that hands on

_open: Final[dict[int, Carried]] = {}  # by the number of the session, as they were opened
_places: Final = itertools.count(1)
_free: Final[list[int]] = []  # the places that were given back: a heap
_told: Final[set[int]] = set()  # those of which programs have to be told when they start


def is_for_blocks(thing: _imports.Watch | Layer) -> bool:
    """Tell whether a watch or layer is ours, and there because some block is open."""
    if isinstance(thing, Layer):
        return bool(_open) and thing.plugin == "hookpatch" and thing.patch.address in _CARRIERS
    return bool(_open) and thing.module in _MODULES.values()


def carry(luggage: Luggage, number: int) -> Callable[[], None]:
    """Hand it on from now on, in the session of this number; return the undo."""
    if luggage.is_empty:
        return _nothing
    with _carriers.lock:
        place = 0 if luggage.id else heappop(_free) if _free else next(_places)
        _open[number] = block = Carried(luggage, number, place)
        if luggage.is_in_environment:
            _programs.hand_on(number, block)
        if luggage.has_to_be_told:
            _told.add(number)
    _imports.hold()
    _carriers.settle(_needed)
    return partial(_end, number)


def _end(number: int) -> None:
    with _carriers.lock:
        block = _open.pop(number, None)
        if block is not None and block.place:
            heappush(_free, block.place)
        _told.discard(number)
        _programs.hand_on_no_longer(number)
    _imports.release()
    _carriers.settle(_needed)


def _nothing() -> None:
    """End nothing."""


def _needed() -> set[str]:
    """Return the targets of those patches of ours that are needed now, in modules that there are."""
    targets = _CARRIERS if _told else _LAUNCHES if _open else ()
    return {target for target in targets if _imports.begun(_MODULES[target])}


def _settle(module: ModuleType) -> None:
    _carriers.settle(_needed)


def _here() -> list[Carried]:
    """Return what a process that is started here is started inside of."""
    return [block for block in list(_open.values()) if block.is_here]


def _launch(wrapped: Callable[..., Any], popen: Any, args: Any, kwargs: Any) -> Any:
    """Start a process of multiprocessing otherwise than by a fork, which has everything."""
    here = _here()
    for block in here:
        block.luggage.warn()
    process = args[0] if args else kwargs["process_obj"]
    texts = [text for block in here if (text := block.text(main=True))]
    process._config["hookpatch"] = _Parcel(f"[{','.join(texts)}]")
    try:
        return wrapped(*args, **kwargs)
    finally:
        del process._config["hookpatch"]


def _run(wrapped: Callable[..., Any], popen: Any, args: Any, kwargs: Any) -> Any:
    """Run a program, with what is open here and not in the environment."""
    here = _here()
    given = kwargs.get("env", args[_ENV] if len(args) > _ENV else None)
    if given is None and any(not block.luggage.is_in_environment for block in here):
        kwargs = {**kwargs, "env": _programs.environment(here)}
        args = args[:_ENV]
    if python_command(*args[:1], **kwargs):
        for block in here:
            block.luggage.warn()
    return wrapped(*args, **kwargs)


_ENV: Final = 10  # the place of env among the arguments of Popen


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
_MODULES: Final = {target: target.partition(":")[0] for target in _CARRIERS}
_carriers: Final = Shared(
    lambda target: Asked(
        wrap(target, _CARRIERS[target], why="hands patches on to other processes", required=False),
        "hookpatch",
        "hookpatch",
    ),
    are_listed=False,
)
for _module in _MODULES.values():
    _imports.listen(_module, _settle)


# --- in the process that was started


_received: Final[dict[str, tuple[list[Item], Session]]] = {}  # by the block's id
_waiting: Final[list[str]] = []  # ids of blocks that wait for a module, or did


def receive(text: str) -> None:
    """Open what a process of multiprocessing was handed, for the rest of its life. Called when it is unpickled."""
    for block in parsed(text):
        _open_or_exit(block)


def _open_or_exit(block: Mapping[str, Any]) -> None:
    try:
        _open_block(block)
    except HookpatchError as error:
        raise refusal(for_stderr(error), of_this_process()) from None


def open_inherited() -> Callable[[], None] | None:
    """Open what the environment hands on from blocks, for the rest of the process.

    A block that patches nothing but modules which are not imported yet waits for the first of them: what its patches
    are made of may take long to import, and most programs need none of it.

    Returns:
        What opens the rest, if some of it cannot be found now: it may lie beside the script, which is found when the
        script runs.

    Raises:
        HookpatchError: something of it cannot be had, and is required.
    """
    inherited = _environment.take_inherited()  # it is handed on from here by the blocks themselves
    rest: list[Mapping[str, Any]] = []
    for block in [block for variable, text in inherited.items() for block in _blocks(variable, text)]:
        modules = {item.get("module") for item in block["what"]}
        if None not in modules and not any(map(_imports.begun, modules)):
            _await(block, modules)
        elif all("patch" not in item or _is_here(item) for item in block["what"]):
            _open_block(block)
        else:
            rest.append(block)
    return partial(_open_rest, rest) if rest else None


def _is_here(item: Item) -> bool:
    try:
        unpacked(item)
    except Left:
        return False
    return True


def _open_rest(blocks: Sequence[Mapping[str, Any]]) -> None:
    for block in blocks:
        _open_block(block)


def _await(block: Mapping[str, Any], modules: Iterable[str]) -> None:
    """Open a block when the first of these modules has been imported; hand it on from now on."""
    end = carry(_luggage_of(block), -len(_waiting) - 1)
    watches: list[_imports.Watch] = []

    def open_now(module: ModuleType) -> None:
        for watch in watches:
            watch.cancel()
        _open_or_exit(block)
        end()

    watches += [_imports.watch(module, open_now) for module in modules]
    _waiting.append(block["id"])


def _luggage_of(block: Mapping[str, Any]) -> Luggage:
    lock = block["lock"] and tuple(block["lock"])
    return Luggage([*map(piece, block["what"])], {}, "process", block["require"], block["count"], lock, block["id"])


def _blocks(variable: str, text: str) -> list[dict[str, Any]]:
    try:
        blocks = parsed(text)
        return [block for block in blocks if block["id"] and block["what"]]
    except (ValueError, TypeError, KeyError) as error:
        raise NotCarriedError([f"what {variable} holds: it cannot be read ({error}); unset it"]) from None


def _open_block(block: Mapping[str, Any]) -> None:
    items: list[Item] = block["what"]
    known, session = _received.get(block["id"], (None, None))
    if known == items:
        return  # it came by the environment, too
    origin = f"the block of process {block['id'].partition('-')[0]}"
    problems: list[str] = []
    asked: list[Asked] = []
    host: Host | None = None
    for item in items:
        try:
            if "plugin" in item:
                host, by_name = load(Selection([item["plugin"]], item["options"], origin), host)
                asked += (one for ones in by_name.values() for one in ones)
            else:
                asked.append(Asked(unpacked(item)))
        except (HookpatchError, Left) as error:
            problems.append(str(error))
    also: list[Begin] = [partial(carry, _luggage_of(block))]
    if host is not None:
        also.insert(0, partial(switch_on, host=host, asked_by=origin))
    try:
        policy: Policy = "exit" if block["require"] else "warn"
        _received[block["id"]] = (
            items,
            Session(asked, policy, count=block["count"], also=also, drift=load_drift(block["lock"])).open(),
        )
    except HookpatchError as error:
        problems.append(str(error))
    if session is not None:
        session.close()
    if problems and block["require"]:
        raise NotCarriedError(problems)
    said = (NotCarriedWarning(f"this process runs without {problem}") for problem in problems)
    say(*map(for_stderr, said), kind="warning", who=of_this_process())

"""Carry the patches of open blocks to child processes.

Programs inherit a variable of the environment. Processes of multiprocessing get the blocks with the process object,
for two reasons: a running fork server has another environment, and names of ``__main__`` are found only after the
unpickling.

Long because the parent process writes what the child process reads.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from hookpatch._bootstrap import environment, imports
from hookpatch._bootstrap.imports import begun_names
from hookpatch._bootstrap.interrupts import Turn, write_notes
from hookpatch._bootstrap.json import parsed, written
from hookpatch._bootstrap.selection import Selection
from hookpatch._bootstrap.stderr import of_this_process, refusal, write_line
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._processes import liveness, programs, starts
from hookpatch._processes.liveness import END, read_clock
from hookpatch._processes.payload import Item, NotCarried, OpenBlock, Payload, key_of, piece, unpacked
from hookpatch._processes.starts import INTERPRETERS, MODULES, PICKLED, PROGRAM, Launch, Listener
from hookpatch._session.ledger import Requested
from hookpatch._session.lifecycle.lifecycle import Policy
from hookpatch._session.load import load, load_drift, switched_on
from hookpatch._session.session import Session
from hookpatch._session.span.part import Quick, SessionPart
from hookpatch.errors import HookpatchError, NotCarriedError, NotCarriedWarning, for_stderr

if TYPE_CHECKING:
    from hookpatch._plugins.host import Host  # imports pluggy

# --- in the parent process

_FIRST: Final = 1  # the place of a block without another block
_open: Final = programs.open_blocks
_lock: Final = Turn()  # held for a change of the variables above and below
_of_tasks: Final[set[int]] = set()  # sessions whose blocks are not in the environment, but around a task's programs

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def is_for_blocks(watcher: imports.Watch | Layer) -> bool:
    """Return True if a watch or layer is our own, and needed by an open block."""
    if isinstance(watcher, Layer):
        return bool(_open) and watcher.plugin == "hookpatch" and watcher.patch.address in MODULES
    return bool(_open) and watcher.module in MODULES.values()


def carry(payload: Payload, number: int) -> None:
    """Hand a payload with items on to child processes, as the block of a session."""
    with _lock:
        used = {block.place for block in _open.values()}
        place = 0 if payload.id else next(place for place in itertools.count(_FIRST) if place not in used)
        _open[number] = block = OpenBlock(payload, number, place)
        liveness.begin(block.key)
        if place == _FIRST:
            payload.keep(block)
        if payload.is_in_environment:
            programs.hand_on(block)
        else:
            _of_tasks.add(number)
    if payload.asks_at_start:
        starts.call_before_start(_check)
    imports.hold((carry, number))
    starts.update()


def carry_no_longer(number: int) -> None:
    """Undo ``carry``, interrupted or not."""
    with _lock:
        _of_tasks.discard(number)
        if (block := _open.get(number)) is not None:
            programs.hand_on_no_longer(block)
            keys = [open_block.key for block_number, open_block in _open.items() if block_number != number]
            if block.key not in keys:  # else handed on again by a later session
                liveness.end(block.key, keys)
            del _open[number]
    imports.release((carry, number))
    starts.update()


def carry_again(payload: Payload, number: int) -> bool:
    """Hand a payload on, as the only block, without a lock; return False if a lock is needed. On the fast path."""
    if _open or (payload.asks_at_start and _check not in starts.hooks):
        return False
    if (block := payload.block) is None or block.process != liveness.pid:
        if payload.id or not payload.is_in_environment:
            return False
        payload.keep(block := OpenBlock(payload, number, _FIRST))
    if not block.variable:
        programs.keep_variable(block)
    if not liveness.begin(block.key):
        return False
    _open[number] = block  # first: ``carry_again_no_longer`` looks here
    block.is_handed_on = True
    if block.variable and not environment.hand_on_first(block.variable):
        return False
    # Other patches are never begun without a lock.
    return starts.update_again() if starts.applied or _pickles() else True


def carry_again_no_longer(number: int) -> bool:
    """Undo ``carry_again``, interrupted or not; return False if a lock is needed. On the fast path."""
    if (block := _open.get(number)) is None:  # an interrupt may have left the patches
        return not starts.applied or (starts.may_end_again() and starts.update_again())
    if len(_open) > 1 or (starts.applied and not starts.may_end_again()):
        return False
    if block.variable and not environment.hand_on_no_longer():
        return False
    liveness.end(block.key, ())
    del _open[number]
    return not starts.applied or starts.update_again()


def _pickles() -> bool:
    """Return True if the place of the pickling of processes has to be patched in a block: it is imported."""
    return not (begun_names.isdisjoint(starts.ROOTS) or begun_names.isdisjoint(starts.OF_PICKLED))


def _quick(payload: Payload) -> Quick | None:
    """Return the functions that carry the last block again without notes; None if the block needs notes."""
    if (own := starts.of_blocks()) is None:
        return None
    block: Any = payload.block
    if block is None or block.process != liveness.pid or (row := liveness.rows.get(block.key)) is None:
        return None
    if not block.variable or (payload.asks_at_start and _check not in starts.hooks):
        return None
    key, variable = block.key, block.variable
    hand_on, hand_on_no_longer = environment.hand_on_first, environment.hand_on_no_longer
    (pairs, note_starts), applied, are_unimported = own, starts.applied, begun_names.isdisjoint
    absent = starts.ROOTS if are_unimported(starts.ROOTS) else starts.OF_PICKLED - begun_names

    def put() -> bool:
        if _open or applied or liveness.rows.get(key) is not row:  # a fork has other rows
            return False
        if not are_unimported(absent) or not hand_on(variable):  # another place of the pickling needs another patch
            return False
        row[END] = 0  # last, and the end first: a block without the variable has ended
        return True

    def take() -> bool:
        row[END] = read_clock()
        return hand_on_no_longer()

    def note(number: int) -> None:
        note_starts(number)
        if environment.hands_on_first():  # else the block was not begun, or has ended
            _open[number] = block
            block.is_handed_on = True

    return Quick(put, take, note, pairs)


def carried(payload: Payload) -> SessionPart:
    """Return the functions that hand a payload on as long as a session is open."""
    begin_again = MethodType(carry_again, payload)  # not partial: a call of C code takes longer
    return SessionPart(
        partial(carry, payload), carry_no_longer, begin_again, carry_again_no_longer, partial(_quick, payload)
    )


def blocks_of_thread() -> list[OpenBlock]:
    """Return the blocks around a child process that this thread starts now."""
    write_notes()
    return [block for block in list(_open.values()) if block.is_of_thread]


def _pickle(wrapped: Callable[..., Any], popen: Any, args: Any, kwargs: Any) -> Any:
    """Start a process of multiprocessing with a pickled process object."""
    process = args[0] if args else kwargs["process_obj"]
    blocks = blocks_of_thread()
    for block in blocks:
        block.payload.warn()
    texts = [text for block in blocks if (text := block.text(main=True))]
    process._config["hookpatch"] = _Parcel(f"[{','.join(texts)}]", environment.of_reports())
    try:
        return wrapped(*args, **kwargs)
    finally:
        process._config.pop("hookpatch", None)


def _run_program(wrapped: Callable[..., Any], popen: Any, args: Any, kwargs: Any) -> Any:
    """Run a program, with the blocks missing in the environment."""
    blocks = blocks_of_thread()
    env = kwargs.get("env", args[_ENV] if len(args) > _ENV else None)
    if environment.hands_on_same_blocks(env) and any(not block.payload.is_in_environment for block in blocks):
        kwargs = {**kwargs, "env": programs.environment(blocks, env)}
        args = args[:_ENV]
    return wrapped(*args, **kwargs)


_ENV: Final = 10  # the place of env among the arguments of Popen


def _check(launch: Launch) -> None:
    """Check the inherited blocks of a program about to start."""
    programs.check(launch, blocks_of_thread(), {block.key for block in list(_open.values())})


@final
class _Parcel:
    """Blocks attached to a process object: unpickling the parcel opens the blocks."""

    def __init__(self, text: str, of_reports: dict[str, str]) -> None:
        self._text: Final = text
        self._of_reports: Final = of_reports

    def __reduce__(self) -> Any:
        return receive, (self._text, self._of_reports)


def _needed() -> Set[str]:
    return _around.keys() if _of_tasks else PICKLED if _open else frozenset()


_around: Final = {PROGRAM: _run_program, **INTERPRETERS, **dict.fromkeys(PICKLED, _pickle)}
starts.listen(Listener(_needed, _around))


# --- in the child process

_received: Final[dict[str, tuple[list[Item], Session]]] = {}  # by the block's id
_waiting: Final[list[str]] = []  # ids of all blocks that waited for a module


def receive(text: str, of_reports: Mapping[str, str]) -> None:
    """Open the blocks handed to a process of multiprocessing, until the end of the process. Called by unpickling."""
    environment.set_variables(of_reports)  # a fork server may be older than the run
    blocks = parsed(text)
    if blocks and (folder := environment.report_folder()) is not None:
        from hookpatch._processes.receipt import write_reports_in  # few ask for reports

        write_reports_in(folder)
    for block in blocks:
        _open_or_exit(block)


def _open_or_exit(block: Mapping[str, Any]) -> None:
    try:
        _open_block(block)
    except HookpatchError as error:
        raise refusal(for_stderr(error), of_this_process()) from None


def open_inherited() -> Callable[[], None] | None:
    """Open the blocks handed on by the environment, for the rest of the process.

    A block with targets in modules not imported yet waits for the first module: the block's wrappers may be slow to
    import, and most programs need no wrapper. Return a function that opens blocks with patches that cannot be
    unpacked now: the modules may be beside the script, and be found when the script runs.
    """
    inherited = environment.take_variable(environment.INHERIT)  # the blocks opened here are handed on again
    opener, blocks = programs.read(inherited)
    keys = {key_of(written(block["id"])): block for block in blocks}
    ended = liveness.ended(opener, keys, inherited)
    unopened: list[Mapping[str, Any]] = []
    for block in (block for key, block in keys.items() if key not in ended):
        modules = {item.get("module") for item in block["what"]}
        if None not in modules and not any(map(imports.begun, modules)):
            _await(block, modules)
            continue
        try:
            for item in block["what"]:
                if "patch" in item:
                    unpacked(item)
        except NotCarried:
            unopened.append(block)
        else:
            _open_block(block)

    def open_rest() -> None:
        for block in unopened:
            _open_block(block)

    return open_rest if unopened else None


def _await(block: Mapping[str, Any], modules: Iterable[str]) -> None:
    """Open a block when the first module has been imported; hand the block on from now on."""
    number = -len(_waiting) - 1
    carry(_payload_of(block), number)
    watches: list[imports.Watch] = []

    def open_awaited(module: ModuleType) -> None:
        for watch in watches:
            watch.cancel()
        _open_or_exit(block)
        carry_no_longer(number)

    watches += [imports.watch(module, open_awaited) for module in modules]
    for watch in watches:
        watch.expect()
    _waiting.append(block["id"])


def _payload_of(block: Mapping[str, Any]) -> Payload:
    lock = block["lock"] and tuple(block["lock"])
    return Payload([*map(piece, block["what"])], {}, "process", block["require"], block["count"], lock, block["id"])


def _open_block(block: Mapping[str, Any]) -> None:
    items: list[Item] = block["what"]
    opened, session = _received.get(block["id"], (None, None))
    if opened == items:
        return  # by the environment, before
    origin = f"the block of process {block['id'].partition('-')[0]}"
    problems: list[str] = []
    requested: list[Requested] = []
    host: Host | None = None
    for item in items:
        try:
            if "plugin" in item:
                host, by_name = load(Selection([item["plugin"]], item["options"], origin), host)
                requested += itertools.chain.from_iterable(by_name.values())
            else:
                requested.append(Requested(unpacked(item)))
        except (HookpatchError, NotCarried) as error:
            problems.append(str(error))
    also = [carried(_payload_of(block))]
    if host is not None:
        also.insert(0, switched_on(host, origin))
    try:
        policy: Policy = "exit" if block["require"] else "warn"
        drift = load_drift(block["lock"])
        opened_now = Session(requested, policy, count=block["count"], also=also, drift=drift).open()
        _received[block["id"]] = items, opened_now
    except HookpatchError as error:
        problems.append(str(error))
    if session is not None:
        session.close()
    if problems and block["require"]:
        raise NotCarriedError(problems)
    warnings = (NotCarriedWarning(f"this process runs without {problem}") for problem in problems)
    write_line(*map(for_stderr, warnings), kind="warning", speaker=of_this_process())

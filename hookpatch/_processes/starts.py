"""Listen to the start of child processes: programs of subprocess, and processes of multiprocessing.

The only file that patches both. The patches are on while a listener needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, Final, NamedTuple

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.patch import Wrapper, wrap
from hookpatch._session.ledger import Requested
from hookpatch._session.own_patches import OwnPatches

PROGRAM: Final = "subprocess:Popen.__init__"
PROCESS: Final = "multiprocessing.process:BaseProcess.start"
MODULES: Final = {target: target.partition(":")[0] for target in (PROGRAM, PROCESS)}

_MULTIPROCESSING: Final = MODULES[PROCESS]


class Listener(NamedTuple):
    """Wrappers around the start of a child process, by target, and a function that returns the targets needed now."""

    needs: Callable[[], Set[str]]
    around: Mapping[str, Wrapper]


_listeners: Final[list[Listener]] = []


def listen(listener: Listener) -> None:
    """Call the wrappers of a listener from now on, where needed."""
    _listeners.append(listener)
    update()


def update() -> None:
    """Apply the patches needed now, and restore the others."""
    _patches.update(_needed)


def is_quiet() -> bool:
    """Return True if ``update`` has nothing to do, whichever blocks are open. Asked on the road."""
    return not (_patches.sessions or imports.begun(_MULTIPROCESSING))


def _needed() -> set[str]:
    needed = {target for listener in _listeners for target in listener.needs()}
    return {target for target in needed if imports.begun(MODULES[target])}  # others once their module is imported


def _patch_of(target: str) -> Requested:
    def around(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
        call = wrapped
        for listener in _listeners:
            if target in listener.needs():
                call = _bound(listener.around[target], call, instance)
        return call(*args, **kwargs)

    patch = wrap(target, around, why="hands patches on to child processes, and notes these", required=False)
    return Requested(patch, "hookpatch", "hookpatch")


def _bound(wrapper: Wrapper, wrapped: Callable[..., Any], instance: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: wrapper(wrapped, instance, args, kwargs)


_patches: Final = OwnPatches(_patch_of, are_listed=False)
for _module in MODULES.values():
    imports.listen(_module, lambda _: update())

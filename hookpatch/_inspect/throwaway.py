"""Rehearse a selection in a throwaway child process: the user's process imports no module of a target.

The child process has the path, the folder, the interpreter flags and the environment of the user, without the variables
of hookpatch. The output of the child process is dropped. The results go into a file, line by line: a crashing process
has named the module in import.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from hookpatch._bootstrap.json import parsed, written
from hookpatch._bootstrap.selection import Selection
from hookpatch._engine.patch.patch import Patch
from hookpatch._inspect import cache
from hookpatch._inspect.cache import LookOptions
from hookpatch._inspect.rehearsal import MatchOutcome, Outcome, import_or_outcome, rehearse
from hookpatch._plugins import notify
from hookpatch._processes.aside import how_it_ended, start_child
from hookpatch._processes.payload import Item, NotCarried, pack, unpacked
from hookpatch._session.ledger import Requested
from hookpatch._session.load import load, load_drift
from hookpatch._session.span.part import SessionPart
from hookpatch.errors import HookpatchError

if TYPE_CHECKING:
    from hookpatch._bootstrap.selection import OnDrift
    from hookpatch._plugins.host import Host  # imports pluggy

Result: TypeAlias = "str | list[Any]"  # the outcomes of an item as JSON, or why no outcome is known


def outcomes_of(
    items: Sequence[tuple[str | Patch, Sequence[Requested]]],
    options: Mapping[str, Mapping[str, Any]],
    lock: tuple[str, OnDrift] | None,
    look: LookOptions,
    imported: Sequence[str] = (),
) -> list[list[Outcome]]:
    """Return the outcomes of the patches of each item, as one selection: a plugin with its patches, or a patch.

    ``imported``: the modules that are imported before the session is opened.
    """
    payload = pack([item for item, _ in items], options, "inherit", "process", False)
    task = {"path": [*map(os.fspath, sys.path)], "items": [piece.text for piece in payload.pieces], "lock": lock}
    task["imported"] = sorted(imported)
    key = cache.key_of(task)
    results = None if look.anew else cache.find(key)
    if results is None and look.imports and payload.pieces:
        results, files = _in_child(task, look.limit)
        if all(type(result) is list and all(row[0] != "waiting" for row in result) for result in results):
            cache.keep(key, results, files)
    elif results is None:
        results = ["its module was not imported to look"] * len(payload.pieces)
    rows = iter(results)
    return [
        _matched(payload.not_carried[index].why if index in payload.not_carried else next(rows), requests)
        for index, (_, requests) in enumerate(items)
    ]


def _matched(result: Result, requests: Sequence[Requested]) -> list[Outcome]:
    """Return the outcomes of an item's patches; a text is the reason why no outcome is known."""
    if not isinstance(result, str) and len(result) != len(requests):
        result = f"in another process it has {len(result)} patches, and here {len(requests)}"
    if isinstance(result, str):
        return [Outcome("waiting", result)] * len(requests)
    return [*map(_outcome, result)]


def _outcome(row: Sequence[Any]) -> Outcome:
    """Return the outcome of a row of JSON."""
    state, reason, error, warnings, depth, matches, *_ = row  # the child process cannot hand over a slot
    of_matches = [MatchOutcome(address, module, _outcome(inner), verb) for address, module, inner, verb in matches]
    return Outcome(state, reason, error, tuple(warnings), depth and tuple(depth), tuple(of_matches))


def _in_child(task: Mapping[str, Any], limit: float) -> tuple[list[Result], dict[str, Any]]:
    """Rehearse in a child process; return the result of each item, and the files behind the results."""
    with tempfile.TemporaryDirectory(prefix="hookpatch-") as folder:
        into = os.path.join(folder, "outcomes")
        end = ""
        with start_child(__name__, {**task, "into": into}) as child:
            try:
                child.wait(limit)
            except subprocess.TimeoutExpired:
                end = f"took longer than {limit:g} s"
            finally:
                if child.poll() is None:
                    with suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)
        try:
            with open(into, encoding="utf-8") as file:
                lines = [parsed(line) for line in file]
        except (OSError, ValueError):
            lines = []
    last = lines[-1] if lines else {}
    if "results" in last:
        return last["results"], last["files"]
    if not end:
        end = how_it_ended(child.returncode)
    problem = f"the child process that looked {end}{last.get('while', '')}"
    return [problem] * len(task["items"]), {}


def main(task: Mapping[str, Any]) -> None:
    """Rehearse in this throwaway process, and write the results into a file."""
    with open(task["into"], "w", encoding="utf-8") as file:

        def write(**line: Any) -> None:
            file.write(written(line) + "\n")
            file.flush()

        host: Host | None = None
        loaded: list[list[Requested] | str] = []
        for item in map(parsed, task["items"]):
            write(**{"while": f" while it loaded {item.get('plugin') or item.get('of')}"})
            try:
                host, requests = _requests_of(item, host)
            except (HookpatchError, NotCarried) as error:
                loaded.append(str(error))
            else:
                loaded.append(requests)
        also = [] if host is None else [SessionPart(partial(notify.listen, host=host), notify.listen_no_longer)]
        flat = [request for requests in loaded if not isinstance(requests, str) for request in requests]
        drift = load_drift(task["lock"])
        for name in task["imported"]:
            write(**{"while": f" while it imported {name}"})
            import_or_outcome(name)
        outcomes = iter(rehearse(flat, also, drift, lambda name: write(**{"while": f" while it imported {name}"})))
        results = [requests if isinstance(requests, str) else [next(outcomes) for _ in requests] for requests in loaded]
        write(results=results, files=cache.files())


def _requests_of(item: Item, host: Host | None) -> tuple[Host | None, list[Requested]]:
    if "plugin" not in item:
        return host, [Requested(unpacked(item))]
    host, by_name = load(Selection([item["plugin"]], item["options"], "the look"), host)
    return host, [request for requests in by_name.values() for request in requests]

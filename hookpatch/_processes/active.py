"""Request patches: for a block, and for the environment of a process started by other code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from hookpatch._bootstrap import environment as _environment
from hookpatch._bootstrap import selection as _selection
from hookpatch._bootstrap.selection import Selection
from hookpatch._engine.patch.describe import a_kind
from hookpatch._engine.patch.patch import Patch, Scope
from hookpatch._engine.slots.guard import check_kept
from hookpatch._plugins.relations import check
from hookpatch._plugins.variables import variables
from hookpatch._processes.children import carried
from hookpatch._processes.payload import Children, Payload, PayloadItem, is_packed_the_same, pack
from hookpatch._session.ledger import Requested
from hookpatch._session.lifecycle.prepared import Prepared
from hookpatch._session.load import load, load_drift, selection_for, switched_on
from hookpatch._session.session import Session
from hookpatch._session.span.part import SessionPart
from hookpatch.errors import SettingError

if TYPE_CHECKING:
    from hookpatch._bootstrap.selection import OnDrift


_NO_PLUGINS: Final = Selection((), {}, "active()")
_LOCAL: Final = "children='local'"


def active(
    *what: str | Patch,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    scope: Scope = "process",
    children: Children = "inherit",
    count: bool = False,
    lock: str | os.PathLike[str] | None = None,
    on_drift: OnDrift | None = None,
) -> Session:
    """Return a session of these plugins and patches; ``with`` opens and closes it.

    Args:
        *what: names of installed plugins (``name@distribution`` where two share one) and patches; of patches on the
            same site the first is the outermost.
        options: options by plugin name, such as ``{"onnxsim_skip": {"passes": ["fuse_qkv"]}}``. Other options come from
            HOOKPATCH_OPTIONS, else from the configuration, else from the defaults of the plugin.
        scope: ``"process"``; or ``"task"``: for this thread or asyncio task and the tasks and threads started by it,
            and for no others. ``"task"`` takes ``wrap``, ``inject`` and ``default``.
        children: ``"inherit"``: child processes started inside the block have its patches for as long as they live. A
            patch that cannot be carried, as with a lambda, is a ``NotCarriedWarning`` at the start of a child process.
            ``"require"``: such a patch is an error at once. ``"local"``: only this process and its forks have patches.
        count: True to count the calls of patches of these verbs, for the report. A required patch without a call is a
            ``NeverCalledWarning`` at the end.
        lock: a file written by ``hookpatch lock``; targets in the file are compared with their locked state. The
            default is the file of HOOKPATCH_LOCK, of the configuration, or none.
        on_drift: the policy for a patch whose target has changed since: ``"warn"``: applied, with a ``DriftWarning``;
            ``"skip"``: skipped, with the reason in the report; ``"error"``: a ``DriftError`` before any patch is
            applied. The default is the policy of HOOKPATCH_ON_DRIFT, of the configuration, or ``"warn"``.

    Raises:
        SelectionError: a name or an option is unknown, or the lock file cannot be read; on entering: a needed plugin is
            not on, or two plugins conflict.
        PluginError: a plugin cannot be loaded.
        NotCarriedError: with ``children="require"``, a patch cannot be carried to child processes.
        TargetRefused: a patch changes the source of a module, and says neither ``keep=True`` nor ``reload=True``.
    """
    is_usual = options is None and scope == "process" and not count and lock is None and on_drift is None
    if is_usual and len(what) == 1 and (session := _of_one_patch(what[0], children)) is not None:
        return session
    for item in what:
        if not isinstance(item, (str, Patch)):
            raise SettingError("active()", f"takes plugin names and patches, not {a_kind(item)}")
    what = tuple(named for item in what for named in (item.written_out() if isinstance(item, Patch) else (item,)))
    names = [item for item in what if isinstance(item, str)]
    selection = _NO_PLUGINS if not names and options is None else selection_for(names, options, "active()")
    if scope not in ("process", "task"):
        raise SettingError("active()", f"scope={scope!r} is neither 'process' nor 'task'")
    if children not in ("inherit", "local", "require"):
        raise SettingError("active()", f"children={children!r} is none of 'inherit', 'local' and 'require'")
    host, by_name = load(selection)
    is_alone = _environment.asks_nothing_of_blocks()
    locked = None if is_alone and lock is None and on_drift is None else lock_of(lock, on_drift, "active")
    payload = pack(what, selection.options, children, scope, count, lock=locked)
    requested: list[Requested] = []
    for index, item in enumerate(what):
        patches = [Requested(item)] if isinstance(item, Patch) else by_name.pop(_selection.normalise(item), [])
        obstacle = payload.not_carried.get(index)
        why = _LOCAL if children == "local" else (obstacle.why if obstacle else None)
        for request in patches:
            check_kept(request.patch, request.owner)
        requested += patches if why is None else [patch._replace(stays=why) for patch in patches]
    if not is_alone and (folder := _environment.report_folder()) is not None:
        from hookpatch._processes.receipt import write_reports_in  # few ask for reports

        write_reports_in(folder)
    also = [carried(payload)] if payload.pieces or payload.not_carried else []
    if host is not None:
        also.insert(0, switched_on(host, "active()"))
    return Session(requested, scope=scope, count=count, also=also, drift=load_drift(locked))


def _of_one_patch(patch: object, children: Children) -> Session | None:
    """Return a session of a single patch, as ``active`` makes it; None if more has to be found out.

    Another session of the same patch is made of the same requests.
    """
    if type(patch) is not Patch or not _environment.asks_nothing_of_blocks():
        return None
    preparation: Prepared | None = patch._prepared
    requests = None if preparation is None else preparation.requests.get(children)
    if requests is None or not (children == "local" or is_packed_the_same(patch)):
        may_be_many = patch.target is None or "{" in patch.address  # braces may name several addresses
        requests = None if may_be_many else _request_of(patch, children)
        if requests is None:
            return None
        if preparation is not None and requests[0][0].stays in (None, _LOCAL):
            preparation.requests = {**preparation.requests, children: requests}
    return Session(requests[0], also=requests[1])


def _request_of(patch: Patch, children: Children) -> tuple[tuple[Requested], tuple[SessionPart, ...]] | None:
    if children == "local":
        return (Requested(patch, stays=_LOCAL),), ()
    if children not in ("inherit", "require"):
        return None
    payload = pack((patch,), {}, children, "process", count=False)
    obstacle = payload.not_carried.get(0)
    if obstacle is not None:
        return (Requested(patch, stays=obstacle.why),), (carried(payload),)
    is_name = type(patch.change) is FunctionType  # a name, and no value that may be large
    also = _carried_alike(payload.pieces[0], payload.is_required) if is_name else carried(payload)
    return (Requested(patch),), (also,)


@lru_cache(maxsize=32)
def _carried_alike(piece: PayloadItem, require: bool) -> SessionPart:
    """Return the part that hands a single item on: the same part for the same text, with the block of the last time."""
    return carried(Payload((piece,), {}, "process", require, count=False, lock=None))


def environment(
    *names: str, options: Mapping[str, Mapping[str, Any]] | None = None, report: str | None = None, count: bool = False
) -> dict[str, str]:
    """Return the environment variables that switch plugins on in processes started by other code.

    For ``ray.init(runtime_env={"env_vars": ...})``, ``subprocess.run(env={**os.environ, ...})``, a job of SLURM or
    Kubernetes. Names and options are checked here: a misspelt name would make a pool restart its workers for ever.

    Args:
        *names: names of installed plugins, ``name@distribution`` where two share one.
        options: options by plugin name, of JSON values; other options as in ``active``.
        report: the folder in which each process leaves its report file.
        count: True to have each process count the calls of its patches.

    Raises:
        SelectionError: a name or an option is unknown, a needed plugin is not named, or two plugins conflict.
        PluginError: a plugin cannot be loaded.
    """
    for name in names:
        if not isinstance(name, str):
            raise SettingError("environment()", f"takes plugin names, not {a_kind(name)}")
    selection = selection_for(names, options, "environment()")
    host, _ = load(selection)
    if host is not None:
        check(host.relations, selection.asked_by)
    return variables(selection, report, count)


def lock_of(path: Any, on_drift: object, function: str) -> tuple[str, OnDrift] | None:
    """Return the lock file and the policy for drift, from the arguments of a function or the environment."""
    policy = None if on_drift is None else _selection.drift_policy(on_drift, f"{function}(on_drift=)")
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise SettingError(f"{function}()", f"lock= takes a path, not {a_kind(path)}")
    if path is not None:
        return os.path.abspath(path), policy or _selection.on_drift()
    lock = _selection.lock()
    return lock and (lock[0], policy or lock[1])

"""The ways to ask for patches: in a block, and for processes that somebody else starts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hookpatch import _environment, _selection, _variables
from hookpatch._children import carry
from hookpatch._ledger import Asked
from hookpatch._load import load, load_drift, switch_on
from hookpatch._luggage import Children, pack
from hookpatch._patch import Patch, Scope
from hookpatch._relations import check
from hookpatch._selection import Selection
from hookpatch._session import Begin, Session
from hookpatch._target import a_kind
from hookpatch.errors import SettingError

if TYPE_CHECKING:
    from hookpatch._selection import OnDrift


_NO_PLUGINS: Final = Selection((), {}, "active()")


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
            same site the first lies outermost.
        options: options by plugin name, such as ``{"onnxsim_skip": {"passes": ["fuse_qkv"]}}``. What is not given here
            is as HOOKPATCH_OPTIONS has it, else as the configuration has it, else as the plugin has it.
        scope: ``"process"``; or ``"task"``: for this thread or asyncio task and the tasks and threads it starts, and
            not for its neighbours. That is for ``wrap`` and ``inject`` alone.
        children: ``"inherit"``: processes that are started inside the block have its patches too, for as long as
            they live. What cannot be carried, a patch with a lambda for one, is a ``NotCarriedWarning`` when one is
            started; with ``"require"`` it is an error at once. ``"local"``: only this process has them, and what it
            forks.
        count: True to count the calls that ``wrap`` and ``inject`` receive, for the report. A required one that
            received none is a ``NeverCalledWarning`` at the end.
        lock: the file that ``hookpatch lock`` has written; targets that are in it are compared with what they were.
            The default is that of HOOKPATCH_LOCK, of the configuration, or none.
        on_drift: what becomes of a patch whose target has changed since: ``"warn"``: it is applied, with a
            ``DriftWarning``; ``"skip"``: it is skipped, with the reason in the report; ``"error"``: a ``DriftError``
            before anything is applied. The default is that of HOOKPATCH_ON_DRIFT, of the configuration, or ``"warn"``.

    Raises:
        SelectionError: a name or an option is none, or the lock file cannot be read; on entering: a plugin needs one
            that is not on, or cannot be on together with another.
        PluginError: a plugin cannot be loaded.
        NotCarriedError: with ``children="require"``, something cannot be carried to another process.
    """
    for item in what:
        if not isinstance(item, (str, Patch)):
            raise SettingError("active()", f"takes plugin names and patches, not {a_kind(item)}")
    names = [item for item in what if isinstance(item, str)]
    selection = _NO_PLUGINS if not names and options is None else asked_for(names, options, "active()")
    if scope not in ("process", "task"):
        raise SettingError("active()", f"scope={scope!r} is neither 'process' nor 'task'")
    if children not in ("inherit", "local", "require"):
        raise SettingError("active()", f"children={children!r} is none of 'inherit', 'local' and 'require'")
    host, by_name = load(selection)
    is_alone = _environment.asks_nothing_of_blocks()
    locked = None if is_alone and lock is None and on_drift is None else _lock(lock, on_drift)
    luggage = pack(what, selection.options, children, scope, count, lock=locked)
    asked: list[Asked] = []
    for at, item in enumerate(what):
        ones = [Asked(item)] if isinstance(item, Patch) else by_name.pop(_selection.normalise(item), [])
        left = luggage.left.get(at)
        why = "children='local'" if children == "local" else (left.why if left else None)
        asked += ones if why is None else [one._replace(stays=why) for one in ones]
    if not is_alone and (folder := _environment.report_folder()) is not None:
        from hookpatch._receipt import leave_in  # few ask for reports

        leave_in(folder)
    also: list[Begin] = [partial(carry, luggage)]
    if host is not None:
        also.insert(0, partial(switch_on, host=host, asked_by="active()"))
    return Session(asked, scope=scope, count=count, also=also, drift=load_drift(locked))


def environment(
    *names: str,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    report: str | None = None,
    count: bool = False,
) -> dict[str, str]:
    """Return the environment variables that switch plugins on in processes that somebody else starts.

    For ``ray.init(runtime_env={"env_vars": ...})``, ``subprocess.run(env={**os.environ, ...})``, a job of SLURM or
    Kubernetes. Names and options are looked at here: a misspelt one would have a pool of workers start for ever.

    Args:
        *names: names of installed plugins, ``name@distribution`` where two share one.
        options: options by plugin name, what JSON can hold; the rest as in ``active``.
        report: the folder in which each process leaves its report.
        count: True to have each process count the calls of its patches.

    Raises:
        SelectionError: a name or an option is none, a plugin needs one that is not named, or two cannot be on together.
        PluginError: a plugin cannot be loaded.
    """
    for name in names:
        if not isinstance(name, str):
            raise SettingError("environment()", f"takes plugin names, not {a_kind(name)}")
    selection = asked_for(names, options, "environment()")
    host, _ = load(selection)
    if host is not None:
        check(host.relations, selection.asked_by)
    return _variables.variables(selection, report, count)


def _lock(path: Any, on_drift: object) -> tuple[str, OnDrift] | None:
    """Return the lock file and the policy of a session: as given, else as the environment has them."""
    policy = None if on_drift is None else _selection.drift_policy(on_drift, "active(on_drift=)")
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise SettingError("active()", f"lock= takes a path, not {a_kind(path)}")
    if path is not None:
        return os.path.abspath(path), policy or _selection.on_drift()
    known = _selection.lock()
    return known and (known[0], policy or known[1])


def asked_for(names: Sequence[str], options: Any, asked_by: str) -> Selection:
    """Return what was asked for by arguments, with the options that the environment and the configuration give it.

    Raises:
        SettingError: the options are no mapping.
    """
    if options is not None and not isinstance(options, Mapping):
        raise SettingError(asked_by, f"options= takes a mapping by plugin name, not {a_kind(options)}")
    return _selection.selection_of(names, options or {}, asked_by)

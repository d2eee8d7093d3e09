"""Find changes of a program that are in no slot: trace functions, and loaders that change the source of modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.source.location import in_words
from hookpatch._inspect.audit.finding import AuditFinding
from hookpatch._inspect.audit.origin import PYTHON, Origin, of_module, origin_of, version_of
from hookpatch._inspect.audit.snapshot import module_of_class, names_of_module

_SHOWN: Final = 3  # modules of a loader


def hooks() -> Iterator[AuditFinding]:
    """Yield the trace functions of this thread and of threads to come, then the loaders."""
    threading = imports.loaded("threading")
    traces: dict[str, Any] = {"sys.settrace": sys.gettrace(), "sys.setprofile": sys.getprofile()}
    if threading is not None:
        names = names_of_module(threading)
        traces |= {"threading.settrace": names.get("_trace_hook"), "threading.setprofile": names.get("_profile_hook")}
    for target, function in traces.items():
        if function is not None:
            yield _finding(target, "trace", None, in_words(function), origin_of(function))
    modules: dict[type, list[str]] = {}
    for name, module in imports.modules():
        spec = names_of_module(module).get("__spec__")
        loader = type(spec.loader) if type(spec) is ModuleSpec else None
        if loader is not None and issubclass(loader, SourceFileLoader) and loader is not SourceFileLoader:
            modules.setdefault(loader, []).append(name)
    for loader, loaded in modules.items():
        origin = of_module(module_of_class(loader))
        own = origin.distribution
        foreign = sorted(name for name in loaded if own is None or of_module(name).distribution != own)
        if own != PYTHON and foreign:
            words = ", ".join([*foreign[:_SHOWN], *(["..."] if len(foreign) > _SHOWN else [])])
            source = f"the source of {len(foreign)} module{'' if len(foreign) == 1 else 's'} ({words})"
            yield _finding(describe(loader), "source", source, "what the loader makes of the source", origin)


def _finding(target: str, kind: str, before: str | None, now: str, origin: Origin) -> AuditFinding:
    version = version_of(origin.distribution)
    return AuditFinding(target, kind, before, now, origin.distribution, version, origin.place)

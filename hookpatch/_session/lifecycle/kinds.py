"""Choose the kind of lifecycle for a patch, by the verb and the target."""

from __future__ import annotations

from typing import Any

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.patch import Patch
from hookpatch._session.ledger import Ledger, Requested
from hookpatch._session.lifecycle.lifecycle import Lifecycle, Policy
from hookpatch._session.lifecycle.slots import SlotLifecycle


def lifecycle_of(
    request: Requested, rank: tuple[int, ...], ledger: Ledger, policy: Policy, *arguments: Any, **options: Any
) -> Lifecycle:
    """Return the lifecycle of a requested patch in a session, waiting; takes the arguments of ``Lifecycle``."""
    return _kind(request.patch)(request, rank, ledger, policy, *arguments, **options)


def _kind(patch: Patch) -> type[Lifecycle]:
    if patch.target is not None and patch.verb != "edit" and not patch.is_of_instances:
        return SlotLifecycle
    with imports.for_ourselves():  # imported when first needed: most patches are of a slot
        if patch.is_of_source:
            from hookpatch._session.lifecycle.source import SourceLifecycle

            return SourceLifecycle
        if patch.verb == "enter":
            from hookpatch._session.lifecycle.contexts import ContextLifecycle

            return ContextLifecycle
        if patch.is_of_instances:
            from hookpatch._session.lifecycle.instances import InstancesLifecycle

            return InstancesLifecycle
        from hookpatch._session.lifecycle.classes import EditLifecycle

        return EditLifecycle

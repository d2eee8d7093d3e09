"""What must hold before a patch is applied: the version, the slot, the signature."""

from __future__ import annotations

import inspect
from importlib import metadata

from hookpatch._patch import CALL_VERBS, Patch
from hookpatch._resolve import missing
from hookpatch._slot import ABSENT, Slot
from hookpatch.errors import RequirementError, SignatureError, TargetRefused, _suggest


def check_requirement(patch: Patch, owner: object) -> None:
    """Refuse a patch whose ``requires`` the installed version does not meet.

    Raises:
        RequirementError: it is not met, or cannot be read.
    """
    if patch.requires is None:
        return
    met, found = _compare(patch, owner, "requires", patch.requires)
    if not met:
        way = "install one that is, or a newer release of the plugin" if found else "install it"
        there = f"{found} is installed" if found else "it is not installed"
        raise RequirementError(patch.address, owner, f"made for {patch.requires}, but {there}; {way}")


def unneeded(patch: Patch, owner: object) -> str | None:
    """Return why a patch is not needed any more, None when it is.

    Raises:
        RequirementError: ``until`` cannot be read.
    """
    if patch.until is None:
        return None
    met, found = _compare(patch, owner, "until", patch.until)
    return f"not needed from {patch.until} on, and {found} is installed" if met else None


def check_slot(patch: Patch, slot: Slot, owner: object) -> inspect.Signature | None:
    """Refuse a patch that the slot cannot take; return the signature of what it holds, None when it tells none.

    Raises:
        TargetNotFound: the slot holds nothing.
        TargetRefused: it cannot be called, or what is to be removed is inherited.
        SignatureError: it does not take an argument that is to be given.
    """
    assert patch.target is not None  # patches without a slot are not checked against one
    seen = slot.seen()
    if seen is ABSENT:
        if patch.verb == "replace":
            return None  # added: a registry's new entry
        raise missing(slot, patch.target, owner)
    if patch.verb == "remove" and slot.read() is ABSENT:
        raise TargetRefused(patch.address, owner, f"{slot} is inherited; remove it from the class that defines it")
    if patch.verb not in CALL_VERBS:
        return None
    function = seen.__func__ if isinstance(seen, (staticmethod, classmethod)) else seen
    if not callable(function):
        raise TargetRefused(
            patch.address,
            owner,
            f"{slot} holds a {type(seen).__name__}, which cannot be called; take hookpatch.replace or hookpatch.derive",
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None  # a C function may tell none
    if patch.verb == "inject":
        _check_arguments(patch, signature, owner)
    return signature


def _check_arguments(patch: Patch, signature: inspect.Signature, owner: object) -> None:
    takes = signature.parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes):
        return
    names = [parameter.name for parameter in takes if parameter.kind is not parameter.VAR_POSITIONAL]
    for name in patch.change:
        if name not in names:
            hint = _suggest(name, names) or ";"
            raise SignatureError(
                patch.address, owner, f"{patch.address} takes no argument '{name}'{hint} it takes {', '.join(names)}"
            )


def _compare(patch: Patch, owner: object, fact: str, text: str) -> tuple[bool, str | None]:
    """Return whether the installed version meets a requirement, and that version."""
    from packaging.requirements import InvalidRequirement, Requirement  # only for patches that name versions

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        problem = f"{fact}={text!r} cannot be read ({str(error).splitlines()[0]}); write it like 'onnxsim>=0.4.36,<1'"
        raise RequirementError(patch.address, owner, problem) from None
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return False, None
    return requirement.specifier.contains(version, prereleases=True), f"{requirement.name} {version}"

"""Whether the installed version of a distribution is one that a patch names in ``requires`` or ``until``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookpatch import _imports
from hookpatch._patch import Patch
from hookpatch.errors import RequirementError

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def releases_like(distribution: str, version: str) -> str:
    """Return a requirement for a release and those after it that break nothing, as versions are mostly given.

    Args:
        distribution: its name.
        version: the release; one without a version of PEP 440 gives the name alone.
    """
    from packaging.version import InvalidVersion, Version

    try:
        release = Version(version)
    except InvalidVersion:
        return distribution
    next_break = f"0.{release.minor + 1}" if release.major == 0 else str(release.major + 1)
    return f"{distribution}>={release.public},<{next_break}"


def check_requirement(patch: Patch, owner: object) -> None:
    """Refuse a patch whose ``requires`` the installed versions do not meet.

    Raises:
        RequirementError: one is not met, or cannot be read.
    """
    for text in patch.requirements:
        met, found = _compare(patch, owner, "requires", text)
        if not met:
            way = "install one that is, or a newer release of the plugin" if found else "install it"
            there = f"{found} is installed" if found else "it is not installed"
            raise RequirementError(patch.address, owner, f"made for {text}, but {there}; {way}")


def unneeded(patch: Patch, owner: object) -> str | None:
    """Return why a patch is not needed any more, None when it is.

    Raises:
        RequirementError: ``until`` cannot be read.
    """
    if patch.until is None:
        return None
    met, found = _compare(patch, owner, "until", patch.until)
    return f"not needed from {patch.until} on, and {found} is installed" if met else None


def needs_of(distribution: str) -> list[str]:
    """Return the names of the distributions that an installed one needs on this platform, without those of extras."""
    from importlib import metadata

    from packaging.requirements import Requirement

    found = map(Requirement, metadata.requires(distribution) or ())
    return [one.name for one in found if one.marker is None or one.marker.evaluate({"extra": ""})]


def one_release(text: str) -> tuple[str, str, str | None]:
    """Return the distribution and the version that a release such as ``onnxsim==0.7.3`` names.

    Third comes the condition behind its ``;`` if that does not hold here, None if it does or there is none.

    Raises:
        ValueError: it names no single release.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(str(error).splitlines()[0]) from None
    versions = [one.version for one in requirement.specifier if one.operator == "==" and "*" not in one.version]
    if requirement.extras or requirement.url or len(versions) != 1 or len(requirement.specifier) != 1:
        raise ValueError("it is not one version of one distribution")
    holds = requirement.marker is None or requirement.marker.evaluate()
    return requirement.name, versions[0], None if holds else str(requirement.marker)


def _compare(patch: Patch, owner: object, fact: str, text: str) -> tuple[bool, str | None]:
    """Return whether the installed version meets a requirement, and that version with its name; None if there is none.

    A pre-release counts as the version it is: 2.0rc1 meets ``>=1.9``, and neither ``>=2`` nor ``<2``.
    """
    with _imports.for_ourselves():  # only for patches that name versions
        from importlib import metadata

        from packaging.version import InvalidVersion, Version

    requirement = _read(patch, owner, fact, text)
    try:
        version = metadata.version(requirement.name)
        release = Version(version)
    except metadata.PackageNotFoundError:
        return False, None
    except (InvalidVersion, TypeError, KeyError):  # none, or one of before PEP 440
        problem = f"{fact}={text!r} cannot be compared with the version that {requirement.name} says it has"
        raise RequirementError(patch.address, owner, f"{problem}; install a release of it") from None
    return requirement.specifier.contains(release, prereleases=True), f"{requirement.name} {version}"


def _read(patch: Patch, owner: object, fact: str, text: str) -> Requirement:
    with _imports.for_ourselves():
        from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        problem = f"cannot be read ({str(error).splitlines()[0]})"
    else:
        if requirement.extras:
            problem = f"names the extra '{min(requirement.extras)}', and which extras are installed is noted nowhere"
        elif requirement.marker is not None:
            problem = "has a condition behind ';', which is for installers: a patch of other platforms is another patch"
        elif requirement.url is not None:
            problem = "names a link, and what counts is the installed version"
        else:
            return requirement
    raise RequirementError(patch.address, owner, f"{fact}={text!r} {problem}; write it like 'onnxsim>=0.4.36,<1'")

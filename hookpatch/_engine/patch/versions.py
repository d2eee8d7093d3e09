"""Compare the installed version of a distribution with a patch's ``requires`` or ``until``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.patch import Patch
from hookpatch.errors import RequirementError, _suggest

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def releases_like(distribution: str, version: str) -> str:
    """Return a requirement up to the next breaking release, or for a version outside PEP 440 the name alone."""
    from packaging.version import InvalidVersion, Version

    try:
        release = Version(version)
    except InvalidVersion:
        return distribution
    next_break = f"0.{release.minor + 1}" if release.major == 0 else str(release.major + 1)
    return f"{distribution}>={release.public},<{next_break}"


def check_requirement(patch: Patch, owner: object) -> None:
    """Raise RequirementError if a patch's ``requires`` is not met by an installed version, or is malformed."""
    for text in patch.requirements:
        is_met, version = _compare(patch, owner, "requires", text)
        if not is_met:
            state = f"{version} is installed; install a fitting one, or a newer release of the plugin"
            if not version:
                from packaging.requirements import Requirement  # read before, by _compare

                names = {name for names in _by_package().values() for name in names}
                state = f"it is not installed{_suggest(Requirement(text).name, names, 0.8) or ';'} install it"
            raise RequirementError(patch.address, owner, f"made for {text}, but {state}")


def unneeded(patch: Patch, owner: object) -> str | None:
    """Return the reason if the installed version meets ``until``, else None; raise RequirementError if malformed."""
    if patch.until is None:
        return None
    is_met, version = _compare(patch, owner, "until", patch.until)
    return f"not needed from {patch.until} on, and {version} is installed" if is_met else None


def one_release(text: str) -> tuple[str, str, str | None]:
    """Return the distribution, the version and the unmet marker of a release such as ``onnxsim==0.7.3``.

    The marker is the condition behind ``;``, or None if the condition holds here or is missing. Any other text raises
    ValueError.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(str(error).splitlines()[0]) from None
    versions = [part.version for part in requirement.specifier if part.operator == "==" and "*" not in part.version]
    if requirement.extras or requirement.url or len(versions) != 1 or len(requirement.specifier) != 1:
        raise ValueError("a release is one version of one distribution")
    is_met = requirement.marker is None or requirement.marker.evaluate()
    return requirement.name, versions[0], None if is_met else str(requirement.marker)


def _compare(patch: Patch, owner: object, fact: str, text: str) -> tuple[bool, str | None]:
    """Return True if the installed version meets a requirement, and the name with the version, None if not installed.

    A pre-release counts as its own version: 2.0rc1 meets ``>=1.9``, but neither ``>=2`` nor ``<2``.
    """
    with imports.for_ourselves():  # here, since few patches name versions
        from packaging.requirements import InvalidRequirement, Requirement
        from packaging.version import InvalidVersion, Version

    try:
        requirement = Requirement(text)
        problem = _problem(requirement)
    except InvalidRequirement as error:
        problem = f"cannot be read ({str(error).splitlines()[0]})"
    if problem:
        raise RequirementError(patch.address, owner, f"{fact}={text!r} {problem}; write it like 'onnxsim>=0.4.36,<1'")
    try:
        version = _metadata().version(requirement.name)
        release = Version(version)
    except ModuleNotFoundError:
        return False, None
    except (InvalidVersion, TypeError, KeyError):  # no version, or one older than PEP 440
        problem = f"{fact}={text!r} cannot be compared with the version of {requirement.name}"
        raise RequirementError(patch.address, owner, f"{problem}; install a release with a version") from None
    return requirement.specifier.contains(release, prereleases=True), f"{requirement.name} {version}"


def _problem(requirement: Requirement) -> str:
    """Return the reason why a requirement cannot be compared with an installed version, empty if there is none."""
    if requirement.extras:
        return f"names the extra '{min(requirement.extras)}', and which extras are installed is noted nowhere"
    if requirement.marker is not None:
        return "has a condition behind ';', which is for installers: a patch of other platforms is another patch"
    return "names a link, and what counts is the installed version" if requirement.url is not None else ""


def release_of(module: str | None) -> tuple[str, str]:
    """Return the distribution of a module and its version, two empty texts for a module of no distribution."""
    top = (module or "").partition(".")[0]
    name = _of_same_name(top) or next(iter(_by_package().get(top, ())), None) if top else None
    return (name, _metadata().version(name)) if name else ("", "")


def _of_same_name(top: str) -> str | None:
    """Return the distribution with the name of its package, as most have: no other distribution is read."""
    try:
        distribution = _metadata().distribution(top)
    except ModuleNotFoundError:
        return None
    record = f"\n{distribution.read_text('RECORD') or ''}"
    return distribution.metadata["Name"] if f"\n{top}/" in record or f"\n{top}.py," in record else None


@lru_cache(maxsize=1)
def _by_package() -> Mapping[str, list[str]]:
    packages: Mapping[str, list[str]] = _metadata().packages_distributions()
    return packages


def _metadata() -> Any:
    return imports.fetch_ours("importlib.metadata")  # takes 20 ms, and few patches have a requirement

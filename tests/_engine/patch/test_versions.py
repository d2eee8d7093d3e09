"""Versions: ``requires`` decides over a patch; ``until`` warns of a needless patch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest
from refusals import passing, refused, simplify

import hookpatch
from hookpatch.errors import PatchFailedWarning, PatchUnneededWarning, RequirementError

MakeModule = Callable[..., ModuleType]

MakeDistribution = Callable[..., Path]

OURS = "of a patch given to active()"


# --- requires


@pytest.mark.parametrize(
    "requires",
    [
        "vendor-kit",
        "vendor-kit>=1.4",
        "vendor-kit>=1,<2",
        "vendor-kit==1.*",
        "Vendor_Kit~=1.4",
        ["vendor-kit>=1", "vendor-kit<2"],
        (),
    ],
)
def test_patch_whose_requirement_is_met_is_applied(vendor: ModuleType, requires: str) -> None:
    """A met requirement applies the patch; names compare as distribution names."""
    with hookpatch.active(simplify(requires=requires)):
        assert vendor.simplify("m") == ("m", None, 7)


def test_prerelease_counts_as_the_version_it_is(vendor: ModuleType, make_distribution: MakeDistribution) -> None:
    """An installed pre-release counts with its number."""
    make_distribution("nightly", "2.0rc1")
    with hookpatch.active(simplify(requires="nightly>=1.9")):
        assert vendor.simplify("m") == ("m", None, 7)
    assert refused(RequirementError, simplify(requires="nightly>=2")) == (
        "made for nightly>=2, but nightly 2.0rc1 is installed; install a fitting one, or a newer release of the "
        f"plugin (target vendor:simplify {OURS})"
    )


@pytest.mark.parametrize("requires", ["vendor-kit>=1.5", "vendor-kit<1.4", "vendor-kit!=1.4", "vendor-kit==1.4.1"])
def test_patch_whose_requirement_is_not_met_is_refused(vendor: ModuleType, requires: str) -> None:
    """The message has requirement, installed version and remedies; no patch is applied."""
    original = vendor.simplify
    assert refused(RequirementError, simplify(requires=requires)) == (
        f"made for {requires}, but vendor-kit 1.4 is installed; install a fitting one, or a newer release of the "
        f"plugin (target vendor:simplify {OURS})"
    )
    assert vendor.simplify is original


def test_requirement_of_what_is_not_installed_is_refused(vendor: ModuleType) -> None:
    """The message says that the distribution is not installed."""
    assert refused(RequirementError, simplify(requires="no-such-kit>=1")) == (
        f"made for no-such-kit>=1, but it is not installed; install it (target vendor:simplify {OURS})"
    )


def test_requirement_with_a_misspelt_distribution_names_the_nearest(vendor: ModuleType) -> None:
    """The message has the similar name of an installed distribution."""
    assert refused(RequirementError, simplify(requires="plugy>=1")) == (
        f"made for plugy>=1, but it is not installed; did you mean 'pluggy'? install it (target vendor:simplify {OURS})"
    )


def test_requirement_that_cannot_be_read_is_refused(vendor: ModuleType) -> None:
    """The message has the text and an example."""
    message = refused(RequirementError, simplify(requires=">=1.4"))
    head, tail = (
        "requires='>=1.4' cannot be read (",
        (f"); write it like 'onnxsim>=0.4.36,<1' (target vendor:simplify {OURS})"),
    )
    assert message.startswith(head)
    assert message.endswith(tail)
    assert message == f"{head}Expected package name at the start of dependency specifier{tail}"


def test_requirement_is_looked_at_before_anything_is_applied(vendor: ModuleType) -> None:
    """All patches are checked first: no patch is applied if a later one does not fit."""
    values: list[object] = []

    def factory(limit: object) -> object:
        values.append(limit)
        return limit

    fits = hookpatch.derive("vendor:limit", factory)
    refused(RequirementError, fits, simplify(requires="vendor-kit>=9"))
    assert values == []


def test_requirement_of_a_plugin_names_the_plugin(vendor: ModuleType, make_distribution: MakeDistribution) -> None:
    """The owner in the message is the plugin with its distribution and version."""
    source = """
        import hookpatch

        @hookpatch.hookimpl
        def hookpatch_patches():
            yield hookpatch.replace("vendor:limit", 1, requires="vendor-kit>=2")
        """
    make_distribution("hookpatch-kit", "0.3", {"limit_off": "limit_off"}, {"limit_off": source})
    with pytest.raises(RequirementError) as caught:
        hookpatch.active("limit_off").open()
    assert str(caught.value) == (
        "made for vendor-kit>=2, but vendor-kit 1.4 is installed; install a fitting one, or a newer release of the "
        "plugin (target vendor:limit of plugin 'limit_off' from hookpatch-kit 0.3)"
    )


def test_requirement_not_met_by_a_module_that_comes_later_is_a_warning(
    write_module: Callable[[str, str], Path], make_module: MakeModule, make_distribution: MakeDistribution
) -> None:
    """The import of the module succeeds, unpatched; the report says failed, with the reason."""
    make_distribution("vendor-kit", "1.4")
    problem = (
        "made for vendor-kit>=2, but vendor-kit 1.4 is installed; install a fitting one, or a newer release of the "
        f"plugin (target late:limit {OURS})"
    )
    with hookpatch.active(hookpatch.replace("late:limit", 1, requires="vendor-kit>=2")) as session:
        with pytest.warns(PatchFailedWarning) as warned:
            late = make_module("late", "limit = 3")
        assert late.limit == 3
        (entry,) = session.report()
    assert [str(warning.message) for warning in warned] == [f"not patched: {problem}"]
    assert (entry.state, entry.reason) == ("failed", problem)


@pytest.mark.parametrize(
    ("requires", "problem"),
    [
        ("vendor-kit[fast]>=1", "names the extra 'fast', and which extras are installed is noted nowhere"),
        (
            "vendor-kit>=1; sys_platform == 'linux'",
            "has a condition behind ';', which is for installers: a patch of other platforms is another patch",
        ),
        ("vendor-kit @ https://example.org/kit.whl", "names a link, and what counts is the installed version"),
    ],
    ids=["extra", "marker", "link"],
)
def test_requirement_that_only_an_installer_understands_is_refused(
    vendor: ModuleType, requires: str, problem: str
) -> None:
    """An extra, a marker or a link is not passed over in silence."""
    assert refused(RequirementError, simplify(requires=requires)) == (
        f"requires={requires!r} {problem}; write it like 'onnxsim>=0.4.36,<1' (target vendor:simplify {OURS})"
    )


def test_each_of_several_requirements_is_looked_at(vendor: ModuleType, make_distribution: MakeDistribution) -> None:
    """The message names the first unmet requirement."""
    make_distribution("other-kit", "3.0")
    with hookpatch.active(simplify(requires=["vendor-kit>=1", "other-kit==3.*"])):
        assert vendor.simplify("m") == ("m", None, 7)
    assert refused(RequirementError, simplify(requires=("vendor-kit>=1", "other-kit<3", "no-such-kit"))) == (
        "made for other-kit<3, but other-kit 3.0 is installed; install a fitting one, or a newer release of the "
        f"plugin (target vendor:simplify {OURS})"
    )


@pytest.mark.parametrize("installed", ["nightly", ""], ids=["not PEP 440", "none"])
def test_version_that_cannot_be_compared_is_refused(
    vendor: ModuleType, make_distribution: MakeDistribution, installed: str
) -> None:
    """A distribution's version may be malformed."""
    make_distribution("odd-kit", installed)
    assert refused(RequirementError, simplify(requires="odd-kit>=1")) == (
        "requires='odd-kit>=1' cannot be compared with the version of odd-kit; install a release with a version "
        f"(target vendor:simplify {OURS})"
    )


# --- until


def test_patch_that_has_become_unneeded_is_applied_with_a_warning(vendor: ModuleType) -> None:
    """A met until is a warning, not an error."""
    with pytest.warns(PatchUnneededWarning) as warned, hookpatch.active(simplify(until="vendor-kit>=1.2")):
        assert vendor.simplify("m") == ("m", None, 7)
    assert [str(warning.message) for warning in warned] == [
        f"vendor:simplify {OURS}: not needed from vendor-kit>=1.2 on, and vendor-kit 1.4 is installed"
    ]


def test_patch_that_has_become_unneeded_is_said_to_be_in_the_report(vendor: ModuleType) -> None:
    """The report says so for every verb, and not for a needed patch."""
    reason = "not needed from vendor-kit>=1.2 on, and vendor-kit 1.4 is installed"
    until = {"until": "vendor-kit>=1.2"}
    patches = (
        simplify(**until),
        hookpatch.enter("vendor", nullcontext, **until),  # type: ignore[arg-type]  # a dict of facts
        hookpatch.wrap("vendor:bare", passing),
    )
    with pytest.warns(PatchUnneededWarning):
        session = hookpatch.active(*patches).open()
    report = session.report()
    session.close()
    assert [(entry.state, entry.warnings) for entry in report] == [
        ("applied", (reason,)),
        ("applied", (reason,)),
        ("applied", ()),
    ]
    assert str(report).splitlines()[:2] == [
        "applied   inject  vendor:simplify  (active())",
        f"          warning {reason}",
    ]


@pytest.mark.parametrize("until", ["vendor-kit>=1.5", "no-such-kit>=1"], ids=["older", "not installed"])
def test_patch_that_is_still_needed_is_applied_in_silence(vendor: ModuleType, until: str) -> None:
    """No warning before the version of until, or without the distribution."""
    with hookpatch.active(simplify(until=until)):
        assert vendor.simplify("m") == ("m", None, 7)


def test_until_that_cannot_be_read_is_refused(vendor: ModuleType) -> None:
    """A misspelt until is not passed over."""
    message = refused(RequirementError, simplify(until="vendor-kit => 2"))
    head, tail = (
        "until='vendor-kit => 2' cannot be read (",
        (f"); write it like 'onnxsim>=0.4.36,<1' (target vendor:simplify {OURS})"),
    )
    assert message.startswith(head)
    assert message.endswith(tail)
    assert "\n" not in message

"""Find installed plugins by metadata alone; refuse unknown and ambiguous names."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from hookpatch._bootstrap.installed import Installed, find, installed
from hookpatch.errors import AmbiguousPlugin, HookpatchError, SelectionError, UnknownPlugin

MakeDistribution = Callable[..., Path]


@pytest.fixture(autouse=True)
def _alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the folder as the only place where distributions are."""
    elsewhere = [path for path in sys.path if "-packages" not in path and path != str(folder)]
    monkeypatch.setattr(sys, "path", [str(folder), *elsewhere])


# --- installed plugins


def test_nothing_installed_is_an_empty_answer() -> None:
    """No distribution has a plugin."""
    assert installed() == ()


def test_plugins_are_found_by_entry_point(make_distribution: MakeDistribution) -> None:
    """Each entry point of the group is a plugin with its distribution and version; they come by name."""
    make_distribution("kit-two", "2.1", {"zeta": "kit.zeta", "alpha": "kit.alpha"})
    make_distribution("kit_one", "1.0rc1", {"middle": "one"})
    make_distribution("no-plugin", "3.0")
    assert installed() == (
        Installed("alpha", "kit.alpha", "kit-two", "2.1"),
        Installed("middle", "one", "kit-one", "1.0rc1"),
        Installed("zeta", "kit.zeta", "kit-two", "2.1"),
    )


def test_origin_is_distribution_and_version() -> None:
    """Messages name where a plugin comes from."""
    assert Installed("a", "m", "kit", "1.0").origin == "kit 1.0"


def test_finding_imports_nothing(make_distribution: MakeDistribution) -> None:
    """Neither looking through the plugins nor asking for one imports its module."""
    make_distribution("kit", "1.0", {"trim": "trim_plugin"}, {"trim_plugin": "raise AssertionError('imported')"})
    assert find("trim", "active()") in installed()
    assert "trim_plugin" not in sys.modules


def test_the_same_is_found_as_by_the_standard_library(make_distribution: MakeDistribution) -> None:
    """importlib.metadata finds the same entry points with the same modules and distributions."""
    make_distribution("kit-a", "1.0", {"one": "kit.one", "two": "kit.two"})
    make_distribution("kit-b", "2.0", {"three": "kit_b"})
    theirs = sorted(
        (point.name, point.module, point.dist.name, point.dist.version)
        for point in metadata.entry_points(group="hookpatch")
        if point.dist is not None
    )
    ours = [(plugin.name, plugin.module, plugin.distribution, plugin.version) for plugin in installed()]
    assert ours == theirs


def test_what_a_plugin_waits_for_is_read_with_it(make_distribution: MakeDistribution) -> None:
    """The group hookpatch.waits_for, by the plugin's name; it may stand before the plugins."""
    info = make_distribution("kit", "1.0")
    groups = "[hookpatch.waits_for]\ntwo = vendor.models\nnobody = vendor\n[hookpatch]\none = kit.one\ntwo = kit.two\n"
    (info / "entry_points.txt").write_text(groups)
    assert [(plugin.name, plugin.waits_for) for plugin in installed()] == [("one", ""), ("two", "vendor.models")]


def test_entry_points_are_read_as_the_format_says(make_distribution: MakeDistribution) -> None:
    """Comments, blank lines, other groups, blanks around and extras behind are not part of a plugin."""
    info = make_distribution("kit", "1.0")
    (info / "entry_points.txt").write_text(
        "[console_scripts]\nhookpatch = nobody:main\n\n"
        "[ hookpatch ]\n# a comment = x\n; another = y\n\n"
        "  spaced   =   kit.spaced  \nextra = kit.extra [onnx]\nno sign\n"
        "[hookpatch.other]\nforeign = kit.foreign\n"
        "[hookpatch]\nlast=kit.last\n"
    )
    assert [(plugin.name, plugin.module) for plugin in installed()] == [
        ("extra", "kit.extra"),
        ("last", "kit.last"),
        ("spaced", "kit.spaced"),
    ]


def test_egg_info_is_a_distribution_too(folder: Path) -> None:
    """A development install may leave an egg-info folder, with or without a version in its name."""
    for name in ("old_kit-1.2-py3.11.egg-info", "bare_kit.egg-info"):
        (folder / name).mkdir()
        (folder / name / "entry_points.txt").write_text(f"[hookpatch]\n{name[:3]} = m\n")
    assert installed() == (
        Installed("bar", "m", "bare-kit", "unknown"),
        Installed("old", "m", "old-kit", "1.2"),
    )


def test_distribution_found_twice_counts_where_it_is_first(
    make_distribution: MakeDistribution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first folder of sys.path wins, as for importlib.metadata, whichever version it has."""
    make_distribution("kit", "1.0", {"trim": "first"})
    second = tmp_path / "second" / "KIT-2.0.dist-info"
    second.mkdir(parents=True)
    (second / "entry_points.txt").write_text("[hookpatch]\ntrim = second\nmore = second\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(second.parent)])
    assert installed() == (Installed("trim", "first", "kit", "1.0"),)


def test_places_that_are_no_folders_are_passed_over(
    make_distribution: MakeDistribution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zip file, a folder that is gone and a plain file on sys.path do no harm."""
    make_distribution("kit", "1.0", {"trim": "trim"})
    with zipfile.ZipFile(tmp_path / "library.zip", "w") as archive:
        archive.writestr("in_zip.py", "")
    (tmp_path / "file").touch()
    places = [str(tmp_path / name) for name in ("library.zip", "gone", "file")]
    monkeypatch.setattr(sys, "path", [*places, *sys.path])
    assert [plugin.name for plugin in installed()] == ["trim"]


def test_current_folder_is_not_looked_at(
    make_distribution: MakeDistribution, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A distribution in the working folder is no installed plugin."""
    make_distribution("kit", "1.0", {"trim": "trim"})
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", ["", *sys.path[1:]])
    assert installed() == ()


def test_folder_added_to_the_path_is_seen(
    make_distribution: MakeDistribution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The found plugins are kept until sys.path changes."""
    make_distribution("kit", "1.0", {"trim": "trim"})
    assert [plugin.name for plugin in installed()] == ["trim"]
    info = tmp_path / "more" / "other-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[hookpatch]\nother = other\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(info.parent)])
    assert [plugin.name for plugin in installed()] == ["other", "trim"]


def test_answer_is_kept_while_nothing_changes(make_distribution: MakeDistribution) -> None:
    """A second look does not read the files again."""
    make_distribution("kit", "1.0", {"trim": "trim"})
    assert installed() is installed()


# --- names


@pytest.mark.parametrize("name", ["fuse_qkv_off", "fuse-qkv-off", "Fuse.QKV_off", "fuse__qkv--off"])
def test_names_are_compared_as_distributions_names(make_distribution: MakeDistribution, name: str) -> None:
    """Case and the kind of separator do not matter (PEP 503); the plugin keeps its own spelling."""
    make_distribution("kit", "1.0", {"fuse_qkv_off": "m"})
    assert find(name, "active()").name == "fuse_qkv_off"


def test_unknown_name_is_refused(make_distribution: MakeDistribution) -> None:
    """The message has the asker, the nearest name and the list of installed plugins."""
    make_distribution("kit", "1.0", {"fuse_qkv_off": "m", "trim": "m"})
    make_distribution("kit-b", "1.0", {"trim": "m"})
    with pytest.raises(UnknownPlugin) as caught:
        find("fuse_qvk_off", "HOOKPATCH_PLUGINS=fuse_qvk_off")
    assert str(caught.value) == (
        "no plugin 'fuse_qvk_off' (asked for by HOOKPATCH_PLUGINS=fuse_qvk_off); did you mean 'fuse_qkv_off'? "
        "installed: fuse_qkv_off, trim"
    )
    assert caught.value.installed == ("fuse_qkv_off", "trim")


def test_name_unlike_any_is_refused_without_a_proposal(make_distribution: MakeDistribution) -> None:
    """A distant name gets no proposal."""
    make_distribution("kit", "1.0", {"trim": "m"})
    with pytest.raises(UnknownPlugin) as caught:
        find("zeal", "active()")
    assert str(caught.value) == "no plugin 'zeal' (asked for by active()); installed: trim"


def test_unknown_name_where_nothing_is_installed_is_refused() -> None:
    """The list of installed plugins is never empty text."""
    with pytest.raises(UnknownPlugin) as caught:
        find("trim", "-p")
    assert str(caught.value) == "no plugin 'trim' (asked for by -p); installed: none"


@pytest.mark.parametrize("name", ["", "*", "trim,other", "./trim.py", "trim:hookpatch_patches"])
def test_no_wildcard_and_no_path_is_a_name(make_distribution: MakeDistribution, name: str) -> None:
    """Neither wildcards nor paths are names."""
    make_distribution("kit", "1.0", {"trim": "trim"})
    with pytest.raises(UnknownPlugin):
        find(name, "active()")


def test_two_distributions_with_one_name_are_refused(make_distribution: MakeDistribution) -> None:
    """Neither plugin wins silently; the message has the full names of both."""
    make_distribution("kit-a", "1.0", {"trim": "a"})
    make_distribution("kit-b", "2.0", {"Trim": "b"})
    with pytest.raises(AmbiguousPlugin) as caught:
        find("trim", "active()")
    assert sorted(caught.value.distributions) == ["kit-a", "kit-b"]
    first, second = caught.value.distributions
    assert str(caught.value) == (
        f"plugin 'trim' (asked for by active()) is offered by 2 distributions: {first}, {second}; "
        f"ask for 'trim@{first}' or 'trim@{second}', or uninstall one"
    )
    assert isinstance(caught.value, SelectionError)
    assert isinstance(caught.value, HookpatchError)


@pytest.mark.parametrize("name", ["trim@kit-b", "trim@Kit_B", "TRIM@kit.b"])
def test_name_at_distribution_tells_two_apart(make_distribution: MakeDistribution, name: str) -> None:
    """``name@distribution`` means one, whatever the spelling."""
    make_distribution("kit-a", "1.0", {"trim": "a"})
    make_distribution("kit-b", "2.0", {"trim": "b"})
    assert find(name, "active()") == Installed("trim", "b", "kit-b", "2.0")


def test_name_at_another_distribution_is_refused(make_distribution: MakeDistribution) -> None:
    """A wrong distribution in the name is refused."""
    make_distribution("kit-a", "1.0", {"trim": "a"})
    with pytest.raises(UnknownPlugin) as caught:
        find("trim@kit-z", "active()")
    assert caught.value.name == "trim@kit-z"


def test_two_plugins_of_one_name_in_one_distribution_are_refused(make_distribution: MakeDistribution) -> None:
    """Names with equal normalised spelling are the same name."""
    make_distribution("kit", "1.0", {"trim_all": "a", "trim-all": "b"})
    with pytest.raises(AmbiguousPlugin):
        find("Trim.All", "active()")
    assert find("trim_all", "active()").module == "a"  # spelt exactly as in the metadata


def test_exact_spelling_does_not_settle_a_name_that_two_distributions_have(make_distribution: MakeDistribution) -> None:
    """No distribution wins in silence, however the name is spelt."""
    make_distribution("kit-a", "1.0", {"trim_all": "a"})
    make_distribution("kit-b", "1.0", {"trim-all": "b"})
    with pytest.raises(AmbiguousPlugin):
        find("trim_all", "active()")


def test_metadata_that_is_no_text_hides_no_plugin(make_distribution: MakeDistribution) -> None:
    """Another distribution's broken file is not our failure."""
    info = make_distribution("broken")
    (info / "entry_points.txt").write_bytes(b"[console_scripts]\n\xff\xfe = x\n")
    make_distribution("kit", "1.0", {"trim": "a"})
    assert find("trim", "active()").distribution == "kit"

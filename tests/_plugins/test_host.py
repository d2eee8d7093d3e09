"""Host: load the named plugins, and no others, and ask for their patches."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import hookpatch
from hookpatch._bootstrap.installed import find
from hookpatch._bootstrap.selection import Selection
from hookpatch._plugins.host import Host
from hookpatch.errors import AmbiguousPlugin, HookpatchError, OptionsError, PluginError, SettingError, UnknownPlugin

MakeModule = Callable[..., ModuleType]
MakeDistribution = Callable[..., Path]
Install = Callable[..., None]

SPEED = """
    '''Set the speed.

    In more words.
    '''
    import hookpatch

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.replace("vendor:speed", 2)
    """

TUNED = """
    '''Set the speed to one's choice.'''
    from dataclasses import dataclass
    import hookpatch

    @dataclass(frozen=True)
    class Options:
        speed: int
        label: str = "tuned"

    @hookpatch.hookimpl
    def hookpatch_patches(options):
        yield hookpatch.replace("vendor:speed", options.speed)
        yield hookpatch.replace("vendor:label", options.label)
    """

FORGETFUL = """
    import hookpatch

    def hookpatch_patches():
        yield hookpatch.replace("vendor:speed", 2)
    """


@pytest.fixture
def vendor(make_module: MakeModule) -> ModuleType:
    """The module to patch."""
    return make_module("vendor", "speed = 1\nother = 1\nlabel = 'vendor'\n")


@pytest.fixture
def install(make_distribution: MakeDistribution) -> Install:
    """Install one plugin by name, source and distribution."""

    def one(name: str, source: str, distribution: str = "kit", module: str | None = None) -> None:
        module = module or f"plugin_{name}".replace("-", "_")
        make_distribution(distribution, "1.0", {name: module}, {module: source})

    return one


def refused(name: str) -> str:
    """Return the message with which a plugin is refused."""
    with pytest.raises(PluginError) as caught:
        hookpatch.active(name)
    assert (caught.value.plugin, caught.value.distribution) == (name, "kit 1.0")
    assert str(caught.value) == f"plugin '{name}' (kit 1.0) {caught.value.problem}"
    assert isinstance(caught.value, HookpatchError)
    return str(caught.value)


# --- loading


def test_selected_plugin_is_loaded_and_its_patches_hold(install: Install, vendor: ModuleType) -> None:
    """A named plugin takes effect for the block; the report has plugin and distribution."""
    install("speed", SPEED)
    with hookpatch.active("speed") as session:
        assert vendor.speed == 2
        (entry,) = session.report()
    assert (entry.plugin, entry.distribution, entry.target) == ("speed", "kit 1.0", "vendor:speed")
    assert vendor.speed == 1


@pytest.mark.parametrize("name", ["Speed-Up.now", "speed_up_now", "speed--up__now"])
def test_name_in_any_spelling_selects(install: Install, vendor: ModuleType, name: str) -> None:
    """Names are compared as distributions' names (PEP 503); the report has the plugin's own spelling."""
    install("speed_up_now", SPEED)
    with hookpatch.active(name) as session:
        assert vendor.speed == 2
        assert [entry.plugin for entry in session.report()] == ["speed_up_now"]


def test_plugin_that_was_not_selected_is_not_imported(make_distribution: MakeDistribution, vendor: ModuleType) -> None:
    """No other plugin is loaded, even from the same distribution."""
    make_distribution(
        "kit",
        plugins={"speed": "plugin_speed", "other": "plugin_other"},
        modules={"plugin_speed": SPEED, "plugin_other": "raise AssertionError('imported')"},
    )
    with hookpatch.active("speed"):
        assert "plugin_speed" in sys.modules
    assert "plugin_other" not in sys.modules


def test_loading_imports_no_target(install: Install, write_module: Callable[[str, str], Path]) -> None:
    """A plugin waits for its target: neither loading nor opening imports the target."""
    write_module("vendor", "raise AssertionError('imported')")
    install("speed", SPEED)
    with hookpatch.active("speed") as session:
        assert "vendor" not in sys.modules
        assert [entry.state for entry in session.report()] == ["waiting"]
    assert [(entry.state, entry.reason) for entry in session.report()] == [("unused", "vendor was never imported")]


def test_plugin_is_loaded_by_active_not_by_opening(install: Install, vendor: ModuleType) -> None:
    """active() raises the error of a broken plugin; no patch is applied before the session opens."""
    install("speed", SPEED)
    session = hookpatch.active("speed")
    assert "plugin_speed" in sys.modules
    assert vendor.speed == 1
    session.open().close()


def test_plugin_named_twice_is_applied_once(install: Install, vendor: ModuleType) -> None:
    """Two spellings of a name mean the same plugin."""
    install("speed_up", SPEED)
    with hookpatch.active("speed_up", "Speed-Up") as session:
        assert len(session.report().patches) == 1


def test_plugin_is_asked_anew_by_each_session(install: Install, vendor: ModuleType) -> None:
    """A plugin's module is imported once; each session asks for the patches anew."""
    install("counting", f"{SPEED}\n    calls = []\n".replace("yield", "calls.append(1)\n        yield"))
    for _ in range(2):
        with hookpatch.active("counting"):
            assert vendor.speed == 2
    assert len(sys.modules["plugin_counting"].calls) == 2


def test_hook_that_returns_a_list_is_as_good_as_one_that_yields(install: Install, vendor: ModuleType) -> None:
    """A hook may return any iterable of patches, even empty."""
    install("speed", SPEED.replace('yield hookpatch.replace("vendor:speed", 2)', "return []"))
    with hookpatch.active("speed") as session:
        assert len(session.report().patches) == 0
    assert str(session.report()) == "no patches"


def test_name_at_distribution_tells_two_apart(install: Install, vendor: ModuleType) -> None:
    """Where two distributions offer a name, the name alone is refused and name@distribution selects."""
    install("speed", SPEED, "kit-a", "plugin_a")
    install("speed", SPEED.replace("2)", "3)"), "kit-b", "plugin_b")
    with pytest.raises(AmbiguousPlugin):
        hookpatch.active("speed")
    with hookpatch.active("speed@kit-b") as session:
        assert vendor.speed == 3
        assert [entry.distribution for entry in session.report()] == ["kit-b 1.0"]
    assert "plugin_a" not in sys.modules


def test_unknown_name_is_refused_by_active() -> None:
    """The error names active() as the source of the request."""
    with pytest.raises(UnknownPlugin) as caught:
        hookpatch.active("no_such_plugin_at_all")
    assert str(caught.value).startswith("no plugin 'no_such_plugin_at_all' (asked for by active());")


def test_something_else_than_names_and_patches_is_refused() -> None:
    """The message names the type."""
    with pytest.raises(SettingError) as caught:
        hookpatch.active(3)  # type: ignore[arg-type]  # the case under test
    assert str(caught.value) == "active(): takes plugin names and patches, not an int"


def test_plugin_is_described_by_the_first_line_of_its_docstring(install: Install) -> None:
    """The description is the docstring's first line; without a docstring, empty."""
    install("speed", SPEED)
    install("tuned", TUNED, "kit-b")
    install("forgetful", FORGETFUL, "kit-c")
    host = Host()
    plugins = [host.plugin(find(name, "a test"), "a test") for name in ("speed", "tuned", "forgetful")]
    assert [plugin.description for plugin in plugins] == ["Set the speed.", "Set the speed to one's choice.", ""]
    assert [plugin.options_type for plugin in plugins] == [None, sys.modules["plugin_tuned"].Options, None]


def test_plugin_is_loaded_once_a_host(install: Install) -> None:
    """A second request returns the same object."""
    install("speed", SPEED)
    host = Host()
    assert host.plugin(find("speed", "a test"), "a test") is host.plugin(find("Speed", "a test"), "a test")


def test_plugins_come_in_the_order_selected(install: Install) -> None:
    """The order of selection decides the order of layers."""
    for name in ("a", "b", "c"):
        install(name, SPEED, f"kit-{name}")
    loaded = Host().load(Selection(["b", "c", "a"], {}, "a test"))
    assert [plugin.name for _, plugin, _ in loaded] == ["b", "c", "a"]
    assert [patch.address for _, _, patches in loaded for patch in patches] == ["vendor:speed"] * 3


# --- broken plugins


def test_plugin_that_raises_when_loaded_is_refused(install: Install) -> None:
    """The message names plugin, distribution and error; the error itself is the cause."""
    install("broken", "raise RuntimeError('no licence')")
    assert refused("broken") == (
        "plugin 'broken' (kit 1.0) raised RuntimeError when it was loaded: no licence (plugin_broken.py, line 1); "
        "fix or uninstall it"
    )
    with pytest.raises(PluginError) as caught:
        hookpatch.active("broken")
    assert type(caught.value.__cause__) is RuntimeError


def test_plugin_whose_module_is_not_there_is_refused(make_distribution: MakeDistribution) -> None:
    """An entry point may name a module without an installation."""
    make_distribution("kit", "1.0", {"hollow": "no_such_module"})
    assert refused("hollow") == (
        "plugin 'hollow' (kit 1.0) raised ModuleNotFoundError when it was loaded: No module named 'no_such_module'; "
        "fix or uninstall it"
    )


def test_broken_plugin_does_no_harm_to_others(install: Install, vendor: ModuleType) -> None:
    """A plugin that was not selected cannot fail."""
    install("broken", "raise RuntimeError('no licence')")
    install("speed", SPEED, "kit-b")
    with hookpatch.active("speed"):
        assert vendor.speed == 2


def test_failing_plugin_leaves_nothing_applied(install: Install, vendor: ModuleType) -> None:
    """All plugins are loaded before the first patch is applied."""
    install("speed", SPEED)
    install("broken", "raise RuntimeError('no licence')", "kit-b")
    with pytest.raises(PluginError):
        hookpatch.active("speed", "broken")
    assert vendor.speed == 1


def test_plugin_without_the_marker_is_refused(install: Install) -> None:
    """A function of the right name without hookimpl is not a plugin's hook."""
    install("forgetful", FORGETFUL)
    assert refused("forgetful") == (
        "plugin 'forgetful' (kit 1.0) has no hookpatch_patches marked with hookpatch.hookimpl in plugin_forgetful"
    )


def test_plugin_without_the_marker_beside_one_that_has_it_is_refused(install: Install, vendor: ModuleType) -> None:
    """Each plugin is asked for itself."""
    install("speed", SPEED, "kit-b")
    install("forgetful", FORGETFUL)
    with pytest.raises(PluginError) as caught:
        hookpatch.active("speed", "forgetful")
    assert caught.value.plugin == "forgetful"


def test_plugin_with_a_misspelt_hook_is_refused(install: Install) -> None:
    """A marked function without a hook of its name is an error, not dead code."""
    install("misspelt", SPEED.replace("def hookpatch_patches", "def hookpatch_patch"))
    assert refused("misspelt") == (
        "plugin 'misspelt' (kit 1.0) does not fit hookpatch's hooks: unknown hook 'hookpatch_patch' in plugin "
        f"{sys.modules['plugin_misspelt']!r}; did you mean 'hookpatch_patches'?"
    )


def test_plugin_whose_hook_takes_something_else_is_refused(install: Install) -> None:
    """A hook takes options, or no argument."""
    install("greedy", SPEED.replace("def hookpatch_patches()", "def hookpatch_patches(model)"))
    assert refused("greedy") == (
        "plugin 'greedy' (kit 1.0) does not fit hookpatch's hooks: Argument(s) {'model'} are declared in the hookimpl "
        "but can not be found in the hookspec"
    )


def test_plugin_that_raises_when_asked_is_refused(install: Install) -> None:
    """An error while patches are declared names the plugin, and is the cause."""
    install("failing", SPEED.replace("yield", "raise KeyError('speed')\n        yield"))
    assert refused("failing") == (
        "plugin 'failing' (kit 1.0) raised KeyError when asked for its patches: 'speed' (plugin_failing.py, line 10)"
    )


def test_plugin_that_misspells_a_verb_is_refused_with_the_nearest(install: Install) -> None:
    """The message has what Python's traceback would have: the similar name, and the line."""
    install("verb", SPEED.replace("hookpatch.replace", "hookpatch.replce"))
    assert refused("verb") == (
        "plugin 'verb' (kit 1.0) raised AttributeError when asked for its patches: module 'hookpatch' has no attribute "
        "'replce'; did you mean 'replace'? (plugin_verb.py, line 10)"
    )


def test_plugin_with_a_misspelt_address_is_refused(install: Install) -> None:
    """The error of a malformed address names the plugin."""
    install("misspelt", SPEED.replace("vendor:speed", "vendor.speed"))
    assert refused("misspelt") == (
        "plugin 'misspelt' (kit 1.0) raised TargetSyntaxError when asked for its patches: target 'vendor.speed' has no "
        "colon between module and name; did you mean 'vendor:speed'? "
        "write module:name, module:Class.method or module:mapping['key'] (plugin_misspelt.py, line 10)"
    )


def test_plugin_that_yields_something_else_is_refused(install: Install) -> None:
    """A plugin yields patches, made by the verbs."""
    install("loose", SPEED.replace('hookpatch.replace("vendor:speed", 2)', '"vendor:speed"'))
    assert refused("loose") == (
        "plugin 'loose' (kit 1.0) yields a str, not a patch; yield hookpatch.wrap(...) or another verb"
    )


def test_plugin_that_returns_a_patch_alone_is_refused(install: Install) -> None:
    """A hook yields even a single patch."""
    install("single", SPEED.replace("yield", "return"))
    assert refused("single") == ("plugin 'single' (kit 1.0) returns a patch from hookpatch_patches; yield the patch")


def test_plugin_whose_options_are_no_dataclass_is_refused(install: Install) -> None:
    """Options must be a dataclass, for the types of the fields."""
    install("loose", f"{SPEED}\n    class Options: pass\n")
    assert refused("loose") == (
        "plugin 'loose' (kit 1.0) has an Options that is no dataclass: <class 'plugin_loose.Options'>"
    )


# --- options


def test_options_reach_the_plugin(install: Install, vendor: ModuleType) -> None:
    """The hook gets an instance of the plugin's own Options; what is not given has its default."""
    install("tuned", TUNED)
    with hookpatch.active("tuned", options={"tuned": {"speed": 7}}):
        assert (vendor.speed, vendor.label) == (7, "tuned")
    assert (vendor.speed, vendor.label) == (1, "vendor")


@pytest.mark.parametrize("name", ["tuned_up", "Tuned-Up", "tuned.up", "tuned_up@kit"])
def test_options_are_given_by_any_spelling_of_the_name(install: Install, vendor: ModuleType, name: str) -> None:
    """Names are compared as when plugins are selected."""
    install("tuned_up", TUNED)
    with hookpatch.active("tuned-up@kit", options={name: {"speed": 7}}):
        assert vendor.speed == 7


def test_each_plugin_gets_its_own_options(install: Install, vendor: ModuleType) -> None:
    """Each plugin gets the options under its own name alone."""
    install("tuned", TUNED)
    install("other", TUNED.replace("vendor:", "other_vendor:"), "kit-b")
    options = {"other": {"speed": 8}, "tuned": {"speed": 7}}
    with hookpatch.active("tuned", "other", options=options):
        assert vendor.speed == 7


def test_option_that_must_be_given_is_missed(install: Install) -> None:
    """A plugin with a required option cannot be selected by name alone."""
    install("tuned", TUNED)
    with pytest.raises(OptionsError) as caught:
        hookpatch.active("tuned")
    assert str(caught.value) == (
        "options of plugin 'tuned' (kit 1.0): 'speed' must be given; it takes speed: int, label: str"
    )


def test_unknown_option_is_refused(install: Install) -> None:
    """The message proposes the nearest and lists what there is."""
    install("tuned", TUNED)
    with pytest.raises(OptionsError) as caught:
        hookpatch.active("tuned", options={"tuned": {"sped": 7}})
    assert str(caught.value) == (
        "options of plugin 'tuned' (kit 1.0): no option 'sped'; did you mean 'speed'? it takes speed: int, label: str"
    )


def test_option_of_another_type_is_refused(install: Install) -> None:
    """The message tells what was expected, what was given and where."""
    install("tuned", TUNED)
    with pytest.raises(OptionsError) as caught:
        hookpatch.active("tuned", options={"tuned": {"speed": "fast"}})
    assert str(caught.value) == (
        "options of plugin 'tuned' (kit 1.0): Expected 'int', got 'str' - at 'speed'; it takes speed: int, label: str"
    )


def test_options_for_a_plugin_that_has_none_are_refused(install: Install) -> None:
    """Options for a plugin without Options are an error."""
    install("speed", SPEED)
    with pytest.raises(OptionsError) as caught:
        hookpatch.active("speed", options={"speed": {"faster": True}})
    assert str(caught.value) == "options of plugin 'speed' (kit 1.0): the plugin has no options, but 'faster' was given"


def test_options_for_a_plugin_that_was_not_selected_are_refused(install: Install) -> None:
    """The message lists the selected plugins."""
    install("speed", SPEED)
    install("tuned", TUNED, "kit-b")
    with pytest.raises(SettingError) as caught:
        hookpatch.active("speed", options={"tuned": {"speed": 7}})
    assert str(caught.value) == "options: given for 'tuned', which is not among the selected plugins: speed"


def test_options_without_any_plugin_are_refused() -> None:
    """Options alone select no plugin, and are an error."""
    with pytest.raises(SettingError) as caught:
        hookpatch.active(hookpatch.replace("vendor:speed", 2), options={"tuned": {"speed": 7}})
    assert str(caught.value) == "options: given for 'tuned', which is not among the selected plugins: none"


# --- the same plugin twice, two plugins with the same name


def test_plugin_asked_for_under_two_names_is_there_once(install: Install, vendor: ModuleType) -> None:
    """A second name of the same plugin adds no patch."""
    install("fast", SPEED)
    with hookpatch.active("fast", "fast@kit", "FAST") as session:
        assert vendor.speed == 2
        assert len(session.report().patches) == 1


def test_two_plugins_of_one_name_can_be_selected_by_distribution(install: Install, vendor: ModuleType) -> None:
    """Each of the two gets its own options; the plain name is refused."""
    install("tuned", TUNED, "kit-a", "tuned_a")
    install("tuned", TUNED.replace("vendor:speed", "vendor:other"), "kit-b", "tuned_b")
    names = ("tuned@kit-a", "tuned@kit-b")
    with pytest.raises(SettingError) as caught:
        hookpatch.active(*names, options={"tuned": {"speed": 3}})
    assert str(caught.value) == (
        "options: given for 'tuned', which names two of the selected plugins; take 'tuned@kit-a' or 'tuned@kit-b'"
    )
    options = {"tuned@kit-a": {"speed": 3, "label": "a"}, "tuned@kit-b": {"speed": 4, "label": "b"}}
    with pytest.raises(hookpatch.errors.ConflictError), hookpatch.active(*names, options=options):
        pass  # both set the label


def test_one_module_under_two_names_is_refused(make_distribution: MakeDistribution, vendor: ModuleType) -> None:
    """The module's patches would be applied twice."""
    make_distribution("kit", "1.0", {"one": "plugin_one", "two": "plugin_one"}, {"plugin_one": SPEED})
    with pytest.raises(PluginError) as caught:
        hookpatch.active("one", "two")
    assert str(caught.value) == "plugin 'two' (kit 1.0) is the same module as plugin 'one@kit'; select one of the two"


def test_hook_that_forgets_to_yield_is_refused(install: Install) -> None:
    """A hook that returns None is an error; an empty list is a valid answer."""
    source = "import hookpatch\n@hookpatch.hookimpl\ndef hookpatch_patches():\n    "
    install("empty", source + "return []", "kit-empty")
    install("forgetful", source + "hookpatch.remove('vendor:speed')", "kit-forgetful")
    assert hookpatch.active("empty").report().patches == ()
    with pytest.raises(PluginError) as caught:
        hookpatch.active("forgetful")
    assert str(caught.value) == (
        "plugin 'forgetful' (kit-forgetful 1.0) returns None from hookpatch_patches; yield the patches"
    )


@pytest.mark.parametrize("options", [3, ["x"], "speed"])
def test_options_that_are_no_mapping_are_refused(install: Install, options: object) -> None:
    """Of the plugin, and of the whole call."""
    install("tuned", TUNED)
    kind = {int: "an int", list: "a list", str: "a str"}[type(options)]
    with pytest.raises(OptionsError) as caught:
        hookpatch.active("tuned", options={"tuned": options})  # type: ignore[dict-item]  # the mistake under test
    assert str(caught.value) == (
        f"options of plugin 'tuned' (kit 1.0): they are {kind}, not a mapping of names to values"
    )
    with pytest.raises(SettingError) as whole:
        hookpatch.active("tuned", options=options)  # type: ignore[arg-type]  # the mistake under test
    assert str(whole.value) == f"active(): options= takes a mapping by plugin name, not {kind}"

"""`hookpatch adopt` chooses the verb: an edit for a copy, a rule for a pattern, `enter` for an undo that works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from distributions import build_wheel

pytestmark = [pytest.mark.once, pytest.mark.ends]

VENDOR = """
    RATE = 2

    def scaled(value, factor=2):
        total = value
        total = total * factor
        return total

    def rated(value):
        total = value
        total = total * RATE
        total = total + 0
        return total

    def twice(value):
        total = scaled(value)
        total = scaled(total)
        return total

    def short(value):
        return value

    class Basket:
        def total(self, prices: list) -> int:
            '''Add the prices.

            Return the sum.
            '''
            result = 0
            for price in prices:
                result += round(price)
            return result

    class LamaNorm:
        def forward(self): return "lama"

    class QuenNorm:
        def forward(self): return "quen"

    class GemmaNorm:
        def forward(self): return "gemma"
    """
USE = """
import sys, hookpatch, vendor
import hookpatch_fixed.fixed as fixed

def look():
    norms = [value().forward() for name, value in sorted(vars(vendor).items()) if name.endswith("Norm")]
    return vendor.scaled(3), vendor.rated(3), vendor.twice(3), vendor.short(3), vendor.Basket().total([1.4, 1.4]), norms

if sys.argv[1:]:
    import fixes
    fixes.apply()
    print(look())
else:
    before = look()
    with hookpatch.active(*fixed.hookpatch_patches()):
        print(look())
    assert look() == before
"""


class Place:
    """A folder with a program, and installed wheels. Lives as long as a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.installed = folder / "lib" / "site-packages"

    def install(self, module: str, source: str) -> None:
        wheel = build_wheel(self.folder / "wheels", module, "1.0", module, source)
        zipfile.ZipFile(wheel).extractall(self.installed)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
        path = os.pathsep.join(map(str, (self.folder, self.installed, self.folder / "hookpatch-fixed")))
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env={**clean, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    def adopt(self, source: str, *words: str, status: int = 0) -> Any:
        """Return the JSON output for an apply function in ``fixes``, after the plugin's own tests passed."""
        self.install("fixes", source)
        command = ("-m", "hookpatch", "adopt", "fixes:apply", "--name", "fixed", "--json", *words)
        completed = self.run(*command)
        assert completed.returncode == status, completed.stderr
        answer = json.loads(completed.stdout)
        tested = self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "hookpatch-fixed")
        assert tested.returncode == 0, tested.stdout
        return answer

    def check_effect(self) -> None:
        """Compare the program's output under the plugin with the output after the apply function."""
        (self.folder / "use.py").write_text(USE)
        plugin, by_hand = self.run("use.py"), self.run("use.py", "by hand")
        assert (plugin.returncode, plugin.stderr) == (0, "")
        assert plugin.stdout == by_hand.stdout != ""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a folder with the vendor's wheel installed."""
    place = Place(tmp_path)
    place.install("vendor", VENDOR)
    return place


def verbs(answer: Mapping[str, Any]) -> dict[str, str]:
    return {entry["target"]: entry["verb"] for entry in answer["patches"]}


COPIES = {  # the slot, the verb, and the function that is put there
    "a line is changed": (
        "scaled",
        "edit",
        "def scaled(value, factor=2):",
        ["total = value", "total = total + factor", "return total"],
    ),
    "another name": (
        "scaled",
        "edit",
        "def better(value, factor=2):",
        ["total = value", "total = total * factor", "return total + 1"],
    ),
    "another default": (
        "scaled",
        "edit",
        "def scaled(value, factor=3):",
        ["total = value", "total = total * factor", "return total"],
    ),
    "most lines are changed": (
        "scaled",
        "replace",
        "def scaled(value, factor=2):",
        ["factor += 1", "print(end='')", "return value * factor"],
    ),
    "a global name with an equal value": (
        "rated",
        "edit",
        "RATE = 2\ndef rated(value):",
        ["total = value", "total = total * RATE", "total = total + 7", "return total"],
    ),
    "a global name with another value": (
        "rated",
        "replace",
        "RATE = 5\ndef rated(value):",
        ["total = value", "total = total * RATE", "total = total + 7", "return total"],
    ),
    "a name that the vendor's module lacks": (
        "rated",
        "replace",
        "RATE, MORE = 2, 7\ndef rated(value):",
        ["total = value", "total = total * RATE", "total = total + MORE", "return total"],
    ),
    "the vendor's own function": (
        "twice",
        "edit",
        "from vendor import scaled\ndef twice(value):",
        ["total = scaled(value)", "total = scaled(total)", "return -total"],
    ),
    "a method, less indented, without annotations": (
        "Basket.total",
        "edit",
        "def total(self, prices):",
        [
            *["'''Add the prices.", "", "Return the sum.", "'''"],
            *["result = 0", "for price in prices:", "    result += price", "return result"],
        ],
    ),
}


@pytest.mark.parametrize("case", COPIES)
def test_a_copy_with_changed_lines_is_an_edit(place: Place, case: str) -> None:
    """A copy with the same effect in the vendor's module becomes a diff; any other function stays a function."""
    slot, verb, head, body = COPIES[case]
    name = head.rpartition("def ")[2].partition("(")[0]
    lines = [head, *(f"    {line}".rstrip() for line in body)]
    answer = place.adopt("\n".join([*lines, "", "def apply():", "    import vendor", f"    vendor.{slot} = {name}"]))
    assert verbs(answer) == {f"vendor:{slot}": verb}
    place.check_effect()


def test_a_copy_of_a_function_that_calls_a_patched_function(place: Place) -> None:
    """The copy calls the collection's function, which is in the vendor's slot only while the other patch lasts."""
    source = """
        def scaled(value, factor=2):
            return 100

        def twice(value):
            total = scaled(value)
            total = scaled(total)
            return -total

        def apply():
            import vendor
            vendor.scaled, vendor.twice = scaled, twice
        """
    assert verbs(place.adopt(textwrap.dedent(source))) == {"vendor:scaled": "replace", "vendor:twice": "replace"}
    place.check_effect()


RULED = """
    def forward(self):
        return "fast"

    def apply():
        import vendor
        vendor.LamaNorm.forward = vendor.QuenNorm.forward = vendor.GemmaNorm.forward = forward
    """


def test_slots_of_one_pattern_are_a_rule(place: Place) -> None:
    """Three classes get the same method: a single rule with ``matches=3``."""
    answer = place.adopt(RULED)
    [patch] = answer["patches"]
    assert (patch["target"], patch["verb"], patch["matches"]) == ("vendor:*Norm.forward", "replace", 3)
    assert patch["targets"] == ["vendor:GemmaNorm.forward", "vendor:LamaNorm.forward", "vendor:QuenNorm.forward"]
    place.check_effect()


@pytest.mark.parametrize(
    "more",
    [
        "class OtherNorm:\n        def forward(self): return 1",
        "class Other:\n        def forward(self): return 1\n    OtherNorm = Other",
    ],
    ids=["another class", "another name of a class"],
)
def test_a_rule_that_matches_another_slot_is_none(place: Place, more: str) -> None:
    """A fourth class fits the pattern, and the apply function leaves it: three patches."""
    place.install("vendor_two", f"{VENDOR}\n    {more}\n")
    answer = place.adopt(RULED.replace("vendor", "vendor_two"))
    assert verbs(answer) == {f"vendor_two:{name}Norm.forward": "replace" for name in ("Gemma", "Lama", "Quen")}


@pytest.mark.parametrize("other", ["QuietNorm", "QuietLoss"])
def test_a_rule_over_modules(place: Place, other: str) -> None:
    """A rule with a pattern of modules is written if no module on the disk has another class for it."""
    for name in ("lama", "quen", "gemma"):
        folder = place.folder / "models" / name
        folder.mkdir(parents=True)
        (folder / f"model_{name}.py").write_text(f"class {name.title()}Norm:\n    def forward(self): return 1\n")
    quiet = place.folder / "models" / "quiet"
    quiet.mkdir()
    (quiet / "model_quiet.py").write_text(f"class {other}:\n    def forward(self): return 1\n")
    modules = [f"models.{name}.model_{name}" for name in ("gemma", "lama", "quen")]
    slots = [f"{module}:{module.rpartition('_')[2].title()}Norm.forward" for module in modules]
    lines = "\n".join(f"    {slot.replace(':', '.')} = forward" for slot in slots)
    imports = "\n".join(f"    import {module}" for module in modules)
    answer = place.adopt(f"def forward(self):\n    return 2\n\ndef apply():\n{imports}\n{lines}\n")
    if other == "QuietNorm":
        assert verbs(answer) == dict.fromkeys(slots, "replace")
    else:
        [patch] = answer["patches"]
        assert (patch["target"], patch["matches"]) == ("models.*.model_*:*Norm.forward", ">=1,<=3")
        assert patch["targets"] == slots


PATCHING = """
    import contextlib
    import vendor

    original = vendor.scaled, vendor.short

    def install(limit=9):
        def scaled(value, factor=2):
            return limit
        vendor.scaled = scaled
        vendor.short.__code__ = short.__code__

    def short(value):
        return -value

    code = vendor.short.__code__

    def uninstall():
        vendor.scaled = original[0]
        vendor.short.__code__ = code
    """
WAYS = {
    "function": "def apply(): install()",
    "method": """
    class Installed:
        def stop(self):
            uninstall()

    def apply():
        install()
        return Installed()
    """,
    "context": """
    @contextlib.contextmanager
    def apply():
        install()
        try:
            yield
        finally:
            uninstall()
    """,
    "entered": """
    class Installed:
        def __init__(self):
            install()
        def __enter__(self):
            return self
        def __exit__(self, *error):
            uninstall()

    apply = Installed
    """,
}


@pytest.mark.parametrize("way", WAYS)
def test_an_undo_that_works_is_entered(place: Place, way: str) -> None:
    """The apply function has its own undo: even changed code, without a verb, is in the plugin."""
    undo = ("--undo", "fixes:uninstall") if way == "function" else ()
    answer = place.adopt(f"{PATCHING}\n    {WAYS[way].strip()}\n", *undo)
    assert verbs(answer) == {"vendor:scaled": "enter", "vendor:short.__code__": "enter"}
    assert (answer["unsaid"], answer["left"]) == ([], [])
    (place.folder / "use.py").write_text(USE)
    plugin = place.run("use.py")
    assert (plugin.stdout, plugin.stderr) == ("(9, 6, 9, -3, 2, ['gemma', 'lama', 'quen'])\n", "")
    text = (place.folder / "hookpatch-fixed" / "hookpatch_fixed" / "fixed.py").read_text()
    assert 'hookpatch.enter(MODULE, applied, why="adopted from fixes:apply", requires=' in text
    assert "('fixes>=1.0,<2', 'vendor>=1.0,<2')" in text


def test_an_undo_in_a_module_that_keeps_the_original(place: Place) -> None:
    """The module of the undo function is imported before the patches, so the original it keeps is the original."""
    place.install("undoing", "import vendor\nkept = vendor.short\ndef undo(): vendor.short = kept")
    answer = place.adopt("import vendor\ndef apply(): vendor.short = len", "--undo", "undoing:undo")
    assert (verbs(answer), answer["left"]) == ({"vendor:short": "enter"}, [])


def test_an_undo_that_forgets_is_not_entered(place: Place) -> None:
    """An undo must leave no patch, otherwise each slot has its own patch, or a reason."""
    source = f"{PATCHING}\n    def forgets():\n        vendor.scaled = original[0]\n    {WAYS['function']}\n"
    place.install("fixes", source)
    words = ("adopt", "fixes:apply", "--name", "fixed", "--undo", "fixes:forgets")
    completed = place.run("-m", "hookpatch", *words, "--json")
    answer = json.loads(completed.stdout)
    assert verbs(answer) == {"vendor:scaled": "replace", "vendor:short.__code__": "replace"}
    assert (answer["unsaid"], answer["left"]) == ([], ["vendor:short.__code__"])


KIT = """
    import vendor

    def scaled(value, factor=2):
        return 0

    def install():
        vendor.scaled = scaled
    """
BESIDE = {  # the files beside the program, by name, and the patches that belong to the apply function
    "the file imports the distribution": ({"fixes": "import kit\ndef apply(): kit.install()"}, ["vendor:scaled"]),
    "through a file": (
        {"fixes": "import near\ndef apply(): near.kit.install()", "near": "import kit"},
        ["vendor:scaled"],
    ),
    "through files of a package": (
        {
            "fixes": "from near import apply",
            "near/__init__": "from .far import apply",
            "near/far": "from kit import install\ndef apply(): install()",
        },
        ["vendor:scaled"],
    ),
    "a distribution that patches when it is imported": (
        {"fixes": "import vendor\ndef apply():\n    __import__('loud')\n    vendor.short = len"},
        ["vendor:short"],
    ),
}


@pytest.mark.parametrize("case", BESIDE)
def test_a_file_without_a_distribution_may_take_values_from_what_it_imports(place: Place, case: str) -> None:
    """The values belong to a distribution that the file imports, maybe through other files beside the program."""
    files, slots = BESIDE[case]
    place.install("kit", KIT)
    place.install("loud", f"{KIT}\n    install()\n")
    for name, text in files.items():
        (place.folder / name).parent.mkdir(exist_ok=True)
        (place.folder / f"{name}.py").write_text(text)
    completed = place.run("-m", "hookpatch", "adopt", "fixes:apply", "--name", "fixed", "--json")
    assert completed.returncode == 0, completed.stderr
    answer = json.loads(completed.stdout)
    assert [*verbs(answer)] == slots
    assert answer["others"] == ({} if slots == ["vendor:scaled"] else {"vendor:scaled": "loud"})


def test_a_distribution_may_take_values_from_what_it_imports(place: Place) -> None:
    """The apply function of one distribution puts the function of another distribution into the slot of a third."""
    place.install("kit", KIT)
    assert verbs(place.adopt("import kit, vendor\ndef apply():\n    vendor.scaled = kit.scaled")) == {
        "vendor:scaled": "replace"
    }
    place.check_effect()


@pytest.mark.parametrize("count", [1, 2])
def test_a_lambda_in_the_apply_function(place: Place, count: int) -> None:
    """A lambda is found by its name in the apply function; two lambdas in one function are made by a run of it."""
    slots = ["short", "rated"][:count]
    lines = [f"    vendor.{name} = lambda value: value + {number}" for number, name in enumerate(slots, 1)]
    source = "\n".join(["import vendor", "def apply():", "    vendor.twice = len", *lines])
    answer = place.adopt(source)
    taken = [f"vendor:{name}" for name in sorted(slots)] if count > 1 else []
    assert sorted(verbs(answer)) == sorted(["vendor:twice", *(f"vendor:{name}" for name in slots)])
    assert [entry["target"] for entry in answer["patches"] if "taken" in entry] == taken


REGISTRIES = """
    import contextlib
    import shop

    def fast(): pass
    class Fast: pass

    original = dict(shop.NORMS)

    def apply():
        shop.NORMS["lama"] = fast
        shop.NORMS["new"] = Fast
        shop.NORMS[shop.QuenNorm] = fast
        shop.Basket.kinds[3] = len
        shop.NORMS["count"] = 2
        del shop.NORMS["gemma"]
        shop.register("fast", fast)

    def undo():
        del shop.Basket.fast
        shop.NORMS.clear()
        shop.NORMS.update(original)
        shop.Basket.kinds[3] = None

    @contextlib.contextmanager
    def applied():
        held = dict(shop.NORMS)
        shop.NORMS.update({"lama": fast, "new": Fast, shop.QuenNorm: fast})
        shop.QuenNorm = Fast
        yield
        shop.QuenNorm = original["quen"]
        del shop.NORMS["new"]
        shop.NORMS[shop.QuenNorm] = shop.QuenNorm
        shop.NORMS["lama"] = held["lama"]
    """
REGISTRY = """
    NORMS = {"lama": LamaNorm, "quen": QuenNorm, "gemma": GemmaNorm, QuenNorm: QuenNorm, "count": 1}
    Basket.kinds = {3: LamaNorm}

    class Accessor:  # of its own, around foreign code, as pandas has for each registered method
        def __init__(self, code): self.code = code
        def __get__(self, instance, owner): return self.code

    def register(name, code): setattr(Basket, name, Accessor(code))

    def look():
        entries = {**NORMS, **Basket.kinds, "fast": getattr(Basket, "fast", None)}.items()
        print(sorted(f"{key} {getattr(value, '__name__', value)}" for key, value in entries))
    """


def test_entries_of_registries(place: Place) -> None:
    """Functions and classes in a foreign dictionary are written, each as an entry; a number, if the module sets it.

    A name that a registry function of the class adds is written, too.
    """
    place.install("shop", f"{VENDOR}{REGISTRY}")
    answer = place.adopt(REGISTRIES)
    assert verbs(answer) == {
        "shop:Basket.fast": "add",
        "shop:Basket.kinds[3]": "replace",
        "shop:NORMS['count']": "replace",
        "shop:NORMS['gemma']": "remove",
        "shop:NORMS['lama']": "replace",
        "shop:NORMS['new']": "add",
        "shop:NORMS[shop:QuenNorm]": "replace",
    }
    inside = (
        "import hookpatch, hookpatch_fixed.fixed\nwith hookpatch.active(*hookpatch_fixed.fixed.hookpatch_patches()):"
    )
    (place.folder / "plugin.py").write_text(f"{inside}\n    import shop\n    shop.look()\n")
    (place.folder / "by_hand.py").write_text("import fixes, shop\nfixes.apply()\nshop.look()\n")
    plugin, by_hand = place.run("plugin.py"), place.run("by_hand.py")
    assert plugin.stderr == ""
    assert plugin.stdout == by_hand.stdout != ""


def test_entries_of_a_mapping_that_is_no_dictionary(place: Place) -> None:
    """A registry that keeps its entries in a dictionary of its own is patched there."""
    place.install(
        "shop",
        """
        from collections import UserDict

        MADE = UserDict({"old": int})
        """,
    )
    source = """
        import shop
        def fast(): pass
        def apply():
            shop.MADE["old"] = fast
            shop.MADE["new"] = fast
    """
    assert verbs(place.adopt(source)) == {"shop:MADE.data['old']": "replace", "shop:MADE.data['new']": "add"}
    (place.folder / "plugin.py").write_text(
        "import hookpatch, hookpatch_fixed.fixed, shop\n"
        "with hookpatch.active(*hookpatch_fixed.fixed.hookpatch_patches()):\n"
        "    print(shop.MADE['old'].__name__, shop.MADE['new'].__name__)\n"
        "print(dict(shop.MADE))\n"
    )
    assert place.run("plugin.py").stdout == "fast fast\n{'old': <class 'int'>}\n"


def test_entries_with_an_undo_are_entered(place: Place) -> None:
    """A context manager that restores the entries of a registry becomes a single patch.

    A class that is a key is the class before the patches, though its name has another class inside.
    """
    place.install("shop", f"{VENDOR}{REGISTRY}")
    answer = place.adopt(f"{REGISTRIES}\n    apply = applied\n")
    slots = ["shop:NORMS['lama']", "shop:NORMS['new']", "shop:NORMS[shop:QuenNorm]", "shop:QuenNorm"]
    assert verbs(answer) == dict.fromkeys(slots, "enter")
    assert answer["left"] == []

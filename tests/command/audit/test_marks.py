"""The audit tells a foreign mark in each class from a patch, and guesses who removed a method."""

from __future__ import annotations

import json

import pytest
from environments import Environment, hookpatch

pytestmark = [pytest.mark.once, pytest.mark.ends]

FILES = {  # by distribution
    "marks": """
import operator
class Mark:
    def __get__(self, instance, owner): return self
def mark(kind):
    kind.__mark__ = Mark()
    return kind
def speak(self): return "marks"
operator.marked = speak
""",
    "old": "",
    "shop": """
import functools, marks
def checked(function):
    @functools.wraps(function)
    def wrapper(*args): return function(*args)
    return wrapper
def sell(): return 1
@checked
def buy(): return 1
@marks.mark
class Base:
    def speak(self): return 1
    def walk(self): return 1
class Sub(Base):
    def walk(self): return 2
""",
    "agent": """
import shop
def walk(self): return 3
def sell(): return 3
def patch():
    shop.sell = shop.checked(sell)
    shop.buy = shop.checked(shop.buy)
    shop.Base.walk = walk
    del shop.Sub.walk
""",
}
PROGRAM = """
import old, shop, marks, agent, sys
sys.modules["old"] = agent
marks.mark(shop.Sub)
shop.Sub.speak = marks.speak
agent.patch()
"""
SHOW = "import hookpatch; print(hookpatch.audit().to_json())"


@pytest.fixture
def installed(home: Environment) -> Environment:
    """Return an environment with the three distributions."""
    for name, text in FILES.items():
        (home.site_packages / f"{name}.py").write_text(text)
        info = home.site_packages / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "RECORD").write_text(f"{name}.py,,\n")
    return home


def test_a_mark_is_no_patch_and_a_removed_method_has_a_probable_author(installed: Environment) -> None:
    """A mark hides only a mark. The author of a removal is the author of the method that the class inherits now.

    A foreign function in the library's own decorator is a patch; the library's own function is none.
    """
    completed = hookpatch(installed, "audit", "--json", "-c", PROGRAM)
    found = json.loads(completed.stdout)["findings"]
    assert [
        (finding["target"], finding["kind"], finding["distribution"], finding["probable"]) for finding in found
    ] == [
        ("shop:Base.walk", "replaced", "agent", False),
        ("shop:Sub.speak", "overridden", "marks", False),
        ("shop:Sub.walk", "removed", "agent", True),
        ("shop:sell", "replaced", "agent", False),
        ("sys.modules['old']", "module", "agent", False),
    ], completed.stderr


def test_a_running_program_shows_no_mark_and_no_name_that_a_star_import_lacks(installed: Environment) -> None:
    """``operator`` imports all names of ``_operator``, which has no ``marked``: a new name is no patch."""
    completed = installed.run("-c", PROGRAM + SHOW)
    found = json.loads(completed.stdout)["findings"]
    assert [(finding["target"], finding["kind"]) for finding in found] == [
        ("shop:Base.walk", "replaced"),
        ("shop:Sub.speak", "overridden"),
    ], completed.stderr

"""The modules and slots of the machine of many places, and the patches tried."""

from __future__ import annotations

from typing import Final

V, L = "many_vendor", "many_late"
_BODY: Final = (
    '\n    {indent}first = "1"\n    {indent}second = "2"\n    {indent}return "{letter}" + first + second + {more}x\n'
)


def _function(name: str, letter: str, method: bool = False, calls: str = "") -> str:
    indent = "    " if method else ""
    head = f"{indent}def {name}({'self, ' if method else ''}x=''):"
    return head + _BODY.format(indent=indent, letter=letter, more=calls and f"{calls} + ")


VENDOR: Final = f"""
def called(x=""): return "g" + x

class Base:
    __slotnames__ = []  # else copyreg puts them there at the first copy
    def __init__(self):
        self.n = "n"
        self.call = called
{_function("run", "a", True)}
class Middle(Base):
    __slotnames__ = []

class Child(Middle):
    __slotnames__ = []
{_function("run", "b", True, "super().run()")}
{_function("get_one", "c")}
{_function("get_two", "d")}
table = {{"one": get_one, "two": get_two}}
k = Base()

def make_class():
    class Made(Base):
    {_function("run", "m", True, "super().run()").replace(chr(10) + "    ", chr(10) + "        ").rstrip()}
    return Made

import many_witness
many_witness.executed(__name__)
"""
LATE: Final = f"""
from {V} import Base

class Late(Base):
    __slotnames__ = []
{_function("run", "h", True, "super().run()")}
class Lazy(Base):
    __slotnames__ = []

{_function("get_three", "e")}
import many_witness
many_witness.executed(__name__)
"""

# `outer` declares its patches outside those of `inner`; values of `third` conflict with those of both.
OWNERS: Final = ("outer", "inner", "third")
PLUGIN: Final = """
import hookpatch, many_witness
@hookpatch.hookimpl
def hookpatch_patches():
    yield from many_witness.patches
"""

AROUND, VALUES = ("wrap", "inject", "default"), ("replace", "derive")
EDITS: Final = ("first", "second")
MODULE_EDITS: Final = ("edit", "transform")  # of the source of a whole module, which runs anew
REACHES: Final = ("slot", "everywhere")
_SLOTS: Final = (f"{V}:Base.run", f"{V}:Child.run", f"{V}:get_one", f"{V}:table['one']", f"{L}:Late.run")
_RULES: Final = (f"{V}:Base+.run", f"{V}:Middle+.run", f"{V}:*.run", f"{V}:get_*", "many_*:get_*", f"{V}:table[*]")
_METHODS: Final = (*(f"{V}:{cls}().run" for cls in ("Base", "Base+", "Middle", "Middle+", "Child")), f"{L}:Late().run")
TRIED: Final = [
    *((address, verb, reach) for address in (*_SLOTS, *_RULES) for verb in AROUND for reach in REACHES),
    *((address, verb, "slot") for address in (*_SLOTS, *_RULES) for verb in VALUES),
    *((address, verb, "everywhere") for address in (*_SLOTS, *_RULES) for verb in EDITS),
    *((V, verb, "everywhere") for verb in MODULE_EDITS),
    *((f"{V}:Middle.run", verb, reach) for verb in AROUND for reach in REACHES),
    (f"{V}:Middle.run", "replace", "slot"),  # a derive would keep the inherited function of its moment
    *((address, verb, "slot") for address in _METHODS for verb in (*AROUND, "replace")),
    *((f"{V}:{cls}().run", "derive", "slot") for cls in ("Base", "Child")),
    *((f"{V}:{cls}().n", verb, "slot") for cls in ("Base", "Base+", "Child") for verb in VALUES),
    *((f"{V}:{cls}().call", verb, "slot") for cls in ("Base", "Base+", "Child") for verb in (*AROUND, *VALUES)),
    *((f"{V}:k.n", verb, "slot") for verb in VALUES),
    *((f"{V}:k.call", verb, "slot") for verb in (*AROUND, *VALUES)),
]

"""Plugins with patches that cannot be applied, alone or beside other plugins, and the module to patch."""

from __future__ import annotations

from typing import Final

VENDOR: Final = """
    limit = 3
    table = {"gelu_new": 1}
    entries = [1, 2]
    biggest = max  # a C function

    def simplify(model, skipped=None, *, check=0): return model, skipped, check
    def open_ended(x, **more): return x, more

    class Base:
        def inherited(self, x=0): return x

    class Model(Base):
        def method(self, x, flag=False): return x, flag
        @staticmethod
        def static(x, flag=False): return x, flag
        @property
        def size(self): return 3

    class Part:
        def __init__(self): self.width = 1
        def method(self, x): return x

    part = Part()
    """

MODULES: Final = {
    "awkward_vendor": VENDOR,
    "awkward_front": "from awkward_vendor import simplify, Model",
    "awkward_broken": "raise RuntimeError('no licence')",
    "awkward_exit": "raise SystemExit(3)",
}
NOWHERE: Final = "awkward_nowhere"  # no module of the name exists

# The arguments of a verb, by plugin.
_FITS: Final = {
    "wraps": "wrap('V:simplify', passing)",
    "expects": "wrap('V:simplify', passing, expects='skipped')",
    "injects": "inject('V:simplify', skipped=1)",
    "injects_more": "inject('V:open_ended', anything=1)",
    "replaces": "replace('V:limit', 4)",
    "derives": "derive('V:Model', lambda base: type('Model', (base,), {}))",
    "removes": "remove('V:table[\\'gelu_new\\']')",
    "instances": "wrap('V:Part().method', passing)",
    "instances_put": "replace('V:Part().method', lambda self, x: None)",
    "instances_value": "replace('V:Part().width', 4)",
    "instances_value_too": "replace('V:Part+().width', 5)",
    "instances_of": "replace('V:Part().width', 6, of='V:part')",
    "enters": "enter('V', lambda module: contextlib.nullcontext())",
    "static": "wrap('V:Model.static', passing)",
    "everywhere": "wrap('V:simplify', passing, reach='everywhere')",
    "front": "wrap('awkward_front:simplify', passing, reach='everywhere')",
    "unneeded": "wrap('V:simplify', passing, until='awkward-kit>=1')",
    "standard": "wrap('json:dumps', passing)",
    "puts": "replace('V:simplify', lambda *args, **kwargs: None)",
    "puts_too": "replace('V:simplify', lambda *args, **kwargs: 1)",
    "puts_perhaps": "replace('V:simplify', lambda *args, **kwargs: 2, required=False)",
    "rule": "wrap('V:Mod*.met*', passing)",
    "rule_all": "wrap('V:*', passing, only=callable)",
    "rule_entries": "replace('V:table[*]', 2)",
    "rule_modules": "wrap('awkward_v*:simpl*', passing)",
    "rule_below": "wrap('V:Base+.inherited', passing)",
    "rule_from": "replace('V:simp*', source='awkward_front:simp*')",
    "outside": "wrap('V:simplify', passing, before='inside')",
    "inside": "wrap('V:simplify', passing, before='outside')",
}
_DO_NOT: Final = {
    "rule_none": "wrap('V:Nothing*', passing)",
    "rule_many": "wrap('V:*', passing, matches=1, only=callable)",
    "rule_refused": "wrap('V:*', passing)",
    "rule_nowhere": "wrap('awkward_nowhere.*:*', passing)",
    "attribute": "wrap('V:simplfy', passing)",
    "method": "wrap('V:Model.methd', passing)",
    "key": "replace('V:table[\\'gelu_nw\\'].deep', 2)",
    "entry": "replace('V:entries[7]', 2)",
    "instances_of_none": "wrap('V:simplify().width', passing)",
    "instances_without": "replace('V:Part().widht', 2)",
    "instances_dunder": "wrap('V:Part().__call__', passing)",
    "instances_signature": "replace('V:Part().method', lambda self: None)",
    "instances_no_call": "wrap('V:Part().width', passing)",
    "instances_of_what": "replace('V:Part().width', 6, of='V:prat')",
    "no_call": "wrap('V:limit', passing)",
    "no_key_to_remove": "remove('V:table[\\'gelu_nw\\']')",
    "argument": "inject('V:simplify', skiped=1)",
    "expects_other": "wrap('V:simplify', passing, expects='skiped')",
    "signature": "replace('V:simplify', lambda: None)",
    "method_signature": "replace('V:Model.method', lambda x: None)",
    "derived_signature": "derive('V:simplify', lambda function: lambda: None)",
    "derive_raises": "derive('V:Model', lambda base: 1 / 0)",
    "enter_raises": "enter('V', lambda module: 1 / 0)",
    "inherited": "remove('V:Model.inherited')",
    "version": "wrap('V:simplify', passing, requires='awkward-kit>=2')",
    "everywhere_int": "replace('V:limit', 4, reach='everywhere')",
    "nowhere": "wrap('awkward_nowhere:simplify', passing)",
    "broken": "wrap('awkward_broken:simplify', passing)",
    "exits": "wrap('awkward_exit:simplify', passing)",
}
_BOTH: Final = {
    "first_fits": [_FITS["wraps"], _DO_NOT["attribute"]],
    "second_fits": [_DO_NOT["argument"], _FITS["replaces"]],
    "hides": ["replace('V:simplify', lambda model: model)", "inject('V:simplify', skipped=1)"],
    "in_derived": ["derive('V:Model', lambda base: type('Model', (base,), {'new': 1}))", "replace('V:Model.new', 2)"],
}


def patches() -> dict[str, list[str]]:
    """Return the patches of each plugin; each patch that does not fit also with ``required=False``."""
    alone = {
        **_FITS,
        **_DO_NOT,
        **{f"{name}_perhaps": f"{text[:-1]}, required=False)" for name, text in _DO_NOT.items()},
    }
    return {**{name: [text] for name, text in alone.items()}, **_BOTH}


PATCHES: Final = patches()
# Beside each plugin alone.
TOGETHER: Final = [
    ["puts", "puts_too"],
    ["instances_value", "instances_value_too"],
    ["instances", "instances_put", "instances_of"],
    ["puts", "puts_perhaps"],
    ["outside", "inside"],
    ["everywhere", "wraps"],
    ["everywhere", "front", "wraps"],
    ["puts", "argument"],
    ["wraps", "signature", "expects"],
]


def source(name: str) -> str:
    """Return the source of a plugin."""
    yields = "\n    ".join(f"yield hookpatch.{text}" for text in PATCHES[name]).replace("'V", "'awkward_vendor")
    return (
        f'"""Be awkward: {name}."""\nimport contextlib\nimport hookpatch\n\n'
        "def passing(wrapped, instance, args, kwargs):\n    return wrapped(*args, **kwargs)\n\n"
        f"@hookpatch.hookimpl\ndef hookpatch_patches():\n    {yields}\n"
    )

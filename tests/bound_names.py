"""Every way to bind a name to an object of another module."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

VENDOR = """
    from itertools import accumulate as counted
    def plain(x=1): return ("plain", x)
    class Kind:
        def method(self, x): return ("method", x)
        @classmethod
        def of_class(cls, x): return ("of_class", x)
        @staticmethod
        def static(x): return ("static", x)
    c = [0.0, 1.0, 1.4, 1.7, 2.0].__getitem__  # of C, and no module or test but this holds it
"""

# Every way to bind a name before a patch. WAYS says how to read the object back.
HOLDERS = """
    import functools, types, collections
    from vendor import {name} as thing
    from vendor import {name} as renamed
    class Class:
        attribute = thing
        static = staticmethod(thing)
        prop = property(thing)
        def __init__(self): self.own = thing
    class Slotted:
        __slots__ = ("own",)
    instance, slotted = Class(), Slotted()
    slotted.own = thing
    by_key = {{"a": thing, "deep": {{"b": [0, thing]}}}}
    ordered = collections.OrderedDict(a=thing)
    in_list = [1, thing, 2, thing]
    queue = collections.deque([thing])
    in_tuple = (1, (thing, 2), thing)
    def default(first=0, function=thing): return function
    def keyword(*, function=thing): return function
    def outer():
        held = thing
        def inner(): return held
        return inner
    closure = outer()
    part = functools.partial(thing)
    argument = functools.partial(tuple.__new__, tuple, (thing,))
    arguments = functools.partial(print, thing, function=thing)
"""

WAYS: dict[str, Callable[[ModuleType], Any]] = {
    "from import": lambda m: m.thing,
    "renamed": lambda m: m.renamed,
    "class attribute": lambda m: vars(m.Class)["attribute"],
    "static method": lambda m: m.Class.static,
    "property": lambda m: m.Class.prop.fget,
    "instance attribute": lambda m: m.instance.own,
    "__slots__": lambda m: m.slotted.own,
    "dict": lambda m: m.by_key["a"],
    "nested": lambda m: m.by_key["deep"]["b"][1],
    "ordered dict": lambda m: m.ordered["a"],
    "list": lambda m: m.in_list[1],
    "list, again": lambda m: m.in_list[3],
    "deque": lambda m: m.queue[0],
    "tuple": lambda m: m.in_tuple[2],
    "tuple in a tuple": lambda m: m.in_tuple[1][0],
    "default": lambda m: m.default(),
    "keyword default": lambda m: m.keyword(),
    "closure": lambda m: m.closure(),
    "partial": lambda m: m.part.func,
    "argument of a partial": lambda m: m.argument()[0],
    "arguments of a partial": lambda m: m.arguments.args[0],
    "keyword of a partial": lambda m: m.arguments.keywords["function"],
}


def marked(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return ("patched", wrapped(*args, **kwargs))


def other(*args: Any, **kwargs: Any) -> Any:
    return ("other", *args)


def whole(holder: ModuleType) -> dict[str, Any]:
    """Return the objects in the holders of a module, in order."""
    contents: dict[str, Any] = {"module": [item for item in vars(holder).items() if item[0] != "__builtins__"]}
    for name in ("Class", "instance"):
        contents[name] = list(vars(vars(holder)[name]).items())
    contents["slotted"] = holder.slotted.own
    for name in ("by_key", "ordered"):
        contents[name] = list(vars(holder)[name].items())
    contents["lists"] = [*holder.in_list, *holder.by_key["deep"]["b"], *holder.queue]
    contents["default"] = holder.default.__defaults__, holder.keyword.__kwdefaults__
    contents["cell"] = holder.closure.__closure__[0].cell_contents
    contents["partials"] = [
        (partial.func, partial.args, partial.keywords) for partial in (holder.part, holder.argument, holder.arguments)
    ]
    return contents


def identities(structure: Any) -> Any:
    """Return the same structure with the id of each leaf."""
    if type(structure) in (list, tuple):
        return [id(structure) if type(structure) is tuple and len(structure) > 3 else 0, *map(identities, structure)]
    return {key: identities(value) for key, value in structure.items()} if type(structure) is dict else id(structure)

"""Write the value of every slot of a process, to compare two processes. Does not use hookpatch.

    python audit_truth.py program PROGRAM.json OUT.json      run imports and the call that patches, look after each;
    python audit_truth.py modules NAMES.json OUT.json        import the named modules alone.

A value is written as kind, home and code. Two processes write the same text for the same value.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
import types
from hashlib import sha1
from typing import Any

_SKIPPED = frozenset(
    (
        *("__builtins__", "__spec__", "__loader__", "__path__", "__file__", "__cached__", "__doc__", "__dict__"),
        *("__weakref__", "__annotations__", "__warningregistry__", "__abstractmethods__", "_abc_impl"),
        *("__slotnames__", "__module__", "__package__", "__parameters__"),
    )
)


def written(value: Any) -> list[str]:
    """Return kind, home and identity of a value."""
    kind = type(value)
    if kind in (staticmethod, classmethod):
        return [kind.__name__, *written(value.__func__)[1:]]
    if kind is types.FunctionType:
        code = value.__code__
        sum_ = sha1(code.co_code + repr(code.co_names).encode()).hexdigest()[:12]
        return ["function", code.co_filename, f"{code.co_qualname}:{code.co_firstlineno}:{sum_}"]
    if kind is property:
        return ["property", *(written(value.fget)[1:] if value.fget is not None else ["", ""])]
    if issubclass(kind, type):
        return [
            "class",
            str(type.__dict__["__module__"].__get__(value)),
            str(type.__dict__["__qualname__"].__get__(value)),
        ]
    if issubclass(kind, types.ModuleType):
        return ["module", str(types.ModuleType.__dict__["__dict__"].__get__(value).get("__name__")), ""]
    if kind is types.BuiltinFunctionType or kind is types.MethodDescriptorType or kind is types.WrapperDescriptorType:
        return ["builtin", str(getattr(value, "__module__", "")), value.__qualname__]
    if kind in (int, str, float, bool, bytes, type(None)):
        return ["plain", "", repr(value)[:80]]
    if any("_self_wrapper" in vars(base) for base in kind.__mro__):  # a proxy: the wrapper function names the author
        wrapper = object.__getattribute__(value, "_self_wrapper")
        inside = getattr(wrapper, "func", wrapper)  # unwrap a partial
        return ["object", *written(getattr(inside, "__func__", inside))[1:]]
    return ["object", str(kind.__module__), kind.__qualname__]


def owners() -> dict[int, tuple[str, Any, Any]]:
    """Return each module and class by id: the address, the live namespace, the object."""
    by_id: dict[int, tuple[str, Any, Any]] = {}

    def walk(owner: Any, names: Any, address: str) -> None:
        by_id[id(owner)] = address, names, owner
        for value in list(names.values()):
            if issubclass(type(value), type) and id(value) not in by_id:
                own = type.__dict__["__dict__"].__get__(value) or {}
                walk(value, own, f"{own.get('__module__')}:{type.__dict__['__qualname__'].__get__(value)}.")

    for name, module in list(sys.modules.items()):
        if issubclass(type(module), types.ModuleType) and name != "__main__" and id(module) not in by_id:
            names = types.ModuleType.__dict__["__dict__"].__get__(module)
            walk(module, names, f"{names.get('__name__')}:")
    return by_id


def all_slots() -> dict[str, list[str]]:
    """Return the value of each slot of each module and class, by address."""
    slots = {}
    for address, names, owner in owners().values():
        slots |= {f"{address}{name}": written(value) for name, value in list(names.items()) if name not in _SKIPPED}
        if not issubclass(type(owner), types.ModuleType):
            inherited = sorted(
                {name for base in (type.__dict__["__mro__"].__get__(owner) or ())[1:] for name in vars(base)}
            )
            slots[f"{address} (inherited)"] = inherited
    return slots


def code_of(value: Any) -> Any:
    return getattr(inspect_function(value), "__code__", None)


def inspect_function(value: Any) -> Any:
    inside = value.__func__ if type(value) in (staticmethod, classmethod) else value
    return inside if type(inside) is types.FunctionType else None


def values_of_owners() -> list[tuple[str, Any, Any, dict[str, tuple[Any, Any]]]]:
    """Return each owner with the values and code objects, all kept alive."""
    return [
        (address, names, owner, {name: (value, code_of(value)) for name, value in list(names.items())})
        for address, names, owner in owners().values()
    ]


def hides(owner: Any, name: str, new: Any, former: dict[int, dict[str, tuple[Any, Any]]]) -> bool:
    """Return True if a new name of a class hides a former value of a base, other than a mark by the same package."""
    for base in owner.__mro__[1:] if isinstance(owner, type) else ():
        values = former.get(id(base)) or {own: (value, None) for own, value in vars(base).items()}
        if name in values:
            package = package_of(written(values[name][0])[1])
            return package != package_of(written(new)[1]) or package == package_of(base.__module__)
    return False


def package_of(home: str) -> str:
    """Return the top-level package of a file or a module."""
    return home.rpartition("site-packages/")[2].replace("/", ".").partition(".")[0]


def changed(before: Any) -> dict[str, list[Any]]:
    """Return the slots of the owners that hold another object or other code.

    The result has old and new, None for no value.
    """
    changes: dict[str, list[Any]] = {}
    former = {id(owner): values for _, _, owner, values in before}
    for address, names, owner, values in before:
        current = dict(names)
        for name in {*values, *current} - _SKIPPED:
            old, code = values.get(name, (None, None))
            new = current.get(name)
            if name in values and name in current and old is new and code_of(new) is code:
                continue
            if name in values or hides(owner, name, new, former):
                changes[f"{address}{name}"] = [
                    written(old) if name in values else None,
                    written(new) if name in current else None,
                ]
    return changes


if __name__ == "__main__":
    kind, source, out = sys.argv[1:]
    write = io.open  # a program may patch open
    content: dict[str, Any] = {}
    with write(source) as file:
        request = json.load(file)
    if kind == "modules":
        for name in request:
            try:
                importlib.import_module(name)
            except BaseException:
                continue
        content["slots"] = all_slots()
    else:
        imports, apply = request
        scope = {"__name__": "__main__"}
        exec(compile(imports, "program", "exec"), scope)
        content["slots"] = all_slots()
        before = values_of_owners()
        exec(compile(apply, "program", "exec"), scope)
        content["changed"] = changed(before)
        content["now"] = all_slots()
        content["modules"] = list(sys.modules)
    with write(out, "w") as file:
        file.write(json.dumps(content))

"""An attribute as a slot. No other file sets or deletes foreign attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import setitem
from types import BuiltinMethodType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any, Final, TypeAlias, cast, final

from hookpatch._engine.patch.describe import describe
from hookpatch._engine.slots.slot import ABSENT, KEPT, along_mro, attributes_of

LookUp: TypeAlias = Callable[[Any, Any], Any]  # of the value found before and a call's instance; see ``look_up``
_METHODS: Final = (MethodType, BuiltinMethodType, MethodWrapperType)


class AttributeSlot:
    """An attribute of a module, class or instance.

    A proxy forwards an attribute to another object by its own ``__setattr__`` and ``__delattr__``. Such an attribute
    is restored as unittest.mock does: deleted, then set to the original value unless the original is back by itself.
    """

    __slots__ = ("_forwarded", "_member", "key", "name", "owner")

    def __init__(self, owner: Any, name: str) -> None:
        self.owner = owner
        self.name: Final = name
        self.key: Final[tuple[Any, ...]] = ("attribute", id(owner), name)
        self._forwarded: tuple[Any] | None = None  # the original of a forwarded attribute, while our value is set
        member = along_mro(type(owner), name)
        self._member: Final = member if isinstance(member, KEPT) and name != "__dict__" else None

    @property
    def in_class(self) -> type | None:
        return self.owner if isinstance(self.owner, type) else None

    @property
    def key_in_dict(self) -> tuple[Any, ...]:
        """The key of the same place as an entry of the owner's ``__dict__``: a search finds an object's value there."""
        return "item", id(attributes_of(self.owner)), self.name

    def read(self) -> Any:
        """Return the owner's *own* value, never a bound or inherited value, or ABSENT."""
        if self._member is not None:
            try:
                return self._member.__get__(self.owner)
            except (AttributeError, ValueError):  # a ValueError: an empty cell
                return ABSENT
        try:
            own = vars(self.owner).get(self.name, ABSENT)
        except TypeError:  # no __dict__
            own = ABSENT
        if own is not ABSENT or self._forwarded is None:
            return own
        value = self._fetched()
        return ABSENT if _is_same_fetched(value, self._forwarded[0]) else value

    def inherited(self) -> Any:
        if self._forwarded is not None:
            return self._forwarded[0]
        if self.in_class is not None:
            return along_mro(self.in_class, self.name, past_owner=True)
        member = along_mro(type(self.owner), self.name)
        if member is ABSENT:
            return self._fetched()
        if member is self._member:
            return ABSENT  # an unset name of __slots__
        if hasattr(type(member), "__set__") or not hasattr(type(member), "__get__"):
            return member  # a property is not run
        return member.__get__(self.owner, type(self.owner))

    @property
    def is_from_elsewhere(self) -> bool:
        """True if no class of an object has the name: the value comes from a ``__getattr__``."""
        return self.in_class is None and along_mro(type(self.owner), self.name) is ABSENT

    def look_up(self) -> LookUp | None:
        """Return a function that finds the inherited value anew, None for a value that no class has.

        A value that was found once would hide each later change of the class.
        """
        if self.in_class is not None:
            return partial(_value_of_bases, self.in_class, self.name)
        name, first_kind = self.name, type(self.owner)
        if self.is_from_elsewhere:
            return None
        # A metaclass may answer `kind.name` with a value of its own.
        of_metaclass = [along_mro(type(first_kind), asked) for asked in (name, "__getattribute__")]
        is_plain = of_metaclass == [ABSENT, vars(type)["__getattribute__"]]
        known = _LastAnswer(ABSENT, None)

        def find_value(value_before: Any, instance: Any) -> Any:
            nonlocal known
            owner = self.owner
            kind = first_kind if owner is None else type(owner)  # None: the instance died before the call
            answer, last = getattr(kind, name, None), known
            if answer is last.answer or _is_same_method(answer, last.answer):
                return last.value
            if (member := along_mro(kind, name)) is ABSENT:
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=owner)
            binds = hasattr(type(member), "__get__")
            value = member.__get__(owner, kind) if binds else member
            if is_plain and (not binds or type(member) in _BINDING) and along_mro(kind, name) is member:
                known = _LastAnswer(answer, value)
            return value

        return find_value

    @property
    def is_fetched(self) -> bool:
        """True if the owner looks names up with Python code of its own, such as that of a lazy module."""
        kind = type(self.owner)
        if along_mro(kind, "__getattr__") is not ABSENT:
            return True
        if isinstance(self.owner, ModuleType):
            return "__getattr__" in vars(self.owner)  # PEP 562
        return type(along_mro(kind, "__getattribute__")) is not _C_METHOD

    def _fetched(self) -> Any:
        """Return the result of the owner's ``__getattr__`` or own ``__getattribute__``, or ABSENT."""
        fetch = self._fetch
        try:
            return fetch(self.name) if fetch is not None else ABSENT
        except AttributeError:
            return ABSENT

    @property
    def _fetch(self) -> Callable[[str], Any] | None:
        kind = type(self.owner)
        fetch: Any = along_mro(kind, "__getattr__")
        fetch = fetch.__get__(self.owner) if fetch is not ABSENT else None
        if isinstance(self.owner, ModuleType):
            fetch = vars(self.owner).get("__getattr__", fetch)  # PEP 562
        elif along_mro(kind, "__getattribute__") is not vars(object)["__getattribute__"]:
            fetch = partial(getattr, self.owner)
        return cast("Callable[[str], Any] | None", fetch)

    def write(self, value: Any) -> None:
        if self._forwarded is None and self.is_forwarded:
            self._forwarded = (self._fetched(),)
        setattr(self.owner, self.name, value)

    @property
    def is_plain(self) -> bool:
        """True if nothing but the interpreter has a say in reading and writing: an attribute of a module or class."""
        kind = type(self.owner)
        if kind is ModuleType or kind is type:
            return self._member is None and not hasattr(type(along_mro(kind, self.name)), "__set__")
        plain = next((plain for plain in (ModuleType, type) if issubclass(kind, plain)), None)
        is_its_own = plain is not None and self._member is None and along_mro(kind, self.name) is ABSENT
        names = ("__setattr__", "__dict__") if is_its_own else ()
        return is_its_own and all(along_mro(kind, name) is along_mro(plain or kind, name) for name in names)

    def writer(self, names: Any) -> Callable[[str, Any], object]:
        """Return a function in C that sets an attribute of the owner of a plain slot.

        ``names``: the ``__dict__`` of the owner: a module's is a dict, which setattr would write to.
        """
        return partial(setitem, names) if type(names) is dict else partial(setattr, self.owner)

    def delete(self) -> None:
        delattr(self.owner, self.name)
        if self._forwarded is not None:
            (original,), self._forwarded = self._forwarded, None
            if original is not ABSENT and not _is_same_fetched(self._fetched(), original):
                setattr(self.owner, self.name, original)

    @property
    def is_forwarded(self) -> bool:
        """True if setting the attribute changes another object, and the owner has no such attribute itself."""
        if isinstance(self.owner, (ModuleType, type)) or self.read() is not ABSENT:
            return False
        is_own_setter = along_mro(type(self.owner), "__setattr__") is not vars(object)["__setattr__"]
        return is_own_setter and along_mro(type(self.owner), self.name) is ABSENT

    def __str__(self) -> str:
        mark = ":" if issubclass(type(self.owner), ModuleType) else "."
        return f"{describe(self.owner)}{mark}{self.name}"


def look_up_of(slot: object, own: bool) -> LookUp | None:
    """Return a function that finds the inherited value of a slot anew; None for a value of the owner."""
    return None if own or not isinstance(slot, AttributeSlot) else slot.look_up()


def _value_of_bases(owner: type, name: str, value_before: Any, instance: Any) -> Any:
    """Return the value that a class inherits, bound to the instance; ``value_before`` for a foreign instance."""
    try:
        bases = super(owner, owner if instance is None else instance)
    except TypeError:
        return value_before
    return getattr(bases, name)


@final
class _LastAnswer:
    """The last answer of an object's class, and the value bound to the object. No tuple: a search would follow it."""

    __slots__ = ("answer", "value")

    def __init__(self, answer: Any, value: Any) -> None:
        self.answer: Final = answer
        self.value: Final = value


_BINDING: Final = (FunctionType, staticmethod, classmethod)  # a value of these is bound alike at each access
_C_METHOD: Final = type(vars(object)["__getattribute__"])


def _is_same_method(first: Any, second: Any) -> bool:
    """Return True if two values are one method, bound anew at each access; no ``__eq__`` is called."""
    is_method = type(first) is MethodType is type(second)
    return is_method and first.__func__ is second.__func__ and first.__self__ is second.__self__


def _is_same_fetched(first: Any, second: Any) -> bool:
    """Return True if two fetched values are one object, or one method: each fetch binds a method anew."""
    return first is second or (type(first) is type(second) and type(first) in _METHODS and first == second)

"""A module with a slot of every kind. ``WOKEN`` lists the code run by a look at a slot, wrongly."""

from collections import OrderedDict, defaultdict
from collections.abc import MutableMapping
from types import MappingProxyType

import wrapt

import targets

WOKEN = []


def made():
    def vendor(key=None):
        return key

    return vendor


def function(key=None):
    return key


c_function = sorted
LIMIT = 1000


def __getattr__(name):
    if name == "lazy":
        return served
    if name == "sleeping":
        WOKEN.append(name)
        return globals().setdefault(name, made())
    raise AttributeError(name)


served = made()


class Meta(type):
    first = "first"

    def meta_method(cls, key=None):
        return key

    last = "last"


class Base(metaclass=Meta):
    def inherited(self, key=None):
        return key

    @classmethod
    def inherited_class(cls, key=None):
        return key

    @staticmethod
    def inherited_static(key=None):
        return key

    @property
    def inherited_property(self):
        WOKEN.append("inherited_property")


class Child(Base):
    first = "first"

    def method(self, key=None):
        return key

    @classmethod
    def class_method(cls, key=None):
        return key

    @staticmethod
    def static_method(key=None):
        return key

    @property
    def attribute(self):
        WOKEN.append("attribute")

    class Nested:
        key: object

        def __init__(self, key=None):
            self.key = key

        def method(self, key=None):
            return key

        last = "last"

    last = "last"


class Grandchild(Child):
    pass


class Model:
    key: object  # functools.wraps reads __annotations__, made at the first reading in a class without any

    def __init__(self, key=None):
        self.key = key


class Table(dict):
    """A class with methods from C."""


class Slotted:
    __slots__ = ("first", "last", "member", "unset")

    def __init__(self):
        self.first, self.member, self.last = "first", made(), "last"


class Store(MutableMapping):
    """A mapping, but no dict."""

    def __init__(self, items):
        self.kept = dict(items)

    def __getitem__(self, key):
        return self.kept[key]

    def __setitem__(self, key, value):
        self.kept[key] = value

    def __delitem__(self, key):
        del self.kept[key]

    def __iter__(self):
        return iter(self.kept)

    def __len__(self):
        return len(self.kept)


class Forwarding:
    """A proxy written by hand: all attributes but a single one are another object's."""

    def __init__(self, behind):
        vars(self)["behind"] = behind

    def __getattr__(self, name):
        return getattr(self.behind, name)

    def __setattr__(self, name, value):
        setattr(self.behind, name, value)

    def __delattr__(self, name):
        delattr(self.behind, name)


def instance_of(kind):
    instance = kind()
    instance.first, instance.own, instance.last = "first", made(), "last"
    return instance


def entries():
    return [("a", 1000), ("b", made()), ("c", 3000)]


instance = instance_of(Child)
slotted = Slotted()
behind, wrapped = instance_of(Child), instance_of(Child)
forwarding, proxy = Forwarding(behind), wrapt.ObjectProxy(wrapped)
table, ordered, store = dict(entries()), OrderedDict(entries()), Store(entries())
lists = defaultdict(lambda: WOKEN.append("default"), entries())
rows = [made(), made(), made()]
shown = MappingProxyType(table)
last = "last"

targets.tell(__name__)

"""What is known of one call of torch.jit.script: values that a person, a program or a test reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias

KnownBy: TypeAlias = Literal[
    "annotation",
    "inferred",
    "constant",
    "parameter",
    "buffer",
    "function",
    "builtin function",
    "ignored by the user",
    "failed",
]
Origin: TypeAlias = Literal["new", "shared", "found in the store", "scripted before"]

VERSION: Final = 1  # of the JSON form


@dataclass(frozen=True, slots=True)
class Place:
    """A line of source.

    Attributes:
        file: its path, as Python knows it.
        line: its number, from 1.
        code: its text, without the blanks around it.
    """

    file: str
    line: int
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(slots=True)
class Attribute:
    """One attribute of a module, and what TorchScript made of it.

    Attributes:
        name: its name in the module.
        python_type: the type of its value, of a list or dict with those of what it holds.
        torchscript_type: the type in TorchScript, None if it has none.
        known_by: how the type was known.
        problem: why it has no type, else None. Not an error in itself: forward may not need it.
    """

    name: str
    python_type: str
    torchscript_type: str | None
    known_by: KnownBy
    problem: str | None = None


@dataclass(slots=True)
class Module:
    """One module of the model.

    Attributes:
        path: where it is in the model, as ``named_modules`` writes it; the model itself is the empty path.
        class_name: its class.
        defined_in: the Python module of the class.
        place: where the class is defined, None if that cannot be read.
        parameters, buffers, modules: the names of its own.
        origin: where its concrete type came from: made new, shared with a module of this call, found in torch's store
            from an earlier call, or a part that was scripted before. None if torch did not come so far.
        shared_with: the path of the module that the type was made for, if it is shared.
        type_name: TorchScript's name for the type.
        attributes: its attributes, in the order in which torch took them up. Of a shared type, too.
        seconds: how long each step took: ``check``, ``type``, ``attributes``, ``compile``, with what lies inside.
    """

    path: str
    class_name: str
    defined_in: str
    place: Place | None = None
    parameters: list[str] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    origin: Origin | None = None
    shared_with: str | None = None
    type_name: str | None = None
    attributes: list[Attribute] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Method:
    """A method, function or class that was compiled.

    Attributes:
        name: ``Class.method``, or the name of a function or class.
        kind: ``method``, ``property``, ``hook``, ``function`` or ``class``.
        path: of a method, the module's path in the model.
        place: where it is defined, None if that cannot be read.
        reached_from: what called it, ``Class.method``; None for what torch compiles by itself.
        reached_at: the line of that call.
        why: why torch compiles it by itself: ``forward``, ``exported``, ``asked for``; None for what is called.
        seconds: how long it took, with what it called; None where several are compiled in one step.
        compiled: False if it could not be.
        known: True if torch had it compiled already.
    """

    name: str
    kind: str
    path: str | None = None
    place: Place | None = None
    reached_from: str | None = None
    reached_at: Place | None = None
    why: str | None = None
    seconds: float | None = None
    compiled: bool = True
    known: bool = False


@dataclass(slots=True)
class Failure:
    """Why scripting failed.

    Attributes:
        error: the class of the exception.
        problem: what is wrong, in a line.
        mend: what to do, None where no rule knows the message.
        subject: the attribute, method or class that caused it, with its path in the model.
        attribute: the attribute's name, None if it is not one.
        path: the path of the module in which it happened.
        place: the line that caused it.
        inside: the method or function that the line is in.
        set_at: where the attribute is assigned.
        reached: how torch came there: ``(what was compiled, the line that called it)``, innermost first.
    """

    error: str
    problem: str
    mend: str | None = None
    subject: str | None = None
    attribute: str | None = None
    path: str | None = None
    place: Place | None = None
    inside: str | None = None
    set_at: Place | None = None
    reached: list[tuple[str, Place]] = field(default_factory=list)


@dataclass(slots=True)
class Explanation:
    """What one call of torch.jit.script did.

    Attributes:
        what: ``module``, ``function``, ``class`` or ``object``.
        name: the class or function that was scripted.
        place: where that is defined.
        called_at: the line that called torch.jit.script.
        seconds: how long the call took.
        modules: the model's modules, each before those inside it.
        methods: what was compiled, in the order in which torch began with it.
        failure: why it failed, else None.
        limits: what could not be recorded here, a line each.
        scripted: what torch.jit.script returned, None if it failed.
        error: what it raised, None if it did not.
    """

    what: str
    name: str
    place: Place | None = None
    called_at: Place | None = None
    seconds: float = 0.0
    modules: list[Module] = field(default_factory=list)
    methods: list[Method] = field(default_factory=list)
    failure: Failure | None = None
    limits: list[str] = field(default_factory=list)
    scripted: Any = None
    error: BaseException | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it but ``scripted`` and ``error``, as JSON can hold it; the keys are the attributes' names."""
        parts = ("what", "name", "place", "called_at", "modules", "methods", "failure")
        plain = {part: _plain(getattr(self, part)) for part in parts}
        return {"version": VERSION, "seconds": self.seconds, "limits": list(self.limits), **plain}

    def __str__(self) -> str:
        from hookpatch_torchscript._tree import as_text  # rich, for those who look

        return as_text(self)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, str) else asdict(value)

"""The record of one call of torch.jit.script: modules, attributes, compiled methods, the failure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hookpatch_torchscript._values.place import Place

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


@dataclass(slots=True)
class Attribute:
    """One attribute of a module, with its type in TorchScript.

    Attributes:
        name: the attribute's name in the module.
        python_type: the type of the value; of a list or dict, with the types of the elements.
        torchscript_type: the type in TorchScript, None if TorchScript has none.
        known_by: the source of the type.
        problem: why the attribute has no type, else None. No error in itself: forward may not use the attribute.
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
        path: the module's path in the model, as in ``named_modules``; empty for the model itself.
        class_name: the name of the class.
        defined_in: the Python module of the class.
        place: the definition of the class, None if the source cannot be read.
        parameters, buffers, modules: the names of the module's own parameters, buffers and submodules.
        origin: the origin of the concrete type: made new, shared with a module of this call, found in torch's store
            from an earlier call, or scripted before. None if torch failed earlier.
        shared_with: the path of the module that the shared type was made for.
        type_name: TorchScript's name of the type.
        attributes: the attributes in torch's order, also for a shared type.
        seconds: the time of each step, submodules included: ``check``, ``type``, ``attributes``, ``compile``.
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
    """A compiled method, function or class.

    Attributes:
        name: ``Class.method``, or the name of a function or class.
        kind: ``method``, ``property``, ``hook``, ``function`` or ``class``.
        path: of a method, the path of the module in the model.
        place: the definition, None if the source cannot be read.
        reached_from: the caller, ``Class.method``; None if torch compiles the method without a caller.
        reached_at: the line of the call.
        why: the reason without a caller: ``forward``, ``exported``, ``asked for``; else None.
        seconds: the time, callees included; None if several methods were compiled in one step.
        compiled: False if compiling failed.
        known: True if torch had compiled the function or class before.
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
class Proof:
    """A remedy that was applied to a copy in memory: the copy scripts, and answers as the model does.

    Attributes:
        diff: the remedy as a unified diff of the file.
        inputs: the number of inputs on which the answers were compared.
    """

    diff: str
    inputs: int


@dataclass(slots=True)
class Failure:
    """Why scripting failed.

    Attributes:
        error: the class of the exception.
        problem: the problem, in a line.
        mend: the remedy, None if no rule matches the message.
        subject: the attribute, method or class at fault, with the path in the model.
        attribute: the name of the attribute at fault, else None.
        path: the path of the failing module.
        place: the line at fault.
        inside: the method or function with the line.
        set_at: the line that assigns the attribute.
        reached: the calls that led torch to the line: ``(compiled function, calling line)``, innermost first.
        proof: a remedy that was tried and works; None if there is none, or nothing was tried.
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
    proof: Proof | None = None


@dataclass(slots=True)
class Record:
    """The values of one call of torch.jit.script; ``Explanation`` documents each attribute."""

    what: str
    name: str
    place: Place | None = None
    called_at: Place | None = None
    seconds: float = 0.0
    modules: list[Module] = field(default_factory=list)
    methods: list[Method] = field(default_factory=list)
    failure: Failure | None = None
    dropped: list[str] = field(default_factory=list)
    differs: str = ""
    limits: list[str] = field(default_factory=list)

"""Jobs for the measuring process, and its replies: plain values that go through JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, final

EAGER: Final = "eager"
TORCHSCRIPT: Final = ("trace", "script", "script+freeze")
MODES: Final = (EAGER, *TORCHSCRIPT, "compile", "export", "onnxruntime")
DEVICES: Final = ("cpu", "cuda")
DTYPES: Final = ("float32", "bfloat16", "float16")
WARM_UP: Final = 3  # calls after the first; TorchScript optimizes in the second call

Status = Literal["ok", "differs", "failed"]


@final
@dataclass(frozen=True, slots=True)
class Setting:
    """The setting that all modes share.

    Attributes:
        device: ``cpu`` or ``cuda``.
        dtype: torch's name for the dtype of parameters and floating-point inputs.
        batch: the batch size, the factory's argument.
    """

    device: str
    dtype: str
    batch: int

    def __str__(self) -> str:
        return f"batch {self.batch} · {self.dtype} · {self.device}"


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for measuring a model in each setting.

    Attributes:
        factory: the function that makes the model, ``module:function``.
        modes: the names of the modes, eager first.
        threads: the number of computing threads; None for torch's choice.
        seconds: the least time for measuring a mode in each round.
        repeat: the number of rounds.
    """

    factory: str
    modes: Sequence[str]
    threads: int | None
    seconds: float
    repeat: int


@final
@dataclass(frozen=True, slots=True)
class Job:
    """One measurement of one mode, in a new process.

    Attributes:
        factory: the function that makes the model and its inputs, ``module:function``.
        mode: one of ``MODES``.
        setting: the setting.
        threads: the number of computing threads; None for torch's choice.
        seconds: the least time for measuring.
    """

    factory: str
    mode: str
    setting: Setting
    threads: int | None
    seconds: float


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """The output tensor where a mode's answer is farthest from eager's answer.

    Attributes:
        output: the name of the tensor in the model's output: ``logits``, ``[0]``.
        absolute: the greatest difference of two numbers in the tensor.
        relative: ``absolute`` divided by the greatest magnitude in eager's tensor.
        tolerance: the limit for ``relative``.
    """

    output: str
    absolute: float
    relative: float
    tolerance: float


@final
@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of one job.

    Attributes:
        status: ``ok``; ``differs``, if the answer is not eager's; or ``failed``.
        problem: why the status is not ``ok``, in a line.
        preparation: seconds to the first answer.
        times: seconds per call, of each block.
        preparing: peak memory until the first answer, in bytes above the memory with the built model; None if unknown.
        running: peak memory while measuring, likewise.
        difference: None if nothing was compared.
    """

    status: Status
    problem: str | None = None
    preparation: float | None = None
    times: tuple[float, ...] = ()
    preparing: int | None = None
    running: int | None = None
    difference: Difference | None = None


@final
@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a process could not begin, in any mode.

    Attributes:
        of: ``factory`` or ``device``, the unusable part.
        problem: why, and the remedy.
    """

    of: Literal["factory", "device"]
    problem: str


@final
@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a process.

    Attributes:
        outcome: the outcome of the job.
        machine: a description of the machine, see ``machine.py``; empty for a process that crashed.
    """

    outcome: Trial | Refusal
    machine: dict[str, Any]

"""What a process is told to measure, and what it tells back: plain values that go through JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, final

EAGER: Final = "eager"
TORCHSCRIPT: Final = ("trace", "script", "script+freeze")
MODES: Final = (EAGER, *TORCHSCRIPT, "compile", "export", "onnxruntime")
DEVICES: Final = ("cpu", "cuda")
DTYPES: Final = ("float32", "bfloat16", "float16")
WARM_UP: Final = 3  # calls after the first; TorchScript optimizes in the second

Status = Literal["ok", "differs", "failed"]


@final
@dataclass(frozen=True, slots=True)
class Setting:
    """What all modes are measured with alike.

    Attributes:
        device: ``cpu`` or ``cuda``.
        dtype: of the parameters and of floating-point inputs, by torch's name.
        batch: what the factory is called with.
    """

    device: str
    dtype: str
    batch: int

    def __str__(self) -> str:
        return f"batch {self.batch} · {self.dtype} · {self.device}"


@final
@dataclass(frozen=True, slots=True)
class Job:
    """One mode to be measured once, in a process of its own.

    Attributes:
        factory: what makes the model and its inputs, ``module:function``.
        mode: one of ``MODES``.
        setting: with what.
        threads: how many threads compute; None for as many as torch takes.
        seconds: how long is measured at least.
    """

    factory: str
    mode: str
    setting: Setting
    threads: int | None
    seconds: float


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """Where a mode's answer is farthest from eager's.

    Attributes:
        output: the name of that tensor in the model's output: ``logits``, ``[0]``.
        absolute: the greatest difference of two numbers in it.
        relative: that, divided by the greatest magnitude in eager's.
        tolerance: how great ``relative`` may be.
    """

    output: str
    absolute: float
    relative: float
    tolerance: float


@final
@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one job.

    Attributes:
        status: ``ok``; ``differs``, its answer is not eager's; or ``failed``.
        problem: why not ``ok``, in a line.
        preparation: seconds to the first answer.
        times: seconds a call, of each block.
        preparing: peak memory until the first answer, in bytes over that with the model built; None if not known.
        running: that while it was measured.
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
    """Why a process could not begin: no mode could.

    Attributes:
        of: ``factory`` or ``device``, what it could not do with.
        problem: why, and what now.
    """

    of: Literal["factory", "device"]
    problem: str


@final
@dataclass(frozen=True, slots=True)
class Reply:
    """What a process tells back.

    Attributes:
        outcome: what became of its job.
        machine: what it ran on, see ``_machine``; empty for a process that crashed.
    """

    outcome: Trial | Refusal
    machine: dict[str, Any]

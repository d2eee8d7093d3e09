"""The explanation of one call of torch.jit.script, which ``explain`` returns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from hookpatch_torchscript._values.record import Record

VERSION: Final = 1  # of the JSON form


@dataclass(slots=True)
class Explanation(Record):
    """What one call of torch.jit.script did.

    Attributes:
        what: ``module``, ``function``, ``class`` or ``object``.
        name: the scripted class or function.
        place: the definition of that class or function.
        called_at: the line that called torch.jit.script.
        seconds: the duration of the call.
        modules: the modules of the model, each before its submodules.
        methods: the compiled methods, functions and classes, in torch's order.
        failure: why the call failed, else None.
        dropped: the decorators that scripting left out, a line each.
        differs: how the scripted model fails or answers otherwise on the inputs of ``explain``, else empty.
        limits: the parts that could not be recorded, a line each.
        scripted: the result of torch.jit.script, None if the call failed.
        error: the exception of torch.jit.script, None if the call succeeded.
    """

    scripted: Any = None
    error: BaseException | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes except ``scripted`` and ``error``, by name, as JSON can hold them."""
        parts = ("what", "name", "place", "called_at", "modules", "methods", "failure", "dropped", "differs")
        plain = {part: _plain(getattr(self, part)) for part in parts}
        return {"version": VERSION, "seconds": self.seconds, "limits": list(self.limits), **plain}

    def __str__(self) -> str:
        from hookpatch_torchscript._report.tree import as_text  # imports rich, which printing alone needs

        return as_text(self)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(element) for element in value]
    return value if value is None or isinstance(value, str) else asdict(value)

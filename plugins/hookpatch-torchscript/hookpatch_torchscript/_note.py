"""The note on an exception of torch.jit.script: what caused it, where, and the mend."""

from __future__ import annotations

from hookpatch_torchscript._record import Explanation, Place


def note(explanation: Explanation) -> str:
    """Return a few lines: the cause, the line, where the attribute is assigned, the mend and the way there."""
    failure = explanation.failure
    if failure is None:
        return ""
    lines = [f"script_explain: {failure.subject}: {failure.problem}"]
    if failure.place is not None:
        lines.append(_line("at", failure.place, failure.inside))
    if failure.set_at is not None:
        lines.append(_line("set at", failure.set_at, None))
    if failure.mend is not None:
        lines.append(f"  {'mend':<8}{failure.mend}")
    lines += [_line("for", place, None) for _, place in failure.reached]
    lines += [f"  {'limit':<8}{limit}" for limit in explanation.limits]
    return "\n".join(lines)


def _line(word: str, place: Place, inside: str | None) -> str:
    where = f"{place} in {inside}" if inside else str(place)
    return f"  {word:<8}{where}: {place.code}" if place.code else f"  {word:<8}{where}"

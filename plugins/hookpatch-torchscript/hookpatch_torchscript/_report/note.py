"""The note on an exception of torch.jit.script: cause, line and remedy."""

from __future__ import annotations

from hookpatch_torchscript._values.place import Place
from hookpatch_torchscript._values.record import Proof, Record


def note(record: Record) -> str:
    """Return the note: cause, line, assignment of the attribute, remedy, calls, limits."""
    failure = record.failure
    if failure is None:
        return ""
    lines = [f"script_explain: {failure.subject}: {failure.problem}"]
    if failure.place is not None:
        lines.append(_line("at", failure.place, failure.inside))
    if failure.set_at is not None:
        lines.append(_line("set at", failure.set_at, None))
    if failure.proof is not None:
        lines += _proved(failure.proof)
    elif failure.mend is not None:
        lines.append(f"  {'try':<8}{failure.mend}")
    lines += [_line("for", place, None) for _, place in failure.reached]
    lines += [f"  {'dropped':<8}{dropped}" for dropped in record.dropped]
    lines += [f"  {'limit':<8}{limit}" for limit in record.limits]
    return "\n".join(lines)


def _proved(proof: Proof) -> list[str]:
    inputs = f"{proof.inputs} input{'s' * (proof.inputs != 1)}"
    sentence = f"this diff: a changed copy was scripted, and answers as the model does on {inputs}"
    return [f"  {'works':<8}{sentence}", *(f"          {line}".rstrip() for line in proof.diff.splitlines())]


def _line(word: str, place: Place, inside: str | None) -> str:
    where = f"{place} in {inside}" if inside else str(place)
    return f"  {word:<8}{where}: {place.code}" if place.code else f"  {word:<8}{where}"

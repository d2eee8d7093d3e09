"""Run a case, and return the deciding lines and the outcome of each mode as plain data for a file."""

from __future__ import annotations

import time
from typing import Any, Final

from truth.apart import Lost, apart
from truth.capturing import HOW, capturing
from truth.case import Case, eager
from truth.executed import executed
from truth.frames import Place
from truth.modes import MODES, Outcome, captured, cause
from truth.source import logical, text
from truth.watch import Decisions, Seen, watched

KINDS: Final = ("data", "shape", "either", "inside", "rank")


def lines(case: Case) -> dict[str, Any]:
    """Return the deciding lines of a case, and the lines that ran, over all inputs. Each input gets a fresh model."""
    seen: list[Seen] = []
    ran: dict[str, set[int]] = {}
    never: dict[str, set[Any]] | None = None
    stopped = None
    for inputs in case.inputs:
        model = case.build()
        try:
            with watched(model, inputs) as one, executed() as done:
                eager(model, inputs)
        except Exception as error:
            stopped = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        seen.append(one)
        for file, numbers in done.lines().items():
            ran.setdefault(file, set()).update(numbers)
        left = done.never()
        never = left if never is None else _both(never, left, ran)
    return {
        **{kind: _listed([getattr(one, kind) for one in seen]) for kind in KINDS},
        "unreached": sorted(_unreached(case, seen)),
        "beneath": sorted({logical(place) for one in seen for place in one.beneath}),
        "ran": {file: sorted(numbers) for file, numbers in sorted(ran.items())},
        "never": {file: sorted(spans) for file, spans in sorted((never or {}).items()) if spans},
        "stopped": stopped,
    }


def _unreached(case: Case, seen: list[Seen]) -> set[Place]:
    """Return the lines that decide in eager mode, but do not decide when the model's code sees a capture."""
    reached: set[Place] = set()
    for how in HOW:
        for inputs in case.inputs:
            model = case.build()
            try:
                with capturing(how), watched(model, inputs) as one:
                    eager(model, inputs)
            except Exception:  # the model fails under a capture: no line is known to be unreached
                return set()
            reached |= {logical(place) for place in (*one.data, *one.shape)}
    return {logical(place) for one in seen for place in (*one.data, *one.shape)} - reached


def _both(one: dict[str, set[Any]], other: dict[str, set[Any]], ran: dict[str, set[int]]) -> dict[str, set[Any]]:
    """Return the parts skipped in both runs. A file entered by a single run is judged by the single run."""
    return {file: one.get(file, other.get(file, set())) & other.get(file, one.get(file, set())) for file in ran}


def _listed(seen: list[dict[Place, Decisions]]) -> list[dict[str, Any]]:
    """Return the lines, each with the kinds of decision, and with the inputs whose outcome differs from the first."""
    places = {logical(place) for one in seen for place in one}
    found = []
    for place in sorted(places):
        by_input = [[one[raw] for raw in one if logical(raw) == place] for one in seen]
        outcomes = [[outcome for decisions in each for outcome in decisions.outcomes] for each in by_input]
        how = {how for each in by_input for decisions in each for how in decisions.how}
        others = [number for number, each in enumerate(outcomes, 1) if each != outcomes[0]]
        found.append(
            {"file": place.file, "line": place.line, "how": sorted(how), "differs": others, "source": text(place)}
        )
    return found


def judged(case: Case, seconds: float, modes: tuple[str, ...] = MODES) -> dict[str, Any]:
    """Return the facts about a case: ``lines``, ``modes`` and the seconds for each."""
    took: dict[str, float] = {}
    found: dict[str, Any] = {"name": case.name, "dynamic": case.dynamic, "modes": {}, "seconds": took}
    start = time.perf_counter()
    try:
        found["lines"] = apart(lambda: lines(case), seconds)
    except Lost as error:
        found["lines"] = {kind: [] for kind in (*KINDS, "unreached", "beneath")} | {
            "ran": {},
            "never": {},
            "stopped": str(error),
        }
    took["lines"] = round(time.perf_counter() - start, 2)
    for mode in modes:
        start = time.perf_counter()
        try:
            found["modes"][mode] = apart(lambda mode=mode: _plain(captured(case, mode)), seconds)
        except Lost as error:
            found["modes"][mode] = _plain(Outcome("failed", str(error), cause(str(error))))
        took[mode] = round(time.perf_counter() - start, 2)
    return found


def _plain(outcome: Any) -> dict[str, Any]:
    place = outcome.place and list(logical(outcome.place))
    return vars(outcome) | {"place": place, "warned": [list(logical(one)) for one in outcome.warned]}

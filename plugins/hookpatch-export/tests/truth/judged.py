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
    observations: list[Seen] = []
    ran: dict[str, set[int]] = {}
    never: dict[str, set[Any]] | None = None
    stopped = None
    for inputs in case.inputs:
        model = case.build()
        try:
            with watched(model, inputs) as observation, executed() as execution:
                eager(model, inputs)
        except Exception as error:
            stopped = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        observations.append(observation)
        for file, numbers in execution.lines().items():
            ran.setdefault(file, set()).update(numbers)
        skipped = execution.never()
        never = skipped if never is None else _skipped_in_both(never, skipped, ran)
    return {
        **{kind: _listed([getattr(observation, kind) for observation in observations]) for kind in KINDS},
        "unreached": sorted(_unreached(case, observations)),
        "beneath": sorted({logical(place) for observation in observations for place in observation.beneath}),
        "ran": {file: sorted(numbers) for file, numbers in sorted(ran.items())},
        "never": {file: sorted(spans) for file, spans in sorted((never or {}).items()) if spans},
        "stopped": stopped,
    }


def _unreached(case: Case, observations: list[Seen]) -> set[Place]:
    """Return the lines that decide in eager mode, but do not decide when the model's code sees a capture.

    In a trace, a size is a tensor, and is hashed by its identity.
    """
    reached: set[Place] = set()
    for how in HOW:
        for inputs in case.inputs:
            model = case.build()
            try:
                with capturing(how), watched(model, inputs) as observation:
                    eager(model, inputs)
            except Exception:  # the model fails under a capture: no line is known to be unreached
                return set()
            decisions = [*observation.data.items(), *observation.shape.items()]
            reached |= {logical(place) for place, decided in decisions if how != "trace" or decided.how != {"hash"}}
    return {
        logical(place) for observation in observations for place in (*observation.data, *observation.shape)
    } - reached


def _skipped_in_both(
    first: dict[str, set[Any]], second: dict[str, set[Any]], ran: dict[str, set[int]]
) -> dict[str, set[Any]]:
    """Return the parts skipped in both runs. A file entered by a single run is judged by the single run."""
    return {file: first.get(file, second.get(file, set())) & second.get(file, first.get(file, set())) for file in ran}


def _listed(observations: list[dict[Place, Decisions]]) -> list[dict[str, Any]]:
    """Return the lines, each with the kinds of decision, and with the inputs whose outcome differs from the first."""
    places = {logical(place) for observation in observations for place in observation}
    entries = []
    for place in sorted(places):
        by_input = [[observation[raw] for raw in observation if logical(raw) == place] for observation in observations]
        outcomes = [[outcome for decisions in each for outcome in decisions.outcomes] for each in by_input]
        how = {how for each in by_input for decisions in each for how in decisions.how}
        differing = [number for number, each in enumerate(outcomes, 1) if each != outcomes[0]]
        entries.append(
            {"file": place.file, "line": place.line, "how": sorted(how), "differs": differing, "source": text(place)}
        )
    return entries


def judged(case: Case, seconds: float, modes: tuple[str, ...] = MODES) -> dict[str, Any]:
    """Return the facts about a case: ``lines``, ``modes`` and the seconds for each."""
    took: dict[str, float] = {}
    facts: dict[str, Any] = {"name": case.name, "dynamic": case.dynamic, "modes": {}, "seconds": took}
    start = time.perf_counter()
    try:
        facts["lines"] = apart(lambda: lines(case), seconds)
    except Lost as error:
        facts["lines"] = {kind: [] for kind in (*KINDS, "unreached", "beneath")} | {
            "ran": {},
            "never": {},
            "stopped": str(error),
        }
    took["lines"] = round(time.perf_counter() - start, 2)
    for mode in modes:
        start = time.perf_counter()
        try:
            facts["modes"][mode] = apart(lambda mode=mode: _plain(captured(case, mode)), seconds)
        except Lost as error:
            facts["modes"][mode] = _plain(Outcome("failed", str(error), cause(str(error))))
        took[mode] = round(time.perf_counter() - start, 2)
    return facts


def _plain(outcome: Any) -> dict[str, Any]:
    place = outcome.place and list(logical(outcome.place))
    return vars(outcome) | {"place": place, "warned": [list(logical(line)) for line in outcome.warned]}

"""The truth of many models, on all cores, kept in a folder: a file for each model, not measured twice."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import re
import sysconfig
import time
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from truth.apart import Lost, apart
from truth.case import Case, Refused
from truth.judged import judged, lines
from truth.modes import cause

from bench import own, tiny


def measure(names: list[str], folder: Path, seconds: float, workers: int) -> None:
    """Establish the truth of the models without a file in the folder.

    Args:
        names: ``transformers:BertModel`` and the like, or ``zoo:Name``.
        folder: the folder for a file of each model.
        seconds: the limit for one mode of a model.
        workers: processes at a time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    for name in [*(name for name in names if not path_of(name, folder).exists()), *[""] * workers]:
        queue.put(name)
    processes = [context.Process(target=_work, args=(queue, folder, seconds)) for _ in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def again(names: list[str], folder: Path) -> None:
    """Establish the lines and the causes of failures of known models again, but not the outcomes of captures."""
    for facts in load(names, folder):
        if "modes" in facts:
            try:
                facts["lines"] = apart(lambda name=facts["name"]: lines(case(name)), 300)
            except Lost as error:
                print(f"{facts['name']}: the lines as they were: {error}", flush=True)
                continue
            for outcome in facts["modes"].values():
                outcome["cause"] = cause(outcome["said"]) if outcome["became"] == "failed" else ""
            path_of(facts["name"], folder).write_text(json.dumps(facts))


def longer(names: list[str], folder: Path, seconds: float) -> None:
    """Repeat captures that took too long, with more time: a busy machine must not change a model's truth."""
    for facts in load(names, folder):
        late = tuple(mode for mode, outcome in facts.get("modes", {}).items() if outcome["cause"] == "time")
        if late:
            repeated = apart(lambda name=facts["name"], late=late: judged(case(name), seconds, late), 8 * seconds)
            facts["modes"] |= repeated["modes"]
            facts["seconds"] |= repeated["seconds"]
            path_of(facts["name"], folder).write_text(json.dumps(facts))
            print(facts["name"], {mode: outcome["became"] for mode, outcome in repeated["modes"].items()}, flush=True)


def path_of(name: str, folder: Path) -> Path:
    """Return the file of a model's truth."""
    return folder / f"{name.replace(':', '.')}.json"


def load(names: list[str], folder: Path) -> list[dict[str, Any]]:
    """Return the known truths in the order of the names, with file names of the current environment."""
    return [
        json.loads(_with_present_folders(path.read_text()))
        for name in names
        if (path := path_of(name, folder)).exists()
    ]


def _with_present_folders(text: str) -> str:
    """Return a truth from another environment or clone, with the folders of the current environment."""
    text = re.sub(r'"[^"]*/site-packages/([^"]+\.py)"', rf'"{sysconfig.get_path("purelib")}/\1"', text)
    return re.sub(r'"[^"]*/(zoo/\w+\.py)"', rf'"{Path(__file__).parents[1]}/\1"', text)


def case(name: str) -> Case:
    """Return the case of a name.

    Raises:
        Refused: the name has no model, or the model does not run.
    """
    package, _, model = name.partition(":")
    if package == "transformers":
        return tiny.case(model)
    if package == "zoo":
        import zoo

        return zoo.case(model)
    if package == "own":
        return own.case(model)
    raise Refused(f"{name}: neither transformers:NAME nor zoo:NAME nor own:NAME")


def built(name: str) -> torch.nn.Module:
    """Return the model of a name, without a run that checks inputs."""
    package, _, model = name.partition(":")
    return tiny.built(model) if package == "transformers" else case(name).build()


def quiet() -> None:
    """Use one thread, and no warnings or logs: many processes run, and warnings of captures are recorded elsewhere."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    transformers.logging.set_verbosity_error()


def _work(queue: Any, folder: Path, seconds: float) -> None:
    while name := queue.get():
        start = time.perf_counter()
        try:
            facts = apart(lambda name=name: _judge(name, seconds), 8 * seconds)
        except Lost as error:
            facts = {"name": name, "refused": str(error)}
        path = path_of(name, folder)
        path.with_suffix(".part").write_text(json.dumps(facts))
        path.with_suffix(".part").rename(path)
        summary = facts.get("refused") or " ".join(
            f"{mode}={outcome['became']}" for mode, outcome in facts["modes"].items()
        )
        print(f"{time.perf_counter() - start:6.1f} s  {name}: {summary}", flush=True)


def _judge(name: str, seconds: float) -> dict[str, Any]:
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        return judged(case(name), seconds)
    except Refused as error:
        return {"name": name, "refused": str(error)}

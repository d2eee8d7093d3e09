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

from bench import tiny


def measure(names: list[str], folder: Path, seconds: float, workers: int) -> None:
    """Establish what is not in the folder yet.

    Args:
        names: ``transformers:BertModel`` and the like, or ``zoo:Name``.
        folder: where a file of each goes.
        seconds: the most that one mode of a model may take.
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
    """Establish the lines of what is in the folder anew, and what made captures fail; not what they did."""
    for known in load(names, folder):
        if "modes" in known:
            try:
                known["lines"] = apart(lambda name=known["name"]: lines(case(name)), 300)
            except Lost as error:
                print(f"{known['name']}: the lines as they were: {error}", flush=True)
                continue
            for outcome in known["modes"].values():
                outcome["cause"] = cause(outcome["said"]) if outcome["became"] == "failed" else ""
            path_of(known["name"], folder).write_text(json.dumps(known))


def longer(names: list[str], folder: Path, seconds: float) -> None:
    """Capture again what took too long, with more time: what is said of a model must not hang on a busy machine."""
    for known in load(names, folder):
        late = tuple(mode for mode, one in known.get("modes", {}).items() if one["cause"] == "time")
        if late:
            found = apart(lambda name=known["name"], late=late: judged(case(name), seconds, late), 8 * seconds)
            known["modes"] |= found["modes"]
            known["seconds"] |= found["seconds"]
            path_of(known["name"], folder).write_text(json.dumps(known))
            print(known["name"], {mode: one["became"] for mode, one in found["modes"].items()}, flush=True)


def path_of(name: str, folder: Path) -> Path:
    """The file of a model's truth."""
    return folder / f"{name.replace(':', '.')}.json"


def load(names: list[str], folder: Path) -> list[dict[str, Any]]:
    """The truths that are there, in the order of the names; files named as they lie in this environment."""
    return [json.loads(_here(path.read_text())) for name in names if (path := path_of(name, folder)).exists()]


def _here(text: str) -> str:
    """A truth that was established in another environment or clone, with this one's folders."""
    text = re.sub(r'"[^"]*/site-packages/(transformers/[^"]+\.py)"', rf'"{sysconfig.get_path("purelib")}/\1"', text)
    return re.sub(r'"[^"]*/(zoo/\w+\.py)"', rf'"{Path(__file__).parents[1]}/\1"', text)


def case(name: str) -> Case:
    """The case that a name stands for.

    Raises:
        Refused: there is none, or it does not run.
    """
    package, _, model = name.partition(":")
    if package == "transformers":
        return tiny.case(model)
    if package == "zoo":
        import zoo

        return zoo.case(model)
    raise Refused(f"{name}: neither transformers:NAME nor zoo:NAME")


def built(name: str) -> torch.nn.Module:
    """The model that a name stands for, without a run to see that it accepts inputs."""
    package, _, model = name.partition(":")
    return tiny.built(model) if package == "transformers" else case(name).build()


def quiet() -> None:
    """One thread, no warnings and no logs: the processes are many, and what is said is caught where it counts."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    transformers.logging.set_verbosity_error()


def _work(queue: Any, folder: Path, seconds: float) -> None:
    while name := queue.get():
        start = time.perf_counter()
        try:
            found = apart(lambda name=name: _judge(name, seconds), 8 * seconds)
        except Lost as error:
            found = {"name": name, "refused": str(error)}
        path = path_of(name, folder)
        path.with_suffix(".part").write_text(json.dumps(found))
        path.with_suffix(".part").rename(path)
        said = found.get("refused") or " ".join(f"{mode}={one['became']}" for mode, one in found["modes"].items())
        print(f"{time.perf_counter() - start:6.1f} s  {name}: {said}", flush=True)


def _judge(name: str, seconds: float) -> dict[str, Any]:
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        return judged(case(name), seconds)
    except Refused as error:
        return {"name": name, "refused": str(error)}

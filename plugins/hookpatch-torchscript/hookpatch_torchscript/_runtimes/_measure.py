"""One job, done in this process; the package's docstring has the method."""

from __future__ import annotations

import copy
import random
import warnings
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils import benchmark

from hookpatch_torchscript._runtimes._agreement import OtherAnswerError, difference, tensors
from hookpatch_torchscript._runtimes._factory import Built, FactoryError, build
from hookpatch_torchscript._runtimes._job import EAGER, WARM_UP, Difference, Job, Refusal, Reply, Setting, Trial
from hookpatch_torchscript._runtimes._machine import machine
from hookpatch_torchscript._runtimes._memory import Watch
from hookpatch_torchscript._runtimes._modes import eager, prepare
from hookpatch_torchscript._runtimes._reason import reason
from hookpatch_torchscript._runtimes._script_reason import script_reason
from hookpatch_torchscript._runtimes._without import NotHereError


def reply(job: Job) -> Reply:
    """Do a job and tell what became of it. Torch's number of threads and its seed stay changed.

    Args:
        job: what to measure.
    """
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    about = machine(job.setting.device)
    if job.setting.device == "cuda" and not torch.cuda.is_available():
        built_with = torch.version.cuda is not None
        why = "sees no CUDA device" if built_with else "is built without CUDA"
        return Reply(Refusal("device", f"torch {torch.__version__} {why}"), about)
    random.seed(0)
    torch.manual_seed(0)
    try:
        built = _placed(build(job.factory, job.setting.batch), job.setting)
    except FactoryError as error:
        return Reply(Refusal("factory", str(error)), about)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Reply(_trial(job, built), about)


def _placed(built: Built, setting: Setting) -> Built:
    dtype: torch.dtype = getattr(torch, setting.dtype)

    def place(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.to(setting.device, dtype if leaf.is_floating_point() else None)

    model = built.model.eval().to(setting.device, dtype)
    return Built(model, pytree.tree_map(place, built.inputs), pytree.tree_map(place, dict(built.keywords)))


def _trial(job: Job, built: Built) -> Trial:
    fresh = copy.deepcopy((built.inputs, built.keywords))  # a model may write to its inputs
    watch = Watch(job.setting.device)
    try:
        begin = benchmark.timer()  # waits for the GPU
        call = prepare(job.mode, built)
        answer = call()
        preparation = benchmark.timer() - begin
        first = tensors(answer)
        del answer
        preparing = watch.phase()
        for _ in range(WARM_UP):
            call()
        timer = benchmark.Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
        times = timer.blocked_autorange(min_run_time=job.seconds).times
        running = watch.phase()
    except NotHereError as error:
        return Trial("failed", str(error))
    except Exception as error:
        return Trial("failed", script_reason(job.mode, built.model) or reason(error))
    try:
        found = difference(tensors(eager(Built(built.model, *fresh))()), first)
    except OtherAnswerError as error:
        return Trial("differs", str(error))
    if found.relative > found.tolerance:
        return Trial("differs", _said(job, found), difference=found)
    return Trial("ok", None, preparation, tuple(times), preparing, running, found)


def _said(job: Job, found: Difference) -> str:
    if job.mode == EAGER:
        apart = f"{found.output}: {found.absolute:.2g} apart"
        return f"the model answers one input in two ways ({apart}); nothing can be compared with it"
    return (
        f"{found.output} is {found.absolute:.2g} from eager's, {found.relative:.2g} of its greatest magnitude; "
        f"{found.tolerance:.0e} is allowed for {job.setting.dtype}"
    )

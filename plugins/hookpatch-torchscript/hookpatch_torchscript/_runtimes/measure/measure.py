"""Do one job in this process.

How a mode is measured: each mode in a fresh process, in which the model is built anew from the same seed. So the peak
memory is the memory of this mode alone, and a mode that crashes ends no other. The process, in this order:

1. builds the model and its inputs; memory counts from here;
2. *prepares* the mode and calls the mode once, imports included: the time to the first answer;
3. calls the mode three times to warm up, then runs ``torch.utils.benchmark.Timer.blocked_autorange``. The timer warms
   up, chooses a block long enough for the clock, and waits for the GPU around each block. The threads are fixed;
4. calls the model in eager mode with the same inputs, and compares the first answer of the mode with eager's answer.

With ``--repeat`` there are rounds over all modes, in new processes each: so a drift of the machine is spread over the
modes, and differences between processes (addresses, for example) are part of the measurement. The times of all rounds
are pooled: their median, and the range of their middle half (IQR). The method is that of "Rigorous Benchmarking in
Reasonable Time" (Kalibera and Jones, 2013): repeat at the level at which results vary.
"""

from __future__ import annotations

import copy
import random
import warnings
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils import benchmark

from hookpatch_torchscript._runtimes.jobs.job import EAGER, WARM_UP, Difference, Job, Refusal, Reply, Setting, Trial
from hookpatch_torchscript._runtimes.jobs.requirements import NotHereError
from hookpatch_torchscript._runtimes.measure.agreement import OtherAnswerError, difference, tensors
from hookpatch_torchscript._runtimes.measure.factory import Built, FactoryError, build
from hookpatch_torchscript._runtimes.measure.machine import machine
from hookpatch_torchscript._runtimes.measure.memory import Watch
from hookpatch_torchscript._runtimes.measure.modes import eager, prepare
from hookpatch_torchscript._runtimes.measure.reason import reason
from hookpatch_torchscript._runtimes.measure.script_reason import script_reason


def reply(job: Job) -> Reply:
    """Do a job and return the reply. Torch's number of threads, seed and use of TF32 stay changed.

    Args:
        job: the job.
    """
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    about = machine(job.setting.device)
    if job.setting.device == "cuda" and not torch.cuda.is_available():
        built_with = torch.version.cuda is not None
        why = "sees no CUDA device" if built_with else "is built without CUDA"
        return Reply(Refusal("device", f"torch {torch.__version__} {why}"), about)
    # TF32 has 10 bits for the digits: with it the answers of two modes are up to 2e-3 apart.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
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
    watch = Watch(job.setting.device, job.mode)
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
        gap = difference(tensors(eager(Built(built.model, *fresh))()), first)
    except OtherAnswerError as error:
        return Trial("differs", str(error))
    if gap.relative > gap.tolerance:
        return Trial("differs", _gap_in_words(job, gap), difference=gap)
    return Trial("ok", None, preparation, tuple(times), preparing, running, gap)


def _gap_in_words(job: Job, gap: Difference) -> str:
    if job.mode == EAGER:
        apart = f"{gap.output}: {gap.absolute:.2g} apart"
        return f"the model answers the same input in two ways ({apart}), and no mode can be compared"
    return (
        f"{gap.output} is {gap.absolute:.2g} from eager's, {gap.relative:.2g} of its greatest magnitude; "
        f"{gap.tolerance:.0e} is allowed for {job.setting.dtype}"
    )

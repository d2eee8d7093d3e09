"""A process of its own for one job: ``python -m hookpatch_torchscript._runtimes JOB REPLY``, JSON and a file for it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from hookpatch_torchscript._runtimes._job import Job, Setting
from hookpatch_torchscript._runtimes._measure import reply

told = json.loads(sys.argv[1])
done = reply(Job(**{**told, "setting": Setting(**told["setting"])}))
Path(sys.argv[2]).write_text(json.dumps(asdict(done)), encoding="utf-8")

"""Do one job in this process: ``python -m hookpatch_torchscript._runtimes JOB REPLY``, JSON and a file for JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from hookpatch_torchscript._runtimes.jobs.job import Job, Setting
from hookpatch_torchscript._runtimes.measure.measure import reply

request = json.loads(sys.argv[1])
answer = reply(Job(**{**request, "setting": Setting(**request["setting"])}))
Path(sys.argv[2]).write_text(json.dumps(asdict(answer)), encoding="utf-8")

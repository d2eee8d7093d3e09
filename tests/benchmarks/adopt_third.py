"""Collections chosen before ``hookpatch adopt`` saw them, each with an ``apply`` of its own; see ``adopt.py``."""

from __future__ import annotations

from typing import Final

import adopt_held_back
from adopt_held_back import Collection


def _collection(imports: str, apply: str, use: str) -> Collection:
    lines = apply.replace("; ", "\n    ")
    return Collection("own:apply", (), use, own=f"{imports}\ndef apply():\n    {lines}\n")


THIRD: Final = {
    "pymysql": _collection("import pymysql", "pymysql.install_as_MySQLdb()", "import MySQLdb; print(MySQLdb.__name__)"),
    "uvloop": _collection(
        "import asyncio, uvloop",
        "uvloop.install()",
        ("import asyncio\nasync def f(): return type(asyncio.get_running_loop()).__module__\nprint(asyncio.run(f()))"),
    ),
    "icecream": _collection("import icecream", "icecream.install()", "import builtins; print(hasattr(builtins, 'ic'))"),
    "forbiddenfruit": _collection(
        "import forbiddenfruit",
        (
            "forbiddenfruit.curse(str, 'shout', lambda self: self.upper()); forbiddenfruit.curse(list, "
            "'first', lambda self: self[0])"
        ),
        "print(getattr('a', 'shout', lambda: 'no')())",
    ),
    "patchy": _collection(
        "import patchy, shlex, fnmatch",
        (
            "patchy.replace(fnmatch.filter, None, 'def filter(names, pat):\\n    return [pat]\\n'); "
            "patchy.replace(shlex.quote, None, 'def quote(s):\\n    return repr(s)\\n')"
        ),
        "import fnmatch, shlex; print(fnmatch.filter(['a'], 'b'), shlex.quote('a b'))",
    ),
    "langfuse": _collection(
        "import openai",
        "import langfuse.openai",
        (
            "import openai; c = openai.OpenAI(api_key='a', base_url='http://localhost:9/', "
            "max_retries=0)\n"
            "try: c.chat.completions.create(model='a', messages=[])\n"
            "except Exception as e: print(type(e).__name__)"
        ),
    ),
    "openinference": _collection(
        ("import openai\nfrom openinference.instrumentation.openai import OpenAIInstrumentor"),
        "OpenAIInstrumentor().instrument()",
        (
            "import openai; c = openai.OpenAI(api_key='a', base_url='http://localhost:9/', "
            "max_retries=0)\n"
            "try: c.chat.completions.create(model='a', messages=[])\n"
            "except Exception as e: print(type(e).__name__)"
        ),
    ),
    "pytest-subprocess": _collection(
        "import subprocess, asyncio, pytest_subprocess",
        "p = pytest_subprocess.FakeProcess(); p.__enter__()",
        (
            "import subprocess\n"
            "try: print(subprocess.run(['true']).returncode)\n"
            "except Exception as e: print(type(e).__name__)"
        ),
    ),
    "friendly-traceback": _collection(
        "import friendly_traceback, builtins",
        "friendly_traceback.install(lang='en')",
        "import sys; print(sys.excepthook.__module__)",
    ),
    "pyjanitor": _collection(
        "import pandas, numpy", "import janitor", "import pandas; print(hasattr(pandas.DataFrame, 'clean_names'))"
    ),
    "lumigo": _collection(
        (
            "import os; os.environ['AWS_LAMBDA_FUNCTION_VERSION'] = '1'\n"
            "import requests, http.client, lumigo_tracer\n"
            "from lumigo_tracer.wrappers import wrap"
        ),
        "wrap(force=True)",
        (
            "\n"
            "import requests\n"
            'try: print(requests.get("http://localhost:9/").status_code)\n'
            "except Exception as error: print(type(error).__module__, type(error).__name__)\n"
        ),
    ),
    "time-machine": _collection(
        "import uuid, datetime, time_machine",
        "time_machine.travel(0, tick=False).start()",
        "import time; print(time.time())",
    ),
    "jaxtyping": _collection("import jaxtyping", "return jaxtyping.install_import_hook('colorsys', None)", "print(1)"),
    "nest-asyncio2": _collection(
        "import asyncio, nest_asyncio2",
        "nest_asyncio2.apply()",
        (
            "import asyncio\n"
            "async def inner(): return 3\n"
            "async def outer(): return asyncio.get_event_loop().run_until_complete(inner())\n"
            "print(asyncio.run(outer()))"
        ),
    ),
    "verboselogs": _collection(
        "import logging, verboselogs",
        "verboselogs.install()",
        "import logging; print(type(logging.getLogger('new')).__name__)",
    ),
    "mlflow": _collection(
        "import sklearn.linear_model, mlflow, mlflow.sklearn",
        "mlflow.sklearn.autolog(silent=True)",
        "import sklearn.linear_model as m; print(m.LinearRegression.fit.__qualname__)",
    ),
}
HELD_BACK: Final = {
    **adopt_held_back.HELD_BACK,
    "third": (
        THIRD,
        [
            "forbiddenfruit",
            "friendly-traceback",
            "icecream",
            "jaxtyping",
            "langfuse",
            "lumigo-tracer",
            "mlflow",
            "nest-asyncio2",
            "openai",
            "openinference-instrumentation-openai",
            "pandas",
            "patchy",
            "pyjanitor",
            "pymysql",
            "pytest-subprocess",
            "requests",
            "scikit-learn",
            "time-machine",
            "uvloop",
            "verboselogs",
        ],
    ),
}

"""The programs of ``make bench-audit``: some are patched by a framework, the others merely import a library.

Each patched program names the packages that made the patches.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Program(NamedTuple):
    """The imports of a program, the patching call, the patching packages, and the packages to install."""

    imports: str
    apply: str
    packages: tuple[str, ...]  # the top-level packages whose modules patch
    install: tuple[str, ...]


_WEB: Final = "import requests, flask, urllib3, sqlite3, httpx, jinja2, logging, threading\n"
_WEB_PACKAGES: Final = ("requests", "flask", "urllib3", "httpx", "jinja2")
_OTEL: Final = {
    "requests": "RequestsInstrumentor",
    "flask": "FlaskInstrumentor",
    "urllib3": "URLLib3Instrumentor",
    "logging": "LoggingInstrumentor",
    "sqlite3": "SQLite3Instrumentor",
    "threading": "ThreadingInstrumentor",
}

PATCHING: Final = {
    "gevent": Program("from gevent import monkey", "monkey.patch_all()", ("gevent",), ("gevent",)),
    "eventlet": Program("import eventlet", "eventlet.monkey_patch()", ("eventlet",), ("eventlet",)),
    "sentry": Program(
        f"{_WEB}import sentry_sdk",
        "sentry_sdk.init(dsn='http://a@localhost/1', traces_sample_rate=1.0)",
        ("sentry_sdk",),
        ("sentry-sdk", *_WEB_PACKAGES),
    ),
    "ddtrace": Program(
        f"{_WEB}from ddtrace import patch",
        "patch(requests=True, flask=True, sqlite3=True, httpx=True, urllib3=True, logging=True, jinja2=True)",
        ("ddtrace",),
        ("ddtrace", *_WEB_PACKAGES),
    ),
    "opentelemetry": Program(
        _WEB + "".join(f"from opentelemetry.instrumentation.{name} import {kind}\n" for name, kind in _OTEL.items()),
        "; ".join(f"{kind}().instrument()" for kind in _OTEL.values()),
        ("opentelemetry",),
        (*(f"opentelemetry-instrumentation-{name}" for name in _OTEL), *_WEB_PACKAGES),
    ),
    "elasticapm": Program(
        f"{_WEB}import elasticapm", "elasticapm.instrument()", ("elasticapm",), ("elastic-apm", *_WEB_PACKAGES)
    ),
    "newrelic": Program(
        "import newrelic.agent",
        f"newrelic.agent.initialize()\n{_WEB}",
        ("newrelic",),
        ("newrelic", *_WEB_PACKAGES),
    ),
    "freezegun": Program(
        "import uuid, datetime, freezegun",
        "freezegun.freeze_time('2020-01-01').start()",
        ("freezegun",),
        ("freezegun",),
    ),
    "nest_asyncio": Program("import nest_asyncio", "nest_asyncio.apply()", ("nest_asyncio",), ("nest_asyncio",)),
    "truststore": Program(
        "import urllib3, truststore", "truststore.inject_into_ssl()", ("truststore",), ("truststore", "urllib3")
    ),
    "vcrpy": Program(
        "import requests, urllib3, vcr",
        "vcr.use_cassette('cassette.yaml').__enter__()",
        ("vcr",),
        ("vcrpy", "requests"),
    ),
    "onnx-diagnostic": Program(
        "import torch, transformers.models.llama.modeling_llama\n"
        "from transformers.models.idefics import modeling_idefics as idefics\n"
        "idefics.IdeficsEmbedding = idefics.IdeficsRotaryEmbedding  # the old name, which is imported\n"
        "from onnx_diagnostic.torch_export_patches import torch_export_patches",
        "block = torch_export_patches(patch_transformers=True); block.__enter__()",
        ("onnx_diagnostic",),
        ("onnx-diagnostic", "torch", "transformers", "onnxscript", "onnxruntime", "optree", "scipy"),
    ),
    "liger-kernel": Program(
        "import torch, transformers.models.llama.modeling_llama\n"
        "from liger_kernel.transformers import apply_liger_kernel_to_llama",
        "apply_liger_kernel_to_llama()",
        ("liger_kernel",),
        ("liger-kernel", "torch", "transformers"),
    ),
    "responses": Program("import responses", "responses.start()", ("responses",), ("responses",)),
    "pook": Program("import urllib3, requests, http.client, pook", "pook.on()", ("pook",), ("pook", "requests")),
    "httpretty": Program("import requests, httpretty", "httpretty.enable()", ("httpretty",), ("httpretty", "requests")),
    "requests-cache": Program(
        "import requests, requests_cache",
        "requests_cache.install_cache(backend='memory')",
        ("requests_cache",),
        ("requests-cache",),
    ),
    "requests-mock": Program(
        "import requests, requests_mock", "requests_mock.Mocker().start()", ("requests_mock",), ("requests-mock",)
    ),
    "respx": Program("import httpx, respx", "respx.mock.start()", ("respx",), ("respx", "httpx")),
    "pytest-socket": Program(
        "import socket, pytest_socket", "pytest_socket.disable_socket()", ("pytest_socket",), ("pytest-socket",)
    ),
    "aioresponses": Program(
        "import aiohttp, aioresponses",
        "aioresponses.aioresponses().start()",
        ("aioresponses",),
        ("aioresponses", "aiohttp"),
    ),
    "aws-xray-sdk": Program(
        "import requests, sqlite3, httpx\nfrom aws_xray_sdk.core import patch",
        "patch(['requests', 'sqlite3', 'httpx'])",
        ("aws_xray_sdk",),
        ("aws-xray-sdk", "requests", "httpx"),
    ),
}

IMPORTING: Final = {
    name: Program(f"import {name}", "", (), tuple(distributions.split()))
    for name, distributions in {
        "numpy": "numpy",
        "pandas": "pandas",
        "requests": "requests",
        "httpx": "httpx",
        "aiohttp": "aiohttp",
        "flask": "flask",
        "fastapi": "fastapi",
        "django.conf, django.db, django.http": "django",
        "sqlalchemy.orm": "sqlalchemy",
        "attrs": "attrs",
        "pydantic": "pydantic",
        "click": "click",
        "rich.console": "rich",
        "jinja2": "jinja2",
        "yaml": "pyyaml",
        "lxml.etree": "lxml",
        "PIL.Image": "pillow",
        "celery": "celery",
        "boto3": "boto3",
        "pytest": "pytest",
        "beartype": "beartype",
        "typeguard": "typeguard",
        "gevent.event": "gevent",
        "sentry_sdk": "sentry-sdk",
        "networkx": "networkx",
        "tornado.web": "tornado",
        "trio": "trio",
        "marshmallow": "marshmallow",
        "jsonschema": "jsonschema",
        "docutils.core": "docutils",
        "babel": "babel",
        "tqdm.auto": "tqdm",
    }.items()
}

"""Programs kept aside, which no rule of the audit was tuned on before their first run; see docs/audit.md.

After that run of the first, third and fourth ones rules were mended. The second ones ran once.
"""

from __future__ import annotations

from typing import Final

from audit_programs import Program


def _imports(distributions: dict[str, str]) -> dict[str, Program]:
    """Return programs that import one module each, by module, from the module's distribution."""
    return {name: Program(f"import {name}", "", (), (distribution,)) for name, distribution in distributions.items()}


FIRST: Final = {
    "mocket": Program(
        "import requests, urllib3, mocket", "mocket.Mocket.enable()", ("mocket",), ("mocket", "requests")
    ),
    "requests-unixsocket": Program(
        "import requests, requests_unixsocket",
        "requests_unixsocket.monkeypatch()",
        ("requests_unixsocket",),
        ("requests-unixsocket",),
    ),
    "httmock": Program(
        "import requests, httmock",
        "block = httmock.HTTMock(lambda url, request: 'x'); block.__enter__()",
        ("httmock",),
        ("httmock", "requests"),
    ),
    "dnspython": Program(
        "import socket, requests, dns.resolver",
        "dns.resolver.override_system_resolver()",
        ("dns",),
        ("dnspython", "requests"),
    ),
    "geventhttpclient": Program(
        "import http.client, requests, geventhttpclient.httplib",
        "geventhttpclient.httplib.patch()",
        ("geventhttpclient",),
        ("geventhttpclient", "requests"),
    ),
    "mongomock": Program(
        "import pymongo, mongomock",
        "mongomock.patch(servers=(('a', 27017),)).start()",
        ("mongomock",),
        ("mongomock", "pymongo"),
    ),
    "wsgi-intercept": Program(
        (
            "import requests, urllib.request, http.client\n"
            "from wsgi_intercept import requests_intercept, http_client_intercept"
        ),
        "requests_intercept.install(); http_client_intercept.install()",
        ("wsgi_intercept",),
        ("wsgi-intercept", "requests"),
    ),
    "blockbuster": Program(
        "import requests, sqlite3, ssl\nfrom blockbuster import BlockBuster",
        "guard = BlockBuster(); guard.activate()",
        ("blockbuster",),
        ("blockbuster", "requests"),
    ),
    "scout-apm": Program(
        "import flask, requests, urllib3, jinja2, sqlalchemy\nfrom scout_apm.core import install",
        "install(config={'monitor': True, 'core_agent_launch': False, 'core_agent_download': False})",
        ("scout_apm",),
        ("scout-apm", "flask", "requests", "sqlalchemy"),
    ),
    "moto": Program(
        "import boto3, requests\nfrom moto import mock_aws",
        "block = mock_aws(); block.start()",
        ("moto", "responses"),
        ("moto", "boto3"),
    ),
    "django-stubs-ext": Program(
        "import django.db.models, django.views.generic, django_stubs_ext",
        "django_stubs_ext.monkeypatch()",
        ("django_stubs_ext",),
        ("django-stubs-ext", "django"),
    ),
    "opentelemetry, others": Program(
        (
            "import urllib.request, aiohttp, jinja2, asyncio, requests\n"
            "from opentelemetry.instrumentation.urllib import URLLibInstrumentor as A\n"
            "from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor as B\n"
            "from opentelemetry.instrumentation.jinja2 import Jinja2Instrumentor as C\n"
            "from opentelemetry.instrumentation.asyncio import AsyncioInstrumentor as D"
        ),
        "A().instrument(); B().instrument(); C().instrument(); D().instrument()",
        ("opentelemetry",),
        (
            "opentelemetry-instrumentation-urllib",
            "opentelemetry-instrumentation-aiohttp-client",
            "opentelemetry-instrumentation-jinja2",
            "opentelemetry-instrumentation-asyncio",
            "aiohttp",
            "jinja2",
        ),
    ),
    "testfixtures": Program(
        (
            "import datetime, time, os, tempfile\n"
            "from testfixtures import Replacer, mock_datetime, mock_time\n"
            "import testfixtures.popen"
        ),
        (
            "r = Replacer(); r.replace('datetime.datetime', mock_datetime()); r.replace('time.time', "
            "mock_time()); r.replace('subprocess.Popen', testfixtures.popen.MockPopen())"
        ),
        ("testfixtures",),
        ("testfixtures",),
    ),
}
SECOND: Final = {
    "localstack-client": Program(
        "import boto3, localstack_client.patch",
        "localstack_client.patch.enable_local_endpoints()",
        ("localstack_client",),
        ("localstack-client", "boto3"),
    ),
    "better-exceptions": Program(
        "import logging, unittest, code, better_exceptions",
        "better_exceptions.hook()",
        ("better_exceptions",),
        ("better-exceptions",),
    ),
    "trio-asyncio": Program("import asyncio, trio", "import trio_asyncio", ("trio_asyncio",), ("trio-asyncio",)),
    "PySocks": Program(
        "import socket, requests, urllib3, http.client, socks",
        "socket.socket = socks.socksocket; socket.create_connection = socks.create_connection",
        ("socks",),
        ("PySocks", "requests"),
    ),
    "future": Program(
        "import http, urllib.request\nfrom future import standard_library",
        "standard_library.install_aliases(); standard_library.install_hooks()",
        ("future",),
        ("future",),
    ),
    "rich": Program(
        "import rich.pretty, rich.traceback, asyncio",
        "rich.pretty.install(); rich.traceback.install()",
        ("rich",),
        ("rich",),
    ),
    "opentelemetry, httpx, sqlalchemy, redis": Program(
        (
            "import httpx, sqlalchemy, redis, requests\n"
            "from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor as A\n"
            "from opentelemetry.instrumentation.sqlalchemy import SQLAlchemyInstrumentor as B\n"
            "from opentelemetry.instrumentation.redis import RedisInstrumentor as C"
        ),
        "A().instrument(); B().instrument(); C().instrument()",
        ("opentelemetry",),
        (
            "opentelemetry-instrumentation-httpx",
            "opentelemetry-instrumentation-sqlalchemy",
            "opentelemetry-instrumentation-redis",
            "redis",
            "httpx",
            "sqlalchemy",
        ),
    ),
    "bugsnag": Program(
        "import flask, threading, bugsnag", "bugsnag.configure(api_key='a' * 32)", ("bugsnag",), ("bugsnag", "flask")
    ),
    "nest-asyncio2": Program(
        "import asyncio, nest_asyncio2", "nest_asyncio2.apply()", ("nest_asyncio2",), ("nest-asyncio2",)
    ),
    "mock": Program(
        "import os, requests, logging, mock",
        (
            "for name in ('os.getcwd', 'requests.get', 'requests.Session.send', "
            "'logging.Logger.error', 'shutil.rmtree'): mock.patch(name).start()\n"
            "mock.patch('textwrap.dedent', autospec=True).start()"
        ),
        ("mock",),
        ("mock", "requests"),
    ),
    "setuptools": Program(
        "import distutils.core, distutils.command.build_py",
        "import setuptools",
        ("setuptools", "_distutils_hack"),
        ("setuptools",),
    ),
    "by hand": Program(
        "import logging, requests, urllib3, jinja2, textwrap",
        (
            "def mine(*args, **options): return 1\n"
            "requests.get = requests.Session.request = urllib3.PoolManager.urlopen = logging.Logger.info = mine\n"
            "textwrap.TextWrapper = type('Other', (textwrap.TextWrapper,), {})\n"
            "jinja2.Template.render = lambda *a, **k: ''\n"
            "requests.adapters.HTTPAdapter.close = mine\n"
            "urllib3.connectionpool.HTTPConnection = type('Connection', "
            "(urllib3.connectionpool.HTTPConnection,), {})"
        ),
        (),
        ("requests", "jinja2"),
    ),
}
THIRD: Final = {
    "honeycomb-beeline": Program(
        "import requests, urllib.request, beeline",
        "import beeline.patch.requests, beeline.patch.urllib",
        ("beeline",),
        ("honeycomb-beeline", "requests"),
    ),
    "instana": Program(
        "import requests, urllib3, flask, logging, sqlite3, asyncio, httpx",
        "import os; os.environ['INSTANA_TEST'] = '1'; import instana",
        ("instana",),
        ("instana", "requests", "flask", "httpx"),
    ),
    "mockito": Program(
        "import os.path, json, requests, textwrap, mockito",
        "mockito.when(os.path).exists('/x').thenReturn(True)\n"
        "mockito.when(requests).get(...).thenReturn(1)\n"
        "mockito.when(requests.Session).request(...).thenReturn(2)\n"
        "mockito.patch(textwrap, 'dedent', lambda text: '')",
        ("mockito",),
        ("mockito", "requests"),
    ),
    "lovely-tensors": Program(
        "import torch, lovely_tensors",
        "lovely_tensors.monkey_patch()",
        ("lovely_tensors",),
        ("lovely-tensors", "torch"),
    ),
    "opencensus": Program(
        "import requests\nfrom opencensus.trace import config_integration",
        "config_integration.trace_integrations(['requests'])",
        ("opencensus",),
        ("opencensus-ext-requests", "requests"),
    ),
    **_imports(
        {
            "matplotlib.pyplot": "matplotlib",
            "scipy.stats": "scipy",
            "IPython": "ipython",
            "twisted.internet.reactor": "twisted",
            "numba": "numba",
        }
    ),
}
FOURTH: Final = {
    "pprintpp": Program("import pprint, logging, pprintpp", "pprintpp.monkeypatch()", ("pprintpp",), ("pprintpp",)),
    "flexmock": Program(
        "import os, json, requests, flexmock",
        "flexmock.flexmock(os).should_receive('getcwd').and_return('x')\n"
        "flexmock.flexmock(requests.Session).should_receive('send').and_return(1)\n"
        "flexmock.flexmock(requests, get=lambda url: '')",
        ("flexmock",),
        ("flexmock", "requests"),
    ),
    "aiodebug": Program(
        "import asyncio\nfrom aiodebug import log_slow_callbacks",
        "log_slow_callbacks.enable(0.05)",
        ("aiodebug",),
        ("aiodebug",),
    ),
    "sqltap": Program(
        "import sqlalchemy.orm, sqltap",
        "import sqlalchemy; session = sqltap.start()",
        ("sqltap",),
        ("sqltap", "sqlalchemy"),
    ),
    "sklearnex": Program(
        "import sklearn.cluster, sklearn.ensemble, sklearn.linear_model, sklearn.svm, sklearnex",
        "sklearnex.patch_sklearn()",
        ("sklearnex", "daal4py", "onedal"),
        ("scikit-learn-intelex",),
    ),
    **_imports(
        {
            "sympy": "sympy",
            "bs4": "beautifulsoup4",
            "cryptography.x509": "cryptography",
            "grpc": "grpcio",
            "polars": "polars",
        }
    ),
}

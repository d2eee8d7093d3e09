"""Collections kept aside, which ``hookpatch adopt`` was not mended on before their first run; see ``adopt.py``.

Long because each collection has a program. After the run of the first ones ``adopt`` was mended.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Collection(NamedTuple):
    """A collection to adopt.

    Attributes:
        apply: the address of the apply function.
        words: the words of the command behind the address.
        use: a program.
        install: the distributions to install.
        own: the source of the module ``own`` beside the program.
    """

    apply: str
    words: tuple[str, ...]
    use: str
    install: tuple[str, ...] = ()
    own: str = ""


_DJANGO: Final = """
from django.conf import settings
backend = "django.template.backends.django.DjangoTemplates"
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    USE_TZ=True,
    TEMPLATES=[{"BACKEND": backend}],
)
"""
_READY: Final = f"{_DJANGO}import django\ndjango.setup()\nimport django.db.backends.sqlite3.base\n"
_WEB: Final = """
import requests, flask, urllib3, sqlite3, httpx, jinja2, logging, threading, redis, sqlalchemy, celery
import starlette.applications
"""
_GET: Final = """
import requests
try: print(requests.get("http://localhost:9/").status_code)
except Exception as error: print(type(error).__module__, type(error).__name__)
"""
FIRST: Final = {
    "sentry-sdk": Collection(
        "own:apply",
        (),
        """
import threading, logging, flask
t = threading.Thread(target=print, args=(1,)); t.start(); t.join()
app = flask.Flask('a')
@app.route('/')
def f(): return 'x'
print(app.test_client().get('/').data)
""",
        own=_WEB
        + """
import sentry_sdk
def apply(): sentry_sdk.init(dsn='http://a@localhost/1', traces_sample_rate=1.0)
""",
    ),
    "pyfakefs": Collection(
        "own:apply",
        ("--undo", "own:undo"),
        "import os; print(os.path.exists('/etc/passwd'), os.listdir('/'))",
        own="""
from pyfakefs.fake_filesystem_unittest import Patcher
P = Patcher()
def apply(): P.setUp()
def undo(): P.tearDown()
""",
    ),
    "moto": Collection(
        "own:apply",
        (),
        """
import boto3
c = boto3.client('s3', region_name='us-east-1', aws_access_key_id='a', aws_secret_access_key='b')
c.create_bucket(Bucket='abcde'); print([b['Name'] for b in c.list_buckets()['Buckets']])
""",
        own="""
import boto3, requests
from moto import mock_aws
def apply():
    m = mock_aws(); m.start(); return m
""",
    ),
    "aioresponses": Collection(
        "own:apply",
        (),
        """
import aiohttp, asyncio
async def f():
    async with aiohttp.ClientSession() as s: return await s.get('http://localhost:9/')
try: asyncio.run(f())
except Exception as e: print(type(e).__name__)
""",
        own="""
from aioresponses import aioresponses
def apply():
    m = aioresponses(); m.start()
""",
    ),
    "respx": Collection(
        "own:apply",
        ("--undo", "respx:stop", "--import", "httpx"),
        """
import httpx
try: httpx.get('http://localhost:9/')
except Exception as e: print(type(e).__module__, type(e).__name__)
""",
        own="""
import respx
def apply(): respx.start()
""",
    ),
    "wsgi-intercept http.client": Collection(
        "wsgi_intercept.http_client_intercept:install",
        ("--undo", "wsgi_intercept.http_client_intercept:uninstall"),
        "import http.client; print(http.client.HTTPConnection)",
    ),
    "wsgi-intercept requests": Collection("wsgi_intercept.requests_intercept:install", ("--import", "requests"), _GET),
    "wsgi-intercept urllib3": Collection("wsgi_intercept.urllib3_intercept:install", ("--import", "requests"), _GET),
    "pytest-recording": Collection(
        "pytest_recording.network:block",
        (),
        """
import socket
try: socket.create_connection(('localhost', 9))
except Exception as e: print(type(e).__name__)
""",
    ),
    "fickling": Collection(
        "fickling:always_check_safety",
        (),
        """
import pickle
try: pickle.loads(b'cos\\nsystem\\n(S\\'true\\'\\ntR.')
except BaseException as e: print(type(e).__name__)
""",
    ),
    "msgpack-numpy": Collection(
        "msgpack_numpy:patch",
        (),
        """
import msgpack, numpy
print(msgpack.unpackb(msgpack.packb(numpy.arange(3))))
""",
    ),
    "requests-unixsocket": Collection(
        "requests_unixsocket:monkeypatch",
        ("--import", "requests"),
        """
import requests
try: requests.get('http+unix://x/y')
except Exception as e: print(type(e).__name__)
""",
    ),
    "requests-ftp": Collection(
        "requests_ftp:monkeypatch_session",
        (),
        "import requests; print(sorted(requests.Session().adapters), hasattr(requests.Session, 'stor'))",
    ),
    "pyopenssl": Collection(
        "urllib3.contrib.pyopenssl:inject_into_urllib3",
        ("--undo", "urllib3.contrib.pyopenssl:extract_from_urllib3"),
        "import urllib3, urllib3.util.ssl_ as s; print(s.SSLContext.__module__, urllib3.util.IS_PYOPENSSL)",
    ),
    "pyopenssl without undo": Collection(
        "urllib3.contrib.pyopenssl:inject_into_urllib3",
        (),
        "import urllib3, urllib3.util.ssl_ as s; print(s.SSLContext.__module__, urllib3.util.IS_PYOPENSSL)",
    ),
    "geventhttpclient": Collection(
        "geventhttpclient.httplib:patch", (), "import http.client; print(http.client.HTTPConnection)"
    ),
    "buildbot": Collection("buildbot.monkeypatches:patch_all", (), "print(1)"),
    "django.test": Collection(
        "django.test.utils:setup_test_environment",
        ("--import", "own", "--undo", "django.test.utils:teardown_test_environment"),
        "from django.template import Template; print(Template._render.__name__)",
        own=_READY,
    ),
    "django.test without undo": Collection(
        "django.test.utils:setup_test_environment",
        ("--import", "own"),
        "from django.template import Template; print(Template._render.__name__)",
        own=_READY,
    ),
    "coverage": Collection(
        "own:apply",
        (),
        "import multiprocessing.process as p; print(p.BaseProcess._bootstrap.__qualname__)",
        own="""
import coverage.multiproc
def apply(): coverage.multiproc.patch_multiprocessing('rc')
""",
    ),
    "kgb": Collection(
        "own:apply",
        (),
        "import textwrap, shlex; print(textwrap.dedent('  a'), shlex.quote('a b'))",
        own="""
import kgb, textwrap, shlex
agency = kgb.SpyAgency()
def apply():
    agency.spy_on(textwrap.dedent, call_fake=lambda text: 'fake')
    agency.spy_on(shlex.quote)
""",
    ),
    "testfixtures": Collection(
        "own:apply",
        (),
        "import logging; logging.warning('x'); print(len(logging.root.handlers))",
        own="""
from testfixtures import LogCapture
def apply(): return LogCapture()
""",
    ),
    "better-exceptions": Collection("better_exceptions:hook", (), "import sys; print(sys.excepthook.__module__)"),
    "opencensus": Collection(
        "own:apply",
        (),
        """
import threading
t = threading.Thread(target=print, args=(1,)); t.start(); t.join()
"""
        + _GET,
        own="""
import requests, threading, http.client
from opencensus.trace import config_integration as c
def apply(): c.trace_integrations(['threading', 'requests', 'httplib'])
""",
    ),
    "httmock": Collection(
        "own:apply",
        (),
        _GET,
        own="""
import httmock
@httmock.all_requests
def answer(url, request): return {'status_code': 418}
def apply(): return httmock.HTTMock(answer)
""",
    ),
    "django-zeal": Collection(
        "zeal.patch:patch",
        ("--import", "own"),
        "from django.contrib.contenttypes.models import ContentType; print(ContentType._meta.app_label)",
        own=_READY,
    ),
    "raven": Collection(
        "own:apply",
        (),
        _GET,
        own="""
import raven.breadcrumbs as b, requests
def apply():
    b._patch_logger(); b._hook_requests(); b._install_httplib()
""",
    ),
    "scout-apm": Collection(
        "own:apply",
        (),
        "import jinja2; print(jinja2.Template('a{{b}}').render(b=1))",
        own="""
import requests, redis, jinja2, urllib3, httpx
from scout_apm.instruments import jinja2 as a, redis as b, urllib3 as c
from scout_apm.core.config import scout_config
from scout_apm.instruments import ensure_all_installed
def apply(): ensure_all_installed()
""",
    ),
}
_FIRST: Final = [
    "aioresponses",
    "better-exceptions",
    "boto3",
    "buildbot",
    "celery",
    "coverage",
    "django",
    "django-zeal",
    "fickling",
    "flask",
    "geventhttpclient",
    "httmock",
    "httpx",
    "kgb",
    "moto",
    "msgpack-numpy",
    "opencensus",
    "opencensus-ext-httplib",
    "opencensus-ext-requests",
    "opencensus-ext-threading",
    "pyfakefs",
    "pyopenssl",
    "pytest-recording",
    "raven",
    "redis",
    "requests-ftp",
    "requests-unixsocket",
    "respx",
    "scout_apm",
    "sentry-sdk",
    "setuptools<80",
    "starlette",
    "testfixtures",
    "wsgi_intercept",
]
SECOND: Final = {
    "django-compat-patcher": Collection(
        "django_compat_patcher:patch",
        ("--import", "own"),
        "import django.utils.encoding as e; print(hasattr(e, 'force_text'))",
        own=_DJANGO + "import django\n" + "import django_compat_patcher",
    ),
    "sklearnex": Collection(
        "sklearnex:patch_sklearn",
        ("--undo", "sklearnex:unpatch_sklearn"),
        "from sklearn.cluster import KMeans; print(KMeans.__module__)",
    ),
    "sklearnex without undo": Collection(
        "sklearnex:patch_sklearn", (), "from sklearn.cluster import KMeans; print(KMeans.__module__)"
    ),
    "ddtrace": Collection(
        "own:apply",
        (),
        _GET,
        own="""
import requests, flask, urllib3, sqlite3, jinja2
from ddtrace import patch
def apply(): patch(requests=True, flask=True, sqlite3=True, urllib3=True, logging=True, jinja2=True)
""",
    ),
    "logfire": Collection(
        "own:apply",
        (),
        _GET,
        own="""
import requests, sqlite3, logfire
def apply():
    logfire.configure(send_to_logfire=False, console=False); logfire.instrument_requests(); logfire.instrument_print()
""",
    ),
    "opentracing": Collection(
        "opentracing_instrumentation.client_hooks:install_all_patches",
        ("--import", "own"),
        _GET,
        own="import requests, urllib3, sqlite3",
    ),
    "greenletio": Collection(
        "own:apply",
        (),
        "import threading; print(threading.Thread.__module__)",
        own="""
import greenletio
from greenletio.patcher import patch_blocking
def apply(): return patch_blocking()
""",
    ),
    "jsonpickle numpy": Collection(
        "jsonpickle.ext.numpy:register_handlers",
        ("--undo", "jsonpickle.ext.numpy:unregister_handlers"),
        "import jsonpickle, numpy; print(jsonpickle.encode(numpy.arange(2)))",
    ),
    "jsonpickle pandas": Collection(
        "jsonpickle.ext.pandas:register_handlers",
        (),
        "import jsonpickle, pandas; print(len(jsonpickle.encode(pandas.Series([1]))))",
    ),
    "colorama": Collection("colorama:init", ("--undo", "colorama:deinit"), "import sys; print(1)"),
    "pytest-blockage": Collection(
        "own:apply",
        (),
        """
import http.client
try: http.client.HTTPConnection('localhost')
except Exception as e: print(type(e).__name__)
""",
        own="""
import blockage
def apply(): blockage.block_http(['x'])
""",
    ),
    "captureWarnings": Collection(
        "own:apply",
        (),
        "import warnings; print(warnings.showwarning.__module__)",
        own="""
import logging
def apply(): logging.captureWarnings(True)
""",
    ),
    "cgitb": Collection("cgitb:enable", (), "import sys; print(type(sys.excepthook).__name__)"),
    "otel requests": Collection(
        "own:apply",
        (),
        _GET,
        own="""
from opentelemetry.instrumentation.requests import RequestsInstrumentor
def apply():
    i = RequestsInstrumentor(); i.instrument(); return i
""",
    ),
    "instana": Collection(
        "own:apply",
        (),
        _GET,
        own="""
import os
os.environ['INSTANA_TEST'] = 'true'
import requests, urllib3, flask, logging, instana
def apply(): instana.boot_agent()
""",
    ),
    "MonkeyPatch": Collection(
        "own:apply",
        (),
        "import requests, os; print(requests.get('x'), os.environ.get('SHOP'))",
        own="""
from pytest import MonkeyPatch
import requests, flask, json
m = MonkeyPatch()
def apply():
    m.setattr(requests, 'get', lambda url: url)
    m.setattr('requests.sessions.Session.trust_env', False, raising=False)
    m.setitem(flask.json.provider.__dict__, 'extra', len)
    m.delattr('json.tool', raising=False)
    m.setenv('SHOP', '1')
""",
    ),
}
_SECOND: Final = [
    "boto3",
    "colorama",
    "ddtrace",
    "django",
    "django-compat-patcher",
    "flask",
    "greenletio",
    "instana",
    "jsonpickle",
    "logfire",
    "opentelemetry-instrumentation-requests",
    "opentracing-instrumentation",
    "pandas",
    "pytest-blockage",
    "requests",
    "scikit-learn-intelex",
    "tornado<6",
]
HELD_BACK: Final = {"first": (FIRST, _FIRST), "second": (SECOND, _SECOND)}

"""Each declaration of hand_written.toml is accepted, and each kind of declaration works on modules of the same shape.

Long because each sample has modules of its own.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import pytest
from snapshot import Snapshot
from wild.hand_written import BEGIN, END, WHY, HandWritten, declared, figures, gives_method, is_plain, patches

import hookpatch

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "hand-written.md"
ROWS: Final = {(row.project, row.place): row for row in patches()}
PREFIX: Final = "stand_in_"


class Sample(NamedTuple):
    """A patch of the table, and modules of the same shape as the patched modules.

    Attributes:
        modules: the source of each module. The modules have ``PREFIX`` before their names.
        project: the source of the project's functions, and of objects without an address; sees each module by its name,
            with underscores for dots.
        probe: an expression whose value the patch changes.
        inside: the value inside.
    """

    modules: dict[str, str]
    project: str
    probe: str
    inside: Any


CALLED: Final = "def {}(wrapped, instance, args, kwargs): return ['around', wrapped(*args, **kwargs)]"
TWO_MODELS: Final = """
class GraniteRMSNorm:
    def forward(self, x): return x
class Model:
    def __init__(self): self.norm = GraniteRMSNorm()
made, other = Model(), Model()
"""
MADE_AND_OTHER: Final = (
    "model, other = (getattr(transformers_models_granite_modeling_granite, name) for name in ('made', 'other'))"
)
RESOLVING: Final = ("getaddrinfo", "getnameinfo", "getfqdn", "gethostbyname", "gethostbyname_ex", "gethostbyaddr")
SAMPLES: Final = {
    ("accelerate", 0): Sample(
        {"nets": "class Net:\n    def forward(self, x): return x + 1\nnet, other = Net(), Net()"},
        "module, hook = nets.net, [10]\n"
        "def with_hook(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs) * instance._hf_hook[0]",
        "[nets.net.forward(1), nets.other.forward(1)]",
        [20, 2],
    ),
    ("accelerate", 1): Sample(
        {"torch.nn": "class Module:\n    def register_parameter(self, name, value): setattr(self, name, value)"},
        """
class Loading:
    device = "meta"
    def register_on_device(self, wrapped, instance, args, kwargs): return wrapped(args[0], [self.device, args[1]])
loading = Loading()
def registered():
    module = torch_nn.Module()
    module.register_parameter("weight", 1)
    return module.weight
""",
        "registered()",
        ["meta", 1],
    ),
    ("accelerate", 2): Sample(
        {
            "torch": "".join(
                f"def {name}(n, device='cpu'): return n, device\n"
                for name in ("empty", "zeros", "ones", "full", "rand")
            )
        },
        "device = 'meta'",
        "[torch.empty(1), torch.zeros(2), torch.ones(3), torch.full(4), torch.rand(5)]",
        [(1, "meta"), (2, "meta"), (3, "meta"), (4, "meta"), (5, "cpu")],
    ),
    ("apex", 0): Sample(
        {"torch.distributed": "def _reduce_scatter_base(x): return [x]"},
        "",
        "getattr(torch_distributed, 'reduce_scatter_tensor', list)((1,))",
        [(1,)],
    ),
    ("bitsandbytes", 0): Sample(
        {
            "torch.nn": "from torch.nn import Linear, ModuleList, Identity\n"
            "model = ModuleList([Linear(1, 1), Linear(1, 1)])"
        },
        """
model, kept = torch_nn.model, [torch_nn.model[1]]
def is_not_kept(linear): return not any(linear is each for each in kept)
def quantized(linear): return torch_nn.Identity()
""",
        "[type(part).__name__ for part in torch_nn.model]",
        ["Identity", "Linear"],
    ),
    ("ColossalAI", 0): Sample(
        {"torch": "def empty(n): return n\neye = full = ones = rand = randn = empty\ndef zeros(n): return n * 0"},
        CALLED.format("on_meta"),
        "[torch.empty(1), torch.rand(2), torch.zeros(3)]",
        [["around", 1], ["around", 2], ["around", 0]],
    ),
    ("ColossalAI", 2): Sample(
        {
            "transformers.models.llama.modeling_llama": """
class LlamaModel:
    def forward(self, x): return x
class Model:
    def __init__(self): self.layers = [LlamaModel()]
made, other = Model(), Model()
"""
        },
        """
model = transformers_models_llama_modeling_llama.made
class Policy:
    size = 4
    def forward(self, wrapped, instance, args, kwargs): return [type(instance).__name__, self.size, *args]
policy = Policy()
""",
        "[net.layers[0].forward(1) for net in (model, transformers_models_llama_modeling_llama.other)]",
        [["LlamaModel", 4, 1], 1],
    ),
    ("datasets", 0): Sample(
        {"script": "def read(path): return open(path)"},
        """
module = script
class Streaming:
    token = "t"
    def open(self, path): return [self.token, path]
streaming = Streaming()
def read():
    try: return script.read("/nowhere")
    except OSError: return "no file"
""",
        "read()",
        ["t", "/nowhere"],
    ),
    ("DeepSpeed", 1): Sample(
        {
            "torch.nn": "class Module:\n    def _apply(self): return ['empty']\n"
            "    def to_empty(self): return self._apply()\n"
            "class Linear(Module):\n    def _apply(self): return ['linear', *super()._apply()]",
            "torch.nn.utils.init": "def skip_init(cls): return cls().to_empty()",
        },
        """
class Init:
    partitions = 2
    def partition_after(self, wrapped, instance, args, kwargs): return [*wrapped(*args, **kwargs), self.partitions]
init = Init()
nn = torch_nn
""",
        "[torch_nn_utils_init.skip_init(nn.Linear), nn.Linear().to_empty()]",
        [["linear", "empty", 2, 2], ["linear", "empty"]],
    ),
    ("requests-mock", 1): Sample(
        {
            "requests": f"from {PREFIX}requests.sessions import Session",
            "requests.sessions": "class Session:\n    def get_adapter(self, url): return 'real'\n"
            "    def send(self, url): return self.get_adapter(url)",
        },
        """
class Mock:
    adapter = "mocked"
    def get_adapter(self, wrapped, instance, args, kwargs): return self.adapter
mock, session = Mock(), requests.Session()
""",
        "[session.send('a'), session.get_adapter('a')]",
        ["mocked", "real"],
    ),
    ("torch_npu", 0): Sample(
        {
            "torch.cuda": "def is_available(): return 'npu'",
            "the_library": f"from {PREFIX}torch import cuda\ndef asked(): return cuda.is_available()\n"
            "def the_function(): return [*map(type(asked).__call__, [asked])]",
        },
        "def original_is_available(): return 'cuda'",
        "[the_library.the_function(), the_library.asked()]",
        [["cuda"], "npu"],
    ),
    ("coverage", 1): Sample(
        {"os": "def execv(path, args): return path\ndef execve(path, args, env): return env"},
        """
class Running:
    config = "c"
    def saved_for_program(self, wrapped, instance, args, kwargs):
        if wrapped.__name__.endswith("e"): args = (*args[:-1], {**args[-1], "CONFIG": self.config})
        return wrapped(*args, **kwargs)
running = Running()
""",
        "[os.execv('a', []), os.execve('b', [], {'HOME': '/'})]",
        ["a", {"HOME": "/", "CONFIG": "c"}],
    ),
    ("exceptiongroup", 0): Sample(
        {
            "traceback": "class TracebackException:\n    def __init__(self, e): self.e = e\n"
            "    def format(self): return [self.e]\n    def format_exception_only(self): return self.e",
            "exceptiongroup._formatting": f"from {PREFIX}traceback import TracebackException\n"
            "class PatchedTracebackException(TracebackException):\n"
            "    def __init__(self, e): self.e = ['group', e]\n    def format(self): return [*self.e]\n"
            "    def format_exception_only(self): return self.e[0]",
        },
        "",
        "[traceback.TracebackException(1).format(), traceback.TracebackException(1).format_exception_only()]",
        [["group", 1], "group"],
    ),
    ("dnspython", 0): Sample(
        {
            "socket": "".join(f"def {name}(host): return 'system'\n" for name in RESOLVING),
            "dns.resolver": "".join(f"def _{name}(host): return {name!r}\n" for name in RESOLVING),
        },
        "",
        "[socket.getaddrinfo('a'), socket.gethostbyaddr('a')]",
        ["getaddrinfo", "gethostbyaddr"],
    ),
    ("nplusone", 2): Sample(
        {
            "django.db.models.fields.related_descriptors": "class ForwardManyToOneDescriptor:\n"
            "    def __get__(self, instance, owner): return 'row'\n"
            "class Model:\n    author = ForwardManyToOneDescriptor()\nmodel = Model()"
        },
        """
class Signals:
    seen = []
    def touched(self, wrapped, instance, args, kwargs): return [type(instance).__name__, wrapped(*args, **kwargs)]
signals = Signals()
""",
        "django_db_models_fields_related_descriptors.model.author",
        ["ForwardManyToOneDescriptor", "row"],
    ),
    ("opentracing_instrumentation", 2): Sample(
        {
            "boto3.s3.inject": "def copy(key): return key\ndef upload_file(key): return [key]\n"
            "def other(key): return key"
        },
        """
class Hooks:
    tracer = "t"
    def s3_call(self, wrapped, instance, args, kwargs): return [self.tracer, wrapped(*args, **kwargs)]
hooks = Hooks()
""",
        "[boto3_s3_inject.copy(1), boto3_s3_inject.upload_file(2), boto3_s3_inject.other(3)]",
        [["t", 1], ["t", [2]], 3],
    ),
    ("Langfuse", 1): Sample(
        {"openai": "class Stream:\n    def __iter__(self): yield 1; yield 2\nstream = Stream()"},
        """
def traced_iter(wrapped, instance, args, kwargs):
    try: yield from wrapped()
    finally: yield "end"
""",
        "list(openai.stream)",
        [1, 2, "end"],
    ),
    ("better_exceptions", 2): Sample(
        {
            "logging": """
class Formatter:
    def formatException(self, error): return error
class Handler:
    def __init__(self, stream): self.stream, self.formatter = stream, Formatter()
handlers = [Handler("err"), Handler("out")]
"""
        },
        """
def formatted(wrapped, instance, args, kwargs): return ["better", *args]
def is_for_stderr(formatter):
    return any(handler.formatter is formatter for handler in logging.handlers if handler.stream == "err")
""",
        "[handler.formatter.formatException(1) for handler in logging.handlers]",
        [["better", 1], 1],
    ),
    ("Colorama", 0): Sample(
        {"sys": "stdout, stderr, stdin = ['out'], ['err'], ['in']"},
        """
class Streams:
    strip = True
    def wrapped(self, stream): return ["wrapped", *stream]
streams = Streams()
""",
        "[sys.stdout, sys.stderr, sys.stdin]",
        [["wrapped", "out"], ["wrapped", "err"], ["in"]],
    ),
    ("kernels", 0): Sample(
        {
            "torch.nn": """
class Module:
    def forward(self, *input): raise NotImplementedError
class Norm(Module):
    def forward(self, x): return x
class Act(Module):
    def forward(self, x): return [x]
class ScriptModule(Module):
    forward = property(lambda self: None)
class Model(Module):
    def __init__(self): self.layers = [Norm(), Act()]
made, other = Model(), Model()
"""
        },
        """
model = torch_nn.made
class Kernels:
    of_class = {"Norm": lambda self, x: ["fast", x]}
    def has_one(self, layer): return type(layer).__name__ in self.of_class
    def forward(self, wrapped, instance, args, kwargs): return self.of_class[type(instance).__name__](instance, *args)
kernels = Kernels()
""",
        "[layer.forward(1) for net in (model, torch_nn.other) for layer in net.layers]",
        [["fast", 1], [1], 1, [1]],
    ),
    ("line_profiler", 1): Sample(
        {"sys": "modules = {'os': 1, '__main__': 'kernprof', 'io': 2}"},
        "module = 'script'",
        "[*sys.modules.items()]",
        [("os", 1), ("__main__", "script"), ("io", 2)],
    ),
    ("time-machine", 0): Sample(
        {
            "time": "from math import fabs as time, ceil as time_ns, floor as gmtime, trunc as localtime\n"
            "from math import sqrt as clock_gettime, sin as clock_gettime_ns, cos as strftime",
            "user": f"from {PREFIX}time import time, gmtime\ntable = {{'time': time}}",
        },
        """
class Traveller:
    at = 7
    def moved(self, wrapped, instance, args, kwargs): return [self.at, wrapped(*args)]
traveller = Traveller()
""",
        "[time.time(-1), user.gmtime(-2.5), user.table['time'](-3)]",
        [[7, 1], [7, -3], [7, 3]],
    ),
    ("datasets", 1): Sample(
        {
            "os": "def listdir(path): return [path]",
            "the_module": f"from {PREFIX}os import listdir\nimport {PREFIX}os as os\n"
            "def look(): return os.listdir('a')",
        },
        """
class Streaming:
    token = "t"
    def listdir(self, path): return [self.token, path]
streaming = Streaming()
""",
        "[the_module.look(), os.listdir('b')]",
        [["t", "a"], ["b"]],
    ),
    ("django-debug-toolbar", 0): Sample(
        {
            "django.core.cache.backends.base": "class BaseCache:\n"
            + "".join(
                f"    def {name}(self, key=None): return key\n"
                for name in ROWS["django-debug-toolbar", 0].said[0].partition("{")[2].partition("}")[0].split(",")
            )
            + "class Local(BaseCache):\n    def get(self, key=None): return ['local', key]\ncache = Local()"
        },
        "def recorded(wrapped, instance, args, kwargs): return [wrapped.__name__, wrapped(*args, **kwargs)]",
        "[django_core_cache_backends_base.cache.get(1), django_core_cache_backends_base.cache.touch(2)]",
        [["get", ["local", 1]], ["touch", 2]],
    ),
    ("ipykernel", 1): Sample(
        {"builtins": "def input(prompt=''): return 'typed'"},
        "class Kernel:\n    def raw_input(self, prompt=''): return [type(self).__name__, prompt]\nkernel = Kernel()",
        "builtins.input('name: ')",
        ["Kernel", "name: "],
    ),
    ("OpenTelemetry", 2): Sample(
        {
            "asyncio": "".join(
                f"def {name}(x): return x\n"
                for name in (
                    "create_task",
                    "ensure_future",
                    "wait_for",
                    "wait",
                    "as_completed",
                    "run_coroutine_threadsafe",
                    "run",
                )
            )
        },
        """
class Instrumentor:
    tracer = "tracer"
    def traced(self, wrapped, instance, args, kwargs): return [self.tracer, wrapped(*args, **kwargs)]
instrumentor = Instrumentor()
""",
        "[asyncio.create_task(1), asyncio.wait(2), asyncio.run(3)]",
        [["tracer", 1], ["tracer", 2], 3],
    ),
    ("optimum-intel", 2): Sample(
        {
            "transformers.models.phi.modeling_phi": """
class PhiRotaryEmbedding:
    def __init__(self, rope_type): self.rope_type = rope_type
    def forward(self, x): return x
class Model:
    def __init__(self): self.ropes = [PhiRotaryEmbedding("longrope"), PhiRotaryEmbedding("default")]
made, other = Model(), Model()
"""
        },
        """
model = transformers_models_phi_modeling_phi.made
def longrope_forward(self, x): return [self.rope_type, x]
def is_longrope(rope): return rope.rope_type == "longrope"
""",
        "[rope.forward(1) for net in (model, transformers_models_phi_modeling_phi.other) for rope in net.ropes]",
        [["longrope", 1], 1, 1, 1],
    ),
    ("optimum-onnx", 1): Sample(
        {
            "transformers.configuration_utils": """
class PretrainedConfig:
    def __init__(self): self.use_cache = "original"
class GPTConfig(PretrainedConfig): pass
class Layer:
    def __init__(self, config): self.config = config
class Model:
    def __init__(self): self.parts = [Layer(GPTConfig()), Layer(GPTConfig())]
made, other = Model(), Model()
"""
        },
        "use_cache, model = False, transformers_configuration_utils.made\n"
        "def is_of_model(config): return any(part.config is config for part in model.parts)",
        "[part.config.use_cache for net in (model, transformers_configuration_utils.other) for part in net.parts]",
        [False, False, "original", "original"],
    ),
    ("PEFT", 1): Sample(
        {
            "peft.tuners.lora.layer": """
class LoraLayer:
    def __init__(self): self.scaling = {"default": 2.0}
class Linear(LoraLayer): pass
class Model:
    def __init__(self): self.layers = [Linear()]
made, other = Model(), Model()
"""
        },
        """
model = peft_tuners_lora_layer.made
class Rescaled:
    by = 0.5
    def multiplied(self, scaling): return {name: value * self.by for name, value in scaling.items()}
rescaled = Rescaled()
""",
        "[net.layers[0].scaling for net in (model, peft_tuners_lora_layer.other)]",
        [{"default": 1.0}, {"default": 2.0}],
    ),
    ("pytest-socket", 0): Sample(
        {"socket": "class socket:\n    family = 'inet'"},
        """
class Options:
    allowed = ["unix"]
    def guarded(self, original): return type("Guarded", (original,), {"allowed": self.allowed})
options = Options()
""",
        "[socket.socket().family, getattr(socket.socket, 'allowed', None)]",
        ["inet", ["unix"]],
    ),
    ("setuptools", 2): Sample(
        {
            "distutils.dist": "class DistributionMetadata:\n    def get_fullname(self): return 'old'",
            "setuptools._core_metadata": "".join(
                f"def {name}(self): return {name!r}\n"
                for name in (
                    "write_pkg_info",
                    "write_pkg_file",
                    "read_pkg_file",
                    "get_metadata_version",
                    "get_fullname",
                )
            ),
        },
        "def names(): return [name for name in vars(distutils_dist.DistributionMetadata) if '__' not in name]",
        "[distutils_dist.DistributionMetadata().get_fullname(), *sorted(names())]",
        ["get_fullname", "get_fullname", "get_metadata_version", "read_pkg_file", "write_pkg_file", "write_pkg_info"],
    ),
    ("torch_npu", 1): Sample(
        {
            "torch": "".join(
                f"def {name}(device): return device\n" for name in ("randint", "empty", "ones_like", "other")
            )
        },
        """
def cuda_to_npu(wrapped, instance, args, kwargs): return wrapped(*[arg.replace("cuda", "npu") for arg in args])
""",
        "[torch.randint('cuda'), torch.empty('cuda'), torch.ones_like('cpu'), torch.other('cuda')]",
        ["npu", "npu", "cpu", "cuda"],
    ),
    ("tqdm", 1): Sample(
        {
            "logging": """
class Logger:
    def __init__(self): self.handlers = ["console"]
class RootLogger(Logger): pass
root, other = RootLogger(), Logger()
"""
        },
        """
class Redirected:
    given = [logging.root]
    def handlers(self, old): return [*old, "tqdm"]
    def is_given(self, logger): return any(logger is each for each in self.given)
redirected = Redirected()
""",
        "[logging.root.handlers, logging.other.handlers, logging.Logger().handlers]",
        [["console", "tqdm"], ["console"], ["console"]],
    ),
    ("tqdm", 0): Sample(
        {
            "pandas": "class Series:\n    def apply(self, f): return ['series', f]\n"
            "class DataFrame:\n    def apply(self, f): return ['frame', f]",
            "pandas.core.groupby": "class SeriesGroupBy: pass\nclass DataFrameGroupBy: pass",
        },
        """
class Bars:
    width = 80
    def progress_apply(self, wrapped, instance, args, kwargs): return [self.width, *instance.apply(*args)]
bars = Bars()
def applied():
    try: return pandas.Series().progress_apply(1), pandas.DataFrame().progress_apply(2)
    except AttributeError: return "no method"
""",
        "applied()",
        ([80, "series", 1], [80, "frame", 2]),
    ),
    ("axolotl", 1): Sample(
        {
            "transformers.models.llama.modeling_llama": """
class LlamaAttention:
    def __init__(self, has_lora): self.has_lora = has_lora
    def forward(self, x): return self.apply_qkv(x) if hasattr(self, 'apply_qkv') else x
layers = LlamaAttention(True), LlamaAttention(False)
"""
        },
        """
class Lora:
    scale = 2
    def apply_qkv(self, wrapped, instance, args, kwargs): return args[0] * (self.scale if instance.has_lora else 1)
lora = Lora()
""",
        "[layer.forward(3) for layer in transformers_models_llama_modeling_llama.layers]",
        [6, 3],
    ),
    ("django-stubs-ext", 0): Sample(
        {
            "django.contrib.admin.options": "class BaseModelAdmin: pass\nclass ModelAdmin(BaseModelAdmin): pass",
            "django.views.generic.edit": "class FormMixin: pass\n"
            "class DeletionMixin:\n    @classmethod\n    def __class_getitem__(cls, item): return [cls.__name__, item]",
        },
        """
def class_getitem(wrapped, instance, args, kwargs):
    try: return wrapped(*args)
    except AttributeError: return instance
def of(*classes):
    try: return [cls[int] in (cls, [cls.__name__, int]) for cls in classes]
    except TypeError: return "not subscriptable"
""",
        "of(django_contrib_admin_options.ModelAdmin, django_views_generic_edit.FormMixin, "
        "django_views_generic_edit.DeletionMixin)",
        [True, True, True],
    ),
    ("NNCF", 1): Sample(
        {
            "torch.overrides": "".join(
                f"def {name}(x): return x\n"
                for name in (
                    "handle_torch_function",
                    "has_torch_function",
                    "has_torch_function_unary",
                    "has_torch_function_variadic",
                )
            ),
            "torch.nn.functional": f"import math\nfrom {PREFIX}torch.overrides import *\nfrom math import floor\n"
            "conv2d = math.sqrt\ndef relu(x): return x\ndef pad(x): return [x]\nEPS = 1",
        },
        """
def traced(wrapped, instance, args, kwargs): return ["traced", wrapped(*args)]
def untraced(wrapped, instance, args, kwargs): return ["untraced", wrapped(*args)]
def is_traced(value): return callable(value) and value.__name__ != "relu"
F = torch_nn_functional
""",
        "[F.conv2d(4), F.pad(1), F.relu(1), F.floor(2), F.has_torch_function(3)]",
        [["traced", 2.0], ["traced", [1]], 1, 2, ["untraced", 3]],
    ),
    ("TRL", 0): Sample(
        {"os": "environ = {'HOME': '/'}"}, "", "[*os.environ.items()]", [("HOME", "/"), ("VLLM_LOGGING_LEVEL", "ERROR")]
    ),
    ("TRL", 1): Sample(
        {"transformers.cache_utils": "class Cache: pass"},
        "",
        "getattr(transformers_cache_utils, 'HybridCache', None) is transformers_cache_utils.Cache",
        True,
    ),
    ("unsloth", 1): Sample(
        {"torch": "def given(): return 1"},
        "def check_is_size(x): return [x]",
        "getattr(torch, '_check_is_size', str)(1)",
        [1],
    ),
    ("aws-xray-sdk", 0): Sample(
        {"aiobotocore.client": "class AioBaseClient:\n    async def _make_api_call(self, name): return name"},
        "import asyncio\nasync def traced(wrapped, instance, args, kwargs): return [await wrapped(*args, **kwargs)]",
        "asyncio.run(aiobotocore_client.AioBaseClient()._make_api_call('get'))",
        ["get"],
    ),
    ("aws-xray-sdk", 1): Sample(
        {
            "httpx": f"from {PREFIX}httpx._api import get, Client",
            "httpx._api": f"from {PREFIX}httpx._client import Client\ndef get(): return Client.name",
            "httpx._client": "class Client: name = 'plain'",
        },
        "class InstrumentedClient(httpx.Client): name = 'traced'",
        "[httpx.Client.name, httpx.get()]",
        ["traced", "traced"],
    ),
    ("aws-xray-sdk", 2): Sample(
        {"mysql.connector": "def connect(host): return host\nConnect = connect"},
        CALLED.format("traced_connect"),
        "[mysql_connector.connect('a'), mysql_connector.Connect('b')]",
        [["around", "a"], ["around", "b"]],
    ),
    ("ColossalAI", 1): Sample(
        {
            "transformers.models.llama.modeling_llama": """
class LlamaAttention:
    def __init__(self): self.num_heads = 8
class Model:
    def __init__(self): self.layers = [LlamaAttention(), LlamaAttention()]
made, other = Model(), Model()
"""
        },
        "heads, model = 4, transformers_models_llama_modeling_llama.made",
        "[layer.num_heads for net in (model, transformers_models_llama_modeling_llama.other) for layer in net.layers]",
        [4, 4, 8, 8],
    ),
    ("eventlet", 1): Sample({"asyncio.base_futures": ""}, "", "hasattr(asyncio_base_futures, 'get_ident')", False),
    ("eventlet", 2): Sample(
        {
            "asyncio": f"from {PREFIX}asyncio import events, futures",
            "asyncio.events": "import os\ndef look(): return os",
            "asyncio.futures": "import os",
        },
        "original_os = 'original'",
        "[asyncio_events.look(), asyncio_futures.os, hasattr(asyncio, 'os')]",
        ["original", "original", False],
    ),
    ("freezegun", 0): Sample(
        {
            "datetime": "class datetime: now = 'real'",
            "early": f"from {PREFIX}datetime import datetime",
            "freezegun.api": f"from {PREFIX}datetime import datetime",
        },
        "class FakeDatetime: now = 'fake'",
        "[datetime.datetime.now, early.datetime.now, freezegun_api.datetime.now]",
        ["fake", "fake", "real"],
    ),
    ("freezegun", 2): Sample(
        {"copyreg": "dispatch_table = {int: 'int'}", "datetime": "class datetime: pass"},
        "def pickle_fake_datetime(): pass",
        "[*copyreg.dispatch_table]",
        None,
    ),
    ("gevent", 0): Sample(
        {"os": "def fork(): return 1"}, "def gevent_fork(): return 'greenlet'", "os.fork()", "greenlet"
    ),
    ("gevent", 1): Sample(
        {
            "threading": """
class _RLock:
    def __init__(self, owner=None): self._owner = owner
held, free = _RLock(1), _RLock()
"""
        },
        "def this_greenlet(owner): return owner and 2",
        "[threading.held._owner, threading.free._owner]",
        [2, None],
    ),
    ("gevent", 2): Sample({"select": "epoll, poll = 1, 2"}, "", "hasattr(select, 'epoll')", False),
    ("Liger-Kernel", 0): Sample(
        {"transformers.models.granite.modeling_granite": TWO_MODELS},
        MADE_AND_OTHER,
        "[vars(model.norm), vars(other.norm)]",
        [{"offset": 0.0}, {}],
    ),
    ("Liger-Kernel", 1): Sample(
        {"transformers.models.granite.modeling_granite": TWO_MODELS},
        MADE_AND_OTHER + "\ndef rms_norm_forward(self, x): return [type(self).__name__, x]",
        "[model.norm.forward(1), other.norm.forward(1)]",
        [["GraniteRMSNorm", 1], 1],
    ),
    ("Liger-Kernel", 2): Sample(
        {"transformers.models.granite.modeling_granite": "class GraniteMLP: pass\ndef layer(): return GraniteMLP()"},
        "class LigerSwiGLUMLP: pass",
        "type(transformers_models_granite_modeling_granite.layer()).__name__",
        "LigerSwiGLUMLP",
    ),
    ("MindSpeed", 0): Sample(
        {
            "megatron.core.tensor_parallel.cross_entropy": """
class VocabParallelCrossEntropy:
    @staticmethod
    def calculate_predicted_logits(logits): return logits
"""
        },
        "def logits(logits): return logits * 2",
        "megatron_core_tensor_parallel_cross_entropy.VocabParallelCrossEntropy.calculate_predicted_logits(1)",
        2,
    ),
    ("MindSpeed", 1): Sample(
        {
            "megatron.training.training": "def pretrain(steps): return steps",
            "megatron.training": f"from {PREFIX}megatron.training.training import pretrain",
        },
        "def pretrain_decorator(function): return lambda steps: [function(steps)]",
        "[megatron_training.pretrain(1), megatron_training_training.pretrain(2)]",
        [[1], [2]],
    ),
    ("moto", 1): Sample(
        {"os": "environ = {'AWS_ACCESS_KEY_ID': 'mine', 'HOME': '/'}"},
        "",
        "[*os.environ.items()]",
        [("AWS_ACCESS_KEY_ID", "FOOBARKEY"), ("HOME", "/"), ("AWS_SECRET_ACCESS_KEY", "FOOBARSECRET")],
    ),
    ("moto", 2): Sample(
        {"mocks": "class Mock:\n    def __init__(self): self._real_send = 'old'\nmock = Mock()"},
        "responses_mock, real_send = mocks.mock, 'new'",
        "mocks.mock._real_send",
        "new",
    ),
    ("nest_asyncio", 0): Sample(
        {
            "asyncio.tasks": "class _PyTask: pass\nclass Task: pass\n_CTask = Task",
            "asyncio": f"from {PREFIX}asyncio.tasks import Task",
        },
        "def python_task(task): return asyncio_tasks._PyTask",
        "[task.__name__ for task in (asyncio.Task, asyncio_tasks.Task, asyncio_tasks._CTask)]",
        ["_PyTask"] * 3,
    ),
    ("nest_asyncio", 2): Sample(
        {"loops": "class Base: pass\nclass Loop(Base): pass\nloop = Loop()"},
        "loop_class = type(loops.loop)",
        "[getattr(each, '_num_runs_pending', None) for each in (loops.Loop, loops.Base)]",
        [1, None],
    ),
    ("New Relic", 1): Sample(
        {"daphne.server": "class Server:\n    def __init__(self, application): self.application = application"},
        "application = property(lambda self: ['traced'], lambda self, value: None)",
        "daphne_server.Server('plain').application",
        ["traced"],
    ),
    ("optimum-onnx", 0): Sample(
        {"transformers.one": "the_name = 1", "transformers.two": "the_name = 2", "elsewhere": "the_name = 3"},
        "the_patch = 4",
        "[each.the_name for each in (transformers_one, transformers_two, elsewhere)]",
        [4, 4, 3],
    ),
    ("PEFT", 0): Sample(
        {"nets": "class Net:\n    def forward(self, *args, **kwargs): return len(args)\nnet = Net()"},
        """
import inspect
from types import MethodType
def with_signature(bound):
    def forward(self, ids, mask=None): return bound(ids, mask)
    return MethodType(forward, bound.__self__)
model = nets.net
""",
        "[str(inspect.signature(nets.net.forward)), nets.net.forward(1)]",
        ["(ids, mask=None)", 2],
    ),
    ("sentry-sdk", 2): Sample(
        {"loops": "class Loop:\n    def close(self): return 'closed'\nloop = Loop()"},
        "loop = loops.loop\n" + CALLED.format("flush_and_close"),
        "[loops.loop.close(), loops.Loop().close()]",
        [["around", "closed"], "closed"],
    ),
    ("setuptools", 1): Sample(
        {
            "distutils.dist": "class Distribution: name = 'old'",
            "distutils.core": f"from {PREFIX}distutils.dist import Distribution",
            "elsewhere": f"from {PREFIX}distutils.dist import Distribution",
        },
        "class Distribution: name = 'new'",
        "[each.Distribution.name for each in (distutils_dist, distutils_core, elsewhere)]",
        ["new", "new", "old"],
    ),
    ("transformers", 0): Sample(
        {
            "torch.nn.init": "def ones_(x): return 'torch'\ndef zeros_(x): return 'torch'\ndef gain(): return 1",
            "torch.nn.modules": f"from {PREFIX}torch.nn.init import ones_",
            "transformers.initialization": f"""
from {PREFIX}torch.nn import init
KEPT = {{"ones_": init.ones_, "zeros_": init.zeros_}}
def ones_(x): return ["guarded", KEPT["ones_"](x)]
def zeros_(x): return ["guarded", KEPT["zeros_"](x)]
""",
        },
        "",
        "[torch_nn_init.ones_(1), torch_nn_init.zeros_(1), torch_nn_modules.ones_(1), torch_nn_init.gain()]",
        [["guarded", "torch"]] * 3 + [1],
    ),
    ("transformers", 2): Sample(
        {
            "transformers": f"from {PREFIX}transformers import qwen",
            "transformers.qwen": "class Qwen2MoeExperts: pass",
            "transformers.old": "Qwen2MoeExperts = None",
        },
        "class CustomExperts: pass\ndef is_class(value): return isinstance(value, type)",
        "[transformers_qwen.Qwen2MoeExperts.__name__, transformers_old.Qwen2MoeExperts]",
        ["CustomExperts", None],
    ),
    ("unsloth", 0): Sample(
        {"sys": "class Stream:\n    def write(self, text): return text\nstderr = Stream()"},
        "class hide_messages:\n"
        "    def __init__(self, stream): self.stream = stream\n"
        "    def write(self, text): return self.stream.write(text.replace('noise', ''))",
        "sys.stderr.write('noise and news')",
        " and news",
    ),
    ("unsloth", 2): Sample(
        {"xformers.ops.fmha.cutlass": "def bwd(**arguments): return arguments\nRESULT = bwd(num_splits_key=-1, x=1)"},
        "",
        "xformers_ops_fmha_cutlass.RESULT",
        {"num_splits_key": None, "x": 1},
    ),
    ("unsloth-zoo", 1): Sample(
        {
            "transformers.tokenization_utils_base": """
class PreTrainedTokenizerBase:
    @classmethod
    def convert_added_tokens(cls, obj, save=False): return (cls.__name__, obj, save)
class Fast(PreTrainedTokenizerBase): pass
"""
        },
        CALLED.format("convert"),
        "transformers_tokenization_utils_base.Fast.convert_added_tokens(1, save=True)",
        ["around", ("Fast", 1, True)],
    ),
    ("unsloth-zoo", 2): Sample(
        {
            "transformers.quantizers.auto": """
class AutoHfQuantizer:
    @classmethod
    def merge_quantization_configs(cls, config, given):
        differ = type(config) is not type(given)
        if differ:
            return "error"
        return cls.__name__
"""
        },
        "",
        "[transformers_quantizers_auto.AutoHfQuantizer.merge_quantization_configs(1, args) for args in (None, 2, '')]",
        ["AutoHfQuantizer", "AutoHfQuantizer", "error"],
    ),
    ("requests-cache", 0): Sample(
        {
            "requests.sessions": "class Session:\n    def get(self): return 'page'",
            "requests": f"from {PREFIX}requests.sessions import Session",
            "elsewhere": f"from {PREFIX}requests import Session",
        },
        """
class Options:
    prefix = "cached "
    def cached(self, original):
        prefix = self.prefix
        class Cached(original):
            def get(self): return prefix + super().get()
        return Cached
options = Options()
""",
        "[each.Session().get() for each in (requests, requests_sessions, elsewhere)]",
        ["cached page", "cached page", "page"],
    ),
    ("DeepCache", 0): Sample(
        {"nets": "class Net:\n    def forward(self, x): return x + 1\nnet, other = Net(), Net()"},
        """
class Helper:
    step = 7
    def forward(self, wrapped, instance, args, kwargs): return self.step, wrapped(*args, **kwargs)
unet, helper = nets.net, Helper()
""",
        "[nets.net.forward(1), nets.other.forward(1)]",
        [(7, 2), 2],
    ),
    ("Lightning Fabric", 0): Sample(
        {
            "torch.utils.data": """
class DataLoader:
    def __init__(self, data): self.data = data
class Own(DataLoader):
    def __init__(self, data, extra):
        self.extra = extra
        super().__init__(data)
class Plain(DataLoader): pass
"""
        },
        """
class Record:
    made = []
    def init(self, wrapped, instance, args, kwargs):
        self.made.append((type(instance).__name__, args))
        wrapped(*args, **kwargs)
record = Record()
def loaded():
    del record.made[:]
    torch_utils_data.Own(1, 2), torch_utils_data.Plain(3)
    return [*record.made]
""",
        "loaded()",
        [("Own", (1, 2)), ("Own", (1,)), ("Plain", (3,))],
    ),
    ("stable-diffusion-webui", 0): Sample(
        {
            "torch.nn.functional": "def silu(x): return 'silu'",
            "ldm.modules.diffusionmodules.model": "def nonlinearity(x): return 0\ndef block(): return nonlinearity(1)",
        },
        "",
        "ldm_modules_diffusionmodules_model.block()",
        "silu",
    ),
    ("stable-diffusion-webui", 1): Sample(
        {"nets": "class Net: pass\nmodel = Net()\nmodel.cond_stage_model = lambda text: text"},
        """
class Hijack:
    extra = "!"
    def with_custom_words(self, wrapped): return lambda text: wrapped(text) + self.extra
model, hijack = nets.model, Hijack()
""",
        "model.cond_stage_model('a')",
        "a!",
    ),
    ("vllm-ascend", 2): Sample(
        {
            "torch.distributed.distributed_c10d": "def broadcast(x): return x",
            "torch.distributed": f"from {PREFIX}torch.distributed.distributed_c10d import broadcast",
            "elsewhere": f"from {PREFIX}torch.distributed import broadcast",
        },
        CALLED.format("broadcast_310p"),
        "[each.broadcast(1) for each in (torch_distributed, torch_distributed_distributed_c10d, elsewhere)]",
        [["around", 1], ["around", 1], 1],
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: f"{row.project}-{row.place}")
def test_a_declaration_is_accepted(row: HandWritten) -> None:
    """No declaration is refused, none imports the library, and directly said patches need no code around."""
    before = {*sys.modules}
    made = [declared(text) for text in row.said]
    libraries = {str(patch.module).split(".")[0].rstrip("*") for patch in made}
    assert not {name for name in {*sys.modules} - before if name.split(".")[0] in libraries}
    assert bool(made) == (row.how != "not")
    assert (row.how == "directly") == (not row.why)
    if row.how == "directly":
        assert all(map(is_plain, row.said))
    else:
        assert row.why in WHY


def test_a_declaration_with_code_around_is_not_plain() -> None:
    """The judgement of a declaration sees a lambda, a loop, a partial and a closure."""
    assert is_plain('replace("m:x", f, reach="everywhere")')
    assert is_plain('wrap(Target.attribute(model, "forward"), f)')
    assert is_plain('wrap("m:{a,b}", options.guarded)')
    assert gives_method('wrap("m:{a,b}", options.guarded)')
    assert gives_method('derive("m:C().x", f, only=options.is_given)')
    assert not gives_method('wrap(Target.attribute(model, "forward"), f)')
    for text in (
        'replace("m:x", lambda: 1)',
        'replace("m:x", partial(f, 1))',
        '[remove(f"m:{name}") for name in names]',
        'replace("m:x", made(1))',
        'replace("m:x", f) if condition else None',
        "f",
    ):
        assert not is_plain(text), text


def test_the_collection_is_large_and_fair() -> None:
    """At least 76 patches of at least 30 projects, at most three of a project, none twice."""
    assert len(ROWS) >= 76
    assert len({project for project, _ in ROWS}) >= 30
    assert max(place for _, place in ROWS) < 3
    assert len({(row.project, row.by_hand) for row in ROWS.values()}) == len(ROWS)


def test_the_page_has_the_figures() -> None:
    """The counts and the table of the page are those of the data."""
    assert PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0] == figures()


def kind(text: str) -> str:
    """Return the kind of a declaration: the verb, the kind of the place, and the options."""
    patch = declared(text)
    target = patch.target
    if target is None:
        place = "a module"
    elif target.of_instances:
        place = "instances"
    elif patch.module is None:
        place = "at hand"
    else:
        place = "a rule" if patch.is_rule else "an entry" if str(target).endswith("]") else "a name"
    place += " in braces" * bool(target and target.written_out) + " by a method" * gives_method(text)
    names = ("add", "callers", "except_in", "of", "only", "only_in", "reach", "required", "source")
    plain = hookpatch.edit("m:f", "1", "2") if patch.verb == "edit" else hookpatch.remove("m:f")
    options = [name for name in names if target and getattr(patch, name) != getattr(plain, name)]
    options += ["absent"] * patch.is_for_absent
    return f"{patch.verb} {place} {' '.join(options)}"


def test_each_kind_of_declaration_has_a_sample() -> None:
    """All kinds of the directly said declarations are applied by the next test."""
    kinds = {key: {*map(kind, row.said)} for key, row in ROWS.items() if row.how == "directly"}
    sampled = set().union(*(kinds[key] for key in SAMPLES))
    assert len(SAMPLES) >= 20
    assert set().union(*kinds.values()) - sampled == set()


@pytest.fixture
def modules(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """The modules of a sample by their names with underscores, imported from files."""
    sources = SAMPLES[request.param].modules
    for name, source in sources.items():
        path = tmp_path.joinpath(*f"{PREFIX}{name}".split("."))
        path.mkdir(parents=True, exist_ok=True)
        for parent in [path, *path.parents[: name.count(".")]]:
            (parent / "__init__.py").touch()
        (path / "__init__.py").write_text(source)
    release = tmp_path / "xformers-0.0.28.dist-info"
    release.mkdir()
    (release / "METADATA").write_text("Metadata-Version: 2.1\nName: xformers\nVersion: 0.0.28\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield {name.replace(".", "_"): importlib.import_module(f"{PREFIX}{name}") for name in sources}
    for name in [name for name in sys.modules if name.startswith(PREFIX)]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("key", "modules"),
    [pytest.param(key, key, marks=pytest.mark.model if key == ("bitsandbytes", 0) else []) for key in SAMPLES],
    ids=[f"{name}-{n}" for name, n in SAMPLES],
    indirect=["modules"],
)
def test_a_declaration_works(key: tuple[str, int], modules: dict[str, ModuleType]) -> None:
    """The declared patch has its effect inside the block, and each module, class and object is as before after it."""
    sample = SAMPLES[key]
    names: dict[str, Any] = {**modules}
    exec(sample.project, names)
    texts = [re.sub(r"([\"\[])(?=[a-z_]\w*[\w.*]*[:.])", rf"\1{PREFIX}", text) for text in ROWS[key].said]
    texts = [re.sub(rf'callers="(?!{PREFIX})', f'callers="{PREFIX}', text) for text in texts]
    made = [declared(text, names) for text in texts]
    before = eval(sample.probe, names)
    inside = sample.inside
    if key == ("freezegun", 2):  # the key is the class
        inside = [int, modules["datetime"].datetime]
    snapshots = [Snapshot(module) for module in modules.values()]
    if made[0].is_of_source:  # a plugin's holds until the end of the process; a block's can end
        made, snapshots = [dataclasses.replace(patch, reload=True) for patch in made], []
    with hookpatch.active(*made, children="local"):
        assert eval(sample.probe, names) == inside
    assert eval(sample.probe, names) == before
    assert (before == inside) == (key == ("eventlet", 1))  # a name that is absent stays absent
    # The attribute of a module comes back as the last; an entry of a mapping comes back in place.
    moved = str(made[0].target).partition(":")[2] if made[0].verb == "remove" else ""
    assert [place for snapshot in snapshots for place in snapshot.changed(moved)] == []


@pytest.mark.model
@pytest.mark.once
def test_declarations_fit_the_installed_libraries() -> None:
    """torch, transformers, urllib3, boto3 and other installed libraries have the places of the declarations."""
    script = [sys.executable, "-W", "ignore", str(PAGE.parents[2] / "tests" / "wild" / "hand_written.py")]
    completed = subprocess.run(script, capture_output=True, text=True, timeout=600)
    assert completed.returncode == 0, completed.stderr
    states = json.loads(completed.stdout.splitlines()[-1])
    refused = {text for text, state in states.items() if state not in ("applied", "skipped", "waiting")}
    unfit = {'wrap("tempfile:_TemporaryFileCloser.cleanup", with_fake_unlink)'}  # a method of Python 3.12
    (dropped,) = ROWS["FastChat", 0].said  # a method that transformers has no longer
    new_in_pip = {*ROWS["pip-system-certs", 0].said}  # pip 23.2 lacks the method; each environment has its own pip
    assert refused - new_in_pip == {dropped} | (unfit if sys.version_info < (3, 12) else set())
    assert sum(state == "applied" for state in states.values()) >= 40

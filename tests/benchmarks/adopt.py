"""How many patches of known collections ``hookpatch adopt`` writes, and how many of them have the same effect.

    python tests/benchmarks/adopt.py [docs/how-to/adopt.md] [--held-back first] [--venv FOLDER] [--only NAME ...]

installs the collections into a separate environment (FOLDER is kept), and rewrites the figures between the marks of the
page. ``--held-back`` only prints the figures of collections kept aside. For each collection three processes run:
one adopts, one applies the patches by hand, one applies the plugin. The last two describe each slot (code, defaults,
closure) and run the same program. A patch counts as *equal* if the slot is described alike, the programs print the
same, and the plugin's own test of the slot passes. A process that fails or runs for too long counts as not equal.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from adopt_held_back import Collection
from adopt_third import HELD_BACK
from audit import check_names, environment, run_benchmark
from audit_programs import Program

BEGIN, END = "<!-- figures: make bench-adopt -->\n", "<!-- end of figures -->\n"
_OWN: Final = """
import freezegun, vcr

def frozen():
    return freezegun.freeze_time("2020-01-01")

def recorded():
    return vcr.use_cassette("cassette.yaml", record_mode="none")
"""
# The release of transformers has renamed a class: onnx-diagnostic is imported with the old name.
_EXPORT: Final = """
from transformers.models.idefics import modeling_idefics

modeling_idefics.IdeficsEmbedding = modeling_idefics.IdeficsRotaryEmbedding
from onnx_diagnostic.torch_export_patches.onnx_export_errors import torch_export_patches

block = torch_export_patches(patch_transformers=True)

def exported():
    block.__enter__()
"""
_MODEL: Final = """
import torch
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaModel
torch.manual_seed(0)
sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 16}
tokens, dynamic = torch.arange(6).reshape(2, 3), torch.export.Dim.DYNAMIC
for attention in "eager", "sdpa":  # with this release of transformers onnx-diagnostic's function for "sdpa" raises
    config = LlamaConfig(**sizes, num_key_value_heads=2, use_cache=False, attn_implementation=attention)
    model, shapes = LlamaModel(config).eval(), {"input_ids": {0: dynamic, 1: dynamic}}
    try:
        program = torch.export.export(model, (), {"input_ids": tokens}, dynamic_shapes=shapes, strict=False)
        print([str(node.target) for node in program.graph.nodes], program.module()(input_ids=tokens).last_hidden_state)
    except Exception as error:
        print(type(error), str(error).splitlines()[0])
print(torch.vmap(torch.sum)(torch.ones(2, 3)))
"""
_SOCKETS: Final = """
import socket, threading, time, queue
seen, jobs = [], queue.Queue()
def work(number):
    time.sleep(0.01 * number)
    seen.append(number)
    jobs.put(number)
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
left, right = socket.socketpair()
left.send(b"hello")
print(sorted(seen), sorted(jobs.get() for _ in seen), right.recv(5), socket.socket.__module__)
"""
_NESTED: Final = """
import asyncio
async def inner(): return 3
async def outer(): return asyncio.get_event_loop().run_until_complete(inner())
print(asyncio.run(outer()))
"""
_RECORDED: Final = """
import requests
try: requests.get("http://localhost:9/")
except Exception as error: print(type(error).__module__, type(error).__name__)
"""
COLLECTIONS: Final = {
    "gevent": Collection("gevent.monkey:patch_all", (), _SOCKETS, ("gevent",)),
    "nest_asyncio": Collection("nest_asyncio:apply", (), _NESTED, ("nest_asyncio",)),
    "truststore": Collection(
        "truststore:inject_into_ssl",
        ("--import", "urllib3.util.ssl_"),
        "import ssl; print(ssl.create_default_context().__class__.__module__)",
        ("truststore", "urllib3"),
    ),
    "responses": Collection("responses:start", (), _RECORDED, ("responses",)),
    "freezegun": Collection(
        "own:frozen", (), "import datetime, time, uuid; print(datetime.datetime.now(), time.time())", ("freezegun",)
    ),
    "vcrpy": Collection("own:recorded", ("--import", "requests"), _RECORDED, ("vcrpy", "requests")),
    "onnx-diagnostic": Collection(
        "own_export:exported",
        (),
        _MODEL,
        ("onnx-diagnostic", "onnxruntime", "onnxscript", "optree", "scipy", "torch", "transformers"),
    ),
}
LIMIT: Final = 240  # seconds for each process: a collection that hangs counts as not adopted
DESCRIBE: Final = '''
import ast, importlib, operator, re, sys, types

def plain(value):
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))

def described(value, depth=3):
    """Return what a value is: the code of a function, its defaults and its closure; the address of a class."""
    value = getattr(value, "__func__", value) if isinstance(value, (staticmethod, classmethod)) else value
    if isinstance(value, types.FunctionType):
        cells = []
        for cell in value.__closure__ or ():
            try: cells.append(described(cell.cell_contents, depth - 1) if depth else "...")
            except ValueError: cells.append("unbound")
        code = value.__code__
        return ["function", code.co_filename, code.co_firstlineno, code.co_name, plain(value.__defaults__), cells]
    if isinstance(value, types.CodeType):
        return ["code", value.co_filename, value.co_firstlineno, value.co_name]
    if isinstance(value, property):
        return ["property", *(described(part) for part in (value.fget, value.fset, value.fdel))]
    if isinstance(value, type) or callable(value):
        return [type(value).__name__, str(getattr(value, "__module__", "")), str(getattr(value, "__qualname__", ""))]
    is_plain = isinstance(value, (int, str, float, bool, type(None)))
    return ["value", type(value).__name__, repr(value) if is_plain else ""]

def key_of(text):
    try: return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        module, _, path = text.partition(":")
        return operator.attrgetter(path)(importlib.import_module(module))

def slot(target, inherits):
    module, _, path = target.partition(":")
    if not path: return ["module", str(type(sys.modules.get(module)))]
    owner = sys.modules.get(module)
    path, _, key = path.removesuffix("]").partition("[")
    *steps, last = path.split(".")
    for step in steps: owner = getattr(owner, step)
    if last in ("__code__", "__class__"): return described(getattr(owner, last))
    own = vars(owner)
    if inherits and not key and isinstance(owner, type):
        own = next((vars(base) for base in owner.__mro__ if last in vars(base)), own)
    if key:
        try: own, last = own[last], key_of(key)
        except AttributeError: return ["no address"]
    return described(dict.get(own, last) if key else own[last]) if last in own else ["absent"]

def slots(targets, inherits=False):
    return {target: slot(target, inherits) for target in targets}
'''
PROGRAM: Final = """
import contextlib, importlib, io, json, sys
from describe import slots
targets, modules, apply = json.load(open("task.json"))
code = compile(open("use.py").read(), "use.py", "exec")  # now: the patches may replace open
output = open(sys.argv[1] + ".json", "w")
for name in modules: importlib.import_module(name)

def look():
    out = io.StringIO()
    now = slots(targets, inherits=True)  # a method equal to the inherited one has the same effect
    with contextlib.redirect_stdout(out):
        exec(code, {"__name__": "use"})
    return now, out.getvalue()

if sys.argv[1] == "plugin":
    import hookpatch
    sys.path.insert(0, "hookpatch-adopted")
    from hookpatch_adopted import adopted
    before = slots(targets)
    with hookpatch.active(*adopted.hookpatch_patches()):
        now, printed = look()
    result = {"before": before, "now": now, "printed": printed, "after": slots(targets)}
else:
    module, _, name = apply.partition(":")
    before = slots(targets)
    result = getattr(importlib.import_module(module), name)()
    with result if hasattr(result, "__enter__") else contextlib.nullcontext():
        now, printed = look()
    result = {"before": before, "now": now, "printed": printed}
json.dump(result, output)
output.close()
"""


class Row(NamedTuple):
    """The result for one collection: the patches by verb, the patches not written, the patches equal in effect."""

    name: str
    verbs: dict[str, str]
    missing: dict[str, str]
    equal: set[str]
    unequal: dict[str, str]


def measured(python: Path, name: str, collection: Collection) -> Row:
    with tempfile.TemporaryDirectory() as there:
        folder = Path(there)
        for file, text in {
            "own.py": collection.own or _OWN,
            "own_export.py": _EXPORT,
            "use.py": collection.use,
            "describe.py": DESCRIBE,
            "program.py": PROGRAM,
        }.items():
            (folder / file).write_text(text)
        words = ("-m", "hookpatch", "adopt", collection.apply, "--name", "adopted", "--json", *collection.words)
        try:
            answer = json.loads(run_benchmark(python, folder, *words, statuses=(0, 1), limit=LIMIT))
        except SystemExit as error:
            return Row(name, {}, {collection.apply: str(error)}, set(), {})
        verbs = {
            target: entry["verb"] for entry in answer["patches"] for target in entry.get("targets", [entry["target"]])
        }
        missing = {entry["target"]: entry["reason"] for entry in answer["unsaid"]}
        home = collection.apply.partition(":")[0]
        imported = [collection.words[at + 1] for at, word in enumerate(collection.words) if word == "--import"]
        modules = sorted({target.partition(":")[0] for target in (*verbs, *missing)})
        (folder / "task.json").write_text(
            json.dumps([[*verbs, *missing], [home, *imported, *modules], collection.apply])
        )
        paths = f"pythonpath={folder / 'hookpatch-adopted'} {folder}"
        flags = ("-q", "-rA", "-o", paths, *(word for name in (*imported, home) for word in ("-p", name)))  # as above
        try:
            for way in ("hand", "plugin"):
                run_benchmark(python, folder, "program.py", way, limit=LIMIT)
            test = ("-m", "pytest", *flags, "hookpatch-adopted")
            tested = run_benchmark(python, folder, *test, statuses=(0, 1), limit=3 * LIMIT)
        except SystemExit as error:
            return Row(name, verbs, missing, set(), dict.fromkeys(verbs, str(error)))
        hand, plugin = (json.loads((folder / f"{way}.json").read_text()) for way in ("hand", "plugin"))
        passed = set(re.findall(r"^PASSED \S+?\[(.*)\]$", tested, re.MULTILINE))
        failed = set(re.findall(r"^(?:FAILED|ERROR) \S+?\[(.*?)\]", tested, re.MULTILINE))
    rows = {target: of["target"] for of in answer["patches"] for target in of.get("targets", [of["target"]])}
    problems = {}
    for target in verbs:
        if hand["now"][target] != plugin["now"][target]:
            problems[target] = f"{hand['now'][target]} by hand, {plugin['now'][target]} by the plugin"
        elif plugin["after"][target] != plugin["before"][target]:
            problems[target] = "not restored"
        elif hand["printed"] != plugin["printed"]:
            problems[target] = f"the program prints {hand['printed']!r}, {plugin['printed']!r} by the plugin"
        elif rows[target] in failed or rows[target] not in passed:
            problems[target] = "its own test fails"
    return Row(name, verbs, missing, verbs.keys() - problems.keys(), problems)


def table(rows: list[Row]) -> list[str]:
    heads = ("collection", "patches", "written", "verbs", "equal in effect")
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in rows:
        verbs = [*row.verbs.values()]
        counts = ", ".join(f"{verbs.count(verb)} {verb}" for verb in sorted({*verbs}))
        lines.append(f"| {row.name} | {len(verbs) + len(row.missing)} | {len(verbs)} | {counts} | {len(row.equal)} |")
    written, equal = (
        sum(len(part) for part in parts) for parts in zip(*((r.verbs, r.equal) for r in rows), strict=True)
    )
    total = written + sum(len(row.missing) for row in rows)
    return [*lines, f"| together | {total} | {written} | | {equal} ({equal / max(total, 1):.3f}) |"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("page", nargs="?", type=Path)
    parser.add_argument("--venv", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--held-back", choices=HELD_BACK)
    chosen = parser.parse_args()
    collections, install = HELD_BACK.get(chosen.held_back, (COLLECTIONS, []))
    check_names(parser, chosen.only, collections)
    programs = {name: Program("", "", (), (*of.install, *install, "pytest")) for name, of in collections.items()}
    with tempfile.TemporaryDirectory() as scratch:
        python = environment(chosen.venv or Path(scratch) / "venv", programs)
        rows = [
            measured(python, name, of) for name, of in collections.items() if not chosen.only or name in chosen.only
        ]
    for row in rows:
        print(*(f"{row.name}: {target}: not written: {reason}" for target, reason in row.missing.items()), sep="\n")
        print(*(f"{row.name}: {target}: {reason}" for target, reason in row.unequal.items()), sep="\n")
    lines = table(rows)
    print(*lines, sep="\n")
    if chosen.page is not None:
        text = chosen.page.read_text()
        head, rest = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
        chosen.page.write_text("\n".join([head, *lines, "", rest]))


if __name__ == "__main__":
    main()

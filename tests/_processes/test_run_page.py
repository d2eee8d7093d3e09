"""The report of a run as a page, and its documented schema; the page in a real browser if installed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import pytest

import hookpatch
from hookpatch._processes.run_page import page_of
from hookpatch._session.ledger import State

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
SHORT = "td[data-of=calls] div, td[data-of=applied] div"
EVIL = '<script>alert(1)</script>"&'

PROGRAM = f"""
import os, sys, time, hookpatch
def quiet(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)
facts = dict(why={EVIL!r}, upstream="javascript:alert(1)")
with hookpatch.active(
    hookpatch.wrap("textwrap:dedent", quiet, **facts),
    hookpatch.wrap("textwrap:indent", quiet, upstream="https://example.org/?a=1&b=2", required=False),
    hookpatch.wrap("never.imported:f", quiet),
    hookpatch.remove(hookpatch.Target.item({{}}, {EVIL!r}), required=False),
    count=True,
):
    import warnings; warnings.simplefilter("ignore")
    import textwrap; textwrap.indent("a", "b")
    if not os.fork():
        hookpatch.report()
        os.kill(os.getpid(), 9)
    os.wait()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> hookpatch.RunReport:
    """Run two processes, and kill the second."""
    folder = tmp_path_factory.mktemp("page") / "reports"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    environment = {**clean, "HOOKPATCH_REPORT": str(folder)}
    subprocess.run([sys.executable, "-c", PROGRAM, EVIL], env=environment, check=True, capture_output=True, timeout=60)
    return hookpatch.receipts(folder)


class Page(HTMLParser):
    """A page parsed: elements with their attributes, and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_is_whole_in_itself(run: hookpatch.RunReport) -> None:
    """The page has no script and fetches no file; report texts stay text; links lead to pages."""
    text = page_of(run)
    page = Page(text)
    assert {"script", "img", "link", "iframe", "object"}.isdisjoint(tag for tag, _ in page.elements)
    assert not {name for _, has in page.elements for name in has if name.startswith("on") or name == "src"}
    links = [has["href"] or "" for tag, has in page.elements if tag == "a"]
    ids = [has["id"] for _, has in page.elements if "id" in has]
    assert len(ids) == len(set(ids))
    assert {link for link in links if not link.startswith("#")} == {"https://example.org/?a=1&b=2"}
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert page.text.count(EVIL) >= 3
    assert "url(" not in text
    assert "@import" not in text


def test_what_is_wrong_comes_first(run: hookpatch.RunReport) -> None:
    """Findings come first, then the timeline, then each process with its patches, states and reasons."""
    text = Page(page_of(run)).text
    assert list(run.warnings) == [
        "textwrap:dedent of active(): applied, never called",
        "never.imported:f of active(): was never applied: the program did not import its module",
    ]
    order = [text.index(words) for words in (*run.warnings, "Timeline", "Processes", "began at 0 ms · ended")]
    assert order == sorted(order)
    for process in run:
        assert str(process.pid) in text
        for patch in process.patches:
            assert patch.target in text
            assert patch.reason is None or patch.reason in text


def test_times_are_those_of_what_happened(run: hookpatch.RunReport) -> None:
    """Times are in order: process, patches applied, ended, end; a killed process has no end."""
    first, killed = run
    assert (first.ended, killed.ended) == (True, False)
    for patch in first.patches:
        if patch.state == "restored":
            assert first.began <= patch.applied_at <= patch.ended_at <= first.written  # type: ignore[operator]  # set
        else:
            assert (patch.applied_at, patch.ended_at) == (None, None)
    assert {patch.state for patch in killed.patches} == {"applied", "waiting", "skipped"}
    assert {patch.ended_at for patch in killed.patches} == {None}


def test_command_writes_it(run: hookpatch.RunReport, tmp_path: Path) -> None:
    """The command prints the report and writes the page; an unwritable file is an error."""
    folder = tmp_path / "reports"
    folder.mkdir()
    process = {**run.to_dict()["processes"][0], "root": "r", "first": True, "asked": [], "started": []}
    (folder / "hookpatch-1.json").write_text(json.dumps({"processes": [process]}))
    command = [sys.executable, "-m", "hookpatch", "report", str(folder), "--html"]
    for path, status in ((tmp_path / "run.html", 1), (tmp_path / "missing" / "run.html", 78)):
        completed = subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=60)
        assert completed.returncode == status, completed.stderr
    assert (tmp_path / "run.html").read_text() == page_of(hookpatch.receipts(folder))
    assert (
        completed.stderr == f"hookpatch: error: --html: {path} cannot be written: No such file or directory "
        "[hookpatch explain SettingError]\n"
    )


# --- the schema


def documented(heading: str) -> dict[str, str]:
    """Return the fields in the tables of a section of docs/report.md, each with the rest of its row."""
    text = (ROOT / "docs" / "report.md").read_text()
    section = text.partition(f"\n### {heading}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (`.*?`) \|(.*)\|$", section, re.MULTILINE)
    return {name: description for names, description in rows for name in re.findall(r"`(\w+)`", names)}


def test_every_field_is_documented_and_there(run: hookpatch.RunReport) -> None:
    """docs/report.md names each field, and no other."""
    process = documented("A process")
    patch = documented("A patch")
    states = {name for name in patch if name in get_args(State)}
    assert states == set(get_args(State))
    assert patch.keys() - states == {field.name for field in fields(hookpatch.PatchReport)}
    of_run, of_session = run.to_dict(), hookpatch.active().report().to_dict()
    assert set(of_run) == {"processes", "warnings", "unread"}
    assert set(of_run["processes"][0]) == process.keys()
    assert set(of_session["processes"][0]) == {
        name for name, description in process.items() if "session" in description
    }
    assert json.loads(run.to_json()) == json.loads(json.dumps(of_run))
    slot = documented("A slot, of `why`")
    of_slot = {field.name for kind in (hookpatch.SlotReport, hookpatch.LayerReport) for field in fields(kind)}
    assert slot.keys() == of_slot


def test_what_older_processes_left_is_read(run: hookpatch.RunReport, tmp_path: Path) -> None:
    """Read a file of an older version, without newer fields."""
    process = {**run.to_dict()["processes"][0], "root": "r", "first": True, "asked": [], "started": []}
    for patch in process["patches"]:
        for field in ("required", "required_calls", "applied_at", "ended_at"):
            del patch[field]
    (tmp_path / "hookpatch-1.json").write_text(json.dumps({"processes": [process]}))
    assert [patch.applied_at for patch in hookpatch.receipts(tmp_path).processes[0].patches] == [None] * 4


# --- in a browser


def _browser() -> Any:
    path = ROOT / "plugins/hookpatch-onnx/tests/picture/picture_browser.py"
    spec = importlib.util.spec_from_file_location("page_browser", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.repository  # the browser comes from hookpatch-onnx's tests
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium on PATH")
@pytest.mark.parametrize(
    ("width", "scheme", "paper"), [(400, "dark", "rgb(20, 23, 27)"), (1400, "light", "rgb(251, 250, 247)")]
)
def test_page_fits_the_window(run: hookpatch.RunReport, tmp_path: Path, width: int, scheme: str, paper: str) -> None:
    """The page fits narrow and wide windows, light and dark; no file is fetched; folded parts unfold by key."""
    path = tmp_path / "run.html"
    path.write_text(page_of(run))
    with _browser().Browser(tmp_path / "browser", width, 900, scheme) as browser:
        browser.call("Page.navigate", url=path.as_uri())
        while browser.run("document.readyState + location.protocol") != "completefile:":
            pass
        assert browser.run("document.documentElement.scrollWidth") == width
        if width > 1000:  # a time and a number stand on one line, because the target leaves them the room
            assert browser.run(f"Math.max(...[...document.querySelectorAll('{SHORT}')].map(d => d.clientHeight))") < 36
        assert browser.run("getComputedStyle(document.body).backgroundColor") == paper
        assert browser.run("document.scripts.length") == 0
        assert browser.run("document.querySelector('details').open")
        browser.run("document.querySelector('summary').focus()")
        browser.press("Enter")
        assert not browser.run("document.querySelector('details').open")
        requests = [event["params"] for event in browser.events if event.get("method") == "Network.requestWillBeSent"]
        addresses = [request["request"]["url"] for request in requests]
        assert set(addresses) <= {path.as_uri()}

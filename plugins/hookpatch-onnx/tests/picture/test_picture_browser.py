"""The page is drawn, clicked, searched and folded in a real browser; without Chromium the tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import onnx
import pytest
from hookpatch_onnx._compare.compare import compare
from hookpatch_onnx._measure.measured import measure
from hookpatch_onnx._model.read import read
from hookpatch_onnx._picture.html_page import page_of
from onnx import helper
from picture_browser import NAMES, Browser, chromium
from picture_models import model, weight

pytestmark = pytest.mark.skipif(chromium() is None, reason=f"no Chromium on PATH ({', '.join(NAMES)})")


@pytest.fixture(scope="module")
def page(gpt_neo: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the real simplification with and without fuse_qkv."""
    path = tmp_path_factory.mktemp("page") / "diff.html"
    comparison = compare(read(gpt_neo["kept"]), read(gpt_neo["fused"]), ("kept.onnx", "fused.onnx"))
    path.write_text(page_of(comparison), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start a browser for all tests of the file."""
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    """The browser with the page, just opened."""
    browser.events.clear()
    browser.open(page)
    return browser


def shown(browser: Browser, side: int) -> dict[str, int]:
    """Return the number of boxes of each state in a pane."""
    script = f"panes.panes[{side}].nodes().map(node => node.classes()[0])"
    states: list[str] = browser.run(script)
    return {state: states.count(state) for state in sorted(set(states))}


def details(browser: Browser) -> str | None:
    text: Any = browser.run("element('details').hidden ? null : element('details').innerText")
    return None if text is None else str(text)


def point_of(browser: Browser, side: int, key: str) -> tuple[float, float]:
    """Return the position of a box in the window."""
    x, y = browser.run(
        f"(() => {{ const pane = panes.panes[{side}]; const at = pane.getElementById('{key}').renderedPosition();"
        " const box = pane.container().getBoundingClientRect(); return [box.x + at.x, box.y + at.y]; })()"
    )
    return x, y


def test_both_graphs_are_drawn_with_their_changes(opened: Browser) -> None:
    """Each pane has the nodes of a model, unchanged runs as boxes; only the file is requested; no error, no message."""
    assert shown(opened, 0) == {"fold": 2, "lost": 6, "same": 12}
    assert shown(opened, 1) == {"fold": 2, "gained": 4, "same": 12}
    assert [event for event in opened.events if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")] == []
    assert [event for event in opened.events if event["method"] == "Runtime.consoleAPICalled"] == []
    urls = [
        event["params"]["request"]["url"] for event in opened.events if event["method"] == "Network.requestWillBeSent"
    ]
    assert {url.partition(":")[0] for url in urls} <= {"file", "about"}


def test_matched_nodes_lie_at_one_place_in_both_panes(opened: Browser) -> None:
    """A matched node has the same position in both panes."""
    script = "panes.panes.map(pane => Object.fromEntries(pane.nodes('.same').map(one => [one.id(), one.position()])))"
    before, after = opened.run(script)
    assert before == after
    assert len(before) == 12


def test_panes_are_moved_and_zoomed_together(opened: Browser) -> None:
    """A move or zoom of either pane moves and zooms the other pane."""
    for side in (0, 1):
        opened.run(f"panes.panes[{side}].viewport({{ zoom: 0.{side + 5}, pan: {{ x: {side}, y: -40 }} }}); 0")
        first, second = opened.run("panes.panes.map(pane => [pane.zoom(), pane.pan().x, pane.pan().y])")
        assert first == second == [(side + 5) / 10, side, -40]


def test_click_on_a_node_shows_what_it_is(opened: Browser) -> None:
    """A click on a node shows operator, attributes and shapes; the Escape key hides the details."""
    key = opened.run("panes.panes[1].nodes('.gained').filter(one => one.data('label').includes('Split'))[0].id()")
    opened.click(*point_of(opened, 1, key))
    text = details(opened)
    assert text is not None
    for part in (
        "Split",
        "gained",
        "3 MatMul → MatMul, Split",
        "axis\t-1",
        "[32, 32, 32] (int64[3])",
        "float32[1, 8, 32]",
    ):
        assert part in text
    opened.press("Escape")
    assert details(opened) is None


def test_click_on_a_fold_opens_it(opened: Browser) -> None:
    """A click on a fold shows the nodes in both panes, and a button folds the nodes again."""
    opened.run("panes.fit()")
    opened.click(*point_of(opened, 0, opened.run("panes.panes[0].nodes('.fold')[0].id()")))
    for side in (0, 1):
        assert shown(opened, side)["fold"] == 1
        assert shown(opened, side)["same"] > 30
    opened.run("element('close-fold').click()")
    assert shown(opened, 0) == {"fold": 2, "lost": 6, "same": 12}
    opened.run("element('open').click()")
    assert shown(opened, 0) == {"lost": 6, "same": 62}
    opened.run("element('open').click()")
    assert shown(opened, 0) == {"fold": 2, "lost": 6, "same": 12}


def test_list_of_changes_leads_to_them(opened: Browser) -> None:
    """A click in the list, or the keys n and p, select a change and set the address of the page."""
    chosen = "panes.panes[0].nodes(':selected').length + ' ' + panes.panes[1].nodes(':selected').length"
    in_sight = (
        "panes.panes.flatMap(pane => pane.nodes(':selected').map(one => { const at = one.renderedPosition();"
        " return at.x > 0 && at.y > 0 && at.x < pane.width() && at.y < pane.height(); }))"
    )
    items = opened.run("[...document.querySelectorAll('#changes li')].map(one => one.innerText)")
    assert items == ["linear_2", "linear_8"]
    x, y = opened.run(
        "(() => { const box = element('change-1').getBoundingClientRect(); return [box.x + 5, box.y + 5]; })()"
    )
    opened.click(x, y)
    assert opened.run(chosen) == "3 2"
    assert opened.run("location.hash") == "#change=1"
    assert opened.run(in_sight) == [True] * 5
    opened.press("n")
    assert opened.run("[location.hash, document.querySelector('.here').innerText]") == ["#change=0", "linear_2"]
    opened.press("p")
    assert opened.run("location.hash") == "#change=1"


def test_link_to_a_change_opens_there(browser: Browser, page: Path) -> None:
    """The address of a change opens the page at the change."""
    browser.open(page, "#change=1")
    assert browser.run("document.querySelector('.here').innerText") == "linear_8"


def test_lines_that_lead_far_go_beside_a_large_graph(browser: Browser, tmp_path: Path) -> None:
    """In a graph of many boxes every line leads down, far lines of one box share a lane, and no two boxes overlap."""

    def long(op: str) -> onnx.ModelProto:
        names = ["x", *(f"h{index}" for index in range(1, 80)), "y"]
        return model([helper.make_node(op, [source, "x"], [target]) for source, target in pairwise(names)])

    path = tmp_path / "diff.html"
    path.write_text(page_of(compare(long("Add"), long("Sub"), ("a", "b"))), encoding="utf-8")
    browser.open(path)
    far, is_down, overlaps, beyond, right = browser.run("""(() => {
        const at = new Map(view.boxes.map((box) => [box.key, box]));
        const lanes = view.lines.filter((line) => line.bends?.along.length === 4).map((line) => {
            const [from, to] = [at.get(line.from), at.get(line.to)];
            const [dx, dy] = [to.x - from.x, to.y - from.y];
            return from.x + line.bends.along[1] * dx - line.bends.beside[1] * dy / Math.hypot(dx, dy);
        });
        const apart = (a, b, axis, size) => Math.abs(a[axis] - b[axis]) >= (a[size] + b[size]) / 2;
        return [lanes.length, view.lines.every((line) => at.get(line.from).y < at.get(line.to).y),
            view.boxes.filter((a) => view.boxes.some((b) => a !== b
                && !apart(a, b, "x", "width") && !apart(a, b, "y", "height"))).length,
            [Math.min(...lanes), Math.max(...lanes)], Math.max(...view.boxes.map((box) => box.x + box.width / 2))];
    })()""")
    assert far == 2 * (80 - 12)
    assert is_down
    assert overlaps == 0
    assert beyond[0] == pytest.approx(beyond[1])
    assert beyond[0] > right
    assert [event for event in browser.events if event["method"] == "Runtime.exceptionThrown"] == []


def test_search_finds_nodes_also_in_folds(opened: Browser) -> None:
    """The search counts the nodes also in folds; Enter selects the next node and opens the node's fold."""
    opened.press("/")
    for letter in "softmax":
        opened.press(letter)
    assert opened.run("element('found').innerText") == "2 nodes"
    assert opened.run("panes.panes[0].nodes('.found').map(one => one.classes()[0])") == ["fold", "fold"]
    opened.press("Enter")
    assert opened.run("element('found').innerText") == "1 of 2"
    assert opened.run("panes.panes[0].nodes(':selected').map(one => one.data('label'))") == ["Softmax"]
    text = details(opened)
    assert text is not None
    assert "Softmax" in text


def test_graph_with_changes_is_shown_first_and_the_others_can_be_chosen(browser: Browser, tmp_path: Path) -> None:
    """If only a local function has changed, the function is shown first, and the model's graph can be chosen."""

    def with_function(op: str) -> onnx.ModelProto:
        body = [helper.make_node(op, ["a"], ["b"])]
        function = helper.make_function("my", "Act", ["a"], ["b"], body, [helper.make_opsetid("", 23)])
        return model([helper.make_node("Act", ["x"], ["y"], domain="my")], functions=[function])

    path = tmp_path / "diff.html"
    path.write_text(page_of(compare(with_function("Relu"), with_function("Gelu"), ("a", "b"))), encoding="utf-8")
    browser.open(path)
    labels = "panes.panes.map(pane => pane.nodes().map(one => one.data('label').split('\\n')[0]))"
    assert browser.run("[...element('graph').options].map(one => one.text)") == [
        "the model's graph",
        "function my.Act *",
    ]
    assert browser.run(labels) == [["a", "\u2212 Relu", "b"], ["a", "+ Gelu", "b"]]
    browser.run("element('graph').value = 0; element('graph').dispatchEvent(new Event('change')); 0")
    assert browser.run(labels) == [["x", "my.Act", "y"]] * 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_changes_have_the_colour_of_their_distance(browser: Browser, tmp_path: Path, scheme: str) -> None:
    """If the models were run, a change is outlined by what it does; list, box and details say the distance."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: no build for this Python")
    files = tmp_path / "a.onnx", tmp_path / "b.onnx"
    for path, ops in zip(files, (("Relu", "MatMul", "Identity"), ("Tanh", "MatMul")), strict=True):
        inputs = ["x", *(f"h{index}" for index in range(1, len(ops))), "y"]
        nodes = [
            helper.make_node(op, [inputs[index], "layer.w"] if op == "MatMul" else [inputs[index]], [inputs[index + 1]])
            for index, op in enumerate(ops)
        ]
        proto = model(nodes, [weight("layer.w", 8, 8)], opset=20)
        proto.ir_version = 10
        onnx.save(proto, path)
    comparison = compare(read(files[0]), read(files[1]), ("a", "b"))
    measured = measure(comparison, files, {}, 0)
    (tmp_path / "diff.html").write_text(page_of(comparison, measured), encoding="utf-8")
    browser.prefer(scheme)
    browser.open(tmp_path / "diff.html")
    browser.run("jump(0)")
    colours = "panes.panes[0].nodes('.lost').map(one => [one.data('label').slice(2, 7), one.style('outline-color')])"
    wanted = {"light": [(200, 16, 46), (138, 97, 0)], "dark": [(255, 107, 129), (240, 193, 75)]}[scheme]
    drawn = [
        [op, f"rgb({red},{green},{blue})"] for op, (red, green, blue) in zip(("Relu", "Ident"), wanted, strict=True)
    ]
    assert browser.run_until(colours, drawn) == drawn
    words = [place.words for place in measured.places]
    assert browser.run("[...document.querySelectorAll('#changes li .pill')].map(one => one.textContent)") == words
    assert browser.run("panes.panes[1].nodes('.gained')[0].data('label').split('\\n')[1]") == words[0]
    text = details(browser)
    assert text is not None
    assert f"{words[0]}\n\nat h1, relative to the largest value" in text
    assert [event for event in browser.events if event["method"] == "Runtime.exceptionThrown"] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_are_those_of_the_scheme(opened: Browser, tmp_path: Path, scheme: str) -> None:
    """The colours follow the scheme, also if the scheme changes while the page is open; the drawing is not empty."""
    opened.prefer(scheme)
    wanted = {"light": "#b8420a", "dark": "#ff9061"}[scheme]
    # The page hears of another scheme before one of its next frames, which a busy machine draws late.
    assert (
        opened.run_until("getComputedStyle(document.documentElement).getPropertyValue('--lost').trim()", wanted)
        == wanted
    )
    red, green, blue = (int(wanted[start : start + 2], 16) for start in (1, 3, 5))
    drawn = f"rgb({red},{green},{blue})"
    assert opened.run_until("panes.panes[0].nodes('.lost')[0].style('border-color')", drawn) == drawn
    opened.picture(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000

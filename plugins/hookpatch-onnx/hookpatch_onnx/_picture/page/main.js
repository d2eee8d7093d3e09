// The page: one graph at a time, what is opened in it, what is chosen; keys and links.

const page = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);
let graph, view, changes, here, opened, isAllOpen;

const panes = new Panes(choose, () => panes.view && panes.drawStrip(element("strip")));

function showGraph(number) {
  graph = page.graphs[number];
  spreadMeasures(graph);
  changes = changesOf(graph);
  opened = new Set();
  here = -1;
  isAllOpen = false;
  const { before, after, same, changed, lost, gained, renamed } = graph.counts;
  element("counts").replaceChildren(
    `${before} → ${after} nodes: ${same} as before${renamed ? ` (${renamed} renamed)` : ""}`,
    ...[["changed", changed], ["lost", lost], ["gained", gained]].flatMap(([word, count]) => (count ? [", ", tag("span", { class: word }, `${count} ${word}`)] : [])));
  listChanges(element("changes"), page, graph, changes, jump);
  refresh();
  detail(null);
  panes.fit();
  if (panes.panes[0].zoom() < panes.readable()) {
    const first = changes.length ? changes[0].nodes.map((at) => view.keys[at]) : [view.boxes[0].key];
    panes.centreOn(first, false);
  }
}

function refresh() {
  view = place(seen(graph, opened));
  panes.show(view);
  element("open").textContent = isAllOpen ? "Fold" : "Unfold";
  element("open").disabled = graph.nodes.every((node) => node.fold === null);
  document.documentElement.dataset.boxes = view.boxes.length;
  search();
  panes.drawStrip(element("strip"));
}

// Open folds and keep what is at the middle there.
function openFolds(folds) {
  for (const fold of folds) opened.add(fold);
  refresh();
}

function jump(at) {
  here = at;
  document.querySelectorAll("#changes li.here").forEach((item) => item.classList.remove("here"));
  const item = element(`change-${at}`);
  item.closest("details").open = true;
  item.classList.add("here");
  item.scrollIntoView({ block: "nearest" });
  goTo(changes[at].nodes);
  history.replaceState(null, "", `#change=${at}`);
}

function goTo(nodes) {
  const folds = nodes.map((at) => graph.nodes[at].fold).filter((fold) => fold !== null && !opened.has(fold));
  if (folds.length) openFolds(folds);
  const keys = nodes.map((at) => view.keys[at]);
  panes.select(keys);
  detail(graph.nodes[nodes[nodes.length - 1]]); // it takes of the panes' width
  panes.centreOn(keys, true);
}

function choose(key) {
  panes.select(key ? [key] : []);
  if (key === null) return detail(null);
  const box = view.boxes.find((one) => one.key === key);
  if (!box) return show(detailsOfLine(view.lines.find((line) => line.key === key)));
  if (box.kind !== "fold") return detail(box.nodes[0]);
  openFolds([box.nodes[0].fold]);
  panes.centreOn([view.keys[box.nodes[0].id]], false);
  detail(box.nodes[0]);
}

function detail(node) {
  if (node === null) return show(null);
  const close = node.fold === null ? null : tag("button", { id: "close-fold", onclick: () => {
    opened.delete(node.fold);
    refresh();
    panes.centreOn([view.keys[node.id]], false);
    show(detailsOfFold(graph.nodes.filter((one) => one.fold === node.fold), () => choose(view.keys[node.id])));
  } }, "Fold this run again");
  show([...detailsOfNode(node, page, graph), close]);
}

function show(content) {
  const wasHidden = element("details").hidden;
  element("details").hidden = content === null;
  if (content !== null) {
    const close = tag("button", { class: "close", title: "Close (Esc)", onclick: () => choose(null) }, "×");
    element("details").replaceChildren(...[close, ...content].filter((one) => one !== null && one !== undefined));
    element("details").scrollTop = 0;
  }
  if (wasHidden !== element("details").hidden) panes.panes.forEach((pane) => pane.resize());
}

function search() {
  const words = element("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length ? graph.nodes.filter((node) => {
    node.text ||= textOf(node);
    return words.every((word) => node.text.includes(word));
  }) : [];
  panes.mark(found.map((node) => view.keys[node.id]));
  element("found").textContent = words.length ? several(found.length, "node") : "";
  return found;
}

// What is searched: the operator, its own names, attributes, weights and types; not the names of what others make.
function textOf(node) {
  const sides = [node.before, node.after].filter(Boolean).map((side) => ({
    ...side, notes: 0, inputs: (side.inputs || []).filter((one) => one.kind === "constant") }));
  return JSON.stringify([node.op, ...sides]).toLowerCase();
}

let lastFound = -1;
element("search").addEventListener("input", () => { lastFound = -1; search(); });
element("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const found = search();
  if (!found.length) return;
  lastFound = (lastFound + (event.shiftKey ? found.length - 1 : 1)) % found.length;
  goTo([found[lastFound].id]);
  element("found").textContent = `${lastFound + 1} of ${found.length}`;
});
const step = (by) => changes.length && jump((here + by + changes.length) % changes.length);
element("next").addEventListener("click", () => step(1));
element("previous").addEventListener("click", () => step(here < 0 ? 0 : -1));
element("key").addEventListener("click", () => { panes.select([]); show(keyOfPage()); });
element("fit").addEventListener("click", () => panes.fit());
element("open").addEventListener("click", () => {
  const [middle] = panes.nearest().nodes;
  isAllOpen = !isAllOpen;
  opened = new Set(isAllOpen ? graph.nodes.map((node) => node.fold).filter((fold) => fold !== null) : []);
  refresh();
  panes.centreOn([view.keys[middle.id]], false);
});
element("strip").addEventListener("click", (event) => {
  const [pane] = panes.panes;
  const y = (event.offsetY / element("strip").clientHeight) * view.height;
  panes.moveTo(pane.zoom(), panes.middle().x, y, true);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { element("search").blur(); choose(null); }
  if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); element("search").focus(); }
  if (event.key === "n") step(1);
  if (event.key === "p") step(here < 0 ? 0 : -1);
  if (event.key === "f") panes.fit();
  if (event.key === "?") element("key").click();
});
addEventListener("resize", () => { panes.panes.forEach((pane) => pane.resize()); panes.drawStrip(element("strip")); });

element("names").append(page.before, tag("span", {}, " → "), page.after);
if (page.graphs.length > 1) {
  element("graph").hidden = false;
  element("graph").append(...page.graphs.map((one, at) => tag("option", { value: at }, `${one.title || "the model's graph"}${one.isEmpty ? "" : " *"}`)));
  element("graph").addEventListener("change", (event) => showGraph(Number(event.target.value)));
}
const first = Math.max(0, page.graphs.findIndex((one) => !one.isEmpty)); // where there is something to see
element("graph").value = first;
showGraph(first);
const wish = new URLSearchParams(location.hash.slice(1));
if (wish.has("change") && changes[Number(wish.get("change"))]) jump(Number(wish.get("change")));
if (wish.has("search")) { element("search").value = wish.get("search"); search(); }
document.documentElement.dataset.ready = Math.round(performance.now());

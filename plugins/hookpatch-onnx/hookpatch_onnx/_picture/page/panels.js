// The panels: the list of changes, and the details of what was chosen. All text goes in as text, never as HTML.

function tag(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function several(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

function becomes(one) {
  const part = (text, state) => tag("span", { class: ["nothing", "a constant"].includes(text) ? "quiet" : state }, text);
  const by = one.by.length ? [" by ", tag("span", { class: "mark" }, one.by.join(", "))] : [];
  return [part(one.lost, "lost"), " → ", part(one.gained, "gained"), ...by];
}

// Which patches were called is known of the model; which of several made a node only where a node has a note of it.
function patchedBy(page) {
  return page.patches.length === 1 ? "patched by" : "patches called:";
}

// What a change does to the numbers, as a class of the page's style; the order is that of importance.
const EFFECT = { differs: "differs", "passed on": "passed", "not measured": "unmeasured", rounding: "close", equal: "close" };

function weightOf(measure) {
  return measure ? Object.keys(EFFECT).indexOf(measure.effect) : -1;
}

function pill(measure) {
  return measure ? tag("span", { class: `pill ${EFFECT[measure.effect]}` }, measure.words) : null;
}

// Each node gets the effect of its change, and the last node of a place says it.
function spreadMeasures(graph) {
  for (const node of graph.nodes) if (node.measure) Object.assign(node, { effect: EFFECT[node.measure.effect], says: node.measure.words });
  for (const one of graph.places) {
    if (!one.measure) continue;
    for (const at of one.nodes) graph.nodes[at].effect = EFFECT[one.measure.effect];
    graph.nodes[one.nodes[one.nodes.length - 1]].says = one.measure.words;
  }
}

// The changes, first those that a plugin has made, each in the order of the graph: {group, title, nodes}; a group's title is made of its parts.
function changesOf(graph) {
  const found = graph.places.map((one) => ({
    group: JSON.stringify(["place", one.lost, one.gained, one.by]),
    title: () => becomes(one),
    nodes: one.nodes,
    label: one.label,
    isMade: one.by.length > 0,
    measure: one.measure,
  }));
  for (const node of graph.nodes) {
    if (node.state !== "changed") continue;
    const text = node.differences.join("; ");
    found.push({ group: JSON.stringify([node.op, text]), title: () => [tag("span", { class: "changed" }, node.op), ` ${text}`], nodes: [node.id], label: nameOf(node), measure: node.measure });
  }
  for (const node of graph.nodes) {
    if (node.kind === "node" || node.state === "same" || node.state === "changed") continue;
    found.push({ group: `${node.kind} ${node.state}`, title: () => [tag("span", { class: node.state }, `${node.kind} ${node.state}`)], nodes: [node.id], label: nameOf(node) });
  }
  return found.sort((a, b) => (b.isMade || false) - (a.isMade || false) || weightOf(a.measure) - weightOf(b.measure) || a.nodes[0] - b.nodes[0]);
}

// What signs and keys mean.
function keyOfPage() {
  const sign = (state, text) => [tag("span", { class: `badge ${state}` }, `${SIGN[state] || ""}${text}`), ""];
  return [
    tag("h2", {}, "Signs and keys"),
    rows([
      [sign("lost", "Op")[0], "only before"], [sign("gained", "Op")[0], "only after"],
      [sign("changed", "Op")[0], "in both, with other attributes, inputs or types"], [sign("same", "Op")[0], "in both, as before"],
      [tag("span", { class: "badge same" }, "12 nodes as before"), "a run of unchanged nodes: a click opens it"],
      [tag("span", { class: "mark" }, "plugin"), "made by this plugin, as the model says"],
      ...(page.run && page.run.outputs.length ? [
        [tag("span", { class: "pill close" }, "equal"), "equal numbers behind the change, or apart by rounding"],
        [tag("span", { class: "pill differs" }, "0.3 apart"), "other numbers behind the change, relative to the largest value"],
        [tag("span", { class: "pill passed" }, "0.3 apart; 0.3 before it"), "as much came in from before"],
        [tag("span", { class: "pill unmeasured" }, "not measured"), "no value behind the change can be compared"]] : []),
    ].map(([one, what]) => [one, what])),
    tag("h3", {}, "keys"),
    rows([["n, p", "next and previous change; what a plugin has made comes first"], ["f", "fit: all of both graphs"], ["/", "search; Enter goes to the next one found"],
      ["?", "this key"], ["Esc", "close"]]),
  ];
}

function nameOf(node) {
  return (node.before || node.after).name;
}

function listChanges(panel, page, graph, changes, jump) {
  const groups = new Map();
  changes.forEach((change, at) => groups.set(change.group, [...(groups.get(change.group) || []), at]));
  const sorted = [...groups.values()].sort((a, b) => b.length - a.length);
  const lists = sorted.map((members, place) => tag("details", place === 0 && members.length <= 15 ? { open: "" } : {},
    tag("summary", {}, tag("b", {}, `${members.length} × `), ...changes[members[0]].title(), " ",
      pill(members.map((at) => changes[at].measure).reduce((worst, one) => (one && (!worst || weightOf(one) < weightOf(worst)) ? one : worst), undefined))),
    tag("ol", {}, ...members.map((at) => tag("li", {
      id: `change-${at}`, tabindex: 0, onclick: () => jump(at), onkeydown: (event) => event.key === "Enter" && jump(at),
    }, changes[at].label, " ", pill(changes[at].measure))))));
  const ops = Object.entries(page.ops);
  const lines = [...graph.ends, ...graph.initializers, ...page.model];
  panel.replaceChildren(
    ...(page.patches.length ? [tag("h3", {}, patchedBy(page)), tag("p", { class: "mark" }, page.patches.join(", "))] : []),
    ...numbersOf(page),
    tag("h3", {}, several(changes.length, "change")),
    ...(lists.length ? lists : [tag("p", { class: "quiet" }, graph.counts.renamed ? "no difference but names" : "no difference")]),
    ...(ops.length ? [tag("h3", {}, "operators"), tag("table", {}, ...ops.map(([op, [before, after]]) => tag("tr", {},
      tag("td", {}, op), tag("td", { class: "number quiet" }, `${before} → ${after}`),
      tag("td", { class: `number ${after > before ? "gained" : "lost"}` }, `${after > before ? "+" : "−"}${Math.abs(after - before)}`))))] : []),
    ...(lines.length ? [tag("h3", {}, "inputs, outputs, initializers"), ...lines.map((line) => tag("div", {}, line))] : []),
  );
}

// The outputs of both models on one input, and the weights, if they were compared.
function numbersOf(page) {
  const outputs = page.run && page.run.outputs.length ? [
    tag("h3", { title: `inputs: ${Object.entries(page.run.inputs).map((one) => one.join(" ")).join(", ")}` }, `outputs on one input, seed ${page.run.seed}`),
    ...page.run.outputs.map((one) => tag("div", {}, `${one.name} `, pill(one)))] : [];
  const weights = page.weights ? [tag("h3", {}, "weights"), page.weights.changes.length ? tag("details", {},
    tag("summary", {}, page.weights.words),
    tag("ol", {}, ...page.weights.changes.map((one) => tag("li", {}, `${one.name} ${one.type}: ${one.kind}`, one.distance ? ` ${one.distance}` : "")))) : tag("div", {}, page.weights.words)] : [];
  return [...outputs, ...weights];
}

function rows(pairs) {
  return tag("table", {}, ...pairs.map(([name, ...what]) => tag("tr", {}, tag("th", {}, name), tag("td", {}, ...what))));
}

// A value as it was and as it is, once if it is the same.
function both(before, after) {
  if (before === after || after === undefined) return [before];
  if (before === undefined) return [tag("span", { class: "gained" }, after)];
  return [tag("span", { class: "lost" }, before), " → ", tag("span", { class: "gained" }, after)];
}

function bothOf(before, after, read) {
  const [ours, theirs] = [before, after].map((side) => new Map(side ? read(side) : []));
  const isOne = !before || !after;
  return [...new Set([...ours.keys(), ...theirs.keys()])].map((name) => [name, ...(isOne
    ? [ours.get(name) ?? theirs.get(name)]
    : both(ours.get(name) ?? "—", theirs.get(name) ?? "—"))]);
}

function detailsOfNode(node, page, graph) {
  const before = node.before;
  const after = node.state === "lost" ? null : node.after || before;
  const part = (title, pairs) => (pairs.length ? [tag("h3", {}, title), rows(pairs)] : []);
  const isNode = node.kind === "node";
  const notes = Object.entries((after || before).notes || {});
  const where = node.place === null ? null : graph.places[node.place];
  return [
    tag("h2", {}, node.op),
    tag("p", {}, tag("span", { class: `badge ${node.state}` }, node.state === "same" ? "as before" : node.state), " ", isNode ? "" : node.kind),
    where && tag("p", {}, ...becomes(where)),
    ...measureOf(node.measure || (where && where.measure)),
    node.state !== "same" && page.patches.length && !(where && where.by.length)
      ? tag("p", {}, `${patchedBy(page)} `, tag("span", { class: "mark" }, page.patches.join(", "))) : null,
    ...node.differences.map((line) => tag("div", { class: "changed" }, line)),
    ...part("name", bothOf(before, after, (side) => [[isNode ? "output" : node.kind, side.name], ...(side.node ? [["node", side.node]] : [])])),
    ...(isNode ? [
      ...part("attributes", bothOf(before, after, (side) => Object.entries(side.attributes))),
      ...part("inputs", bothOf(before, after, (side) => side.inputs.map((one, at) => [`${at}`, `${one.name}  ${one.what}`]))),
      ...part("outputs", bothOf(before, after, (side) => side.outputs.map((one, at) => [`${at}`, `${one.name}  ${one.type}`]))),
    ] : part("type", bothOf(before, after, (side) => [["", side.type]]))),
    ...notes.flatMap(([key, value]) => [tag("h3", {}, key.replace("pkg.torch.onnx.", "").replace(/_/g, " ")), tag("pre", {}, value)]),
  ];
}

function measureOf(measure) {
  if (!measure) return [];
  const at = measure.at ? [tag("div", { class: "quiet" }, `at ${[...new Set(measure.at)].join(" → ")}, relative to the largest value`)] : [];
  return [tag("p", {}, pill(measure)), ...at];
}

function detailsOfFold(nodes, open) {
  return [
    tag("h2", {}, several(nodes.length, "node")),
    tag("p", {}, tag("span", { class: "badge same" }, "as before")),
    tag("p", {}, tag("button", { id: "open-fold", onclick: open }, "Open")),
    rows(counted(nodes).map(([op, count]) => [String(count), op])),
  ];
}

function detailsOfLine(line) {
  return [tag("h2", {}, "Value"), ...[...line.types].map((type) => tag("p", {}, tag("code", {}, type || "type not known")))];
}

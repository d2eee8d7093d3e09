// What is seen of a graph, and where: folds that are closed are one box; dagre lays out both graphs as one.

const measure = document.createElement("canvas").getContext("2d");
measure.font = "600 12px system-ui, sans-serif";
const SIGN = { lost: "− ", gained: "+ ", changed: "~ ", same: "" };

function short(text, most) {
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

function counted(nodes) {
  const counts = new Map();
  for (const node of nodes) counts.set(node.op, (counts.get(node.op) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function secondLine(node) {
  if (node.differences.length) return short(node.differences[0], 34);
  if (node.kind !== "node") return short((node.after || node.before).type, 34);
  const weights = (node.before || node.after).inputs.filter((one) => one.kind === "constant" && /\[.*\d.*\]$/.test(one.what));
  const largest = weights.map((one) => one.what.match(/\[[^\]]*\]$/)[0]).sort((a, b) => b.length - a.length)[0];
  return largest && !weights[0].what.includes("(") ? largest : "";
}

// The boxes and lines that are seen: {key, nodes, state, label, width, height} and {from, to, before, after, types}.
function seen(graph, opened) {
  const boxes = new Map();
  const keys = graph.nodes.map((node) => (node.fold === null || opened.has(node.fold) ? `n${node.id}` : `f${node.fold}`));
  graph.nodes.forEach((node, at) => {
    if (!boxes.has(keys[at])) boxes.set(keys[at], { key: keys[at], nodes: [] });
    boxes.get(keys[at]).nodes.push(node);
  });
  for (const box of boxes.values()) {
    const first = box.nodes[0];
    const isFold = box.key[0] === "f";
    const ops = isFold ? counted(box.nodes).slice(0, 3).map(([op, count]) => `${count} ${op}`).join(", ") : "";
    const second = isFold ? short(ops, 36) : secondLine(first);
    const title = isFold ? `${box.nodes.length} nodes as before` : SIGN[first.state] + short(first.op, 34);
    box.state = isFold ? "fold" : first.state;
    box.kind = isFold ? "fold" : first.kind;
    const third = !isFold && first.says ? short(first.says, 34) : "";
    const lines = [title, second, third].filter(Boolean);
    box.label = lines.join("\n");
    box.effect = isFold ? "" : first.effect || "";
    box.width = Math.max(54, ...lines.map((line) => measure.measureText(line).width)) + 18;
    box.height = 12 + 14 * lines.length + (lines.length > 2 ? 2 : 0);
    box.before = first.state !== "gained";
    box.after = first.state !== "lost";
  }
  const lines = new Map();
  for (const [from, to, type, before, after] of graph.edges) {
    const key = `${keys[from]} ${keys[to]}`;
    if (keys[from] === keys[to]) continue;
    const line = lines.get(key) || { key, from: keys[from], to: keys[to], before: false, after: false, types: new Set() };
    line.before ||= before;
    line.after ||= after;
    line.types.add(type);
    lines.set(key, line);
  }
  return { boxes: [...boxes.values()], lines: [...lines.values()], keys };
}

function place(view) {
  const plan = new dagre.graphlib.Graph();
  const many = view.boxes.length > 250; // the shortest lines take twice as long to find there
  plan.setGraph({ ranksep: 34, nodesep: 22, edgesep: 12, marginx: 20, marginy: 20, ranker: many ? "tight-tree" : "network-simplex" });
  plan.setDefaultEdgeLabel(() => ({}));
  for (const box of view.boxes) plan.setNode(box.key, { width: box.width, height: box.height });
  for (const line of view.lines) plan.setEdge(line.from, line.to);
  dagre.layout(plan);
  for (const box of view.boxes) Object.assign(box, { x: plan.node(box.key).x, y: plan.node(box.key).y });
  for (const line of view.lines) line.bends = bends(plan.node(line.from), plan.node(line.to), plan.edge(line.from, line.to).points);
  view.height = plan.graph().height;
  return view;
}

// Bends as cytoscape has them: how far along the straight line, and how far beside it.
function bends(from, to, points) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const found = { along: [], beside: [] };
  for (const point of points.slice(1, -1)) {
    const [px, py] = [point.x - from.x, point.y - from.y];
    found.along.push((px * dx + py * dy) / (length * length));
    found.beside.push((dx * py - dy * px) / length);
  }
  return found.beside.some((one) => Math.abs(one) > 2) ? found : null;
}

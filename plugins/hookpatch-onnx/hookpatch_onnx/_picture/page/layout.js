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

const MANY = 120; // boxes: more of them are ranked here, since dagre's ranks take the time of all else
const FAR = 12; // ranks: dagre puts a dummy box into each rank that a line crosses, so 200 such lines take ten times as long as all boxes

function place(view) {
  const plan = new dagre.graphlib.Graph();
  const ranks = view.boxes.length > MANY ? ranksOf(view) : null;
  const isFar = (line) => ranks !== null && ranks.get(line.to) - ranks.get(line.from) > FAR;
  // Dagre counts two ranks from box to box; its own root node, which no line of the graph meets, comes first.
  const given = (all) => all.nodes().forEach((key) => { all.node(key).rank = ranks.has(key) ? 2 * ranks.get(key) + 2 : 0; });
  plan.setGraph({ ranksep: 34, nodesep: 22, edgesep: 12, marginx: 20, marginy: 20, ranker: ranks === null ? "network-simplex" : given });
  plan.setDefaultEdgeLabel(() => ({}));
  for (const box of view.boxes) plan.setNode(box.key, { width: box.width, height: box.height });
  for (const line of view.lines) if (!isFar(line)) plan.setEdge(line.from, line.to);
  dagre.layout(plan);
  for (const box of view.boxes) Object.assign(box, { x: plan.node(box.key).x, y: plan.node(box.key).y });
  view.height = plan.graph().height;
  view.width = plan.graph().width;
  const lanes = lanesOf(view, view.lines.filter(isFar));
  for (const line of view.lines) {
    const [from, to] = [plan.node(line.from), plan.node(line.to)];
    line.bends = bends(from, to, isFar(line) ? beside(from, to, lanes.get(line.from)) : plan.edge(line.from, line.to).points);
  }
  view.width = Math.max(view.width, ...lanes.values());
  return view;
}

// A rank for each box, below those of all boxes that lead there; a box with more lines out than in is moved down to its first user.
function ranksOf(view) {
  const [into, out] = [new Map(), new Map()];
  for (const { key } of view.boxes) { into.set(key, []); out.set(key, []); }
  for (const line of view.lines) { into.get(line.to).push(line.from); out.get(line.from).push(line.to); }
  const left = new Map([...into].map(([key, keys]) => [key, keys.length]));
  const order = [...left.keys()].filter((key) => !left.get(key));
  const ranks = new Map();
  for (const key of order) { // grows meanwhile
    ranks.set(key, 1 + Math.max(-1, ...into.get(key).map((one) => ranks.get(one))));
    for (const user of out.get(key)) {
      left.set(user, left.get(user) - 1);
      if (!left.get(user)) order.push(user);
    }
  }
  for (const key of order.reverse()) {
    const users = out.get(key);
    if (users.length && users.length >= into.get(key).length) ranks.set(key, Math.min(...users.map((one) => ranks.get(one))) - 1);
  }
  return ranks;
}

// Lines that lead far go along the right side: a lane for all lines of a box, and a lane again for a box below.
function lanesOf(view, lines) {
  const at = new Map(view.boxes.map((box) => [box.key, box.y]));
  const ends = new Map();
  for (const line of lines) ends.set(line.from, Math.max(ends.get(line.from) || 0, at.get(line.to)));
  const free = []; // of each lane, where it is free from
  const lanes = new Map();
  for (const key of [...ends.keys()].sort((a, b) => at.get(a) - at.get(b))) {
    const found = free.findIndex((y) => y < at.get(key));
    const lane = found < 0 ? free.length : found;
    free[lane] = ends.get(key);
    lanes.set(key, view.width + 14 * lane);
  }
  return lanes;
}

function beside(from, to, x) {
  const [top, bottom] = [from.y + from.height / 2 + 14, to.y - to.height / 2 - 14];
  return [from, { x: from.x, y: top }, { x, y: top }, { x, y: bottom }, { x: to.x, y: bottom }, to];
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

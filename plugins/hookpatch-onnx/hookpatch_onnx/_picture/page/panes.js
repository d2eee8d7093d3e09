// The two panes: cytoscape draws the one's boxes and the other's; they are moved, zoomed and chosen in together.

const SIDES = ["before", "after"];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function look() {
  const states = ["lost", "gained", "changed"].map((state) => ({
    selector: `node.${state}`,
    style: { "background-color": colour(`${state}-fill`), "border-color": colour(state), "border-width": 2, color: colour("ink") },
  }));
  const effects = ["differs", "passed", "close", "unmeasured"].map((effect) => ({
    selector: `node.${effect}`, style: { "outline-color": colour(effect), "outline-width": 3, "outline-offset": 1 },
  }));
  return [
    { selector: "node", style: {
      shape: "round-rectangle", "corner-radius": 6, width: "data(width)", height: "data(height)", label: "data(label)",
      "text-wrap": "wrap", "text-valign": "center", "text-halign": "center", "font-size": 12, "font-weight": 500, "line-height": 1.25,
      "font-family": "system-ui, sans-serif", color: colour("ink"), "background-color": colour("node"),
      "border-width": 1, "border-color": colour("node-line"), "min-zoomed-font-size": 5, "overlay-opacity": 0 } },
    { selector: "node.fold", style: { "background-color": colour("fold"), "border-style": "dashed", "border-color": colour("quiet"), color: colour("quiet") } },
    { selector: "node.end", style: { "corner-radius": 20 } },
    ...states,
    ...effects,
    { selector: "node.found", style: { "underlay-color": colour("mark"), "underlay-opacity": 0.3, "underlay-padding": 5 } },
    { selector: "node:selected", style: { "border-color": colour("mark"), "border-width": 3 } },
    { selector: "edge", style: {
      width: 1.3, "line-color": colour("edge"), "target-arrow-color": colour("edge"), "target-arrow-shape": "triangle", "arrow-scale": 0.75,
      "curve-style": "straight", "overlay-opacity": 0 } },
    { selector: "edge[along]", style: {
      "curve-style": "round-segments", "segment-weights": "data(along)", "segment-distances": "data(beside)", "segment-radii": 14, "edge-distances": "node-position" } },
    { selector: "edge.lost", style: { "line-color": colour("lost"), "target-arrow-color": colour("lost"), width: 1.8 } },
    { selector: "edge.gained", style: { "line-color": colour("gained"), "target-arrow-color": colour("gained"), width: 1.8 } },
    { selector: "edge:selected", style: { "line-color": colour("mark"), "target-arrow-color": colour("mark"), width: 2.5 } },
  ];
}

class Panes {
  constructor(onChoice, onMove) {
    this.onMove = onMove;
    this.panes = SIDES.map((side) => cytoscape({
      container: document.getElementById(side), style: look(), minZoom: 0.002, maxZoom: 2.5, autoungrabify: true,
      boxSelectionEnabled: false, selectionType: "single", layout: { name: "preset" } }));
    let isFollowing = false;
    this.panes.forEach((pane, at) => {
      pane.on("viewport", () => {
        if (isFollowing) return;
        isFollowing = true;
        this.panes[1 - at].viewport({ zoom: pane.zoom(), pan: { ...pane.pan() } });
        isFollowing = false;
        this.onMove();
      });
      pane.on("tap", (event) => onChoice(event.target === pane ? null : event.target.id(), SIDES[at]));
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.panes.forEach((pane) => pane.style(look()));
      this.onMove();
    });
  }

  show(view) {
    this.view = view;
    this.panes.forEach((pane, at) => {
      const side = SIDES[at];
      const other = SIDES[1 - at];
      pane.batch(() => {
        pane.elements().remove();
        pane.add([
          ...view.boxes.filter((box) => box[side]).map((box) => ({
            group: "nodes", data: { id: box.key, label: box.label, width: box.width, height: box.height }, position: { x: box.x, y: box.y },
            classes: `${box.state} ${box.kind === "input" || box.kind === "output" ? "end" : ""} ${box.effect}` })),
          ...view.lines.filter((line) => line[side]).map((line) => ({
            group: "edges", data: { id: line.key, source: line.from, target: line.to, ...(line.bends || {}) },
            classes: line[other] ? "" : at ? "gained" : "lost" })),
        ]);
      });
    });
  }

  // All of it, however small that is.
  fit() {
    const [pane] = this.panes;
    const width = this.view.width;
    const whole = Math.min(pane.width() / (width + 20), pane.height() / (this.view.height + 20), 1.2);
    this.moveTo(whole, width / 2, this.view.height / 2, false);
  }

  // What lies in the middle of the panes.
  middle() {
    const [pane] = this.panes;
    return { x: (pane.width() / 2 - pane.pan().x) / pane.zoom(), y: (pane.height() / 2 - pane.pan().y) / pane.zoom() };
  }

  // The box nearest to it.
  nearest() {
    const { x, y } = this.middle();
    const far = (box) => Math.hypot(box.x - x, box.y - y);
    return this.view.boxes.reduce((best, box) => (far(box) < far(best) ? box : best));
  }

  // Where a change can be read: the graph's whole width if that is large enough, never smaller than three quarters.
  readable() {
    const [pane] = this.panes;
    const width = Math.max(...this.view.boxes.map((box) => box.x + box.width / 2)) + 20;
    return Math.max(0.75, Math.min(1, pane.width() / width));
  }

  moveTo(zoom, x, y, isSmooth) {
    const [pane] = this.panes;
    const viewport = { zoom, pan: { x: pane.width() / 2 - x * zoom, y: pane.height() / 2 - y * zoom } };
    pane.stop();
    if (isSmooth && !matchMedia("(prefers-reduced-motion: reduce)").matches) pane.animate(viewport, { duration: 220 });
    else pane.viewport(viewport);
  }

  centreOn(keys, isSmooth) {
    let boxes = this.view.boxes.filter((box) => keys.includes(box.key));
    if (!boxes.length) return;
    const spread = (axis) => Math.max(...boxes.map((box) => box[axis])) - Math.min(...boxes.map((box) => box[axis]));
    const least = this.readable();
    if (spread("x") * least > this.panes[0].width() || spread("y") * least > this.panes[0].height()) boxes = boxes.slice(0, 1);
    const [x, y] = ["x", "y"].map((axis) => (Math.min(...boxes.map((box) => box[axis])) + Math.max(...boxes.map((box) => box[axis]))) / 2);
    const zoom = Math.max(least, Math.min(this.panes[0].zoom(), 1.2));
    const half = this.panes[0].height() / zoom / 2;
    const isTaller = this.view.height > 2 * half;  // then nothing above it and below it is shown
    this.moveTo(zoom, x, isTaller ? Math.max(half - 30, Math.min(y, this.view.height - half + 30)) : y, isSmooth);
  }

  select(keys) {
    for (const pane of this.panes) pane.batch(() => {
      pane.elements().unselect();
      for (const key of keys) pane.getElementById(key).select();
    });
  }

  mark(keys) {
    for (const pane of this.panes) pane.batch(() => {
      pane.nodes().removeClass("found");
      for (const key of keys) pane.getElementById(key).addClass("found");
    });
  }

  // The strip at the side: the whole height, the changes in it, and what is in sight.
  drawStrip(canvas) {
    const [pane] = this.panes;
    const height = (canvas.height = canvas.clientHeight);
    const brush = canvas.getContext("2d");
    const scale = height / this.view.height;
    brush.fillStyle = colour("fold");
    brush.fillRect(0, 0, canvas.width, height);
    const top = -pane.pan().y / pane.zoom();
    brush.fillStyle = colour("line");
    brush.fillRect(0, top * scale, canvas.width, Math.max(6, (pane.height() / pane.zoom()) * scale));
    for (const box of this.view.boxes) {
      if (box.state === "same" || box.state === "fold") continue;
      brush.fillStyle = colour(box.state);
      brush.fillRect(box.state === "gained" ? 8 : 2, box.y * scale - 1, box.state === "changed" ? 11 : 5, 3);
    }
  }
}

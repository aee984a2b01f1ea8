// The flame graph, by d3-flame-graph: Python frames, and in them ops.

const VIEWS = [["beside", "backward beside its forward"], ["ran", "backward where it ran"], ["devices", "time on devices"], ["samples", "samples"]];
const flame = {view: null, chart: null, total: 0};

// The columns of a tree as nested objects, callers first; what was folded is a frame of its own.
function treeOf(t) {
  const root = {name: "all", kind: 0, self: 0, calls: 0, children: []};
  const nodes = t.name.map((name, i) => ({name: data.names[name], kind: t.kind[i], self: t.self_ns[i], calls: t.calls[i], children: []}));
  const fold = (node, count, ns) => {
    if (count) node.children.push({name: `(${counted(count, "small frame")})`, kind: -1, self: ns, calls: 0, children: []});
  };
  nodes.forEach((node, i) => {
    fold(node, t.folded[i], t.folded_ns[i]);
    (t.parent[i] < 0 ? root : nodes[t.parent[i]]).children.push(node);
  });
  fold(root, t.outside, t.outside_ns);
  for (let i = nodes.length - 1; i >= -1; i--) {
    const node = i < 0 ? root : nodes[i];
    for (const child of node.children) if (child.value === undefined) child.value = child.self;
    node.value = node.self + node.children.reduce((sum, child) => sum + child.value, 0);
  }
  return root;
}

function frameColor(d) {
  if (d.highlight) return color("found");
  const {kind, name} = d.data;
  if (kind < 0) return color("panel");
  let hash = 0;
  for (const letter of name) hash = (hash * 31 + letter.charCodeAt(0)) % 997;
  const base = d3.hsl(color(KINDS[kind]));
  base.l += (hash % 9 - 4) * 0.008;
  if (kind) base.l += isDark() ? -0.12 : 0.22; // so that the label can be read
  return base.formatRgb();
}

// Samples may count cycles.
function weight(n) {
  return flame.view === "samples" && data.sampled_event === "cycles" ? countText(n) + " cycles" : nsText(n);
}

function frameText(d) {
  const {name, value, self, calls, kind} = d.data, samples = flame.view === "samples";
  const words = [`${weight(value)}, ${percent(value, flame.total)} of all`];
  if (self && self !== value) words.push(`self ${weight(self)}`);
  if (calls) words.push(counted(calls, samples ? "sample" : kind === KINDS.indexOf("device") ? "run" : "call"));
  if (kind > 0 && !samples) words.push(KIND_TEXT[kind]);
  return name + "\n" + words.join(" · ");
}

function showFrame(d) {
  const path = d.ancestors().reverse().slice(1, -1).map(a => a.data.name).join("  ›  ");
  byId("frame").replaceChildren(frameText(d), el("div", {class: "dim"}, path));
}

function hasText(d, term) {
  return Boolean(term) && d.data.kind >= 0 && d.data.name.toLowerCase().includes(term.toLowerCase());
}

function found(results, sum) {
  const term = byId("search").value;
  byId("found").textContent = term ? `${counted(results.length, "frame")}, ${weight(sum)}, ${percent(sum, flame.total)}` : "";
}

function drawFlame() {
  const place = byId("chart"), width = place.clientWidth;
  if (!width || !flame.view) return;
  const tree = treeOf(data.flames[flame.view]);
  flame.total = tree.value;
  place.replaceChildren();
  flame.chart = flamegraph.default().width(width).cellHeight(18).transitionDuration(120).minFrameSize(0.6).inverted(true)
    .sort((a, b) => b.data.value - a.data.value).setColorMapper(frameColor).setLabelHandler(frameText)
    .setSearchMatch(hasText).setSearchHandler(found).setDetailsHandler(() => {}).onClick(showFrame)
    .tooltip(Object.assign(() => {}, {show: (event, d) => showTip(event, frameText(d)), hide: () => showTip(null, "")}));
  d3.select(place).datum(tree).call(flame.chart);
  const t = data.flames[flame.view];
  const folded = t.outside + t.folded.reduce((a, b) => a + b, 0);
  byId("folded").textContent = folded ? `frames of ${weight(t.floor_ns)} and less in all are folded: ${countText(folded)} of them` : "";
  byId("frame").textContent = "click a frame to zoom to it; what it is stands here";
  search();
}

function search() {
  const term = byId("search").value.trim();
  byId("found").textContent = "";
  if (!flame.chart) return;
  if (term) flame.chart.search(term);
  else flame.chart.clear();
}

function showView(name) {
  flame.view = name;
  for (const b of byId("views").children) b.classList.toggle("on", b.name === name);
  drawFlame();
}

function startFlame() {
  const views = VIEWS.filter(([name]) => data.flames[name]);
  byId("views").append(...views.map(([name, text]) => el("button", {name, onclick: () => showView(name)}, text)));
  byId("search").addEventListener("input", search);
  byId("reset").addEventListener("click", () => flame.chart && flame.chart.resetZoom());
  drawers.push(drawFlame);
  if (views.length) showView(views[0][0]);
}

// The timeline of a step: blocks of record_function, by thread; Python frames and ops, a lane for each thread; what devices did, by
// stream.

const ROW = 17, HEAD = 22, TITLE = 20;
const timeline = {lanes: [], length: 0, height: 0, x: d3.scaleLinear(), zoom: null, transform: d3.zoomIdentity, chosen: null};

const isBlocks = lane => lane.thread.length > 3, order = lane => (isBlocks(lane) ? 0 : lane.thread[1] ? 1 : 2);

// The slices of a step, by thread, each with its row.
function lanesOf(w, withPython) {
  const lanes = new Map();
  let at = 0;
  w.name.forEach((name, i) => {
    at += w.start[i];
    const slice = {name: data.names[name], start: at, ns: w.ns[i], kind: w.kind[i], shapes: data.names[w.shapes[i]], place: data.names[w.place[i]]};
    const thread = w.thread[i];
    if (!lanes.has(thread)) lanes.set(thread, {thread: data.threads[thread], rows: [], slices: [], open: []});
    const lane = lanes.get(thread);
    if (!withPython && !slice.kind) return;
    while (lane.open.length && lane.open[lane.open.length - 1] <= slice.start && (slice.ns || lane.open[lane.open.length - 1] < slice.start)) lane.open.pop();
    const row = withPython ? w.depth[i] : lane.open.length;
    lane.open.push(slice.start + slice.ns);
    slice.row = row;
    (lane.rows[row] = lane.rows[row] || []).push(slice);
    lane.slices.push(slice);
  });
  const all = [...lanes.values()].filter(l => l.slices.length).sort((a, b) => order(a) - order(b) || b.slices.length - a.slices.length);
  let y = HEAD;
  for (const lane of all) {
    lane.rows = [...lane.rows].map(r => r || []);
    lane.y = y;
    y += TITLE + lane.rows.length * ROW + 8;
  }
  timeline.height = y;
  return all;
}

function sliceText(s) {
  const at = s.start < 0 ? nsText(-s.start) + " before" : "at " + nsText(s.start);
  const where = s.kind && s.place ? "\n" + s.place : "";
  return `${s.name}${s.shapes ? "  " + s.shapes : ""}\n${nsText(s.ns)} · ${KIND_TEXT[s.kind]} · ${at}${where}`;
}

function drawRow(c, row, y, x, width, hasFound) {
  let last = -1;
  for (const s of row) {
    const left = x(s.start), right = x(s.start + s.ns);
    if (right < 0 || right <= last) continue;
    if (left > width) break;
    const w = Math.max(right - Math.max(left, 0), 0.6);
    c.fillStyle = s === timeline.chosen ? color("found") : timeline.colors[s.kind];
    c.fillRect(Math.max(left, 0), y, Math.max(w - (w > 3 ? 0.7 : 0), 0.5), ROW - 1);
    last = right - 0.3;
    if (w < 28) continue;
    c.fillStyle = s.kind ? "#fff" : timeline.ink;
    const room = Math.floor((w - 8) / 6.1), text = s.kind && w > 160 && s.shapes ? s.name + "  " + s.shapes : s.name;
    if (room > 1) c.fillText(text.length > room ? text.slice(0, room - 1) + "…" : text, Math.max(left, 0) + 4, y + ROW - 5);
  }
}

function drawTicks(c, x, width) {
  c.strokeStyle = color("line");
  c.fillStyle = color("dim");
  for (const t of x.ticks(Math.max(2, width / 130))) {
    const at = Math.round(x(t)) + 0.5;
    c.beginPath();
    c.moveTo(at, 16);
    c.lineTo(at, timeline.height);
    c.stroke();
    c.fillText(nsText(t), at + 3, 12);
  }
}

function drawTimeline() {
  const canvas = byId("lanes"), width = canvas.clientWidth;
  if (!width || !timeline.lanes.length) return;
  const c = context(canvas, timeline.height);
  timeline.x.domain([0, timeline.length]).range([0, width]);
  timeline.colors = KINDS.map(color);
  timeline.ink = color("text");
  timeline.zoom.translateExtent([[0, 0], [width, 1]]).extent([[0, 0], [width, 1]]);
  const x = timeline.transform.rescaleX(timeline.x);
  c.font = '11px system-ui, "DejaVu Sans", sans-serif';
  drawTicks(c, x, width);
  for (const lane of timeline.lanes) {
    const [pid, tid, name] = lane.thread;
    lane.rows.forEach((row, i) => drawRow(c, row, lane.y + TITLE + i * ROW, x, width));
    c.fillStyle = color("bg");
    c.fillRect(0, lane.y, width, TITLE - 3);
    c.fillStyle = color("dim");
    c.fillText(`${isBlocks(lane) ? "blocks of " : ""}${tid ? `${name ? name + ", " : ""}thread ${tid}` : name}${pid === data.steps.pid || !data.steps.pid ? "" : " of process " + pid}`, 2, lane.y + 13);
  }
}

function sliceAt(event) {
  const box = byId("lanes").getBoundingClientRect(), y = event.clientY - box.top;
  const at = timeline.transform.rescaleX(timeline.x).invert(event.clientX - box.left);
  for (const lane of timeline.lanes) {
    const row = lane.rows[Math.floor((y - lane.y - TITLE) / ROW)];
    if (y < lane.y + TITLE || !row) continue;
    let i = d3.bisector(s => s.start).right(row, at) - 1;
    if (i >= 0 && row[i].start + row[i].ns >= at) return row[i];
  }
  return null;
}

function fit(slice) {
  const width = byId("lanes").clientWidth, k = Math.min(timeline.length / Math.max(slice.ns, 1) * 0.9, 1e6);
  const middle = timeline.x(slice.start + slice.ns / 2);
  d3.select(byId("lanes")).transition().duration(200).call(timeline.zoom.transform, d3.zoomIdentity.translate(width / 2, 0).scale(k).translate(-middle, 0));
}

function showTimeline(step) {
  const w = whole.get(step);
  byId("which").value = step;
  timeline.lanes = lanesOf(w, byId("python").checked);
  timeline.length = Math.max(w.length_ns, 1);
  timeline.chosen = null;
  byId("left").textContent = w.left_out ? `${counted(w.left_out, "slice")} of ${nsText(w.floor_ns)} and less not drawn` : "";
  byId("slice").textContent = (step ? `step ${step}` : "the first ops") + `, ${nsText(w.length_ns)}, ${counted(w.ops, "op")}; click a slice`;
  d3.select(byId("lanes")).call(timeline.zoom.transform, d3.zoomIdentity);
}

function startTimeline() {
  const canvas = d3.select(byId("lanes"));
  byId("which").append(...data.whole.map(w => el("option", {value: w.step}, w.step ? `${w.step}: ${nsText(w.length_ns)}` : "-")));
  timeline.zoom = d3.zoom().scaleExtent([1, 1e6]).filter(e => (e.type === "wheel" ? e.ctrlKey || e.metaKey : !e.button) && e.type !== "dblclick")
    .on("zoom", e => {
      timeline.transform = e.transform;
      drawTimeline();
    });
  canvas.call(timeline.zoom);
  canvas.on("mousemove", e => {
    const s = sliceAt(e);
    showTip(e, s ? sliceText(s) : "");
  }).on("mouseleave", e => showTip(e, "")).on("click", e => {
    timeline.chosen = sliceAt(e);
    if (timeline.chosen) byId("slice").textContent = sliceText(timeline.chosen);
    drawTimeline();
  }).on("dblclick", e => {
    const s = sliceAt(e);
    if (s) fit(s);
  });
  byId("which").addEventListener("change", e => chooseStep(Number(e.target.value)));
  byId("python").addEventListener("change", () => showTimeline(Number(byId("which").value)));
  drawers.push(drawTimeline);
}

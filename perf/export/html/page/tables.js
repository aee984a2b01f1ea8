// The table of ops, the tree of modules, and source lines with their times.

const observed = summary.observed_ns;
const fileNames = shortNames([data.report, data.lines, data.in_no_op].flatMap(t => t.rows).map(r => r.file).filter(f => f));
const placeOf = r => (r.file ? fileNames.get(r.file) + (r.line ? `:${r.line}` : "") : "");

function heat(part) {
  return part >= 10 ? {color: "var(--backward)", fontWeight: 600} : part >= 3 ? {color: "var(--backward)"} : {};
}

const COLUMNS = [
  ["Self %", r => r.self_percent, r => r.self_percent.toFixed(1) + "%"], ["Total %", r => r.total_percent, r => r.total_percent.toFixed(1) + "%"],
  ["Self", r => r.self_ns, r => nsText(r.self_ns)], ["Total", r => r.total_ns, r => nsText(r.total_ns)], ["Calls", r => r.calls, r => countText(r.calls)],
  ["Mean", r => r.mean_ns, r => nsText(r.mean_ns)], ["P99", r => r.p99_ns, r => nsText(r.p99_ns)], ["Max", r => r.max_ns, r => nsText(r.max_ns)]];

// Of a trace with memory: what ops allocate and free, and had when most was allocated.
const MEMORY = [
  ["Alloc", "alloc_bytes"], ["Freed", "freed_bytes"], ["At peak", "peak_bytes"],
  ["Device alloc", "device_alloc_bytes"], ["Device freed", "device_freed_bytes"], ["Device at peak", "device_peak_bytes"]]
  .filter(([, key]) => data.report.rows.some(r => r[key]));
const bytesOf = (r, key) => (r[key] ? bytesText(r[key]) : "");
for (const [name, key] of MEMORY) COLUMNS.push([name, r => r[key] || 0, r => bytesOf(r, key)]);
const LINE_MEMORY = MEMORY.filter(([, key]) => key.endsWith("alloc_bytes"));

const ops = {sort: 0, most: 200};

function drawOps() {
  const term = byId("filter").value.trim().toLowerCase(), by = COLUMNS[ops.sort][1];
  const all = data.report.rows.filter(r => !term || [r.op, r.file, r.function, r.text, r.phase].some(t => t && t.toLowerCase().includes(term)));
  const rows = all.sort((a, b) => by(b) - by(a)).slice(0, ops.most);
  const head = COLUMNS.map(([name], i) => el("th", {class: "sorts" + (i === ops.sort ? " on" : ""), onclick: () => {
    ops.sort = i;
    drawOps();
  }}, name + (i === ops.sort ? " ▾" : "")));
  byId("table").replaceChildren(
    el("thead", {}, el("tr", {}, ...head, el("th", {class: "left"}, "Op"), el("th", {class: "left"}, ""), el("th", {class: "left"}, "Where"))),
    el("tbody", {}, ...rows.map(r => el("tr", {},
      ...COLUMNS.map(([, , text], i) => el("td", i ? {} : {style: heat(r.self_percent)}, text(r))),
      el("td", {class: "left"}, r.op || "(in no op)"), el("td", {class: "left dim"}, r.worker ? "worker" : r.phase === "forward" ? "" : r.phase),
      el("td", {class: "code", title: r.file ? `${r.file}:${r.line} ${r.function || ""}` : ""}, placeOf(r), el("span", {class: "dim"}, r.text ? "  " + r.text : ""))))));
  byId("rows").textContent = `${counted(all.length, "row")}${all.length > rows.length ? `, the first ${rows.length} shown` : ""}${data.percent_limit ? `; those below ${data.percent_limit} % are left out` : ""}; percentages are of the time of the threads that call ops, those of workers of theirs`;
}

function moduleRows(modules, depth) {
  const rows = [];
  for (const m of modules) {
    const time = m.forward_ns + m.backward_ns, width = ns => 100 * ns / moduleRows.most + "%";
    const row = el("tr", {}, el("td", {style: heat(100 * time / observed)}, percent(time, observed)), el("td", {}, nsText(m.forward_ns)), el("td", {}, nsText(m.backward_ns)),
      el("td", {}, nsText(m.own_ns)),
      el("td", {}, el("span", {class: "meter"}, el("i", {style: {width: width(m.forward_ns), background: "var(--forward)"}}), el("i", {style: {width: width(m.backward_ns), background: "var(--backward)"}}))));
    const name = el("td", {class: "left" + (m.modules.length ? " open" : "")}, "  ".repeat(depth) + (m.modules.length ? "▾ " : "  ") + m.name);
    row.append(name);
    rows.push(row);
    const below = moduleRows(m.modules, depth + 1);
    let shown = true;
    const show = to => {
      shown = to;
      name.textContent = "  ".repeat(depth) + (shown ? "▾ " : "▸ ") + m.name;
      for (const r of below) r.hidden = !shown;
    };
    if (m.modules.length) name.addEventListener("click", () => show(!shown));
    if (m.modules.length && (depth > 2 || time < observed / 200)) show(false);
    rows.push(...below);
  }
  return rows;
}

function drawModules() {
  moduleRows.most = Math.max(1, ...data.modules.map(m => m.forward_ns + m.backward_ns));
  byId("tree").replaceChildren(
    el("thead", {}, el("tr", {}, ...["Total %", "Forward", "Backward", "Own"].map(t => el("th", {}, t)), el("th", {}, ""), el("th", {class: "left", style: {width: "60%"}}, "Module"))),
    el("tbody", {}, ...moduleRows(data.modules, 0)));
}

// {file: {total, lines: {number: {text, function, forward, backward, none, calls}}}}
function filesOf() {
  const files = new Map();
  const line = r => {
    if (!files.has(r.file)) files.set(r.file, {path: r.file, total: 0, lines: new Map()});
    const lines = files.get(r.file).lines;
    if (!lines.has(r.line)) lines.set(r.line, {number: r.line, text: r.text, function: r.function, forward: 0, backward: 0, none: 0, calls: 0, alloc_bytes: 0, device_alloc_bytes: 0});
    return lines.get(r.line);
  };
  for (const r of data.lines.rows) {
    if (!r.file || !r.line || r.worker || r.phase === "compile") continue;
    line(r)[r.phase === "forward" ? "forward" : "backward"] += r.total_ns;
    line(r).calls += r.calls;
    for (const [, key] of LINE_MEMORY) line(r)[key] += r[key] || 0;
    files.get(r.file).total += r.total_ns;
  }
  for (const r of data.in_no_op.rows) {
    if (!r.file || r.worker) continue;
    line(r).none += r.total_ns;
    files.get(r.file).total += r.total_ns;
  }
  return [...files.values()].sort((a, b) => b.total - a.total);
}

function lineRow(l, most) {
  const cell = (ns, name) => {
    const part = Math.min(100, 100 * ns / most);
    return el("td", ns ? {style: {background: `linear-gradient(to left, color-mix(in srgb, var(--${name}) 45%, transparent) ${part}%, transparent ${part}%)`}} : {}, ns ? nsText(ns) : "");
  };
  return el("tr", {title: counted(l.calls, "op call")}, cell(l.forward, "forward"), cell(l.backward, "backward"), cell(l.none, "none"),
    ...LINE_MEMORY.map(([, key]) => el("td", {}, bytesOf(l, key))), el("td", {class: "dim"}, l.number),
    el("td", {class: "code"}, l.text || ""));
}

function showFile(file, link) {
  for (const a of byId("files").children) a.classList.toggle("on", a === link);
  byId("path").textContent = file.path + ": lines with ops, forward, backward at the line of its forward, and the time in no op before the next op of the line";
  const lines = [...file.lines.values()].sort((a, b) => a.number - b.number), most = Math.max(...lines.map(l => Math.max(l.forward, l.backward, l.none)));
  const rows = [];
  lines.forEach((l, i) => {
    const before = lines[i - 1];
    if (!before || before.function !== l.function) rows.push(el("tr", {class: "function"}, el("td", {colspan: 4 + LINE_MEMORY.length}, ""), el("td", {}, l.function || "")));
    else if (before.number + 1 < l.number) rows.push(el("tr", {class: "gap"}, el("td", {colspan: 4 + LINE_MEMORY.length}, "⋮"), el("td", {}, "")));
    rows.push(lineRow(l, most));
  });
  byId("lines").replaceChildren(
    el("thead", {}, el("tr", {}, ...["Forward", "Backward", "In no op", ...LINE_MEMORY.map(([name]) => name), "Line"].map(t => el("th", {}, t)), el("th", {}, ""))), el("tbody", {}, ...rows));
}

function drawSource() {
  const links = filesOf().map(f => {
    const link = el("a", {href: "#source", title: f.path}, el("span", {}, nsText(f.total)), fileNames.get(f.path));
    link.addEventListener("click", () => showFile(f, link));
    return [f, link];
  });
  byId("files").replaceChildren(...links.map(l => l[1]));
  if (links.length) showFile(...links[0]);
}

function startTables() {
  byId("filter").addEventListener("input", drawOps);
  drawOps();
  drawModules();
  drawSource();
}

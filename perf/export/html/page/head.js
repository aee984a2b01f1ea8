// The head of the page: what was traced, what a step consists of, the strip of steps.

const summary = data.report.summary;

function drawAbout() {
  const t = summary.targets[0];
  document.title = "ditrace: " + (t ? t.command || t.comm : data.file);
  byId("command").textContent = t ? t.command || t.comm : data.file;
  const words = [];
  if (t) words.push("pid " + t.pid + (summary.targets.length > 1 ? " and " + counted(summary.targets.length - 1, "more process").replace("processs", "processes") : ""),
    "torch " + (t.torch || "unknown"), "CPython " + (t.python || "unknown"), "engine " + t.engine);
  if (summary.wall_ns) words.push(nsText(summary.wall_ns));
  if (data.step) words.push("only step " + data.step);
  if (data.time) words.push("only " + data.time);
  if (data.when) words.push("only calls with " + data.when);
  words.push("from " + data.file);
  byId("about").textContent = words.join(" · ");
}

function figure(value, what) {
  return el("div", {}, el("b", {}, value), what);
}

// The highest of each device, with how many processes have one there.
function highestPeaks(memory) {
  const highest = new Map();
  for (const m of memory) {
    const is = highest.get(m.device) || {peak_bytes: 0, processes: 0};
    highest.set(m.device, {...(m.peak_bytes > is.peak_bytes ? m : is), processes: is.processes + 1});
  }
  return [...highest.values()].filter(m => m.peak_bytes).sort((a, b) => b.peak_bytes - a.peak_bytes);
}

function drawFigures() {
  const s = summary.steps, figures = byId("figures");
  if (s && s.count)
    figures.append(figure(countText(s.count), s.count === 1 ? "whole step" : "whole steps"), figure(nsText(s.median_ns), "median step"), figure(nsText(s.p99_ns), "p99 step"));
  if (summary.ops)
    figures.append(figure(countText(summary.ops), "ops"), figure(percent(summary.in_no_op_ns, summary.observed_ns), "of the time in no op"));
  for (const m of highestPeaks(summary.memory).slice(0, 4))
    figures.append(figure(bytesText(m.peak_bytes), (m.peak_exact ? "" : "about the ") + "peak of memory on " + m.device +
      (m.processes > 1 ? `, highest of ${m.processes} processes` : "")));
  if (summary.summed) figures.append(figure(countText(summary.summed), "of them as sums: in no timeline"));
  if (summary.lost || data.lost) figures.append(figure(countText(summary.lost || data.lost), "events lost"));
  if (summary.probe_ns && summary.wall_ns && !data.step && !data.time && !data.when)
    figures.append(figure(nsText(summary.probe_ns), "in probes, about"));
}

function drawParts() {
  const s = summary.steps, parts = byId("parts");
  if (!s || !s.wall_ns) return;
  const ns = [s.forward_ns, s.backward_ns, s.optimizer_ns, s.data_ns, s.in_no_op_ns];
  const shown = PARTS.map(([name, text], i) => ({name, text, ns: ns[i]})).filter(p => p.ns);
  parts.append(
    el("div", {class: "bar"}, ...shown.map(p => el("div", {style: {width: 100 * p.ns / s.wall_ns + "%", background: `var(--${p.name})`}}))),
    el("div", {class: "legend"}, (s.count ? "of a step:" : "of the time:"),
      ...shown.map(p => el("span", {}, el("span", {class: "key", style: {background: `var(--${p.name})`}}), p.text + " " + percent(p.ns, s.wall_ns)))));
}

// A bar is [number, start, length, ops, ns of each part].
const bars = data.steps.bars;
const whole = new Map(data.whole.map(w => [w.step, w]));
let chosenStep = 0;

function stepText(b) {
  const parts = PARTS.map(([, text], i) => [text, b[4 + i]]).filter(p => p[1]).map(p => `${p[0]} ${percent(p[1], b[2])}`);
  return `step ${countText(b[0])}: ${nsText(b[2])}, ` + (b[3] ? counted(b[3], "op") + ", " : "") + parts.join(", ");
}

function chooseStep(number) {
  const b = bars.find(x => x[0] === number);
  chosenStep = number;
  if (b) {
    const line = byId("step");
    line.replaceChildren(stepText(b) + ". ");
    if (whole.has(number)) line.append(el("a", {href: "#timeline"}, "its timeline"));
    else line.append("Its timeline: ", el("code", {}, `ditrace export --to html --step ${number} -o step${number}.html`));
  }
  drawStrip();
  if (whole.has(number)) showTimeline(number);
}

function barAt(event) {
  const box = byId("bars").getBoundingClientRect();
  return bars[Math.min(bars.length - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * bars.length)))];
}

function drawStrip() {
  if (!bars.length) return;
  const canvas = byId("bars"), height = 84, c = context(canvas, height), each = canvas.clientWidth / bars.length;
  const lengths = bars.map(b => b[2]).sort((a, b) => a - b);
  // A step that takes much longer than all others would leave nothing to see of these.
  const top = Math.min(lengths[lengths.length - 1], 4 * lengths[Math.floor(lengths.length / 2)]) || 1;
  const gap = each > 4 ? 1 : 0;
  bars.forEach((b, i) => {
    let y = height;
    const scale = (height - 12) * Math.min(1, top / b[2]) / top;
    PARTS.forEach(([name], k) => {
      const h = b[4 + k] * scale;
      c.fillStyle = color(name);
      c.fillRect(i * each, y - h, each - gap, h);
      y -= h;
    });
    if (b[2] > top) {
      c.fillStyle = color("text");
      c.fillRect(i * each, y - 3, Math.max(each - gap, 1), 2);
    }
    if (b[0] === chosenStep) {
      c.strokeStyle = color("text");
      c.lineWidth = 1.5;
      c.strokeRect(i * each + 0.5, 2, Math.max(each - gap - 1, 2), height - 3);
    }
  });
}

function startHead() {
  drawAbout();
  drawFigures();
  drawParts();
  if (!bars.length) return;
  byId("strip").hidden = false;
  const canvas = byId("bars");
  canvas.addEventListener("mousemove", e => {
    const b = barAt(e);
    showTip(e, stepText(b) + (data.steps.each > 1 ? `\none of ${data.steps.each} steps that share this bar` : "") +
      (whole.has(b[0]) ? "\nits timeline is in this page" : ""));
  });
  canvas.addEventListener("mouseleave", e => showTip(e, ""));
  canvas.addEventListener("click", e => chooseStep(barAt(e)[0]));
  drawers.push(drawStrip);
}

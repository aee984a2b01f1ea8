"use strict";

// What the page shows comes from programs and files of others: text enters the document as text alone, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);

function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {}))
    if (key === "style") Object.assign(e.style, value);
    else if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) e.setAttribute(key, value);
  e.append(...children.filter(c => c !== undefined && c !== null).map(c => (c instanceof Node ? c : String(c))));
  return e;
}

function nsText(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]])
    if (ns >= size) return (ns / size < 9.95 ? (ns / size).toFixed(1) : Math.round(ns / size).toLocaleString("en")) + " " + unit;
  return Math.round(ns) + " ns";
}

function bytesText(bytes) {
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024]])
    if (bytes >= size) return (bytes / size).toFixed(1) + " " + unit;
  return bytes + " B";
}

const countText = n => n.toLocaleString("en");
const counted = (n, word) => countText(n) + " " + word + (n === 1 ? "" : "s");
const percent = (part, whole) => (whole ? (100 * part / whole).toFixed(1) : "0.0") + "%";
const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const isDark = () => document.documentElement.dataset.theme === "dark";
// Of each of the paths, as little of its end as no other has: layer.py, or lora/layer.py and adalora/layer.py.
function shortNames(paths) {
  const all = [...new Set(paths)], endsOf = path => path.split("/").map((_, i, parts) => parts.slice(-1 - i).join("/"));
  const files = new Map();
  for (const end of all.flatMap(endsOf)) files.set(end, (files.get(end) || 0) + 1);
  return new Map(all.map(path => [path, endsOf(path).find(end => files.get(end) === 1) || path]));
}

const PARTS = [["forward", "forward"], ["backward", "backward"], ["optimizer", "optimizer"], ["data", "data"], ["none", "in no op"]];
const KINDS = ["frame", "forward", "backward", "recompute", "compile", "device", "block"];
const KIND_TEXT = ["Python", "forward", "backward", "recomputed", "while torch.compile compiled", "on the device", "block of record_function"];

const drawers = []; // called when colours or the width have changed
function redraw() {
  drawers.forEach(draw => draw());
}

function showTip(event, text) {
  const tip = byId("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const right = event.clientX + 14 + tip.offsetWidth > innerWidth, low = event.clientY + 14 + tip.offsetHeight > innerHeight;
  tip.style.left = Math.max(4, right ? event.clientX - tip.offsetWidth - 10 : event.clientX + 14) + "px";
  tip.style.top = Math.max(4, low ? event.clientY - tip.offsetHeight - 10 : event.clientY + 14) + "px";
}

// The drawing context of a canvas as wide as its element, in CSS pixels.
function context(canvas, height) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.style.height = height + "px";
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.clearRect(0, 0, width, height);
  return c;
}

// Which part of the page is shown, in which colours.

const TABS = [["flame", "Flame graph", () => Object.keys(data.flames).length], ["timeline", "Timeline", () => data.whole.some(w => w.name.length)],
  ["ops", "Ops", () => data.report.rows.length], ["modules", "Modules", () => data.modules.length], ["source", "Source", () => data.lines.rows.length]];
const tabs = TABS.filter(t => t[2]());

function showTab() {
  const wanted = location.hash.slice(1), name = tabs.some(t => t[0] === wanted) ? wanted : tabs.length ? tabs[0][0] : "";
  for (const a of byId("tabs").children) a.classList.toggle("on", a.hash === "#" + name);
  for (const s of document.querySelectorAll(".tab")) s.classList.toggle("on", s.id === "part-" + name);
  redraw();
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  redraw();
}

function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
  byId("licence").textContent = byId("licences").textContent.trim();
  byId("tabs").append(...tabs.map(([name, text]) => el("a", {href: "#" + name}, text)));
  if (!tabs.length) byId("tabs").append(el("span", {class: "note"}, "no operator is in this trace" + (data.step || data.time || data.when ? ", of those chosen" : "")));
  startHead();
  startTimeline();
  startFlame();
  startTables();
  if (data.steps.middle) chooseStep(data.steps.middle);
  else showTimeline(data.whole[0].step);
  byId("theme").addEventListener("click", () => setTheme(!isDark()));
  dark.addEventListener("change", e => setTheme(e.matches));
  addEventListener("hashchange", showTab);
  addEventListener("resize", redraw);
  addEventListener("keydown", e => {
    if (e.key === "/" && !["INPUT", "SELECT"].includes(document.activeElement.tagName)) {
      e.preventDefault();
      (byId("part-flame").classList.contains("on") ? byId("search") : byId("filter")).focus();
    } else if (e.key === "Escape" && flame.chart) {
      flame.chart.resetZoom();
    }
  });
  showTab();
}

start();

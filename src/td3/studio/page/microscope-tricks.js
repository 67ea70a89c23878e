// Train without some tricks, next to TD3, and show both live.

import { axes, colour, extent, fade, line } from "./microscope-draw.js";

const $ = (selector) => document.querySelector(selector);
const NAMES = { twin: "the smaller value", smoothing: "smoothing", delay: "the delay" };
let ask, state, timer;

const off = () => [...document.querySelectorAll("#tricks input:not(:checked)")].map((box) => box.name);

function draw(canvas, curves, ylabel, zero = false) {
  const agents = Object.entries(curves ?? {}), all = agents.flatMap(([, list]) => list);
  canvas.parentElement.hidden = !all.length;
  if (!all.length) return;
  const plot = axes(canvas, { x: [0, state.updates], y: extent([...all.map((p) => p[1]), ...(zero ? [0] : [])]), xlabel: "updates", ylabel });
  if (zero) line(plot, [0, state.updates], [0, 0], { stroke: colour("--border"), width: 1 });
  for (const [group, hue] of [[0, "--series-1"], [1, "--series-2"]]) {
    const own = agents.filter(([agent]) => Math.floor(agent / state.seeds) === group).map(([, list]) => list);
    for (const list of own) line(plot, list.map((p) => p[0]), list.map((p) => p[1]), { stroke: fade(colour(hue), 0.4), width: 1 });
    if (own.length !== state.seeds) continue;
    const least = Math.min(...own.map((list) => list.length));
    const xs = own[0].slice(0, least).map((p) => p[0]);
    line(plot, xs, xs.map((_, k) => own.reduce((sum, list) => sum + list[k][1], 0) / own.length), { stroke: colour(hue), width: group ? 2.5 : 5 });
  }
}

function show(found) {
  state = found;
  const curves = found.curves ?? {}, error = {};
  for (const [agent, list] of Object.entries(curves.predicted ?? {})) {
    error[agent] = list.map(([x, y], k) => [x, y - (curves.achieved[agent][k]?.[1] ?? NaN)]);
  }
  $("#tricks").classList.toggle("plain", !curves.predicted);
  draw($("#trick-return"), found.task === "noise" ? null : curves.return, "return"); // noise has none
  draw($("#trick-error"), error, "predicted − achieved", true);
  draw($("#trick-q"), curves.q, "mean Q");
  const names = new Intl.ListFormat("en-GB").format(found.off.map((name) => NAMES[name])), done = Math.max(0, ...Object.values(curves.q ?? {}).flat().map((p) => p[0]));
  $("#stop").hidden = !found.running;
  $("#start").disabled = !off().length;
  $("#tricks .two").textContent = found.off.length ? `without ${names}` : "without";
  if (found.running) $("#progress").textContent = `Training without ${names}: ${done ? `update ${done.toLocaleString("en")} of ${found.updates.toLocaleString("en")}` : "random steps first"}.`;
  else if (found.ended) $("#progress").textContent = found.ended === "finished" ? `Finished: without ${names}, and TD3, ${found.seeds} agents each.` : found.ended;
  else $("#progress").textContent = off().length ? "Ready." : "Turn off at least one trick.";
  clearTimeout(timer);
  if (found.running) timer = setTimeout(() => go("tricks"), 1000);
}

async function go(name, values = {}) {
  try { show(await ask(name, values)); } catch (error) { $("#progress").textContent = error.message; }
}

/** The words for the chosen task. */
function describe() {
  for (const words of document.querySelectorAll("#tricks .about")) words.hidden = words.dataset.task !== $("#task").value;
}

export function startTricks(asker) {
  ask = asker;
  $("#task").onchange = describe;
  document.querySelectorAll("#tricks input").forEach((box) => { box.onchange = () => { if (!state?.running) show(state); else $("#start").disabled = !off().length; }; });
  $("#start").onclick = () => go("tricks/start", { key: state.key, task: $("#task").value, off: off().join(",") });
  $("#stop").onclick = () => go("tricks/stop");
  addEventListener("resize", () => state && show(state));
  go("tricks");
}

// The page: which run, agent, checkpoint and transition; the steps; the overestimation.

import { axes, colour, extent, line, points, short } from "./microscope-draw.js";
import { figures } from "./microscope-figures.js";
import { batchTable, episodeChart } from "./microscope-batch.js";
import { startTricks } from "./microscope-tricks.js";

const $ = (selector) => document.querySelector(selector);
const asked = new URLSearchParams(location.search);
const page = { run: asked.get("run") ?? "", imports: "", agent: 0, index: 0, ahead: 0, sample: 0, dims: [0], view: { turn: 0.7, tilt: 0.5 }, count: 0, choose };
const updates = new Map(), measured = new Map();
let facts, update, landscape, asking = 0;

// Asks the server; an answer with an error becomes an exception.
export async function ask(name, values = {}) {
  const query = new URLSearchParams({ run: page.run, import: page.imports, ...values });
  const answer = await fetch(`microscope/${name}?${query}`).catch(() => { throw new Error("The server has stopped. Start td3 studio again."); });
  const found = answer.ok ? await answer.json() : { error: `The server answers ${answer.status}.` };
  if (found.error) throw new Error(found.error);
  return found;
}

const step = () => facts.steps[page.index];
const where = () => ({ agent: page.agent, step: step(), ahead: page.ahead });

function element(name, className = "", text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

// An equation with <var>, <sub> and <sup>; any other tag stays text.
function formula(source) {
  const open = [element("p", "equation")];
  for (const part of source.split(/(<\/?(?:var|sub|sup)>)/)) {
    const [, end, name] = /^<(\/?)(var|sub|sup)>$/.exec(part) ?? [];
    if (end) open.pop();
    else if (name) open.push(open.at(-1).appendChild(element(name)));
    else open.at(-1).append(part);
  }
  return open[0];
}

function complain(error) {
  const box = $("#problem");
  box.replaceChildren(element("p", "", error.message));
  box.hidden = false;
  $("#status").textContent = "";
}

// A run of a user's own class: td3 imports its module only when the user wants it.
function askToImport(names) {
  complain(new Error(`This run uses ${names.join(" and ")}. To look at it, td3 must import its module, which runs the code in it. Do so if you trust it.`));
  const button = element("button", "primary", "Import");
  button.id = "import";
  button.onclick = () => { page.imports = names.join(","); $("#problem").hidden = true; main(); };
  $("#problem").append(button);
}

// Words, equation and code of every step; figures are drawn later.
function buildSteps(found) {
  const toc = $("#toc"), list = $("#steps");
  toc.replaceChildren();
  list.replaceChildren();
  for (const own of found.steps) {
    const link = element("a", "", String(own.number));
    link.href = `#step-${own.number}`;
    link.title = own.title;
    toc.append(link);
    const section = element("section", "step");
    section.id = `step-${own.number}`;
    const words = element("div", "words");
    words.append(element("h2", "", `${own.number}. ${own.title}`), element("p", "", own.words));
    words.append(formula(own.equation), element("p", "now"));
    for (const code of own.own) words.append(codeBox(code, `${found.class} replaces this: ${code.name}`, false));
    words.append(codeBox(own.code, "Code", false));
    section.append(words, element("div", "figures"));
    list.append(section);
    const shown = section.querySelector(".figures");
    if (own.number === 4) shown.append(batchTable(page), episodeChart());
    for (const [, caption] of figures[own.number] ?? []) {
      const figure = element("figure");
      figure.append(element("canvas"), element("figcaption", "", typeof caption === "string" ? caption : ""));
      shown.append(figure);
    }
    if (!shown.children.length) section.classList.add("plain");
    if (own.number < 4) section.classList.add("short");
  }
  toc.append(...[["over", "Overestimation"], ["tricks", "Tricks"]].map(([id, name]) => Object.assign(element("a", "", name), { href: `#${id}` })));
}

function codeBox({ file, line: at, text }, title, open) {
  const box = element("details");
  box.open = open;
  box.append(element("summary", "", at ? `${title} · ${file}, line ${at}` : `${title} · ${file}`), element("pre", "", text));
  return box;
}

async function show() {
  const mine = ++asking, key = JSON.stringify(where());
  $("#at").textContent = `step ${step().toLocaleString("en")}`;
  $("#status").textContent = updates.has(key) ? "" : "Executing the update …";
  document.querySelectorAll("[data-ahead]").forEach((button) => button.setAttribute("aria-pressed", Number(button.dataset.ahead) === page.ahead));
  try {
    const found = updates.get(key) ?? await ask("update", where());
    updates.set(key, found);
    if (mine !== asking) return;
    update = found;
    page.count = found.reward.length;
    page.sample = Math.min(page.sample, page.count - 1);
    choosePlane(found.limits.length);
    $("#problem").hidden = true;
    await drawAll(mine);
  } catch (error) { if (mine === asking) complain(error); }
}

// Which numbers of the action the landscapes show.
function choosePlane(size) {
  if (size > 1 && page.dims.length < 2) page.dims = [0, 1];
  $("#plane").hidden = size < 3;
  ["#x", "#y"].forEach((selector, k) => {
    const select = $(selector);
    if (select.options.length === size) return;
    select.replaceChildren(...Array.from({ length: size }, (_, n) => new Option(n + 1, n)));
    select.value = page.dims[k] ?? 0;
    select.onchange = () => {
      const chosen = Number(select.value);
      if (page.dims[1 - k] === chosen) page.dims[1 - k] = page.dims[k];
      page.dims[k] = chosen;
      [$("#x").value, $("#y").value] = page.dims;
      drawAll().catch(complain);
    };
  });
}

async function drawAll(mine = asking) {
  const values = { ...where(), sample: page.sample, x: page.dims[0], ...(page.dims.length > 1 ? { y: page.dims[1] } : {}) };
  const [found, episode] = await Promise.all([ask("landscape", values), ask("episode", values)]);
  if (mine !== asking) return;
  landscape = found;
  $("#status").textContent = "";
  describe();
  batchTable.fill(update, page);
  episodeChart.fill(episode, update, page);
  redraw();
  document.body.dataset.drawn = JSON.stringify([step(), page.agent, page.ahead, page.sample, page.dims]);
}

function redraw() {
  if (!update) return;
  for (const [number, list] of Object.entries(figures)) {
    const canvases = document.querySelectorAll(`#step-${number} .figures canvas`);
    list.forEach(([draw, caption], k) => {
      draw(canvases[k], update, landscape, page);
      if (typeof caption !== "string") canvases[k].nextElementSibling.textContent = caption(update);
    });
  }
  drawMeasured();
}

const mean = (values) => values.reduce((sum, x) => sum + x, 0) / values.length;
const now = (number, text) => { const box = $(`#step-${number} .now`); if (box) box.textContent = text; };

// One sentence with the numbers of this update in each step.
function describe() {
  const u = update, s = page.sample, value = (x) => short(x);
  const action = (row) => `(${row.map(value).join(", ")})`;
  $("#summary").textContent = `Update ${(u.number + 1).toLocaleString("en")} of ${facts.agents[page.agent]}, after step ${u.step.toLocaleString("en")}: executed by ${u.class}.update on a copy, with the batch that this run draws next. Choose a transition in the table or in a chart; all figures follow.`;
  const missing = u.asked.length ? ` This class does not show ${u.asked.join(", ").replaceAll("_", " ")} in its update; td3 asked its networks instead.` : "";
  $("#summary").textContent += missing;
  now(1, `${u.added.toLocaleString("en")} transitions were stored until now; the buffer has room for ${u.capacity.toLocaleString("en")}.`);
  now(2, `Here: ${u.state_size} numbers in, ${u.limits.length} out.`);
  now(3, `Here: ${u.values.length} critics.`);
  now(4, `${page.count} transitions. Their rewards: ${value(Math.min(...u.reward))} to ${value(Math.max(...u.reward))}. ${u.done.filter((x) => x === 1).length} of them ended an episode.`);
  now(5, `Transition ${s + 1}: a′ = ${action(u.next_action[s])}.`);
  now(6, `Transition ${s + 1}: ã = ${action(u.smoothed_action[s])}. σ = ${value(u.settings.policy_noise)}, c = ${value(u.settings.noise_clip)}.`);
  const named = (rows) => rows.slice(0, 2).map((row, k) => `${["first", "second"][k]} ${value(row[s])}`).join(", ");
  now(7, `Transition ${s + 1}: ${named(u.next_values)}.`);
  const lower = u.next_values.length > 1 ? u.next_values[0].filter((v, k) => v <= u.next_values[1][k]).length : page.count;
  now(8, `Transition ${s + 1}: ${value(u.kept_value[s])}. The first critic is the lower one in ${lower} of ${page.count}.`);
  now(9, `Transition ${s + 1}: ${value(u.reward[s])} + ${u.done[s] ? "0 (terminated)" : `${value(u.settings.discount)} · ${value(u.kept_value[s])}`} = ${value(u.target_q[s])}.`);
  now(10, `Transition ${s + 1}: ${named(u.values)}; the target is ${value(u.target_q[s])}.`);
  const size = (rows) => Math.sqrt(mean(rows.map((v, k) => (v - u.target_q[k]) ** 2)));
  now(11, `Loss ${value(u.critic_loss)}. Q1 is off by ${value(size(u.values[0]))} (root mean square).`);
  now(12, `Q1 was off by ${value(size(u.values_before[0]))} and is off by ${value(size(u.values_after[0]))} after the step.`);
  const due = u.due ? "" : "Not in this update: the actor and the targets wait. Choose the other update above.";
  now(13, due || `Actor loss ${value(u.actor_loss)}: minus the mean of Q1. Transition ${s + 1}: ${action(u.actor_action[s])} → ${action(u.actor_action_after[s])}.`);
  const ends = u.actor_action.filter((row) => row.some((x, k) => Math.abs(x) > 0.99 * u.limits[k])).length;
  if (u.due && ends) $("#step-13 .now").textContent += ` In ${ends} of ${page.count} states an action is at its limit; tanh is nearly flat there, so the actor hardly moves.`;
  const follow = (name) => { const [before, after] = u.distances[name]; return due || `τ = ${value(u.settings.tau)}: the distance shrinks from ${value(before)} to ${value(after)}.`; };
  now(14, follow("actor"));
  now(15, follow("critic"));
}

function choose(sample) {
  page.sample = sample;
  drawAll().catch(complain);
}

const measureKey = (at) => `${page.agent}/${at}`;
async function measure(list) {
  const buttons = [$("#measure"), $("#measure-all")];
  buttons.forEach((button) => { button.disabled = true; });
  try {
    for (const at of list) {
      $("#measured").textContent = `Playing episodes with the policy of step ${at.toLocaleString("en")} …`;
      measured.set(measureKey(at), await ask("returns", { agent: page.agent, step: at }));
      drawMeasured();
    }
  } catch (error) { complain(error); $("#measured").textContent = error.message; }
  buttons.forEach((button) => { button.disabled = false; });
}

function drawMeasured() {
  const found = facts.steps.map((at) => measured.get(measureKey(at))).filter(Boolean);
  document.querySelectorAll("#over figure").forEach((figure) => { figure.hidden = !found.length; });
  $("#over").classList.toggle("plain", !found.length);
  if (!found.length) return;
  const xs = found.map((own) => own.step);
  const plot = axes($("#returns"), { x: extent(xs, 0.08), y: extent(found.flatMap((own) => [own.predicted, own.achieved])), xlabel: "environment steps", ylabel: "value" });
  [["predicted", "--series-2", "Q1 predicts"], ["achieved", "--series-1", "achieved"]].forEach(([name, hue]) => {
    line(plot, xs, found.map((own) => own[name]), { stroke: colour(hue) });
    points(plot, xs, found.map((own) => own[name]), { fill: colour(hue), size: 4, alpha: 1 });
  });
  const own = measured.get(measureKey(step()));
  $("#promises").parentElement.hidden = !own;
  if (!own) { $("#measured").textContent = `Orange: predicted, blue: achieved. Not measured yet at step ${step().toLocaleString("en")}.`; return; }
  const [gx, gy] = [0, 1].map((k) => own.points.map((row) => row[k])), range = extent([...gx, ...gy]);
  const chart = axes($("#promises"), { x: range, y: range, xlabel: "achieved", ylabel: "predicted" });
  line(chart, range, range, { stroke: colour("--border"), width: 1 });
  points(chart, gx, gy, { fill: colour("--series-2"), alpha: 0.5 });
  const gap = own.predicted - own.achieved;
  $("#measured").textContent = `Step ${own.step.toLocaleString("en")}: Q1 predicts ${short(own.predicted)} (orange), the policy achieves ${short(own.achieved)} (blue). ${gap > 0 ? "Too high" : "Too low"} by ${short(Math.abs(gap))}, as a mean over ${own.states} states of ${own.episodes} episodes.`;
}

let playing = false, following;
async function play() {
  playing = !playing;
  $("#play").setAttribute("aria-pressed", playing);
  $("#play").textContent = playing ? "Stop" : "Play over training";
  if (playing && page.index === facts.steps.length - 1) page.index = -1;
  while (playing && page.index < facts.steps.length - 1) {
    page.index += 1;
    $("#checkpoint").value = page.index;
    await show();
    await new Promise((go) => setTimeout(go, 700));
  }
  if (playing) play();
}

function controls() {
  const select = $("#agent");
  select.replaceChildren(...facts.agents.map((name, k) => new Option(name, k)));
  $("#agents").hidden = facts.agents.length < 2;
  select.onchange = () => { page.agent = Number(select.value); show(); };
  const slider = $("#checkpoint");
  slider.max = facts.steps.length - 1;
  slider.value = page.index = facts.steps.length - 1;
  slider.oninput = () => { page.index = Number(slider.value); show(); };
  document.querySelectorAll("[data-ahead]").forEach((button) => { button.onclick = () => { page.ahead = Number(button.dataset.ahead); show(); }; });
  $("#play").onclick = play;
  $("#play").disabled = facts.steps.length < 2;
  $("#measure").onclick = () => measure([step()]);
  $("#measure-all").onclick = () => measure(facts.steps);
  const keep = $("#keep");
  keep.hidden = facts.keep_every > 0;
  keep.textContent = `This run keeps only its newest two checkpoints. To play over its training, keep more of them: td3 train … --checkpoint.keep-every ${facts.every}. Each needs the space of the replay buffer's new transitions and of the networks.`;
}

// Takes over the checkpoints that a run writes and removes while it goes on.
async function follow() {
  const found = await ask("run").catch(() => null);
  if (!found?.steps?.length || playing || String(found.steps) === String(facts.steps)) return;
  const current = step(), slider = $("#checkpoint");
  facts = found;
  const kept = facts.steps.indexOf(current);
  slider.max = facts.steps.length - 1;
  slider.value = page.index = kept < 0 ? facts.steps.length - 1 : kept;
  $("#play").disabled = facts.steps.length < 2;
  if (kept < 0) show();
}

async function begin() {
  try {
    buildSteps(await ask("steps"));
    await show();
    if (update && !update.due && page.ahead === 0 && !asked.has("ahead")) { page.ahead = 1; await show(); }
  } catch (error) { complain(error); }
}

async function main() {
  try {
    facts = await ask("run");
    if (!facts.steps) { askToImport(facts.imports); return; }
    document.title = `${facts.name} · Microscope`;
    $("#about").textContent = `${page.run}: ${facts.task}${facts.variant ? `, variant ${facts.variant}` : ""}`;
    if (!facts.steps.length) throw new Error("This run has no checkpoint yet. Load the page again after its first one.");
    controls();
    $("#bar").hidden = false;
    await begin();
    clearInterval(following);
    following = setInterval(() => document.hidden || follow(), 5000);
  } catch (error) { complain(error); }
}

let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(redraw, 100); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
document.querySelectorAll("#over figure").forEach((figure) => { figure.hidden = true; });
$("#over").classList.add("plain");
startTricks(ask);
main();

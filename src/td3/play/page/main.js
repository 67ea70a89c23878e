// The page: loads policies, MuJoCo and models, and connects buttons, keys and sliders.

import { load } from "./load.js";
import { Quality } from "./quality.js";
import { Stage } from "./stage.js";
import { UNCHANGED } from "./simulation.js";

const LONGEST_FRAME = 0.1; // seconds; after a hidden tab the world does not catch up
const byId = (id) => document.getElementById(id);
const stages = [];
let tasks, entries; // tasks.json, and the policies of policies.json
const quality = new Quality();
const changes = { ...UNCHANGED };
let isPaused = matchMedia("(prefers-reduced-motion: reduce)").matches;

const seed = () => Math.min(Math.max(Math.trunc(Number(byId("seed").value)) || 0, 0), 2 ** 31 - 1);
const announce = (text) => (byId("status").textContent = text);
const describe = (error) => `The playground could not start: ${error.message}`;

async function addStage(position) {
  const stage = new Stage(byId("stages"), tasks, entries);
  stages.push(stage);
  byId("stages").classList.toggle("two", stages.length > 1);
  stage.select.addEventListener("change", () => choose(stage, stage.select.selectedIndex));
  await choose(stage, position);
}

async function choose(stage, position) {
  await stage.choose(position, seed(), changes).catch((error) => stage.say(describe(error)));
  isStale = true;
  updateAddress();
}

/** Name the policies in the address, so that it can be shared. */
function updateAddress() {
  const names = stages.map(({ entry }) => encodeURIComponent(entry.name));
  history.replaceState(null, "", `#${names.join("&")}`);
}

function pause(paused) {
  isPaused = paused;
  byId("pause").textContent = paused ? "Play" : "Pause";
}

function step() {
  pause(true);
  for (const stage of stages) stage.step();
}

function reset() {
  for (const stage of stages) stage.reset(seed());
}

async function compare() {
  byId("compare").setAttribute("aria-pressed", String(stages.length === 1));
  if (stages.length > 1) {
    stages.pop().remove();
    byId("stages").classList.remove("two");
    updateAddress();
    return;
  }
  reset();
  await addStage(otherPolicy(stages[0].select.selectedIndex));
}

/** The position of another policy for the same task; if there is none, the next one. */
function otherPolicy(position) {
  const others = [...entries.keys()].filter((k) => k !== position && !entries[k].reason);
  const same = others.find((k) => entries[k].task === entries[position].task);
  return same ?? others.find((k) => k > position) ?? others[0] ?? position;
}

function changeSpeed(by) {
  const select = byId("speed");
  select.selectedIndex = Math.min(Math.max(select.selectedIndex + by, 0), select.length - 1);
}

function change(input) {
  changes[input.name] = Number(input.value);
  const isFactor = UNCHANGED[input.name] === 1;
  const unit = input.name === "delay" ? " steps" : "";
  input.parentElement.querySelector("output").textContent = `${isFactor ? "×" : ""}${input.value}${unit}`;
  for (const stage of stages) stage.simulation?.change(changes);
}

function connect() {
  const pushes = { ArrowLeft: [-1, 0, 0], ArrowRight: [1, 0, 0], ArrowUp: [0, 0, 1] };
  const keys = {
    " ": () => pause(!isPaused),
    ".": step,
    r: reset,
    c: compare,
    "+": () => changeSpeed(1),
    "-": () => changeSpeed(-1),
  };
  byId("pause").addEventListener("click", keys[" "]);
  byId("step").addEventListener("click", step);
  byId("reset").addEventListener("click", reset);
  byId("compare").addEventListener("click", keys.c);
  byId("seed").addEventListener("change", reset);
  const sliders = [...byId("changes").querySelectorAll("input")];
  for (const input of sliders) {
    input.addEventListener("input", () => change(input));
    change(input);
  }
  byId("restore").addEventListener("click", () => {
    for (const input of sliders) {
      input.value = UNCHANGED[input.name];
      change(input);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target.matches("input, select")) return;
    if (event.target.matches("button, summary, a, video") && event.key === " ") return;
    const push = pushes[event.key];
    const action = push ? () => stages.forEach((s) => s.nudge(push)) : keys[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

let last = 0;
let isStale = true; // whether the picture may differ from the state
function frame(now) {
  const seconds = Math.min((now - last) / 1000, LONGEST_FRAME);
  if (!isPaused) quality.count((now - last) / 1000);
  last = now;
  for (const stage of stages) {
    if (!isPaused) stage.pass(seconds * Number(byId("speed").value));
    if (!isPaused || isStale) stage.show(quality);
  }
  isStale = false;
  document.documentElement.dataset.frames = Number(document.documentElement.dataset.frames ?? 0) + 1;
  requestAnimationFrame(frame);
}

/** While paused, draw only after something happened. */
function drawAfterEvents() {
  const names = ["click", "change", "input", "keydown", "pointerdown", "pointermove", "pointerup", "wheel"];
  for (const name of names) document.addEventListener(name, () => (isStale = true), { passive: true });
  addEventListener("resize", () => (isStale = true));
}

async function start() {
  announce("Loading MuJoCo …");
  const [list, facts] = await Promise.all(["policies.json", "tasks.json"].map(load.json));
  [tasks, entries] = [facts, list.policies];
  connect();
  drawAfterEvents();
  pause(isPaused);
  const names = location.hash.slice(1).split("&").slice(0, 2);
  const named = names.map((name) => entries.findIndex((own) => encodeURIComponent(own.name) === name));
  const known = named.filter((position) => position >= 0);
  for (const position of known.length ? known : [0]) await addStage(position);
  byId("compare").setAttribute("aria-pressed", String(stages.length > 1));
  announce(isPaused ? "Paused, because your system asks for reduced motion." : "");
  requestAnimationFrame(frame);
  if (!list.version) return;
  byId("home").hidden = false;
  if ("serviceWorker" in navigator) {
    await navigator.serviceWorker.register(`offline.js?version=${list.version}`);
  }
}

start().catch((error) => announce(describe(error)));

// One policy on the page: its world, its numbers and its bars.

import { drawAction, drawObservation, drawRewards } from "./bars.js";
import { load } from "./load.js";
import { Policy } from "./policy.js";
import { Simulation } from "./simulation.js";
import { View } from "./view.js";

const SHOWN_REWARDS = 200;
const PAUSE_AFTER_EPISODE = 1.2; // seconds
const PUSH_SECONDS = 0.15;
const PUSH_STRENGTH = 12; // newtons for a kilogram

const short = (value, digits = 4) =>
  value.toLocaleString("en", { maximumSignificantDigits: Math.abs(value) >= 1000 ? 6 : digits, maximumFractionDigits: 2 });

export class Stage {
  /** `tasks` is tasks.json, `entries` are the policies of policies.json. */
  constructor(parent, tasks, entries) {
    const template = document.getElementById("stage").content.cloneNode(true);
    this.root = template.querySelector(".stage");
    parent.append(template);
    this.find = (selector) => this.root.querySelector(selector);
    this.tasks = tasks;
    this.entries = entries;
    this.select = this.find("select");
    for (const { label } of entries) this.select.add(new Option(label));
    this.canvas = this.find(".view");
  }

  /** Show the policy at this position of the list. */
  async choose(position, seed, changes) {
    this.select.selectedIndex = position;
    const entry = (this.entry = this.entries[position]);
    describeCard(this.find(".card"), entry);
    this.find(".about").textContent = entry.about;
    this.drop();
    this.find(".film").replaceChildren();
    this.say("Loading …");
    this.root.classList.toggle("filmed", Boolean(entry.reason));
    if (entry.reason) return this.showFilm(entry);
    const [xml, numbers, mujoco] = await Promise.all([
      load.text(entry.model),
      load.numbers(entry.numbers),
      load.mujoco(),
    ]);
    if (this.entry !== entry || !this.root.isConnected) return; // the user chose another one
    this.drop();
    this.view ??= new View(this.canvas);
    const policy = new Policy(entry, numbers);
    this.simulation = new Simulation(mujoco, this.tasks[entry.task], xml, policy);
    this.simulation.change(changes);
    this.canvas.setAttribute("aria-label", `${entry.label}, simulated`);
    this.view.show(this.simulation);
    this.reset(seed);
  }

  drop() {
    this.simulation?.dispose();
    this.simulation = null;
    this.say("");
  }

  /** Remove it from the page. */
  remove() {
    this.drop();
    this.view?.dispose();
    this.root.remove();
  }

  showFilm(entry) {
    if (entry.film) {
      const isVideo = entry.film.endsWith(".mp4");
      const shown = document.createElement(isVideo ? "video" : "img");
      const autoplay = !matchMedia("(prefers-reduced-motion: reduce)").matches;
      if (isVideo) Object.assign(shown, { autoplay, controls: true, loop: true, muted: true });
      shown.setAttribute(isVideo ? "aria-label" : "alt", `Film of ${entry.label}`);
      shown.src = entry.film;
      this.find(".film").append(shown);
    }
    for (const name of ["now", "count"]) this.find(`.${name}`).textContent = "–";
    this.say(`${entry.reason} ${entry.film ? "This is a film of it." : "td3 video records a film of it."}`);
  }

  reset(seed, episode = 0) {
    if (!this.simulation) return;
    this.view.pointer.release();
    this.simulation.reset(seed, episode);
    this.rewards = [];
    this.owed = 0;
    this.waited = 0;
    this.say("");
  }

  /** Let `seconds` of the simulated time pass. */
  pass(seconds) {
    const { simulation } = this;
    if (!simulation) return;
    if (simulation.over) {
      this.waited += seconds;
      if (this.waited > PAUSE_AFTER_EPISODE) this.reset(simulation.seed, simulation.episode + 1);
      return;
    }
    this.owed += seconds;
    const timestep = simulation.model.opt.timestep;
    while (this.owed >= timestep && !simulation.over) {
      this.owed -= timestep;
      if (simulation.advance()) this.record();
    }
    if (simulation.over) this.finish();
  }

  /** Make one step of the policy. */
  step() {
    if (!this.simulation) return;
    if (this.simulation.over) return this.reset(this.simulation.seed, this.simulation.episode + 1);
    this.simulation.step();
    this.record();
    if (this.simulation.over) this.finish();
  }

  record() {
    this.rewards.push(this.simulation.reward);
    if (this.rewards.length > SHOWN_REWARDS) this.rewards.shift();
  }

  finish() {
    const { over, steps } = this.simulation;
    this.say(`${over} after ${steps} steps with return ${short(this.simulation.return)}.`);
  }

  say(text) {
    this.find(".message").textContent = text;
  }

  /** Push the body for a moment, in a direction of the world. */
  nudge(direction) {
    const { simulation } = this;
    if (!simulation || simulation.over) return;
    const end = simulation.data.time + PUSH_SECONDS;
    const force = direction.map((v) => v * PUSH_STRENGTH * simulation.model.body_subtreemass[1]);
    const push = ({ data }) => {
      if (data.time < end) data.xfrc_applied.set(force, 6);
      else if (simulation.push === push) simulation.push = null;
    };
    simulation.push = push;
  }

  /** Draw the world, the numbers and the bars. */
  show(quality) {
    const { simulation } = this;
    if (!simulation) return;
    this.view.draw(quality);
    this.find(".now").textContent = short(simulation.return);
    this.find(".count").textContent = `${simulation.steps} of ${simulation.limit}`;
    drawObservation(this.find(".observation"), simulation.observation);
    drawAction(this.find(".action"), simulation.chosen);
    drawRewards(this.find(".reward"), this.rewards);
  }
}

function describeCard(cell, { mean_return: mean, std_return: spread, episodes }) {
  cell.textContent = mean === undefined ? "–" : short(mean);
  if (spread === undefined) return;
  const note = document.createElement("small");
  const count = episodes ? `, ${episodes} ${episodes === 1 ? "episode" : "episodes"}` : "";
  note.textContent = `± ${short(spread, 3)}${count}`;
  cell.append(note);
}

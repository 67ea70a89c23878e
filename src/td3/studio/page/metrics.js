// Every metric of a run: its chart, what it means, what is normal.

import { ask } from "./api.js";
import { Chart } from "./chart.js";
import { toggle } from "./curves.js";
import { colour, h, seriesColour } from "./dom.js";
import { words } from "./format.js";

const POINTS = 500;
const FEW = 12; // agents that are shown at first
const LOGARITHMIC = ["critic_loss"];
const REFRESH_MS = 400;
let known = null; // the texts of the guide

export class Metrics {
  constructor(key) {
    Object.assign(this, { key, cards: new Map(), range: null, data: {}, generation: null, agents: [], asked: 0 });
    this.together = toggle("Mean and interval", true, () => this.draw());
    this.chooser = h("span", { class: "row" });
    this.reset = h("button", { hidden: true, onclick: () => this.zoom(null) }, "Show all steps");
    this.grid = h("div", { class: "metrics" });
    this.element = h("section", { class: "panel" },
      h("div", { class: "row" }, h("h2", {}, "Metrics"), h("span", { class: "grow" }), this.reset, this.together.element, this.chooser), this.grid);
  }

  /** The metrics and agents that the run has. */
  async describe(detail) {
    const names = detail.metrics.map((metric) => metric.name).join();
    const agents = detail.agents.map((own) => own.agent).join();
    if (agents !== this.listed) this.chooseAgents(detail.agents);
    this.listed = agents;
    if (names !== this.names) {
      this.names = names;
      known ??= ask("explanations");
      const explanations = await known.catch(() => ({}));
      for (const metric of detail.metrics) this.card(metric, explanations[metric.anchor]);
      this.load();
    }
  }

  chooseAgents(agents) {
    this.agents = agents.slice(0, FEW).map((own) => own.agent);
    this.all = agents;
    if (agents.length < 2) {
      this.together.element.hidden = true;
      this.chooser.replaceChildren();
      return;
    }
    const options = [h("option", { value: "" }, agents.length > FEW ? `first ${FEW} of ${agents.length} agents` : "all agents")];
    for (const own of agents) options.push(h("option", { value: own.agent }, label(own)));
    const select = h("select", { "aria-label": "Agents", onchange: () => {
      this.agents = select.value === "" ? agents.slice(0, FEW).map((own) => own.agent) : [Number(select.value)];
      this.generation = null;
      this.load();
    } }, options);
    this.chooser.replaceChildren(select);
  }

  card(metric, explanation) {
    if (this.cards.has(metric.name)) return;
    const chart = new Chart({ label: words(metric.name), height: 190, log: LOGARITHMIC.includes(metric.name), view: (range) => this.zoom(range) });
    const signs = [metric.healthy && h("p", {}, h("strong", { class: "good" }, "Healthy: "), metric.healthy), metric.alarming && h("p", {}, h("strong", { class: "bad" }, "Alarming: "), metric.alarming)];
    const more = h("details", {}, h("summary", {}, "What does this mean?"), explanation ? explain(explanation) : h("p", {}, "The variant or the environment reports it."));
    const element = h("article", { class: "metric" }, h("h3", {}, ...title(metric, explanation)), chart.element, h("div", { class: "signs" }, signs), more);
    element.dataset.metric = metric.name;
    this.cards.set(metric.name, { chart, element });
    this.grid.append(element);
  }

  /** Read what a running run added. */
  refresh() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), Math.max(0, this.asked + REFRESH_MS - Date.now()));
  }

  /** Read the numbers: all of the view, or only those after the last one. */
  async load() {
    if (!this.cards.size) return;
    this.asked = Date.now();
    const more = this.generation !== null && !this.range;
    const last = more ? Math.max(0, ...Object.values(this.data).flatMap((own) => own.lines.map((line) => line.x.at(-1) ?? 0))) : 0;
    const view = this.range ? { from: Math.max(0, Math.floor(this.range[0])), to: Math.max(1, Math.ceil(this.range[1])) } : { from: last };
    let answer;
    try {
      answer = await ask("series", { run: this.key, metrics: [...this.cards.keys()], agents: this.agents.join(","), points: POINTS, ...view });
    } catch {
      return; // the page shows that the run is gone
    }
    if (this.closed) return;
    if (more && answer.generation !== this.generation) {
      this.generation = null;
      this.load();
      return;
    }
    const grown = more && this.size > 4 * POINTS; // thin it again
    this.data = more ? appended(this.data, answer.metrics, last) : answer.metrics;
    this.size = more ? this.size + 1 : 0;
    this.generation = this.range || grown ? null : answer.generation;
    this.draw();
  }

  draw() {
    for (const [name, { chart, element }] of this.cards) {
      const own = this.data[name];
      element.hidden = !own || !own.lines.some((line) => line.x.length);
      if (!element.hidden) chart.show(this.lines(own));
    }
  }

  lines(own) {
    const mean = this.together.on() && own.mean;
    const shown = own.lines.map((line, k) => ({
      label: line.agent === null ? "speed" : `agent ${line.agent}`, x: line.x, y: line.y,
      colour: mean ? colour("quiet") : seriesColour(k), width: mean ? 1 : 1.5, alpha: mean ? 0.35 : 1,
    }));
    if (mean) shown.push({ label: "mean", ...own.mean, colour: seriesColour(0), width: 2 });
    return shown;
  }

  zoom(range) {
    this.range = range;
    this.generation = null;
    this.reset.hidden = !range;
    for (const { chart } of this.cards.values()) chart.setRange(range);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), 80);
  }

  redraw() {
    for (const { chart } of this.cards.values()) chart.redraw();
    this.draw();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    for (const { chart } of this.cards.values()) chart.close();
  }
}

/** Old numbers with those that came after a step. */
function appended(old, fresh, last) {
  const found = {};
  for (const [name, own] of Object.entries(fresh)) {
    const before = old[name] ?? { lines: [], mean: null };
    found[name] = {
      lines: own.lines.map((line) => joined(before.lines.find((other) => other.agent === line.agent), line, ["y"])),
      mean: own.mean && joined(before.mean, own.mean, ["y", "low", "high"]),
    };
  }
  return found;
}

function joined(before, after, columns) {
  if (!before?.x.length) return after;
  const start = after.x.findIndex((x) => x > before.x.at(-1));
  if (start < 0) return before;
  const both = { ...after, x: before.x.concat(after.x.slice(start)) };
  for (const name of columns) both[name] = before[name].concat(after[name].slice(start));
  return both;
}

/** The name in words and the field of metrics.jsonl. */
function title(metric, explanation) {
  const own = PLAIN[metric.name] ?? (metric.name.startsWith("info.") ? words(metric.name) : explanation?.title ?? words(metric.name));
  return [own[0].toUpperCase() + own.slice(1), h("code", {}, metric.name)];
}

const PLAIN = { episodes: "Episodes per record" };

export function label(own) {
  const settings = Object.entries(own.settings).map(([name, given]) => `${name.replace(/^\w+\./, "")} ${given}`).join(", ");
  return `agent ${own.agent}, seed ${own.seed}${settings ? `, ${settings}` : ""}`;
}

/** A section of the guide as nodes. */
function explain(explanation) {
  const tags = { code: "code", strong: "strong", em: "em" };
  const nodes = explanation.blocks.map((block) => h(block.kind, { class: block.tone }, block.spans.map(([style, text]) => (tags[style] ? h(tags[style], {}, text) : text))));
  return [explanation.short && !nodes.length ? h("p", {}, explanation.short) : "", ...nodes];
}

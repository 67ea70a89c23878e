// A search of td3 tune.

import { ask } from "./api.js";
import { Chart } from "./chart.js";
import { colour, h, seriesColour } from "./dom.js";
import { integer, number } from "./format.js";
import { Points } from "./parallel.js";
import { note } from "./run.js";

const REFRESH_MS = 2000;
const MOST_CURVES = 60;

export class StudyPage {
  constructor(runs, key) {
    Object.assign(this, { runs, key, title: key });
    this.head = h("div", { class: "panel" });
    this.points = new Points([], "Trials");
    this.chart = new Chart({ label: "Evaluation return of the trials", height: 280 });
    this.curves = h("section", { class: "panel", hidden: true }, h("h2", {}, "Evaluations of the trials"), this.chart.element, h("p", { class: "quiet" }, "In colour: the best complete trial. Trials that end early were pruned; above, they rank below the complete ones."));
    this.element = h("div", {}, h("p", {}, h("a", { href: "#/" }, "← All runs")), this.head, this.points.element, this.curves);
  }

  opened() {
    this.load();
  }

  update() {}

  async load() {
    try {
      this.draw(await ask("study", { study: this.key }));
    } catch (error) {
      this.head.replaceChildren(note("error", "This search cannot be shown", error.message));
    }
    if (!this.closed) this.timer = setTimeout(() => this.load(), REFRESH_MS);
  }

  draw(study) {
    const state = JSON.stringify(study);
    if (state === this.state) return;
    this.state = state;
    const { trials, plan = {} } = study;
    const ended = trials.filter((trial) => trial.state === "complete");
    const best = [...ended].sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity))[0];
    const counts = new Map();
    for (const trial of trials) counts.set(trial.state, (counts.get(trial.state) ?? 0) + 1);
    const facts = [
      ["task", study.task], ["trials", `${integer(trials.length)} of ${integer(plan.trials)}`],
      ["states", [...counts].map(([name, count]) => `${count} ${name}`).join(", ")],
      ["best", best && `${number(best.value)} (trial ${best.number})`], ["objective", plan.objective], ["pruner", plan.pruner],
    ].filter(([, text]) => text);
    this.head.replaceChildren(h("h2", { class: "wrap" }, study.id), study.problem ? note("error", study.problem) : "",
      h("dl", { class: "facts" }, facts.map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", { class: "wrap" }, text)))));
    this.points.show(trials.map((trial) => ({ ...trial, partial: trial.state !== "complete" })));
    this.drawCurves(trials, best);
  }

  drawCurves(trials, best) {
    const known = trials.filter((trial) => trial.means.length && trial !== best).slice(-MOST_CURVES);
    const lines = [...known, ...(best ? [best] : [])].map((trial) => ({
      label: `trial ${trial.number}`, x: trial.means.map(([step]) => step), y: trial.means.map(([, mean]) => mean),
      colour: trial === best ? seriesColour(0) : colour("quiet"), width: trial === best ? 2.5 : 1, alpha: trial === best ? 1 : 0.4,
    }));
    this.curves.hidden = !lines.length;
    if (lines.length) this.chart.show(lines);
  }

  redraw() {
    this.chart.redraw();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.chart.close();
  }
}

// The evaluations of one agent: every episode as a point, and the episodes of one evaluation.

import { ask } from "./api.js";
import { Chart } from "./chart.js";
import { h, seriesColour, table } from "./dom.js";
import { integer, number } from "./format.js";
import { label } from "./metrics.js";

export class Episodes {
  constructor(key) {
    Object.assign(this, { key, found: [] });
    this.agent = h("select", { "aria-label": "Agent", onchange: () => this.load() });
    this.slider = h("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "Evaluation", oninput: () => this.drawOne() });
    this.step = h("output", { class: "number" });
    this.chart = new Chart({ label: "Returns of the single episodes", height: 220 });
    this.list = h("div", { class: "tall" });
    this.element = h("section", { class: "panel", hidden: true },
      h("div", { class: "row" }, h("h2", {}, "Evaluation episodes"), h("span", { class: "grow" }), this.agent),
      h("div", { class: "columns" }, h("div", {}, this.chart.element, h("p", { class: "quiet" }, "Lines: the mean, the best and the worst episode of each evaluation.")),
        h("div", {}, h("label", { class: "row" }, "Evaluation at step ", this.step, this.slider), this.list)));
  }

  describe(detail) {
    const agents = detail.agents.map((own) => own.agent).join();
    if (agents !== this.known) {
      this.known = agents;
      this.agent.replaceChildren(...detail.agents.map((own) => h("option", { value: own.agent }, label(own))));
      this.agent.hidden = detail.agents.length < 2;
      if (detail.agents.length) this.load();
    }
  }

  async load() {
    let found;
    try {
      found = await ask("episodes", { run: this.key, agent: this.agent.value });
    } catch {
      return;
    }
    if (this.closed) return;
    const atEnd = Number(this.slider.value) >= this.found.length - 1;
    this.found = found.filter((own) => own.returns?.some((value) => value !== null));
    this.element.hidden = !this.found.length;
    if (!this.found.length) return;
    this.slider.max = this.found.length - 1;
    if (atEnd) this.slider.value = this.found.length - 1;
    this.drawAll();
    this.drawOne();
  }

  drawAll() {
    const x = this.found.map((own) => own.step);
    const known = this.found.map((own) => own.returns.filter((value) => value !== null));
    const line = (name, of, more) => ({ label: name, x, y: known.map(of), colour: seriesColour(0), ...more });
    this.chart.show([
      line("best episode", (values) => Math.max(...values), { width: 1, alpha: 0.6 }),
      line("worst episode", (values) => Math.min(...values), { width: 1, alpha: 0.6, dash: [3, 3] }),
      line("mean", (values) => values.reduce((a, b) => a + b, 0) / values.length, { width: 2.5, low: known.map((v) => Math.min(...v)), high: known.map((v) => Math.max(...v)) }),
    ]);
  }

  drawOne() {
    const own = this.found[Number(this.slider.value)];
    if (!own) return;
    this.step.textContent = `${integer(own.step)}${own.best ? " (best so far)" : ""}`;
    const right = (text) => ({ text, class: "number" });
    this.list.replaceChildren(table(["episode", right("return"), right("steps")], own.returns.map((value, k) => [String(k + 1), right(number(value)), right(integer(own.lengths?.[k]))])));
  }

  redraw() {
    this.chart.redraw();
  }

  close() {
    this.closed = true;
    this.chart.close();
  }
}

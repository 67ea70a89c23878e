// Learning curves of one or several runs: mean, interval, single seeds, references.

import { ask } from "./api.js";
import { Chart } from "./chart.js";
import { colour, h, seriesColour, table } from "./dom.js";
import { integer, number } from "./format.js";

const REFRESH_MS = 900;

export class CurveView {
  constructor(runs, keys, title) {
    Object.assign(this, { runs, keys, charts: new Map(), answer: null, asked: 0 });
    this.single = toggle("Single seeds", true, () => this.draw());
    this.band = toggle("95 % interval", true, () => this.draw());
    this.axis = h("select", { "aria-label": "Horizontal axis", onchange: () => this.load() }, h("option", { value: "steps" }, "steps"), h("option", { value: "hours" }, "hours"));
    this.references = h("span", { class: "row" });
    this.chosen = new Set();
    this.message = h("p", { class: "quiet" });
    this.panels = h("div", { class: "curves" });
    this.results = h("div");
    this.element = h("section", { class: "panel" },
      h("div", { class: "row" }, h("h2", {}, title), h("span", { class: "grow" }), this.single.element, this.band.element, h("label", { class: "row" }, "against", this.axis), this.references),
      this.message, this.panels, this.results);
    this.load();
  }

  /** Read again what a running run added. */
  refresh() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), Math.max(0, this.asked + REFRESH_MS - Date.now()));
  }

  async load() {
    this.asked = Date.now();
    try {
      this.answer = await ask("compare", { runs: this.keys, x: this.axis.value, references: [...this.chosen] });
    } catch (error) {
      this.message.textContent = error.message;
      return;
    }
    if (!this.closed) this.draw();
  }

  draw() {
    if (!this.answer) return;
    const { curves, references, problems } = this.answer;
    const tasks = [...new Set(curves.map((curve) => curve.environment))];
    const empty = curves.every((curve) => !curve.lines.some((line) => line.x.length) && !curve.mean.x.length);
    const notes = problems.map((own) => `${own.run}: ${own.text}`);
    this.message.textContent = notes.join(" ") || (empty ? "No evaluations yet." : "");
    this.offerReferences();
    for (const [task, own] of this.charts) if (!tasks.includes(task)) this.remove(task, own);
    tasks.forEach((task) => {
      const mine = curves.filter((curve) => curve.environment === task);
      this.drawTask(task, mine, references.filter((own) => own.environment === task));
    });
    this.drawResults();
    this.notify?.(this.answer);
  }

  drawTask(task, curves, references) {
    let own = this.charts.get(task);
    if (!own) {
      const chart = new Chart({ label: `Evaluation return on ${task}`, height: 320 });
      const legend = h("ul", { class: "legend" });
      own = { chart, legend, element: h("div", { class: "curve" }, h("h3", {}, `${task}: evaluation return`), chart.element, legend) };
      this.charts.set(task, own);
      this.panels.append(own.element);
    }
    const lines = [];
    const entries = [];
    curves.forEach((curve, k) => {
      const shade = seriesColour(k);
      const name = brief(curve.label) || "run";
      const several = curve.lines.filter((line) => line.x.length).length > 1;
      if (this.single.on() || !several) {
        for (const line of curve.lines) {
          lines.push({ label: `seed ${line.seed}`, x: line.x, y: line.y, colour: shade, width: several ? 1 : 2.5, alpha: several ? 0.35 : 1 });
        }
      }
      if (several) {
        const band = this.band.on() && curve.seeds > 1 ? { low: curve.low, high: curve.high } : {};
        lines.push({ label: name, ...curve.mean, ...band, colour: shade, width: 2.5 });
      }
      entries.push([shade, `${name} (${curve.seeds} seed${curve.seeds === 1 ? "" : "s"})`, ""]);
    });
    for (const reference of references) {
      const band = this.band.on() && reference.seeds > 1 ? { low: reference.low, high: reference.high } : {};
      lines.push({ label: reference.label, ...reference.mean, ...band, colour: colour("quiet"), width: 1.5, dash: [6, 4], points: false });
      entries.push([colour("quiet"), `${reference.label}: ${reference.name} (${reference.seeds} seeds)`, "dashed"]);
    }
    own.chart.hours = this.axis.value === "hours";
    own.chart.show(lines);
    own.legend.replaceChildren(...entries.map(([shade, text, style]) => {
      const mark = h("span", { class: `mark ${style}` });
      mark.style.borderColor = shade;
      return h("li", {}, mark, text);
    }));
  }

  drawResults() {
    const rows = this.answer.table.filter((row) => row.best !== null);
    const right = (text) => ({ text, class: "number" });
    const spread = (row, name) => right(number(row[name]) + (row[`${name}_low`] === null ? "" : ` (${number(row[`${name}_low`])} to ${number(row[`${name}_high`])})`));
    this.results.replaceChildren(rows.length ? table(
      ["task", "settings", right("seeds"), right("steps"), right("last ten (95 % interval)"), right("best mean"), right("at step")],
      rows.map((row) => [{ text: row.environment, class: "wrap" }, { text: brief(row.label), class: "wrap long" }, right(integer(row.seeds)), right(integer(row.steps)), spread(row, "last_ten"), spread(row, "best"), right(integer(row.best_step))])) : "");
  }

  offerReferences() {
    const names = this.answer?.offered ?? [];
    if (this.offered === names.join() || this.axis.value === "hours") return;
    this.offered = names.join();
    this.references.replaceChildren(...names.map((name) => toggle(name, false, (on) => {
      if (on) this.chosen.add(name);
      else this.chosen.delete(name);
      this.load();
    }).element));
  }

  remove(task, own) {
    own.chart.close();
    own.element.remove();
    this.charts.delete(task);
  }

  redraw() {
    this.draw();
    for (const { chart } of this.charts.values()) chart.redraw();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    for (const { chart } of this.charts.values()) chart.close();
  }
}

/** Settings in words, with numbers of four digits. */
function brief(label) {
  return label.replace(/\b\d+\.\d{6,}(e[+-]?\d+)?/g, (found) => number(Number(found)));
}

/** A labelled check box. */
export function toggle(text, on, changed) {
  const box = h("input", { type: "checkbox", checked: on, onchange: () => changed(box.checked) });
  return { element: h("label", { class: "toggle" }, box, text), on: () => box.checked };
}

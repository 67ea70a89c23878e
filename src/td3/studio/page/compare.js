// Several runs side by side.

import { CurveView, toggle } from "./curves.js";
import { h, table } from "./dom.js";
import { value } from "./format.js";
import { address } from "./list.js";
import { Points } from "./parallel.js";

export class ComparePage {
  constructor(runs, keys) {
    Object.assign(this, { runs, keys, title: `Compare ${keys.length} runs` });
    this.curves = new CurveView(runs, keys, keys.length > 1 ? `Compare ${keys.length} runs` : "Compare");
    this.curves.notify = (answer) => this.drawSettings(answer);
    this.points = new Points(keys);
    this.different = toggle("Only differences", keys.length > 1, () => this.drawSettings(this.curves.answer));
    this.settings = h("div", { class: "tall" });
    this.element = h("div", {}, h("p", {}, h("a", { href: "#/" }, "← All runs")), this.curves.element, this.points.element,
      h("section", { class: "panel" }, h("div", { class: "row" }, h("h2", {}, "Settings"), h("span", { class: "grow" }), this.different.element), this.settings));
    this.points.load();
  }

  update(keys) {
    if (this.keys.some((key) => keys.has(key)) && this.curves.answer) {
      this.curves.refresh();
      this.points.soon();
    }
  }

  drawSettings(answer) {
    if (!answer) return;
    const rows = answer.settings.filter((row) => row.differ || !this.different.on());
    const keys = this.keys.filter((key) => answer.settings[0] && key in answer.settings[0].values);
    const state = JSON.stringify([rows, keys]);
    if (state === this.state) return;
    this.state = state;
    this.settings.replaceChildren(rows.length ? table(
      ["setting", ...keys.map((key) => h("a", { href: address(key), class: "wrap" }, key))],
      rows.map((row) => [row.name, ...keys.map((key) => ({ text: value(row.values[key]), class: row.differ ? "differs wrap" : "wrap" }))])) : h("p", { class: "quiet" }, "All settings are equal."));
  }

  redraw() {
    this.curves.redraw();
    this.points.redraw();
  }

  close() {
    this.curves.close();
    this.points.close();
  }
}

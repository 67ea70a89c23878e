// Combinations of settings with their results: parallel coordinates and a table.

import { ask } from "./api.js";
import { h, s, table } from "./dom.js";
import { integer, number, value as words } from "./format.js";
import { address } from "./list.js";

const [HEIGHT, TOP, SIDE, APART] = [260, 44, 60, 120];
const LONG = 14; // letters of a name that has one line
const NEAR = 3; // how far beyond the pointer a range reaches
const MOST = 1500; // lines that are drawn
const REFRESH_MS = 3000;

/** The combinations of these runs: {settings, value, best, seeds, steps, state, run}. One that is
 * `partial` ended early or still runs; it ranks below those that are complete. */
export class Points {
  constructor(keys, title = "Settings and results") {
    Object.assign(this, { keys, rows: [], asked: 0, limits: new Map() });
    this.drawing = h("div", { class: "scroll" });
    this.list = h("div", { class: "tall" });
    this.hint = h("p", { class: "quiet" }, "Each line is one combination; the best results are drawn in colour. Drag along an axis to keep a range; click its name to keep everything.");
    this.task = h("select", { "aria-label": "Task", onchange: () => this.show(this.all) });
    this.element = h("section", { class: "panel", hidden: true }, h("div", { class: "row" }, h("h2", {}, title), h("span", { class: "grow" }), this.task), this.hint, this.drawing, this.list);
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), Math.max(0, this.asked + REFRESH_MS - Date.now()));
  }

  async load() {
    this.asked = Date.now();
    try {
      this.show(await ask("points", { runs: this.keys }));
    } catch {
      // the page shows what is wrong with a run
    }
  }

  show(rows) {
    this.all = rows;
    const known = rows.filter((row) => Object.keys(row.settings).length && (row.value ?? null) !== null);
    this.offerTasks(known);
    this.rows = known.filter((row) => (row.task ?? "") === this.task.value);
    this.element.hidden = this.rows.length < 2;
    if (this.element.hidden) return;
    const names = [...new Set(this.rows.flatMap((row) => Object.keys(row.settings)))];
    this.width = Math.max(1000, 2 * SIDE + names.length * APART);
    this.axes = [...names, "result"].map((name, k, all) => axis(name, this.rows.map((row) => at(row, name)), SIDE + (k * (this.width - 2 * SIDE)) / (all.length - 1)));
    this.draw();
  }

  /** Results of different tasks cannot be compared: one task at a time. */
  offerTasks(rows) {
    const tasks = [...new Set(rows.map((row) => row.task ?? ""))];
    if (this.offered !== tasks.join("\n")) {
      const before = this.task.value;
      this.offered = tasks.join("\n");
      const most = (task) => rows.filter((row) => (row.task ?? "") === task).length;
      tasks.sort((a, b) => most(b) - most(a));
      this.task.replaceChildren(...tasks.map((name) => h("option", { value: name }, name)));
      if (tasks.includes(before)) this.task.value = before;
    }
    this.task.hidden = tasks.length < 2;
  }

  draw() {
    const ranked = [...this.rows].sort((a, b) => !!b.partial - !!a.partial || (a.value ?? -Infinity) - (b.value ?? -Infinity));
    const complete = ranked.some((row) => !row.partial);
    const shown = ranked.filter((row) => [...this.limits].every(([name, [low, high]]) => {
      const place = this.axes.find((own) => own.name === name)?.place(at(row, name));
      return place === undefined || (place >= low && place <= high);
    }));
    const lines = shown.slice(-MOST).map((row) => {
      const rank = ranked.length > 1 ? ranked.indexOf(row) / (ranked.length - 1) : 1;
      const points = this.axes.map((own) => `${own.x},${own.place(at(row, own.name)).toFixed(1)}`).join(" ");
      const line = s("polyline", { points, class: (rank >= 0.9 || ranked.length <= 3) && !(complete && row.partial) ? "line top" : "line", opacity: (0.25 + 0.75 * rank).toFixed(2) }, s("title", {}, describe(row)));
      line.addEventListener("pointerenter", () => this.mark(row, true));
      line.addEventListener("pointerleave", () => this.mark(row, false));
      row.line = line;
      return line;
    });
    const label = `Parallel coordinates of ${shown.length} combinations. The table below has the same numbers.`;
    this.svg = s("svg", { class: "parallel", viewBox: `0 0 ${this.width} ${HEIGHT + TOP + 10}`, role: "img", "aria-label": label }, lines, this.axes.map((own) => this.drawAxis(own)));
    this.svg.style.minWidth = `${this.width * 0.75}px`;
    this.drawing.replaceChildren(this.svg);
    this.drawTable(shown.reverse());
  }

  drawAxis(own) {
    const [low, high] = this.limits.get(own.name) ?? [TOP, TOP + HEIGHT - 30];
    const brush = s("rect", { class: this.limits.has(own.name) ? "brush" : "brush off", x: own.x - 7, y: low, width: 14, height: Math.max(2, high - low) });
    const area = s("rect", { class: "grip", x: own.x - 16, y: TOP, width: 32, height: HEIGHT - 30, onpointerdown: (event) => this.drag(event, own, brush) });
    return s("g", {}, s("line", { class: "axis", x1: own.x, x2: own.x, y1: TOP, y2: TOP + HEIGHT - 30 }), brush, area,
      own.ticks.map(([text, y]) => s("text", { x: own.x + 9, y: y + 4, class: "tick" }, text)),
      s("text", { class: "name", "text-anchor": "middle", onclick: () => { this.limits.delete(own.name); this.draw(); } },
        halves(short(own.name)).map((part, k, all) => s("tspan", { x: own.x, y: TOP - 14 * (all.length - k) }, part))));
  }

  /** Choose a range of an axis with the pointer. */
  drag(event, own, brush) {
    const scale = (HEIGHT + TOP + 10) / this.svg.getBoundingClientRect().height;
    const place = (e) => (e.clientY - this.svg.getBoundingClientRect().top) * scale;
    const start = place(event);
    let range = null;
    const move = (e) => {
      range = [Math.min(start, place(e)) - NEAR, Math.max(start, place(e)) + NEAR];
      brush.setAttribute("class", "brush");
      brush.setAttribute("y", range[0]);
      brush.setAttribute("height", range[1] - range[0]);
    };
    const end = () => {
      window.removeEventListener("pointermove", move);
      if (range && range[1] - range[0] > 3 * NEAR) this.limits.set(own.name, range);
      else this.limits.delete(own.name);
      this.draw();
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", end, { once: true });
  }

  mark(row, on) {
    row.line?.classList.toggle("marked", on);
    row.cell?.classList.toggle("marked", on);
  }

  drawTable(rows) {
    const names = this.axes.slice(0, -1).map((own) => own.name);
    const right = (text) => ({ text, class: "number" });
    const some = (name) => rows.some((row) => row[name] !== undefined);
    const numeric = (name) => rows.every((row) => typeof row.settings[name] === "number");
    const header = [some("number") ? right("trial") : null, ...names.map((name) => ({ text: short(name), class: numeric(name) ? "number" : "" })), right("result"), some("best") ? right("best") : null, some("seeds") ? right("seeds") : null, right("steps"), "state", some("run") ? "run" : null].filter((own) => own !== null);
    const found = table(header, rows.slice(0, 500).map((row) => [
      ...(some("number") ? [right(String(row.number))] : []),
      ...names.map((name) => (typeof row.settings[name] === "number" ? right(number(row.settings[name])) : { text: words(row.settings[name]), class: "wrap" })),
      right(number(row.value)), ...(some("best") ? [right(number(row.best))] : []), ...(some("seeds") ? [right(integer(row.seeds))] : []), right(integer(row.steps)), row.state ?? "",
      ...(some("run") ? [row.run ? h("a", { href: address(row.run) }, row.run) : ""] : []),
    ]));
    found.querySelectorAll("tbody tr").forEach((line, k) => {
      rows[k].cell = line;
      line.tabIndex = 0;
      for (const [name, on] of [["pointerenter", true], ["pointerleave", false], ["focus", true], ["blur", false]]) line.addEventListener(name, () => this.mark(rows[k], on));
    });
    this.list.replaceChildren(found);
  }

  redraw() {}

  close() {
    clearTimeout(this.timer);
  }
}

/** The name of a setting without its table. */
function short(name) {
  return name === "variant.name" ? "variant" : name.replace(/^\w+\./, "").replaceAll("_", " ");
}

/** A long name in two lines. */
function halves(name) {
  const gap = name.lastIndexOf(" ");
  return name.length > LONG && gap > 0 ? [name.slice(0, gap + 1), name.slice(gap + 1)] : [name];
}

function at(row, name) {
  return name === "result" ? row.value : row.settings[name];
}

/** An axis: linear, logarithmic for positive numbers of very different size, or one place per text. */
function axis(name, values, x) {
  const known = values.filter((own) => own !== null && own !== undefined);
  const [top, bottom] = [TOP, TOP + HEIGHT - 30];
  if (known.length && known.every((own) => typeof own === "number")) {
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const log = name !== "result" && low > 0 && high / low >= 20;
    const f = log ? Math.log : (own) => own;
    const place = (own) => (typeof own !== "number" ? bottom + 16 : high === low ? (top + bottom) / 2 : bottom - ((f(own) - f(low)) / (f(high) - f(low))) * (bottom - top));
    const middle = log ? Math.sqrt(low * high) : (low + high) / 2;
    const ticks = (high === low ? [low] : [low, middle, high]).map((own) => [number(own), place(own)]);
    if (known.length < values.length) ticks.push(["–", place(null)]);
    return { name, x, place, ticks };
  }
  const texts = [...new Set(values.map(words))].sort();
  const place = (own) => (texts.length === 1 ? (top + bottom) / 2 : bottom - (Math.max(0, texts.indexOf(words(own))) / (texts.length - 1)) * (bottom - top));
  return { name, x, place, ticks: texts.slice(0, 12).map((text) => [text.slice(0, 18), place(text)]) };
}

function describe(row) {
  const own = Object.entries(row.settings).map(([name, given]) => `${name} ${words(given)}`);
  return `${own.join(", ")}: ${number(row.value)}`;
}

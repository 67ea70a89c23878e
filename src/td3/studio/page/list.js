// The list of all runs: filter, sort, select.

import { h, s } from "./dom.js";
import { ago, duration, integer, number, steps } from "./format.js";

const ORDER = { running: 0, killed: 1, corrupt: 2, stopped: 3, unknown: 4, finished: 5 };
const STATUSES = Object.keys(ORDER);
const MEANING = {
  running: "A process on this machine trains it now.",
  killed: "It has no end, and no process on this machine trains it. td3 resume continues it.",
  stopped: "It was stopped. td3 resume continues it.",
  finished: "It reached its last step.",
  corrupt: "Its settings cannot be read.",
  unknown: "It has settings, but no events yet.",
};

const COLUMNS = [
  { name: "run", of: (row) => row.id, text: true },
  { name: "status", of: (row) => ORDER[row.status] },
  { name: "task", of: (row) => row.task ?? "", text: true },
  { name: "recipe", of: (row) => row.recipe ?? "", text: true },
  { name: "agents", of: (row) => row.agents ?? 0, number: true },
  { name: "progress", of: (row) => (row.asked ? row.steps / row.asked : 0) },
  { name: "last ten", of: (row) => row.last_ten ?? -Infinity, number: true, title: "Mean of the last ten evaluations, over the seeds" },
  { name: "best", of: (row) => row.best ?? -Infinity, number: true, title: "Best evaluation: the best mean over the seeds; with a grid, that of the best combination" },
  { name: "curve", of: (row) => row.best ?? -Infinity },
  { name: "steps/s", of: (row) => row.speed ?? 0, number: true },
  { name: "time left", of: (row) => row.left ?? Infinity, number: true },
  { name: "updated", of: (row) => -(row.updated ?? 0), number: true },
];

export class ListPage {
  constructor(runs) {
    this.runs = runs;
    this.lines = new Map(); // key → its row in the table
    this.selected = new Set();
    this.sort = { name: "status", down: false };
    this.hidden = new Set(); // statuses
    this.filter = h("input", { type: "search", id: "filter", placeholder: "Filter: name, task, recipe …", "aria-label": "Filter the runs", oninput: () => this.arrange() });
    this.chips = h("span", { class: "row", role: "group", "aria-label": "Statuses" });
    this.compare = h("button", { class: "primary", onclick: () => this.openCompare() });
    this.all = h("input", { type: "checkbox", "aria-label": "Select all runs shown", onclick: () => this.selectAll() });
    this.sorter = h("select", { "aria-label": "Sort by", onchange: () => this.sortBy(this.sorter.value) }, COLUMNS.filter((own) => own.name !== "curve").map((own) => h("option", { value: own.name, selected: own.name === "status" }, own.name)));
    this.heads = COLUMNS.map((column) => h("th", { scope: "col", class: column.number ? "number" : "" },
      h("button", { class: "head", title: column.title, onclick: () => this.sortBy(column.name) }, column.name)));
    this.body = h("tbody");
    this.empty = h("p", { class: "quiet" });
    this.studies = h("div", { class: "row studies" });
    this.element = h("div", {},
      h("div", { class: "row toolbar" }, this.filter, this.chips, h("label", { class: "row sorter" }, "Sort by", this.sorter), h("span", { class: "grow" }), this.compare),
      this.studies,
      h("div", { class: "panel scroll" }, h("table", { class: "runs" },
        h("thead", {}, h("tr", {}, h("th", {}, this.all), this.heads)), this.body), this.empty));
  }

  update(keys) {
    if (!this.runs.loaded) return;
    for (const key of keys) {
      const row = this.runs.rows.get(key);
      if (row) this.draw(row);
      else {
        this.lines.get(key)?.line.remove();
        this.lines.delete(key);
        this.selected.delete(key);
      }
    }
    this.studies.replaceChildren(...this.runs.studies.map((key) => h("a", { class: "button", href: `#/study/${encodeURIComponent(key)}` }, "Search: ", key)));
    this.arrange();
  }

  /** Make or renew the line of a run. */
  draw(row) {
    let own = this.lines.get(row.id);
    if (!own) {
      const box = h("input", { type: "checkbox", "aria-label": `Select ${row.id}`, onchange: () => this.choose(row.id, box.checked) });
      own = { box, line: h("tr", { tabIndex: -1 }), row };
      own.line.dataset.run = row.id;
      this.lines.set(row.id, own);
    }
    own.row = row;
    own.line.replaceChildren(h("td", { class: "box" }, own.box), ...cells(row));
  }

  /** Filter, sort and count. Lines that stay in their place are not touched. */
  arrange() {
    const wanted = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const column = COLUMNS.find((own) => own.name === this.sort.name);
    const counts = new Map();
    const shown = [];
    for (const own of this.lines.values()) {
      counts.set(own.row.status, (counts.get(own.row.status) ?? 0) + 1);
      const text = [own.row.id, own.row.task, own.row.recipe, own.row.variant, own.row.status].join(" ").toLowerCase();
      if (!this.hidden.has(own.row.status) && wanted.every((word) => text.includes(word))) shown.push(own);
    }
    const sign = this.sort.down ? -1 : 1;
    const newest = (a, b) => (b.row.updated ?? 0) - (a.row.updated ?? 0) || a.row.id.localeCompare(b.row.id);
    shown.sort((a, b) => {
      const [x, y] = [column.of(a.row), column.of(b.row)];
      return sign * (column.text ? x.localeCompare(y, "en", { numeric: true }) : x < y ? -1 : x > y ? 1 : 0) || newest(a, b);
    });
    this.shown = shown;
    place(this.body, shown.map((own) => own.line));
    this.drawChips(counts);
    this.heads.forEach((head, k) => head.setAttribute("aria-sort", COLUMNS[k].name !== this.sort.name ? "none" : this.sort.down ? "descending" : "ascending"));
    this.compare.textContent = this.selected.size ? `Compare ${this.selected.size}` : "Compare";
    this.compare.disabled = !this.selected.size;
    this.all.checked = shown.length > 0 && shown.every((own) => this.selected.has(own.row.id));
    this.empty.textContent = this.lines.size ? (shown.length ? "" : "No run matches the filter.") : "There are no runs here yet. Start one: td3 train --recipe quick";
  }

  drawChips(counts) {
    this.chips.replaceChildren(...STATUSES.filter((name) => counts.has(name)).map((name) => h("button", {
      "aria-pressed": String(!this.hidden.has(name)),
      title: MEANING[name],
      onclick: () => {
        if (!this.hidden.delete(name)) this.hidden.add(name);
        this.arrange();
      },
    }, h("span", { class: `status ${name}` }, `${counts.get(name)} ${name}`))));
  }

  sortBy(name) {
    const column = COLUMNS.find((own) => own.name === name);
    this.sorter.value = name;
    this.sort = { name, down: this.sort.name === name ? !this.sort.down : Boolean(column.number) && !["time left", "updated"].includes(name) };
    this.arrange();
  }

  choose(key, on) {
    if (on) this.selected.add(key);
    else this.selected.delete(key);
    const own = this.lines.get(key);
    own.box.checked = on;
    own.line.classList.toggle("selected", on);
    this.arrange();
  }

  selectAll() {
    const on = this.all.checked;
    for (const own of this.shown) {
      own.box.checked = on;
      own.line.classList.toggle("selected", on);
      if (on) this.selected.add(own.row.id);
      else this.selected.delete(own.row.id);
    }
    this.arrange();
  }

  openCompare() {
    if (this.selected.size) location.hash = `#/compare/${encodeURIComponent(JSON.stringify([...this.selected]))}`;
  }

  press(event) {
    const lines = this.shown.map((own) => own.line);
    const at = lines.indexOf(document.activeElement?.closest("tr"));
    const key = lines[at]?.dataset.run;
    if (event.key === "/") this.filter.focus();
    else if (event.key === "j") lines[Math.min(at + 1, lines.length - 1)]?.focus();
    else if (event.key === "k") lines[Math.max(at - 1, 0)]?.focus();
    else if (event.key === "x" && key !== undefined) this.choose(key, !this.selected.has(key));
    else if (event.key === "Enter" && document.activeElement === lines[at]) location.hash = address(key);
    else if (event.key === "c") this.openCompare();
    else return false;
    return true;
  }

  close() {
    this.scroll = window.scrollY;
  }
}

export function address(key) {
  return `#/run/${encodeURIComponent(key)}`;
}

/** Put the rows of a table into an order, moving as few as possible. */
function place(body, lines) {
  const wanted = new Set(lines);
  for (const line of [...body.children]) if (!wanted.has(line)) line.remove();
  lines.forEach((line, k) => {
    if (body.children[k] !== line) body.insertBefore(line, body.children[k] ?? null);
  });
}

function cells(row) {
  const cell = (name, ...content) => h("td", { class: COLUMNS.find((c) => c.name === name)?.number ? "number" : "", "data-name": name }, ...content);
  const kind = [row.recipe, row.variant && `variant ${row.variant}`, row.grid > 1 && `grid of ${row.grid}`].filter(Boolean).join(", ");
  const warnings = row.warnings ? ` · ${row.warnings} warning${row.warnings > 1 ? "s" : ""}` : "";
  return [
    cell("run", h("a", { href: address(row.id), class: "wrap" }, row.id === "." ? "this run" : row.id), row.problem ? h("div", { class: "problem wrap" }, row.problem) : ""),
    cell("status", h("span", { class: `status ${row.status}`, title: MEANING[row.status] }, row.reading ? "reading" : row.status), h("span", { class: "quiet" }, warnings)),
    cell("task", h("span", { class: "wrap" }, row.task ?? "")),
    cell("recipe", h("span", { class: "wrap" }, kind)),
    cell("agents", integer(row.agents)),
    cell("progress", progress(row)),
    cell("last ten", number(row.last_ten)),
    cell("best", number(row.best)),
    cell("curve", row.spark?.length > 1 ? spark(row.spark) : ""),
    cell("steps/s", row.status === "running" || row.speed ? number(row.speed) : ""),
    cell("time left", row.left === null || row.left === undefined ? "" : duration(row.left)),
    cell("updated", ago(row.updated)),
  ];
}

export function progress(row) {
  if (!row.asked) return h("span", { class: "quiet" }, row.steps ? steps(row.steps) : "");
  const share = Math.min(1, row.steps / row.asked);
  const text = `${steps(row.steps)} of ${steps(row.asked)}`;
  return h("span", { class: "progress", title: `${integer(row.steps)} of ${integer(row.asked)} steps` },
    h("progress", { value: share, max: 1, "aria-label": text }), h("span", { class: "quiet" }, text));
}

/** A small curve without axes. */
function spark(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const points = values.map((y, k) => `${((k / (values.length - 1)) * 98 + 1).toFixed(1)},${(23 - ((y - low) / (high - low || 1)) * 22).toFixed(1)}`);
  return s("svg", { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("polyline", { points: points.join(" "), fill: "none" }));
}

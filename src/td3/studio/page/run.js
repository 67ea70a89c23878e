// The page of one run.

import { ask, link } from "./api.js";
import { CurveView } from "./curves.js";
import { h, table } from "./dom.js";
import { Episodes } from "./episodes.js";
import { clock, duration, integer, number, value } from "./format.js";
import { progress } from "./list.js";
import { Metrics } from "./metrics.js";
import { Points } from "./parallel.js";

const DETAIL_MS = 10_000; // between readings of everything but the numbers

export class RunPage {
  constructor(runs, key) {
    Object.assign(this, { runs, key, title: key, detail: null, asked: 0 });
    this.head = h("div", { class: "panel" });
    this.problem = h("div");
    this.checks = h("div", { role: "status" });
    this.curves = new CurveView(runs, [key], "Learning curve");
    this.metrics = new Metrics(key);
    this.episodes = new Episodes(key);
    this.points = new Points([key]);
    this.rest = h("div", { class: "columns" });
    this.parts = [this.curves, this.metrics, this.episodes, this.points];
    this.element = h("div", {}, h("p", {}, h("a", { href: "#/" }, "← All runs")), this.head, this.problem, this.checks,
      this.curves.element, this.points.element, this.metrics.element, this.episodes.element, this.rest);
  }

  opened() {
    this.load();
    ask("units", { run: this.key }).then((answer) => {
      this.units = answer;
      this.drawChecks();
    }, () => {});
  }

  update(keys) {
    const row = this.runs.rows.get(this.key);
    if (!row && this.runs.loaded && keys.has(this.key)) {
      this.problem.replaceChildren(note("error", "This run does not exist any more", "It was deleted, moved or renamed. What is shown was read before."));
      return;
    }
    if (!row || !keys.has(this.key) || !this.detail) return;
    const before = this.detail.row;
    this.detail.row = row;
    this.drawHead();
    this.metrics.refresh();
    if (row.evaluations !== before.evaluations) {
      this.curves.refresh();
      this.episodes.load();
    }
    this.soon(row.status !== before.status || row.warnings !== before.warnings ? 500 : DETAIL_MS);
  }

  /** Read everything again, not too often. */
  soon(pause) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), Math.max(0, this.asked + pause - Date.now()));
  }

  async load() {
    this.asked = Date.now();
    try {
      this.detail = await ask("run", { run: this.key });
      this.problem.replaceChildren();
    } catch (error) {
      this.problem.replaceChildren(note("error", "This run cannot be shown", error.message));
      return;
    } finally {
      for (const part of [this.curves, this.metrics]) part.element.hidden = !this.detail;
    }
    if (this.closed) return;
    this.drawHead();
    this.drawChecks();
    this.drawRest();
    this.metrics.describe(this.detail);
    this.episodes.describe(this.detail);
    this.points.element.hidden = !(this.detail.row.grid > 1);
    if (!this.points.element.hidden) this.points.load();
  }

  drawHead() {
    const { row, folder, command, play, playable, policies, checkpoints } = this.detail;
    const facts = [
      ["task", row.task], ["recipe", row.recipe], ["variant", row.variant],
      ["agents", row.agents && integer(row.agents)],
      ["best", number(row.best) && `${number(row.best)} at step ${integer(row.best_step)}`],
      ["last ten", number(row.last_ten)],
      ["speed", row.speed && `${number(row.speed)} steps/s`],
      ["time left", duration(row.left)],
      ["training time", duration(this.detail.wall_seconds)],
      ["started", clock(row.started)],
    ].filter(([, text]) => text);
    const buttons = [
      policies.length && playable ? h("a", { class: "button primary", href: `play/${play}/`, target: "_blank" }, "Playground") : "",
      checkpoints.length ? h("a", { class: "button", href: `microscope.html?run=${encodeURIComponent(this.key)}` }, "Microscope") : "",
      h("a", { class: "button", href: `#/compare/${encodeURIComponent(JSON.stringify([this.key]))}` }, "Compare"),
    ];
    this.head.replaceChildren(
      h("div", { class: "row" }, h("h2", { class: "wrap" }, this.key === "." ? folder : this.key), h("span", { class: `status ${row.status}` }, row.status), h("span", { class: "wide" }, progress(row)), h("span", { class: "grow" }), ...buttons),
      h("dl", { class: "facts" }, facts.map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", { class: "wrap" }, text)))),
      command ? copyable("Train it again", command) : "",
    );
  }

  drawChecks() {
    const { row, checks } = this.detail ?? { checks: [] };
    const all = [...checks, ...(this.units?.checks ?? [])];
    if (row?.problem) all.unshift({ name: "corrupt", status: "error", text: row.problem, advice: `td3 doctor ${this.detail.folder} --repair may restore it from a checkpoint.` });
    if (row?.status === "killed") all.push({ name: "killed", status: "warning", text: "The run has no end, and no process on this machine trains it.", advice: `Continue with: td3 resume ${this.detail.folder}` });
    this.checks.replaceChildren(...all.map((check) => note(check.status, `${check.name}: ${check.text}`, check.advice)));
  }

  drawRest() {
    const { events, films, policies, exports, settings, origin } = this.detail;
    const parts = [];
    if (policies.length) parts.push(panel("Policies and exports", this.exportForm(policies, exports)));
    if (films.length) parts.push(panel("Films", films.map((name) => film(this.key, name))));
    if (this.films === undefined || this.films !== films.join()) this.films = films.join();
    parts.push(panel("Events", events.length ? h("div", { class: "tall" }, table(["time", "event", { text: "step", class: "number" }, ""], events.map((event) => [clock(event.time), event.event, { text: integer(event.step), class: "number" }, { text: event.text, class: "wrap" }]))) : h("p", { class: "quiet" }, "None yet.")));
    if (settings) {
      const rows = Object.entries(settings).map(([name, given]) => [{ text: name, class: "wrap" }, { text: value(given), class: "wrap" }]);
      const facts = Object.values(origin).flatMap((own) => Object.entries(own)).map(([name, given]) => [name, { text: value(given), class: "wrap" }]);
      parts.push(panel("Settings", h("div", { class: "tall" }, table(["setting", "value"], rows))));
      parts.push(panel("Versions and machine", h("div", { class: "tall" }, table(["", ""], facts))));
    }
    const state = JSON.stringify([events, films, policies, settings]);
    if (state !== this.state) this.rest.replaceChildren(...parts); // a film that plays is not disturbed
    this.state = state;
  }

  exportForm(policies, exports) {
    const policy = h("select", { "aria-label": "Policy" }, policies.map((name) => h("option", {}, name)));
    const message = h("p", { class: "quiet", role: "status" });
    const buttons = exports.map((kind) => h("button", { onclick: async () => {
      for (const own of buttons) own.disabled = true;
      await download(this.key, policy.value, kind, message).catch((error) => { message.textContent = error.message; });
      for (const own of buttons) own.disabled = false;
    } }, LABELS[kind] ?? kind));
    return [h("div", { class: "row" }, policy, ...buttons), message,
      h("p", { class: "quiet" }, "Each export contains everything between the raw observation and the actuator, and test vectors. It is made now, in a temporary folder; the run is not changed.")];
  }

  redraw() {
    for (const part of this.parts) part.redraw?.();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    for (const part of this.parts) part.close?.();
  }
}

const LABELS = { policy: "policy file", numpy: "NumPy", c: "C", js: "JavaScript", onnx: "ONNX", torch: "torch.export" };

/** Store an export as a file. */
async function download(run, policy, kind, message) {
  message.textContent = `Making ${LABELS[kind]} of ${policy} …`;
  const response = await fetch(link("export", { run, policy, kind }));
  const type = response.headers.get("Content-Type") ?? "";
  if (!response.ok || type.startsWith("application/json")) {
    message.textContent = response.ok ? (await response.json()).error : "This policy does not exist, or it was deleted.";
    return;
  }
  const name = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? "policy";
  const address = URL.createObjectURL(await response.blob());
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  message.textContent = `Stored as ${name}.`;
}

function film(run, name) {
  const source = link("film", { run, name });
  const shown = name.endsWith(".gif") ? h("img", { src: source, alt: name, loading: "lazy" }) : h("video", { src: source, controls: true, muted: true, loop: true, preload: "metadata", playsInline: true });
  return h("figure", { class: "film" }, shown, h("figcaption", { class: "quiet" }, name));
}

export function panel(title, ...content) {
  return h("section", { class: "panel" }, h("h2", {}, title), ...content);
}

export function note(kind, text, advice) {
  return h("div", { class: `note ${kind}` }, h("strong", { class: "wrap" }, text), advice ? h("div", { class: "wrap" }, advice) : "");
}

/** A text with a button that copies it. */
export function copyable(label, text) {
  const button = h("button", { onclick: async () => {
    await navigator.clipboard?.writeText(text).catch(() => {});
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return h("div", { class: "copyable" }, h("span", { class: "quiet" }, label), h("code", { class: "wrap" }, text), button);
}

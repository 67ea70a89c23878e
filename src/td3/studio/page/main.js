// The studio: which view the address names, and what is new.

import { Runs } from "./api.js";
import { ComparePage } from "./compare.js";
import { h } from "./dom.js";
import { ListPage } from "./list.js";
import { RunPage } from "./run.js";
import { StudyPage } from "./study.js";

const main = document.querySelector("main");
const connection = document.getElementById("connection");
const runs = new Runs((keys) => {
  connection.textContent = runs.failed ? "The server does not answer: is td3 studio still running?" : "";
  document.getElementById("folder").textContent = runs.name;
  view?.update(keys);
});
const list = new ListPage(runs);
let view = null;

/** Show the view of the address: #/run/NAME, #/compare/[NAMES], #/study/NAME, or the list. */
function show() {
  view?.close?.();
  const [, kind = "", rest = ""] = /^#\/(\w+)\/(.*)$/.exec(location.hash) ?? [];
  const name = decode(rest);
  if (kind === "run") view = new RunPage(runs, name);
  else if (kind === "compare") view = new ComparePage(runs, parse(name));
  else if (kind === "study") view = new StudyPage(runs, name);
  else view = list;
  document.title = view.title ? `${view.title} – td3 studio` : "td3 studio";
  main.replaceChildren(view.element);
  window.scrollTo(0, view.scroll ?? 0);
  view.update(new Set(runs.rows.keys()));
  view.opened?.();
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function parse(text) {
  try {
    const found = JSON.parse(text);
    return Array.isArray(found) ? found.filter((item) => typeof item === "string") : [];
  } catch {
    return [];
  }
}

const typing = (target) => target.matches("input:not([type=checkbox]), select, textarea");

document.addEventListener("keydown", (event) => {
  const help = document.getElementById("help");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && typing(event.target)) event.target.blur();
  else if (event.key === "Escape" && !help.open && view !== list) location.hash = "#/";
  else if (typing(event.target)) return;
  else if (event.key === "?") help.showModal();
  else if (view.press?.(event)) event.preventDefault();
});
document.getElementById("keys").addEventListener("click", () => document.getElementById("help").showModal());
window.addEventListener("hashchange", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.redraw?.());
main.append(h("p", { class: "quiet" }, "Reading the runs …"));
show();
runs.follow();

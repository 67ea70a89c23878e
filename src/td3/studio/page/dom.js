// Nodes from data. Text becomes text nodes: nothing from a run is ever read as HTML.

/** An element with properties and children; `class`, `on…` and attributes by their names. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  set(element, properties);
  element.append(...flat(children));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element. */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...flat(children));
  return element;
}

function set(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value);
  }
}

function flat(children) {
  return children.flat(2).filter((child) => child !== null && child !== undefined && child !== "");
}

/** A table with a header; cells are nodes, texts, or {text, class}. */
export function table(header, rows, properties = {}) {
  const cell = (tag) => (content) => {
    if (content instanceof Node || typeof content !== "object" || content === null) return h(tag, {}, content ?? "");
    return h(tag, { class: content.class, title: content.title, scope: tag === "th" ? "col" : null }, content.text ?? "");
  };
  return h("div", { class: "scroll", ...properties },
    h("table", {}, h("thead", {}, h("tr", {}, header.map(cell("th")))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell("td")))))));
}

/** A colour of style.css as the current theme resolves it. */
export function colour(name) {
  const probe = h("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export const SERIES = 8;

/** The colour of series number k. */
export function seriesColour(k) {
  return colour(`series-${(k % SERIES) + 1}`);
}

/** The same colour, translucent. */
export function faded(rgb, alpha) {
  const numbers = rgb.match(/[\d.]+/g) ?? ["0", "0", "0"];
  return `rgba(${numbers.slice(0, 3).join(",")},${alpha})`;
}

// Step 4: the batch as a table, and the episode of the chosen transition.

import { axes, colour, extent, label, line, points, ring, short } from "./microscope-draw.js";

const ROWS = 300;
let body, head, holder, note, picture, chart, order = "number", rising = true;

const columns = (u) => [
  ["number", "#", (k) => k + 1, (k) => k],
  ...(u.transition ? [
    ["age", "stored as", (k) => u.transition[k].toLocaleString("en"), (k) => u.transition[k]],
    ["episode", "in its episode", (k) => `${u.position[k] + 1} of ${u.length[k]}${u.complete[k] ? "" : "+"}`, (k) => u.position[k]],
  ] : []),
  ...(u.state ? [["state", "state", (k) => u.state[k].slice(0, 4).map(short).join(", ") + (u.state_size > 4 ? ", …" : ""), (k) => u.state[k][0]]] : []),
  ["action", "action", (k) => u.action[k].slice(0, 3).map(short).join(", ") + (u.action[k].length > 3 ? ", …" : ""), (k) => u.action[k][0]],
  ["reward", "reward", (k) => short(u.reward[k]), (k) => u.reward[k]],
  ["done", "done", (k) => u.done[k] === 1 ? "yes" : "", (k) => u.done[k]],
  ["target", "target", (k) => short(u.target_q[k]), (k) => u.target_q[k]],
  ["error", "|error|", (k) => short(Math.abs(u.values[0][k] - u.target_q[k])), (k) => Math.abs(u.values[0][k] - u.target_q[k])],
];

export function batchTable() {
  holder = document.createElement("div");
  holder.className = "batch";
  const table = document.createElement("table");
  head = table.createTHead();
  body = table.createTBody();
  holder.append(table);
  holder.tabIndex = 0;
  holder.setAttribute("aria-label", "The transitions of the batch");
  return holder;
}

batchTable.fill = (u, page) => {
  const own = columns(u), row = document.createElement("tr");
  for (const [name, title] of own) {
    const cell = document.createElement("th"), button = document.createElement("button");
    button.textContent = title + (order === name ? (rising ? " ↑" : " ↓") : "");
    button.onclick = () => { rising = order === name ? !rising : true; order = name; batchTable.fill(u, page); };
    cell.append(button);
    row.append(cell);
  }
  head.replaceChildren(row);
  const by = (own.find(([name]) => name === order) ?? own[0])[3];
  const sorted = u.reward.map((_, k) => k).sort((a, b) => (rising ? by(a) - by(b) : by(b) - by(a))).slice(0, ROWS);
  body.replaceChildren(...sorted.map((k) => {
    const line = document.createElement("tr");
    line.dataset.sample = k;
    line.tabIndex = 0;
    if (k === page.sample) line.className = "chosen";
    for (const [, , text] of own) line.insertCell().textContent = text(k);
    line.onclick = () => page.choose(k);
    line.onkeydown = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); page.choose(k); } };
    return line;
  }));
  const chosen = body.querySelector(".chosen");
  if (chosen) holder.scrollTop = Math.max(0, chosen.offsetTop - holder.clientHeight / 2);
};

export function episodeChart() {
  const figure = document.createElement("figure");
  figure.className = "wide";
  chart = document.createElement("canvas");
  picture = document.createElement("canvas");
  picture.className = "picture";
  picture.hidden = true;
  note = document.createElement("figcaption");
  figure.append(picture, chart, note);
  return figure;
}

episodeChart.fill = (found, u, page) => {
  showPicture(found.image);
  chart.hidden = !found.rewards;
  if (!found.rewards) { note.textContent = "This replay buffer cannot tell which episode a transition came from."; return; }
  const xs = found.rewards.map((_, k) => k + 1), at = found.position;
  const plot = axes(chart, { x: [0, xs.length + 1], y: extent(found.rewards), xlabel: "step of the episode", ylabel: "reward" });
  line(plot, xs, found.rewards, { stroke: colour("--series-1"), width: 1.5 });
  const others = found.chosen.filter((k) => k !== at);
  points(plot, others.map((k) => xs[k]), others.map((k) => found.rewards[k]), { fill: colour("--series-3"), size: 4, alpha: 1 });
  ring(plot, xs[at], found.rewards[at], colour("--series-2"));
  label(plot, `transition ${page.sample + 1}`, plot.px(xs[at]) + (at > xs.length / 2 ? -12 : 12), plot.py(found.rewards[at]), colour("--text"), at > xs.length / 2 ? "right" : "left");
  const start = found.complete ? "" : " The beginning of the episode was overwritten, or never stored.";
  const several = others.length ? ` Green: ${others.length} more of this batch from the same episode.` : "";
  note.textContent = `The episode that transition ${page.sample + 1} came from: the transitions ${found.first.toLocaleString("en")} to ${(found.first + xs.length - 1).toLocaleString("en")} of this agent${u.count > 1 ? ", mixed with those of its other environments" : ""}.${several}${start}`;
};

function showPicture(image) {
  picture.hidden = !image;
  if (!image) return;
  const { shape, pixels } = image;
  const last = shape.length === 3 && shape[2] <= shape[0], three = shape.length === 3;
  const [height, width] = three && !last ? shape.slice(1) : shape, channels = three ? (last ? shape[2] : shape[0]) : 1;
  picture.width = width;
  picture.height = height;
  const data = new ImageData(width, height);
  for (let p = 0; p < width * height; p += 1) {
    const value = (c) => pixels[last || !three ? p * channels + (c % channels) : (c % channels) * width * height + p];
    data.data.set([value(0), value(1), value(2), 255], 4 * p);
  }
  picture.getContext("2d").putImageData(data, 0, 0);
}

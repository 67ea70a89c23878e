// The figures of the steps. `figures[n]` lists [kind, caption, draw] for step n; `draw` gets the
// element, the update, the landscape of the chosen transition and the state of the page.

import * as d from "./microscope-draw.js";

const first = () => d.colour("--series-1"), second = () => d.colour("--series-2");
const third = () => d.colour("--series-3"), quiet = () => d.colour("--border");
const critics = (u) => u.values.map((_, k) => (k === 0 ? first() : k === 1 ? second() : quiet()));
const column = (rows, k) => rows.map((row) => row[k]);
const noted = new WeakMap();

// A click on a point chooses the transition.
function choosable(canvas, plot, xs, ys, choose) {
  noted.set(canvas, { plot, xs, ys });
  if (canvas.onclick) return;
  canvas.style.cursor = "pointer";
  canvas.onclick = (event) => {
    const at = noted.get(canvas), box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    let best = -1, least = 400;
    at.xs.forEach((v, k) => {
      const far = (at.plot.px(v) - x) ** 2 + (at.plot.py(at.ys[k]) - y) ** 2;
      if (far < least) [best, least] = [k, far];
    });
    if (best >= 0) choose(best % at.count);
  };
  noted.get(canvas).count = xs.length;
}
function pick(canvas, plot, xs, ys, page) {
  choosable(canvas, plot, xs, ys, page.choose);
  noted.get(canvas).count = page.count;
}

function planeAxes(canvas, u, page, landscape) {
  canvas.classList.add("square");
  const [x, y] = landscape.dims, wide = 1.06;
  return d.axes(canvas, {
    x: [-u.limits[x] * wide, u.limits[x] * wide], y: [-u.limits[y] * wide, u.limits[y] * wide],
    xlabel: `action ${x + 1}`, ylabel: `action ${y + 1}`,
  });
}

function proposals(canvas, u, l, page) {
  const k = page.dims[0], xs = column(u.next_action, k), ys = column(u.smoothed_action, k), limit = u.limits[k] * 1.06;
  const plot = d.axes(canvas, { x: [-limit, limit], y: [-limit, limit], xlabel: `next action (5), number ${k + 1}`, ylabel: "smoothed (6)" });
  const clip = u.settings.noise_clip * u.limits[k];
  d.line(plot, [-limit, limit], [-limit, limit], { stroke: quiet(), width: 1 });
  for (const side of [-clip, clip]) d.line(plot, [-limit, limit], [-limit + side, limit + side], { stroke: quiet(), width: 1, dash: [4, 4] });
  d.points(plot, xs, ys, { fill: first(), chosen: page.sample });
  pick(canvas, plot, xs, ys, page);
}

function cloud(canvas, u, l, page) {
  const s = page.sample, clip = u.settings.noise_clip;
  if (page.dims.length < 2) {
    const k = page.dims[0], limit = u.limits[k], counts = new Array(41).fill(0);
    for (const row of l.cloud) counts[Math.min(40, Math.floor(((row[k] + limit) / (2 * limit)) * 41))] += 1;
    const plot = d.axes(canvas, { x: [-limit * 1.06, limit * 1.06], y: [0, Math.max(...counts) * 1.1], xlabel: "action", ylabel: "how often" });
    plot.context.fillStyle = first();
    const each = (2 * limit) / 41;
    counts.forEach((n, i) => {
      const x = -limit + i * each;
      plot.context.fillRect(plot.px(x) + 0.5, plot.py(n), plot.px(x + each) - plot.px(x) - 1, plot.py(0) - plot.py(n));
    });
    for (const side of [-clip, clip]) d.line(plot, [u.next_action[s][k] + side * limit, u.next_action[s][k] + side * limit], [0, 1e9], { stroke: quiet(), width: 1, dash: [4, 4] });
    d.line(plot, [u.next_action[s][k], u.next_action[s][k]], [0, 1e9], { stroke: d.colour("--text"), width: 2 });
    d.line(plot, [u.smoothed_action[s][k], u.smoothed_action[s][k]], [0, 1e9], { stroke: second(), width: 3 });
    return;
  }
  const plot = planeAxes(canvas, u, page, l.target), [x, y] = page.dims;
  const { context, px, py } = plot, at = u.next_action[s], cx = clip * u.limits[x], cy = clip * u.limits[y];
  context.strokeStyle = quiet();
  context.setLineDash([4, 4]);
  context.strokeRect(px(at[x] - cx), py(at[y] + cy), px(at[x] + cx) - px(at[x] - cx), py(at[y] - cy) - py(at[y] + cy));
  context.setLineDash([]);
  context.strokeRect(px(-u.limits[x]), py(u.limits[y]), px(u.limits[x]) - px(-u.limits[x]), py(-u.limits[y]) - py(u.limits[y]));
  d.points(plot, column(l.cloud, x), column(l.cloud, y), { fill: first(), alpha: 0.45 });
  d.ring(plot, at[x], at[y], d.colour("--panel"));
  d.ring(plot, u.smoothed_action[s][x], u.smoothed_action[s][y], second());
}

function curves(canvas, landscape, u, { lowest = false, ylabel = "value" }) {
  const [xs] = landscape.axes, k = landscape.dims[0], limit = u.limits[k] * 1.06;
  const plot = d.axes(canvas, { x: [-limit, limit], y: d.extent(landscape.values.flat()), xlabel: `action ${k + 1}`, ylabel });
  if (lowest) {
    const small = xs.map((_, i) => Math.min(...landscape.values.map((row) => row[i])));
    d.line(plot, xs, small, { stroke: d.fade(third(), 0.3), width: 12 });
  }
  landscape.values.forEach((row, n) => d.line(plot, xs, row, { stroke: critics(u)[n] ?? quiet(), width: n > 1 ? 1 : 2 }));
  return plot;
}

function valueLandscape(canvas, u, l, page) {
  const { target } = l, s = page.sample, at = u.smoothed_action[s];
  if (page.dims.length < 2) {
    const plot = curves(canvas, target, u, { lowest: true, ylabel: "value of the next state" });
    d.line(plot, [at[page.dims[0]], at[page.dims[0]]], plot.y, { stroke: d.colour("--text"), width: 1, dash: [3, 3] });
    u.next_values.forEach((row, n) => d.points(plot, [at[page.dims[0]]], [row[s]], { fill: critics(u)[n] ?? quiet(), size: 5, alpha: 1 }));
    return;
  }
  const lowest = target.values[0].map((row, j) => row.map((_, i) => Math.min(...target.values.map((own) => own[j][i]))));
  const hues = ["--series-1", "--series-2", "--series-4", "--series-5"].map((name) => d.colour(name));
  const [x, y] = page.dims, view = page.view;
  const tint = (k, i, j) => {
    const below = target.values[k][j][i] <= lowest[j][i] + 1e-9;
    return d.fade(hues[k % 4], below ? (((i >> 2) + (j >> 2)) % 2 ? 1 : 0.86) : 0.16);
  };
  const draw = () => d.surfaces(canvas, target, target.values.slice(0, 4), tint, view, [[at[x], at[y], u.kept_value[s], d.colour("--panel"), d.short(u.kept_value[s])]]);
  draw();
  turnable(canvas, view, draw);
}

function turnable(canvas, view, draw) {
  canvas.style.cursor = "grab";
  canvas.style.touchAction = "pan-y";
  canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); view.from = [event.clientX, event.clientY]; };
  canvas.onpointerup = canvas.onpointercancel = () => { view.from = null; };
  canvas.onpointermove = (event) => {
    if (!view.from) return;
    view.turn += (event.clientX - view.from[0]) / 120;
    view.tilt = Math.min(1.4, Math.max(0.1, view.tilt + (event.clientY - view.from[1]) / 160));
    view.from = [event.clientX, event.clientY];
    requestAnimationFrame(draw);
  };
}

function lowerMap(canvas, u, l, page) {
  const { target } = l, s = page.sample;
  if (page.dims.length < 2) {
    const gaps = u.next_values[1] ? u.next_values[1].map((v, k) => v - u.next_values[0][k]) : u.next_values[0].map(() => 0);
    const kept = u.kept_value.map((v, k) => v - u.next_values[0][k]);
    const plot = d.axes(canvas, { x: d.extent(gaps), y: d.extent([...kept, 0]), xlabel: "second − first critic (7)", ylabel: "kept − first (8)" });
    d.points(plot, gaps, kept, { fill: third(), chosen: s });
    pick(canvas, plot, gaps, kept, page);
    return;
  }
  const lowest = target.values[0].map((row, j) => row.map((_, i) => Math.min(...target.values.map((own) => own[j][i]))));
  const plot = planeAxes(canvas, u, page, target), [x, y] = page.dims;
  const [low, high] = d.heat(plot, target, lowest);
  d.ring(plot, u.next_action[s][x], u.next_action[s][y], d.colour("--panel"));
  d.ring(plot, u.smoothed_action[s][x], u.smoothed_action[s][y], second());
  d.label(plot, `${d.short(low)} (dark) to ${d.short(high)} (bright)`, plot.box.left + 8, plot.box.bottom - 12);
}

function bellman(canvas, u, l, page) {
  const order = u.target_q.map((_, k) => k).sort((a, b) => u.target_q[a] - u.target_q[b]);
  const all = [...u.target_q, ...u.reward, ...u.bootstrap, 0];
  const plot = d.axes(canvas, { x: [-0.5, order.length - 0.5], y: d.extent(all), xlabel: "transitions of the batch, by target", ylabel: "target (9)" });
  const { context, px, py } = plot, wide = Math.max(1, px(1) - px(0) - 0.4);
  order.forEach((k, i) => {
    const x = px(i - 0.5), down = u.bootstrap[k] < 0 === u.reward[k] < 0;
    context.fillStyle = first();
    context.fillRect(x, Math.min(py(0), py(u.bootstrap[k])), wide, Math.abs(py(u.bootstrap[k]) - py(0)));
    context.fillStyle = second();
    const from = down ? u.bootstrap[k] : 0, to = from + u.reward[k];
    context.fillRect(x, Math.min(py(from), py(to)), wide, Math.max(1, Math.abs(py(to) - py(from))));
  });
  d.line(plot, order.map((_, i) => i), order.map((k) => u.target_q[k]), { stroke: d.colour("--text"), width: 1.5 });
  const at = order.indexOf(page.sample);
  d.ring(plot, at, u.target_q[page.sample], d.colour("--panel"));
  pick(canvas, plot, order.map((_, k) => order.indexOf(k)), u.target_q, page);
}

function against(canvas, u, l, page) {
  const range = d.extent([...u.target_q, ...u.values.flat()]);
  const plot = d.axes(canvas, { x: range, y: range, xlabel: "target (9)", ylabel: "value of the critic (10)" });
  d.line(plot, range, range, { stroke: quiet(), width: 1 });
  u.values.slice(0, 2).forEach((row, n) => d.points(plot, u.target_q, row, { fill: critics(u)[n], chosen: page.sample }));
  pick(canvas, plot, u.target_q, u.values[0], page);
}

function errors(canvas, u, l, page) {
  const needed = u.values[0].map((v, k) => u.target_q[k] - v), change = u.values[0].map((v, k) => u.values_after[0][k] - u.values_before[0][k]);
  const plot = d.axes(canvas, { x: d.extent([...needed, 0]), y: d.extent([...change, 0]), xlabel: "needed: target − Q1", ylabel: "change of Q1" });
  d.line(plot, plot.x, [0, 0], { stroke: quiet(), width: 1 });
  d.line(plot, [0, 0], plot.y, { stroke: quiet(), width: 1 });
  d.points(plot, needed, change, { fill: first(), chosen: page.sample });
  pick(canvas, plot, needed, change, page);
}

function layerBars(field, digits) {
  return (canvas, u) => {
    const rows = [];
    for (const [name, layers] of Object.entries(u[field])) {
      for (const [layer, numbers] of Object.entries(layers)) numbers.slice(0, 3).forEach((x, k) => rows.push([
        `${name}${numbers.length > 1 ? ` ${k + 1}` : ""} ${layer.replace("_", " ")}`, x, digits(x), name === "actor" ? third() : k ? second() : first()]));
    }
    canvas.style.height = `${Math.max(8, rows.length * 1.7)}rem`;
    d.bars(canvas, rows);
  };
}

function climb(canvas, u, l, page) {
  const s = page.sample, now = u.actor_action[s], next = u.actor_action_after[s];
  if (page.dims.length < 2) {
    const k = page.dims[0], plot = curves(canvas, { ...l.after, values: l.after.values.slice(0, 1) }, u, { ylabel: "Q1 in this state" });
    const value = (x) => { const [xs] = l.after.axes, row = l.after.values[0]; const i = Math.min(xs.length - 2, Math.max(0, xs.findIndex((v) => v > x) - 1)); return row[i] + ((x - xs[i]) / (xs[i + 1] - xs[i])) * (row[i + 1] - row[i]); };
    const reach = u.limits[k] * 0.3 * Math.sign(u.slope[s][k]);
    d.arrow(plot, [now[k], value(now[k])], [reach, u.slope[s][k] * reach], third());
    d.ring(plot, now[k], value(now[k]), d.colour("--panel"));
    if (u.due) d.points(plot, [next[k]], [value(next[k])], { fill: second(), size: 4, alpha: 1 });
    return;
  }
  const plot = planeAxes(canvas, u, page, l.after), [x, y] = page.dims;
  const [low, high] = d.heat(plot, l.after, l.after.values[0]);
  const size = Math.hypot(u.slope[s][x], u.slope[s][y]) || 1, reach = 0.35 * Math.min(u.limits[x], u.limits[y]);
  d.arrow(plot, [now[x], now[y]], [(u.slope[s][x] / size) * reach, (u.slope[s][y] / size) * reach], d.colour("--text"));
  d.ring(plot, now[x], now[y], d.colour("--panel"));
  if (u.due) d.points(plot, [next[x]], [next[y]], { fill: second(), size: 4, alpha: 1 });
  d.label(plot, `${d.short(low)} (dark) to ${d.short(high)} (bright)`, plot.box.left + 8, plot.box.bottom - 12);
}

function moved(canvas, u, l, page) {
  const k = page.dims[0], xs = column(u.slope, k), ys = u.actor_action_after.map((row, n) => row[k] - u.actor_action[n][k]);
  const plot = d.axes(canvas, { x: d.extent([...xs, 0]), y: d.extent([...ys, 0]), xlabel: `slope of Q1, action ${k + 1}`, ylabel: "change of the action" });
  d.line(plot, plot.x, [0, 0], { stroke: quiet(), width: 1 });
  d.line(plot, [0, 0], plot.y, { stroke: quiet(), width: 1 });
  d.points(plot, xs, ys, { fill: third(), chosen: page.sample });
  pick(canvas, plot, xs, ys, page);
}

function distances(names) {
  return (canvas, u) => {
    const rows = names.filter((name) => u.distances[name]).flatMap((name) => {
      const [before, after] = u.distances[name];
      return [[`${name}, before`, before, d.short(before), quiet()], [`${name}, after`, after, d.short(after), third()]];
    });
    canvas.style.height = `${rows.length * 2.2}rem`;
    d.bars(canvas, rows);
  };
}

const percent = (x) => `${d.short(100 * x)} %`;
export const figures = {
  5: [[cloud, (u) => `${u.limits.length > 1 ? "Empty ring" : "Dark line"}: the next action (5). Orange: the smoothed action of this update (6). Blue: others that the noise could have given. Dashed: the range of the clipped noise.`]],
  6: [[proposals, "All transitions of the batch: next action and smoothed action. Dashed: the noise clip."]],
  7: [[valueLandscape, (u) => `What the target critics say about every action in the chosen next state: blue the first, orange the second. ${u.limits.length > 1 ? "The lower one, which step 8 keeps, is opaque. Drag to turn." : "The broad line is the lower one, which step 8 keeps. Points: the smoothed action."}`]],
  8: [[lowerMap, (u) => u.limits.length > 1 ? "The lower envelope of both landscapes: the value that is kept. Empty ring: the next action. Orange: the smoothed one." : "All transitions: where the second critic is lower, its value is kept; otherwise that of the first."]],
  9: [[bellman, "Blue: discounted value of the next state. Orange: reward. Line: their sum, the target."]],
  10: [],
  11: [[against, "Every point is a transition: blue the first critic, orange the second. On the line, the error is zero."]],
  12: [
    [errors, "Top right and bottom left: values that moved towards their target."],
    [layerBars("gradients", d.short), "Norm of the gradient of each layer."],
    [layerBars("changes", percent), "Change of each layer, relative to its size."],
  ],
  13: [
    [climb, "The first critic's values in the chosen state. Ring: the actor's action. Arrow: the way up. Orange: where the actor's action is after the step."],
    [moved, "All transitions: where the slope is positive, the action should rise."],
  ],
  14: [[distances(["actor"]), "Distance of the actor's target from the actor, before and after the step."]],
  15: [[distances(["critic", "encoder"]), "Distance of the critics' targets from the critics."]],
};

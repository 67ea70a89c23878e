// Small charts on a canvas: axes, points, lines, bars, a height map and two surfaces.

const MARGIN = { left: 64, right: 24, top: 12, bottom: 40 };

const probe = document.createElement("i");
probe.hidden = true;
document.body.append(probe);

// A colour of the style sheet as rgb(…); it may depend on the light or dark scheme.
export function colour(name) {
  probe.style.color = `var(${name}, #888)`;
  return getComputedStyle(probe).color;
}
export const fade = (rgb, alpha) => rgb.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
export const short = (x) => {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  const size = Math.abs(x);
  if (size >= 1000) return x.toLocaleString("en", { maximumFractionDigits: 0 });
  if (size >= 0.001 || x === 0) return String(Number(x.toPrecision(3))).replace("-", "−");
  return x.toExponential(1).replace("-", "−").replace("e-", "e−");
};

export function extent(values, pad = 0.06) {
  let low = Infinity, high = -Infinity;
  for (const x of values) if (x !== null && Number.isFinite(x)) { if (x < low) low = x; if (x > high) high = x; }
  if (low > high) return [0, 1];
  const gap = (high - low || Math.abs(high) * 0.1 || 1) * pad;
  return [low - gap, high + gap];
}

function ticks([low, high], most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough) ?? rough;
  const found = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step / 1e6; x += step) found.push(Math.abs(x) < step / 1e6 ? 0 : x);
  return found;
}

// Prepares a canvas for its size on the screen; returns the context and the size in CSS pixels.
export function prepare(canvas) {
  const width = canvas.clientWidth, height = canvas.clientHeight, scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  return { context, width, height };
}

// Axes with grid; returns functions from values to pixels.
export function axes(canvas, { x, y, xlabel = "", ylabel = "" }) {
  const { context, width, height } = prepare(canvas);
  const box = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  const px = (v) => box.left + ((v - x[0]) / (x[1] - x[0])) * (box.right - box.left);
  const py = (v) => box.bottom - ((v - y[0]) / (y[1] - y[0])) * (box.bottom - box.top);
  context.strokeStyle = colour("--grid");
  context.fillStyle = colour("--quiet");
  context.lineWidth = 1;
  context.beginPath();
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const t of ticks(x, Math.max(2, width / 90))) {
    context.moveTo(px(t), box.top); context.lineTo(px(t), box.bottom);
    context.fillText(short(t), px(t), box.bottom + 5);
  }
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const t of ticks(y, Math.max(2, height / 55))) {
    context.moveTo(box.left, py(t)); context.lineTo(box.right, py(t));
    context.fillText(short(t), box.left - 6, py(t));
  }
  context.stroke();
  context.textAlign = "center";
  context.fillText(xlabel, (box.left + box.right) / 2, height - 9);
  context.save();
  context.translate(11, (box.top + box.bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.fillText(ylabel, 0, 0);
  context.restore();
  return { context, px, py, box, x, y, width, height };
}

export function line(plot, xs, ys, { stroke, width = 2, dash = [] }) {
  const { context, px, py, box } = plot;
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
  context.clip();
  context.beginPath();
  let open = false;
  xs.forEach((x, k) => {
    if (ys[k] === null || !Number.isFinite(ys[k])) { open = false; return; }
    open ? context.lineTo(px(x), py(ys[k])) : context.moveTo(px(x), py(ys[k]));
    open = true;
  });
  context.strokeStyle = stroke;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.stroke();
  context.restore();
}

export function points(plot, xs, ys, { fill, size = 2.5, alpha = 0.75, chosen = -1 }) {
  const { context, px, py } = plot;
  context.fillStyle = fill;
  context.globalAlpha = alpha;
  xs.forEach((x, k) => {
    if (x === null || ys[k] === null) return;
    context.beginPath();
    context.arc(px(x), py(ys[k]), size, 0, 7);
    context.fill();
  });
  context.globalAlpha = 1;
  if (chosen >= 0) ring(plot, xs[chosen], ys[chosen], fill);
}

export function ring(plot, x, y, fill) {
  const { context, px, py } = plot;
  context.beginPath();
  context.arc(px(x), py(y), 6, 0, 7);
  context.fillStyle = fill;
  context.fill();
  context.lineWidth = 2.5;
  context.strokeStyle = colour("--text");
  context.stroke();
}

export function arrow(plot, [x, y], [dx, dy], stroke) {
  const { context, px, py } = plot;
  const ax = px(x), ay = py(y), bx = px(x + dx), by = py(y + dy);
  const length = Math.hypot(bx - ax, by - ay);
  if (length < 1) return;
  const ux = (bx - ax) / length, uy = (by - ay) / length;
  context.strokeStyle = context.fillStyle = stroke;
  context.lineWidth = 2.5;
  context.beginPath();
  context.moveTo(ax, ay);
  context.lineTo(bx - 6 * ux, by - 6 * uy);
  context.stroke();
  context.beginPath();
  context.moveTo(bx, by);
  context.lineTo(bx - 10 * ux - 5 * uy, by - 10 * uy + 5 * ux);
  context.lineTo(bx - 10 * ux + 5 * uy, by - 10 * uy - 5 * ux);
  context.fill();
}

export function label(plot, text, x, y, fill = colour("--text"), align = "left") {
  const { context } = plot;
  context.font = "600 12px system-ui, sans-serif";
  context.textAlign = align;
  context.textBaseline = "middle";
  context.lineWidth = 4;
  context.strokeStyle = colour("--panel");
  context.strokeText(text, x, y);
  context.fillStyle = fill;
  context.fillText(text, x, y);
  context.font = "12px system-ui, sans-serif";
}

// Horizontal bars: rows of [name, value, text, colour], from zero.
export function bars(canvas, rows) {
  const { context, width, height } = prepare(canvas);
  const left = Math.min(190, width * 0.42), top = 4, each = (height - top) / rows.length;
  const most = Math.max(...rows.map((row) => row[1]), 1e-12);
  context.textBaseline = "middle";
  rows.forEach(([name, value, text, fill], k) => {
    const y = top + each * (k + 0.5), room = width - left - 74;
    context.fillStyle = colour("--text");
    context.textAlign = "right";
    context.fillText(name, left - 8, y);
    context.fillStyle = fill;
    context.fillRect(left, y - Math.min(9, each * 0.36), Math.max(1, (value / most) * room), Math.min(18, each * 0.72));
    context.fillStyle = colour("--quiet");
    context.textAlign = "left";
    context.fillText(text, left + Math.max(1, (value / most) * room) + 6, y);
  });
}

// From blue over grey to yellow; also distinct without red-green vision.
const STOPS = [[28, 62, 116], [54, 110, 150], [120, 160, 160], [205, 200, 130], [250, 226, 90]];
export function shade(t) {
  const at = Math.min(0.9999, Math.max(0, t)) * (STOPS.length - 1), k = Math.floor(at), f = at - k;
  return STOPS[k].map((c, i) => Math.round(c + (STOPS[k + 1][i] - c) * f));
}

export function heat(plot, landscape, values) {
  const { context, px, py } = plot, [xs, ys] = landscape.axes, flat = values.flat();
  const [low, high] = extent(flat, 0);
  const image = new ImageData(xs.length, ys.length);
  values.forEach((row, j) => row.forEach((v, i) => {
    image.data.set([...shade((v - low) / (high - low || 1)), 255], 4 * ((ys.length - 1 - j) * xs.length + i));
  }));
  const small = new OffscreenCanvas(xs.length, ys.length);
  small.getContext("2d").putImageData(image, 0, 0);
  const [x0, x1, y0, y1] = [px(xs[0]), px(xs.at(-1)), py(ys.at(-1)), py(ys[0])];
  context.imageSmoothingEnabled = true;
  context.drawImage(small, x0, y0, x1 - x0, y1 - y0);
  return [low, high];
}

// Surfaces over the same plane, seen from a side that a drag turns. `tint(k, i, j)`: the colour of
// a cell of surface k.
export function surfaces(canvas, landscape, heights, tint, view, marks) {
  const { context, width, height } = prepare(canvas), [xs, ys] = landscape.axes;
  const [low, high] = extent(heights.flat(2), 0), scale = Math.min(width / 2.9, height / 2.5);
  const cos = Math.cos(view.turn), sin = Math.sin(view.turn), tilt = Math.sin(view.tilt), rise = Math.cos(view.tilt);
  const unit = (v, axis) => (2 * (v - axis[0])) / (axis.at(-1) - axis[0]) - 1;
  const project = (x, y, z) => {
    const u = cos * x - sin * y, v = sin * x + cos * y, h = ((z - low) / (high - low || 1)) * 1.3 - 0.65;
    return [width / 2 + scale * u, height / 2 - scale * (h * rise + v * tilt), v];
  };
  const cells = [];
  heights.forEach((surface, k) => {
    for (let j = 0; j + 1 < ys.length; j += 1) for (let i = 0; i + 1 < xs.length; i += 1) {
      const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]].map(([a, b]) => project(unit(xs[a], xs), unit(ys[b], ys), surface[b][a]));
      cells.push({ corners, depth: corners[0][2] + corners[2][2], fill: tint(k, i, j) });
    }
  });
  cells.sort((a, b) => b.depth - a.depth);
  const floor = [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([a, b]) => project(a, b, low));
  const trace = (corners) => { context.beginPath(); corners.forEach(([x, y], n) => (n ? context.lineTo(x, y) : context.moveTo(x, y))); context.closePath(); };
  context.strokeStyle = colour("--border");
  trace(floor);
  context.stroke();
  for (const { corners, fill } of cells) { trace(corners); context.fillStyle = context.strokeStyle = fill; context.lineWidth = 0.6; context.fill(); context.stroke(); }
  for (const [x, y, z, fill, text] of marks) {
    const [u, v] = project(unit(x, xs), unit(y, ys), z), [fu, fv] = project(unit(x, xs), unit(y, ys), low);
    context.beginPath(); context.moveTo(fu, fv); context.lineTo(u, v);
    context.strokeStyle = colour("--text"); context.lineWidth = 1; context.stroke();
    context.beginPath(); context.arc(u, v, 5, 0, 7);
    context.fillStyle = fill; context.fill(); context.lineWidth = 2; context.stroke();
    if (text) label({ context }, text, u + 10, v);
  }
  const names = landscape.dims.map((d) => `action ${d + 1}`);
  label({ context }, names[0], ...project(0, -1.18, low).slice(0, 2), colour("--quiet"), "center");
  label({ context }, names[1], ...project(1.18, 0, low).slice(0, 2), colour("--quiet"), "center");
}

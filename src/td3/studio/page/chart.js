// One chart: lines, means with intervals, references; zoom with mouse, touch pad or keyboard.

import { colour, faded, h } from "./dom.js";
import { number, steps } from "./format.js";
import uPlot from "./vendor/uplot.js";

const FONT = "12px system-ui, sans-serif";

/**
 * A line of a chart: {label, x, y, colour, width, alpha, dash, low, high, points}.
 * `low` and `high` make a band around it.
 */
export class Chart {
  /** `view` is called with [from, to] or null after a zoom; `log`: logarithmic y axis. */
  constructor({ label, height = 220, view = () => {}, log = false, hours = false, legend = false, format = number }) {
    Object.assign(this, { label, height, view, log, hours, legend, format });
    this.range = null;
    this.lines = [];
    this.box = h("div", { class: "chart", tabIndex: 0, role: "img", "aria-label": label, onkeydown: (event) => this.key(event), ondblclick: () => this.zoom(null) });
    this.readout = h("p", { class: "readout quiet number", "aria-hidden": "true" }, " ");
    this.element = h("div", { class: "charted" }, this.box, this.readout);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.box);
  }

  /** Show these lines. If only numbers changed, the chart stays as it is. */
  show(lines) {
    this.lines = lines;
    const data = columns(lines);
    const shape = JSON.stringify([lines.map((line) => [line.label, line.colour, line.width, line.alpha, line.dash, Boolean(line.low)]), this.log, this.hours]);
    this.box.setAttribute("aria-label", describe(this.label, lines, this.format));
    if (this.plot && shape === this.shape) this.plot.setData(data, true);
    else this.build(data, shape);
  }

  build(data, shape) {
    this.shape = shape;
    this.plot?.destroy();
    const width = this.box.clientWidth || 400;
    this.plot = new uPlot(this.options(width), data, this.box);
  }

  options(width) {
    const [text, grid] = [colour("quiet"), colour("grid")];
    const axis = { stroke: text, font: FONT, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 } };
    const series = [{ label: "x" }];
    const bands = [];
    for (const line of this.lines) {
      const stroke = faded(line.colour, line.alpha ?? 1);
      const points = { show: line.points ?? line.x.length < 3, size: 5, stroke, fill: stroke };
      series.push({ label: line.label, stroke, width: line.width ?? 1.5, dash: line.dash, spanGaps: true, points });
      if (line.low) {
        const edge = { stroke: "transparent", width: 0, spanGaps: true, auto: !this.log, points: { show: false } };
        bands.push({ series: [series.length + 1, series.length], fill: faded(line.colour, 0.18) });
        series.push({ ...edge, label: "low" }, { ...edge, label: "high" });
      }
    }
    return {
      width, height: this.height, series, bands,
      legend: { show: false },
      cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 7 }, focus: { prox: -1 } },
      scales: {
        x: { time: false, range: (_, low, high) => this.range ?? (low === high ? [low - 1, high + 1] : [low, high]) },
        y: { distr: this.log ? 3 : 1, range: this.log ? undefined : () => this.extent() },
      },
      axes: [
        { ...axis, size: 28, values: (_, ticks) => ticks.map((tick) => (this.hours ? `${Number(tick.toPrecision(3))} h` : steps(tick))) },
        { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : this.format(tick))) },
      ],
      hooks: {
        setCursor: [(plot) => this.read(plot)],
        setSelect: [(plot) => this.select(plot)],
      },
    };
  }

  /**
   * The range of y: all lines, and as much of the bands as does not flatten them. The interval of
   * two seeds is 12.7 standard errors wide.
   */
  extent() {
    const [min, max] = this.range ?? [-Infinity, Infinity];
    const ends = [Infinity, -Infinity, Infinity, -Infinity];
    for (const line of this.lines) {
      line.x.forEach((x, k) => {
        if (x < min || x > max || line.y[k] === null) return;
        ends[0] = Math.min(ends[0], line.y[k]);
        ends[1] = Math.max(ends[1], line.y[k]);
        if (!line.low) return;
        ends[2] = Math.min(ends[2], line.low[k]);
        ends[3] = Math.max(ends[3], line.high[k]);
      });
    }
    const [low, high, lowest, highest] = ends;
    if (low > high) return [0, 1];
    const room = (high - low) * 0.4;
    return padded(Math.min(low, Math.max(lowest, low - room)), Math.max(high, Math.min(highest, high + room)));
  }

  /** After a drag over a range. */
  select(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const range = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.zoom(range);
  }

  /** Show a range of x, or everything, and tell who wants to know. */
  zoom(range) {
    this.setRange(range);
    this.view(range);
  }

  setRange(range) {
    this.range = range;
    this.plot?.redraw(false, true);
    this.plot?.setData(this.plot.data, true);
  }

  key(event) {
    const scale = this.plot?.scales.x;
    if (!scale || scale.min === null) return;
    const [from, to] = [scale.min, scale.max];
    const step = (to - from) / 4;
    const ranges = {
      "+": [from + step, to - step], "=": [from + step, to - step], "-": [from - step, to + step],
      ArrowLeft: [from - step, to - step], ArrowRight: [from + step, to + step], 0: null,
    };
    if (!(event.key in ranges) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.zoom(ranges[event.key]);
  }

  /** The values below the mouse, as text. */
  read(plot) {
    const { idx } = plot.cursor;
    if (idx === null || idx === undefined) {
      this.readout.textContent = " ";
      return;
    }
    const x = plot.data[0][idx];
    const parts = [this.hours ? `${number(x)} h` : `step ${Math.round(x).toLocaleString("en-US")}`];
    plot.series.forEach((series, k) => {
      if (k && series.label !== "low" && series.label !== "high" && parts.length < 7) {
        const y = nearest(plot.data[k], idx);
        if (y !== null) parts.push(`${series.label} ${this.format(y)}`);
      }
    });
    this.readout.textContent = parts.join(" · ");
  }

  resize() {
    const width = this.box.clientWidth;
    if (this.plot && width && Math.abs(width - this.plot.width) > 1) this.plot.setSize({ width, height: this.height });
  }

  redraw() {
    this.shape = "";
    this.show(this.lines);
  }

  close() {
    this.observer.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }
}

/** All lines on common x values, as uPlot takes them. */
function columns(lines) {
  const tables = lines.map((line) => [line.x, line.y, ...(line.low ? [line.low, line.high] : [])]);
  if (!tables.length) return [[]];
  return tables.length === 1 ? tables[0] : uPlot.join(tables);
}

function padded(low, high) {
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

/** The value at a place, or the nearest one before it: lines have different x values. */
function nearest(values, idx) {
  for (let k = idx; k >= 0 && k > idx - 50; k -= 1) {
    if (values[k] !== null && values[k] !== undefined) return values[k];
  }
  return null;
}

/** The chart in words, for screen readers. */
function describe(label, lines, format) {
  const known = lines.filter((line) => line.y.length && line.label);
  const parts = known.slice(0, 6).map((line) => `${line.label}: ${format(line.y[0])} to ${format(line.y.at(-1))}`);
  return `${label}. ${parts.join("; ") || "No values yet"}.`;
}

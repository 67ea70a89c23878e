// Numbers and times as short text.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** At least three significant digits: 0.0123, 12.3, 1,234, 1.23e+12. */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "";
  const size = Math.abs(value);
  if (size >= 1e9 || (size > 0 && size < 1e-4)) return value.toExponential(2);
  if (size >= 1000) return whole.format(value).replace("-", "−");
  return String(Number(value.toPrecision(size >= 100 ? 4 : 3))).replace("-", "−");
}

export function integer(value) {
  return value === null || value === undefined ? "" : whole.format(value);
}

/** Steps on an axis: 250k, 1M. */
export function steps(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(4))}M`;
  return size >= 1e3 ? `${Number((value / 1e3).toPrecision(4))}k` : String(Number(value.toPrecision(4)));
}

/** The two largest units: 3 h 5 min, 2 min 7 s. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const all = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${rest} s` : `${rest} s`;
}

/** When something happened, relative to now. */
export function ago(time) {
  if (!time) return "";
  const seconds = Date.now() / 1000 - time;
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 30 * 86400) return `${Math.floor(seconds / 86400)} d ago`;
  return new Date(time * 1000).toISOString().slice(0, 10);
}

export function clock(time) {
  return time ? new Date(time * 1000).toLocaleString() : "";
}

/** A setting's value as text. */
export function value(given) {
  if (given === null || given === undefined) return "–";
  if (Array.isArray(given)) return given.join(", ") || "none";
  return typeof given === "number" ? String(given) : String(given);
}

/** A metric's name in words: critic_loss → critic loss. */
export function words(name) {
  return name.replace(/^info\./, "").replaceAll("_", " ");
}

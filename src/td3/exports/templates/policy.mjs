/* A policy without dependencies. Written by `td3 export --to js`.
 *
 *     import { Policy } from "./policy.mjs";
 *     const policy = new Policy();
 *     policy.reset();                          // at the start of each episode
 *     const action = policy.act(observation);  // arrays and objects as the environment gives them
 *     policy.ok;                               // false: the safe action was returned
 *
 * If the observation has NaN or infinity, a choice that does not exist or a pixel out of range, the
 * action is the safe action, zero within the bounds, and `ok` is false. Such an observation does
 * not enter the frame stack. An observation of another length throws a RangeError.
 *
 *     node policy.mjs --selftest [VECTORS]     // compare with recorded actions, measure the time
 */

const TOLERANCE = 1e-6; // of the range of each action
const ROUNDING = Math.fround(1e-3); // how far a pixel may exceed its range, as a share of it

export const PROGRAM = @PROGRAM@;

export class Policy {
  /** program: the policy as an object; by default the one in this file. */
  constructor(program = PROGRAM) {
    this.program = unpack(program);
    this.safeAction = this.program.low.map((low, k) => clip(0, low, this.program.high[k]));
    this.ok = true;
    this.reset();
  }

  /** Forget the observations of the last episode. Only policies with a frame stack keep them. */
  reset() {
    this.frames = [];
  }

  /** The action, flat, for one observation. */
  act(observation) {
    return this.actOn(this.read(observation));
  }

  /** The action for one flat observation, see `read`. */
  actOn(frame) {
    this.ok = frame.every(Number.isFinite);
    if (!this.ok) return [...this.safeAction];
    const { stack, steps, low, high } = this.program;
    const before = this.frames.length ? this.frames : Array(stack).fill(frame);
    this.frames = [...before, frame].slice(-stack);
    const state = new Float64Array(stack * frame.length);
    this.frames.forEach((numbers, k) => state.set(numbers, k * frame.length));
    const x = run(steps, state);
    const action = low.map((_, k) => {
      const share = (x[k] + 1) / 2;
      return clip(low[k] * (1 - share) + high[k] * share, low[k], high[k]);
    });
    this.ok = action.every(Number.isFinite);
    return this.ok ? action : [...this.safeAction];
  }

  /** One observation as the flat numbers that the network sees; NaN: invalid. */
  read(observation) {
    return this.join((part) => {
      const value = part.path.reduce((inner, key) => inner[key], observation);
      return typeof value === "number" ? [value] : flat(value);
    });
  }

  /** The same for an observation whose parts are already one vector, as in the test vectors. */
  readVector(vector) {
    let start = 0;
    return this.join((part) => vector.subarray(start, (start += length(part))));
  }

  /** One vector of all parts. */
  join(numbersOf) {
    const parts = this.program.inputs.map((part) => {
      const numbers = numbersOf(part);
      if (numbers.length !== length(part)) {
        const name = ["observation", ...part.path].join(".");
        throw new RangeError(`${name} has ${numbers.length} numbers, not ${length(part)}`);
      }
      return READERS[part.kind](part, Float32Array.from(numbers));
    });
    return parts.length === 1 ? parts[0] : Float32Array.from(parts.flatMap((own) => [...own]));
  }
}

const clip = (x, low, high) => Math.min(Math.max(x, low), high);
const length = (part) => part.shape.reduce((product, side) => product * side, 1);
const flat = (value) => (ArrayBuffer.isView(value) ? value : value.flat(Infinity));

const READERS = {
  numbers: (part, numbers) => numbers,
  choices: (part, numbers) =>
    Float32Array.from(
      part.counts.flatMap((count, k) => {
        const chosen = numbers[k] - part.starts[k];
        const known = Number.isInteger(chosen) && chosen >= 0 && chosen < count;
        return Array.from({ length: count }, (_, j) => (known ? +(j === chosen) : NaN));
      }),
    ),
  image: (part, numbers) => {
    const [low, high] = [Math.fround(part.low), Math.fround(part.high)];
    const margin = Math.fround(ROUNDING * Math.fround(high - low));
    const factor = Math.fround(255 / (part.high - part.low));
    return numbers.map((pixel) =>
      pixel >= Math.fround(low - margin) && pixel <= Math.fround(high + margin)
        ? roundEven(Math.fround(Math.fround(clip(pixel, low, high) - low) * factor))
        : NaN,
    );
  },
};

/** Round to the nearest integer, halves to the even one. */
function roundEven(x) {
  const below = Math.floor(x);
  const rest = x - below;
  return rest === 0.5 ? below + (below % 2) : Math.round(x);
}

/** Apply the steps to one vector. */
function run(steps, x) {
  for (const step of steps) x = OPERATIONS[step.op](x, step);
  return x;
}

const OPERATIONS = {
  normalize: (x, { shift, scale, clip: most }) =>
    x.map((number, k) => clip((number - shift[k]) * scale[k], -most, most)),
  relu: (x) => x.map((number) => Math.max(number, 0)),
  tanh: (x) => x.map(Math.tanh),
  pixels: (x) => x.map((number) => number / 255 - 0.5),
  layer_norm: (x, { epsilon }) => {
    const mean = x.reduce((sum, number) => sum + number, 0) / x.length;
    const variance = x.reduce((sum, number) => sum + (number - mean) ** 2, 0) / x.length;
    return x.map((number) => (number - mean) / Math.sqrt(variance + epsilon));
  },
  rms_norm: (x, { epsilon }) => {
    const square = x.reduce((sum, number) => sum + number ** 2, 0) / x.length;
    return x.map((number) => number / Math.sqrt(square + epsilon));
  },
  residual: (x, { branches: [[, own]] }) => {
    const changed = run(own, x);
    return x.map((number, k) => number + changed[k]);
  },
  dense: (x, { weight, bias }) => {
    const y = Float64Array.from(bias);
    const outputs = y.length;
    for (let i = 0, at = 0; i < x.length; i++, at += outputs) {
      const input = x[i];
      if (input === 0) continue; // many are zero after relu
      for (let j = 0; j < outputs; j++) y[j] += input * weight[at + j];
    }
    return y;
  },
  convolve: (x, { weight, bias, sides, stride, weight_sides }) => {
    const [channels, height, width] = sides;
    const [outputs, , kernel] = weight_sides;
    const rows = Math.floor((height - kernel) / stride) + 1;
    const columns = Math.floor((width - kernel) / stride) + 1;
    const y = new Float64Array(outputs * rows * columns);
    for (let o = 0; o < outputs; o++) {
      const image = y.subarray(o * rows * columns, (o + 1) * rows * columns).fill(bias[o]);
      for (let c = 0; c < channels; c++)
        for (let i = 0; i < kernel; i++)
          for (let j = 0; j < kernel; j++) {
            const w = weight[((o * channels + c) * kernel + i) * kernel + j];
            for (let row = 0; row < rows; row++) {
              const from = (c * height + row * stride + i) * width + j;
              for (let column = 0; column < columns; column++)
                image[row * columns + column] += w * x[from + column * stride];
            }
          }
    }
    return y;
  },
  branches: (x, { branches }) => {
    const parts = branches.map(([index, own]) => run(own, Float64Array.from(index, (k) => x[k])));
    return Float64Array.from(parts.flatMap((part) => [...part]));
  },
};

/** Turn packed arrays inside arrays and objects into typed arrays. */
function unpack(value) {
  if (Array.isArray(value)) return value.map(unpack);
  if (value === null || typeof value !== "object") return value;
  if ("base64" in value) return unpackArray(value);
  const table = {};
  for (const [key, item] of Object.entries(value)) {
    table[key] = unpack(item);
    if (item && item.base64 !== undefined) table[`${key}_sides`] = item.sides;
  }
  return table;
}

function unpackArray({ base64, dtype }) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const size = bytes.length / 4;
  if (dtype === "<i4") return Int32Array.from({ length: size }, (_, k) => view.getInt32(4 * k, true));
  return Float64Array.from({ length: size }, (_, k) => view.getFloat32(4 * k, true));
}

/** Compare with recorded actions; returns whether all agree. */
async function selftest(path) {
  const { readFileSync } = await import("node:fs");
  const bytes = readFileSync(path);
  const data = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  const policy = new Policy();
  const { inputs, stack, low, high, state_size } = policy.program;
  const size = inputs.reduce((sum, part) => sum + length(part), 0);
  const count = Math.floor(bytes.length / (4 * stack * size + 8 * low.length));
  const view = new DataView(data, 4 * count * stack * size);
  const times = [];
  let largest = 0;
  for (let row = 0; row < count; row++) {
    let action;
    policy.reset();
    for (let k = 0; k < stack; k++) {
      const frame = new Float32Array(data, 4 * (row * stack + k) * size, size);
      const begin = performance.now();
      action = policy.actOn(policy.readVector(frame));
      times.push(performance.now() - begin);
    }
    for (let k = 0; k < low.length; k++) {
      const expected = view.getFloat64(8 * (row * low.length + k), true);
      const error = Math.abs(action[k] - expected) / Math.max(high[k] - low[k], 1e-300);
      largest = policy.ok ? Math.max(largest, error) : 1;
    }
  }
  policy.actOn(new Float32Array(state_size / stack).fill(NaN));
  const safe = !policy.ok;
  const passed = safe && count > 0 && largest <= TOLERANCE;
  times.sort((a, b) => a - b);
  console.log(
    `${passed ? "passed" : "FAILED"}: ${count.toLocaleString("en")} observations, largest error ` +
      `${largest.toExponential(1)} of the action range, NaN ${safe ? "refused" : "ACCEPTED"}, ` +
      `median ${(1000 * times[times.length >> 1]).toFixed(1)} us per action`,
  );
  return passed;
}

if (typeof process !== "undefined" && process.argv && process.argv[2] === "--selftest") {
  const beside = new URL("policy_vectors.bin", import.meta.url);
  const passed = await selftest(process.argv[3] ?? beside);
  process.exitCode = passed ? 0 : 1;
}

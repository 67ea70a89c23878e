// NumPy's random numbers: SeedSequence, PCG64, uniform, standard_normal and integers below 2^31.
// With them a seed means the same episode here and in `td3 evaluate`.

import { TABLE } from "./ziggurat.js";

const MASK32 = 0xffffffffn;
const MASK64 = (1n << 64n) - 1n;
const MASK128 = (1n << 128n) - 1n;
const MULTIPLIER = (2549297995355413924n << 64n) + 4865540595714422341n;

/** The words that NumPy's SeedSequence makes from one or several whole numbers. */
export function seedSequence(entropy, words) {
  const given = [];
  for (const number of entropy) {
    let rest = BigInt(number);
    do {
      given.push(Number(rest & MASK32));
      rest >>= 32n;
    } while (rest > 0n);
  }
  let constant = 0x43b0d7e5;
  const hash = (value) => {
    value = (value ^ constant) >>> 0;
    constant = Math.imul(constant, 0x931e8875) >>> 0;
    value = Math.imul(value, constant) >>> 0;
    return (value ^ (value >>> 16)) >>> 0;
  };
  const mix = (x, y) => {
    const mixed = (Math.imul(x, 0xca01f9dd) - Math.imul(y, 0x4973f715)) >>> 0;
    return (mixed ^ (mixed >>> 16)) >>> 0;
  };
  const pool = Array.from({ length: 4 }, (_, i) => hash(given[i] ?? 0));
  for (let from = 0; from < 4; from++) {
    for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mix(pool[to], hash(pool[from]));
  }
  for (const word of given.slice(4)) {
    for (let to = 0; to < 4; to++) pool[to] = mix(pool[to], hash(word));
  }
  constant = 0x8b51f9dd;
  return Array.from({ length: words }, (_, i) => {
    let value = (pool[i % 4] ^ constant) >>> 0;
    constant = Math.imul(constant, 0x58f38ded) >>> 0;
    value = Math.imul(value, constant) >>> 0;
    return (value ^ (value >>> 16)) >>> 0;
  });
}

/** numpy.random.Generator(PCG64(SeedSequence(entropy))). */
export class Generator {
  constructor(...entropy) {
    const words = seedSequence(entropy, 8).map(BigInt);
    const wide = (i) => (words[i + 1] << 32n) | words[i];
    const state = (wide(0) << 64n) | wide(2);
    const increment = (wide(4) << 64n) | wide(6);
    this.increment = ((increment << 1n) | 1n) & MASK128;
    this.state = ((this.increment + state) * MULTIPLIER + this.increment) & MASK128;
    this.half = null;
  }

  next64() {
    this.state = (this.state * MULTIPLIER + this.increment) & MASK128;
    const turn = this.state >> 122n;
    const folded = (this.state >> 64n) ^ (this.state & MASK64);
    return ((folded >> turn) | (folded << (64n - turn))) & MASK64;
  }

  next32() {
    if (this.half !== null) {
      const kept = this.half;
      this.half = null;
      return kept;
    }
    const both = this.next64();
    this.half = both >> 32n;
    return both & MASK32;
  }

  /** integers(2**31), one number. */
  integer31() {
    return Number(this.next32() >> 1n);
  }

  /** random(): at least 0 and below 1. */
  random() {
    return Number(this.next64() >> 11n) / 2 ** 53;
  }

  /** uniform(low, high, size). */
  uniform(low, high, size) {
    return Float64Array.from({ length: size }, () => low + (high - low) * this.random());
  }

  /** standard_normal(size): the Ziggurat method with 256 layers. */
  normal(size) {
    return Float64Array.from({ length: size }, () => this.oneNormal());
  }

  oneNormal() {
    for (;;) {
      let bits = this.next64();
      const layer = Number(bits & 0xffn);
      bits >>= 8n;
      const isNegative = (bits & 1n) === 1n;
      const share = Number((bits >> 1n) & 0xfffffffffffffn);
      const x = isNegative ? -share * WIDTHS[layer] : share * WIDTHS[layer];
      if (share < INSIDE[layer]) return x;
      if (layer === 0) {
        for (;;) {
          const tail = -Math.log1p(-this.random()) / TAIL;
          const height = -Math.log1p(-this.random());
          if (2 * height <= tail * tail) continue;
          return (share / 256) & 1 ? -(TAIL + tail) : TAIL + tail;
        }
      }
      const between = (DENSITY[layer - 1] - DENSITY[layer]) * this.random() + DENSITY[layer];
      if (between < Math.exp(-0.5 * x * x)) return x;
    }
  }
}

// The layers of the Ziggurat. Their widths are those of NumPy, which differ from the exact ones in
// the last digits; a body that falls on its feet or not amplifies such a difference.
const TAIL = 3.6541528853610088;
const WIDTHS = new Float64Array(Uint8Array.from(atob(TABLE), (c) => c.charCodeAt(0)).buffer);
const DENSITY = WIDTHS.map((width, k) => (k ? Math.exp(-0.5 * (width * 2 ** 52) ** 2) : 1));
const INSIDE = WIDTHS.map((width, k) => Math.floor((WIDTHS[(k + 255) % 256] / width) * 2 ** 52));
INSIDE[1] = 0;

/** The seed of an episode of `td3 evaluate --seed`: the eval stream of td3's seeding.py. */
export function episodeSeed(seed, episode) {
  const stream = new Generator(seed, 5);
  let found = stream.integer31();
  for (let k = 0; k < episode; k++) found = stream.integer31();
  return found;
}

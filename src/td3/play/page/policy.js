// A policy: normalisation, layers with ReLU, tanh, and the range of the actuators.

export class Policy {
  /** `card` describes the network, `numbers` is its Float32Array: shift, scale, then the layers. */
  constructor(card, numbers) {
    this.card = card;
    let start = 0;
    const take = (size) => numbers.subarray(start, (start += size));
    const inputs = card.sizes[0];
    if (card.normalize_observations) [this.shift, this.scale] = [take(inputs), take(inputs)];
    this.layers = card.sizes.slice(1).map((outputs, k) => {
      const weight = take(card.sizes[k] * outputs);
      return { weight, bias: take(outputs), outputs };
    });
    if (start !== numbers.length) throw new Error("The policy's numbers do not fit its card.");
  }

  /** The action in [-1, 1] for one observation. Sums are float64, as NumPy's depend on the CPU. */
  act(observation) {
    let x = observation;
    if (this.shift) {
      x = Float64Array.from(x, (v, i) => {
        return Math.min(Math.max((v - this.shift[i]) * this.scale[i], -10), 10);
      });
    }
    this.layers.forEach(({ weight, bias, outputs }, k) => {
      const sums = Float64Array.from(bias);
      x.forEach((v, i) => {
        if (v === 0) return;
        const row = i * outputs;
        for (let j = 0; j < outputs; j++) sums[j] += v * weight[row + j];
      });
      const isLast = k === this.layers.length - 1;
      x = sums.map(isLast ? Math.tanh : (y) => Math.max(y, 0));
    });
    return Float32Array.from(x);
  }

  /** An action in [-1, 1] in the range of the actuators. */
  scaled(action) {
    const { low, high } = this.card.action;
    const isUnit = low.every((v) => v === -1) && high.every((v) => v === 1);
    return Array.from(action, (a, i) => {
      const share = (a + 1) / 2;
      const value = isUnit ? a : low[i] * (1 - share) + high[i] * share;
      return Math.fround(Math.min(Math.max(value, low[i]), high[i]));
    });
  }
}

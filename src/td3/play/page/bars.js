// Live bars: observation, action and the last rewards, each on a small canvas.

const LARGEST = 100; // an observation of this size fills its bar; the scale is logarithmic

export function drawObservation(canvas, values) {
  drawBars(canvas, values, (v) => Math.asinh(v) / Math.asinh(LARGEST));
}

export function drawAction(canvas, values) {
  drawBars(canvas, values, (v) => v);
}

export function drawRewards(canvas, values) {
  const largest = Math.max(1e-9, ...values.map(Math.abs));
  drawBars(canvas, values, (v) => v / largest);
}

/** One bar for each value, up or down from the middle; `share` maps a value to [-1, 1]. */
function drawBars(canvas, values, share) {
  const width = (canvas.width = canvas.clientWidth * window.devicePixelRatio);
  const height = (canvas.height = canvas.clientHeight * window.devicePixelRatio);
  const paint = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  const { color: up, outlineColor: down } = style; // resolved for the light or dark scheme
  const each = width / Math.max(values.length, 1);
  values.forEach((value, k) => {
    const size = Math.min(Math.max(share(value), -1), 1) * (height / 2);
    paint.fillStyle = size < 0 ? down : up;
    paint.fillRect(k * each, height / 2 - Math.max(size, 0), Math.max(each * 0.8, 1), Math.abs(size));
  });
  paint.fillStyle = up;
  paint.fillRect(0, Math.round(height / 2), width, 1);
}

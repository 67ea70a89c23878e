// Lowers the quality of the picture on machines that draw slowly.

const SLOW = 1 / 45; // seconds for a frame
const HIDDEN = 0.5; // a longer pause is a hidden tab, not slow drawing
const PATIENCE = 12; // frames

// `ratio`: largest number of drawn points for a point of the page, in each direction.
const LEVELS = [
  { ratio: 2, shadows: true },
  { ratio: 1, shadows: true },
  { ratio: 0.6, shadows: false },
  { ratio: 0.35, shadows: false },
];

export class Quality {
  constructor() {
    this.level = 0;
    this.start();
  }

  start() {
    this.frames = 0;
    this.seconds = 0;
  }

  get ratio() {
    return Math.min(window.devicePixelRatio, LEVELS[this.level].ratio);
  }

  get shadows() {
    return LEVELS[this.level].shadows;
  }

  /** Count a frame that took `seconds`; lower the quality if the last ones were slow. */
  count(seconds) {
    if (seconds > HIDDEN && this.frames === 0) return;
    this.frames += 1;
    this.seconds += seconds;
    if (this.frames < PATIENCE) return;
    if (this.seconds > SLOW * PATIENCE && this.level < LEVELS.length - 1) this.level += 1;
    this.start();
  }
}

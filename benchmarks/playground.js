// Measures the playground's page from inside: what one frame costs the processor, in milliseconds.
async ({ frames, rounds }) => {
  const { Stage } = await import(new URL("stage.js", document.baseURI));
  const next = () => new Promise((go) => requestAnimationFrame(go));
  const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

  // The page keeps its stages to itself; a running one passes by here.
  if (!window.played) {
    const found = (window.played = new Set());
    const { pass } = Stage.prototype;
    Stage.prototype.pass = function (seconds) {
      found.add(this);
      return pass.call(this, seconds);
    };
    while (!found.size) await next();
    await next();
    Stage.prototype.pass = pass;
    document.getElementById("pause").click();
  }
  const stages = window.played;

  // Frames at 60 Hz with everything in them, but few points: rasterisation is not measured here, and
  // in software it would take the processor from the page.
  for (const stage of stages) if (stage.simulation.over) stage.reset(1_000_000);
  const quality = { ratio: 0.25, shadows: true };
  const parts = { simulate: [], submit: [], bars: [] };
  let submitted = 0;
  for (const { view } of stages) {
    const draw = view.draw.bind(view);
    view.draw = (given) => {
      const start = performance.now();
      draw(given);
      submitted += performance.now() - start;
    };
  }
  for (let k = 0; k < frames; k++) {
    await next();
    submitted = 0;
    const start = performance.now();
    for (const stage of stages) stage.pass(1 / 60);
    const middle = performance.now();
    for (const stage of stages) stage.show(quality);
    parts.simulate.push(middle - start);
    parts.submit.push(submitted);
    parts.bars.push(performance.now() - middle - submitted);
  }
  for (const { view } of stages) delete view.draw;

  // Single parts. Each is timed alone, so that a pause of this program spoils one value only.
  const [{ simulation }] = stages;
  const { mujoco } = simulation;
  let inMujoco = 0;
  const timed = (name) => (...given) => {
    const start = performance.now();
    mujoco[name](...given);
    inMujoco += performance.now() - start;
  };
  const counted = Object.create(mujoco, {
    mj_step: { value: timed("mj_step") },
    mj_rnePostConstraint: { value: timed("mj_rnePostConstraint") },
  });
  const single = { step: [], physics: [], policy: [], observation: [] };
  const time = (act) => {
    const start = performance.now();
    act();
    return performance.now() - start;
  };
  const step = () => {
    if (simulation.over) simulation.reset(simulation.seed, simulation.episode + 1);
    simulation.step();
  };
  for (let k = 0; k < rounds; k++) {
    single.step.push(time(step));
    single.policy.push(time(() => simulation.policy.act(simulation.observation)));
    single.observation.push(time(() => simulation.observe()));
    simulation.mujoco = counted;
    inMujoco = 0;
    time(step);
    single.physics.push(inMujoco);
    simulation.mujoco = mujoco;
  }
  const { action_repeat: repeat } = simulation.policy.card;
  const found = { steps_per_frame: 1 / 60 / (simulation.dt * repeat) };
  for (const [name, values] of Object.entries({ ...parts, ...single })) found[name] = median(values);
  return found;
};

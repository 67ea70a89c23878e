// One task in MuJoCo, played by one policy. `td3 evaluate` in JavaScript, in substeps of the
// physics so that slow motion is smooth, and with changes that evaluation does not have.

import { Generator, episodeSeed } from "./random.js";
import { TASKS, addResetNoise } from "./tasks.js";

/** What the sliders change. These values change nothing. */
export const UNCHANGED = { gravity: 1, friction: 1, strength: 1, noise: 0, delay: 0 };

export class Simulation {
  /** `mujoco` is the loaded module, `facts` an entry of tasks.json, `xml` its model. */
  constructor(mujoco, facts, xml, policy) {
    this.mujoco = mujoco;
    this.facts = facts;
    this.policy = policy;
    const card = policy.card;
    this.task = TASKS[card.task];
    this.settings = { ...facts.settings, ...card.kwargs };
    this.skip = this.settings.frame_skip ?? facts.frame_skip;
    this.limit = card.max_steps;
    this.model = mujoco.MjModel.from_xml_string(xml);
    this.data = new mujoco.MjData(this.model);
    this.dt = this.model.opt.timestep * this.skip;
    this.start = { qpos: this.data.qpos.slice(), qvel: this.data.qvel.slice() };
    this.trained = {
      gravity: this.model.opt.gravity.slice(),
      friction: this.model.geom_friction.slice(),
      gear: this.model.actuator_gear.slice(),
    };
    this.changes = { ...UNCHANGED };
    this.reset();
  }

  /** Free the memory of MuJoCo, which no garbage collector sees. */
  dispose() {
    this.data.delete();
    this.model.delete();
  }

  /** Start an episode of `td3 evaluate --seed`. */
  reset(seed = 1_000_000, episode = 0) {
    this.seed = seed;
    this.episode = episode;
    const random = new Generator(episodeSeed(seed, episode));
    this.disturbance = new Generator(seed, episode, 1); // for the slider "observation noise"
    this.mujoco.mj_resetData(this.model, this.data);
    this.push = null; // adds forces before each time step
    const qpos = this.start.qpos.slice();
    const qvel = this.start.qvel.slice();
    addResetNoise(this, random, qpos, qvel);
    this.data.qpos.set(qpos);
    this.data.qvel.set(qvel);
    this.mujoco.mj_forward(this.model, this.data);
    this.substep = 0;
    this.steps = 0;
    this.return = 0;
    this.reward = 0;
    this.over = "";
    this.frames = [];
    this.sent = [];
    this.chosen = [];
    this.repeats = 0;
    this.observe();
  }

  body(name) {
    return this.mujoco.mj_name2id(this.model, this.mujoco.mjtObj.mjOBJ_BODY.value, name);
  }

  /** Change the physics: factors on gravity, friction and strength; noise; delay in steps. */
  change(changes) {
    Object.assign(this.changes, changes);
    const { gravity, friction, strength } = this.changes;
    const { model, trained } = this;
    model.opt.gravity.set(trained.gravity.map((v) => v * gravity));
    model.geom_friction.set(trained.friction.map((v) => v * friction));
    model.actuator_gear.set(trained.gear.map((v) => v * strength));
  }

  /** The state: the last observations, as the policy was trained to see them. */
  observe() {
    const seen = Float32Array.from(this.task.observe(this));
    const { noise } = this.changes;
    if (noise > 0) this.disturbance.normal(seen.length).forEach((v, i) => (seen[i] += noise * v));
    const count = this.policy.card.frame_stack;
    this.frames = [...(this.frames.length ? this.frames : Array(count).fill(seen)), seen].slice(-count);
    this.observation = Float32Array.from(this.frames.flatMap((frame) => [...frame]));
  }

  /** Choose the next action; with a delay, an earlier one is applied. */
  decide() {
    this.chosen = this.policy.act(this.observation);
    this.sent.push(this.policy.scaled(this.chosen));
    while (this.sent.length > this.changes.delay + 1) this.sent.shift();
    this.action = this.sent[0];
    this.gained = 0;
    this.repeats = 0;
  }

  /** Advance the physics by one time step. Returns whether a step of the policy is complete. */
  advance() {
    if (this.over) return false;
    if (this.substep === 0) {
      if (!this.repeats) this.decide();
      this.before = this.task.position(this);
      this.data.ctrl.set(this.action);
    }
    this.data.xfrc_applied.fill(0);
    this.push?.(this);
    this.mujoco.mj_step(this.model, this.data);
    this.substep += 1;
    if (this.substep < this.skip) return false;
    this.substep = 0;
    this.mujoco.mj_rnePostConstraint(this.model, this.data);
    const { reward, terminated } = this.task.judge(this);
    this.gained += reward;
    this.repeats += 1;
    return this.finishStep(terminated);
  }

  /** Count a step of the simulator; a step of the policy may repeat its action. */
  finishStep(terminated) {
    const { action_repeat: repeat } = this.policy.card;
    if (!terminated && this.repeats < repeat) return false;
    this.repeats = 0;
    this.steps += 1;
    this.reward = this.gained;
    this.return += this.reward;
    this.observe();
    const isFinite = Number.isFinite(this.reward) && this.observation.every(Number.isFinite);
    if (!isFinite) this.over = "The simulation became unstable";
    else if (terminated) this.over = "The episode ended";
    else if (this.steps * repeat >= this.limit) this.over = "The time limit was reached";
    return true;
  }

  /** Advance by one step of the policy. */
  step() {
    while (!this.over && !this.advance());
  }
}

// Observation, reward and end of Gymnasium's MuJoCo tasks, version 5. The arithmetic follows
// gymnasium/envs/mujoco/*_v5.py; a test compares 300 steps of every task with Gymnasium.
// `s` is what a task may look at: model, data, body(name), settings, dt, action (as applied),
// and `before`, the task's `position` before the step.

const clip = (values, low, high) => Array.from(values, (v) => Math.min(Math.max(v, low), high));
const squares = (values) => values.reduce((sum, v) => sum + v * v, 0);
const between = (v, [low, high]) => (low === null || low < v) && (high === null || v < high);
const isFinite = (values) => values.every((v) => Number.isFinite(v));
const skip = (s, count) => (s.settings.exclude_current_positions_from_observation ? count : 0);
const rows = (array, columns) => array.subarray(columns); // without the world body

const speed = (s, k = 0) => (s.task.position(s)[k] - s.before[k]) / s.dt;
const forward = (s) => s.settings.forward_reward_weight * speed(s);
const control = (s) => s.settings.ctrl_cost_weight * squares(s.action);

// The reward of a task that ends when the body is unhealthy.
const alive = (s, isHealthy) => (isHealthy ? s.settings.healthy_reward : 0);
const ends = (s, isHealthy) => !isHealthy && s.settings.terminate_when_unhealthy;

const slider = { position: (s) => [s.data.qpos[0]] };
const plane = { position: (s) => [s.data.qpos[0], s.data.qpos[1]] };

const walker = (isHealthy) => ({
  ...slider,
  observe: (s) => [...s.data.qpos.subarray(skip(s, 1)), ...clip(s.data.qvel, -10, 10)],
  judge: (s) => {
    const healthy = isHealthy(s);
    return { reward: forward(s) + alive(s, healthy) - control(s), terminated: ends(s, healthy) };
  },
});

export const TASKS = {
  "Ant-v5": {
    position: (s) => {
      const main = s.settings.main_body;
      const body = typeof main === "string" ? s.body(main) : main;
      return [...s.data.xpos.subarray(3 * body, 3 * body + 2)];
    },
    observe: (s) => {
      const contact = s.settings.include_cfrc_ext_in_observation
        ? clip(rows(s.data.cfrc_ext, 6), ...s.settings.contact_force_range)
        : [];
      return [...s.data.qpos.subarray(skip(s, 2)), ...s.data.qvel, ...contact];
    },
    judge: (s) => {
      const [low, high] = s.settings.healthy_z_range;
      const z = s.data.qpos[2];
      const healthy = isFinite(s.data.qpos) && isFinite(s.data.qvel) && low <= z && z <= high;
      const forces = clip(s.data.cfrc_ext, ...s.settings.contact_force_range);
      const costs = control(s) + s.settings.contact_cost_weight * squares(forces);
      return { reward: forward(s) + alive(s, healthy) - costs, terminated: ends(s, healthy) };
    },
  },
  "HalfCheetah-v5": {
    ...slider,
    observe: (s) => [...s.data.qpos.subarray(skip(s, 1)), ...s.data.qvel],
    judge: (s) => ({ reward: forward(s) - control(s), terminated: false }),
  },
  "Hopper-v5": walker((s) => {
    const state = [...s.data.qpos.subarray(2), ...s.data.qvel];
    return (
      state.every((v) => between(v, s.settings.healthy_state_range)) &&
      between(s.data.qpos[1], s.settings.healthy_z_range) &&
      between(s.data.qpos[2], s.settings.healthy_angle_range)
    );
  }),
  "Humanoid-v5": {
    position: (s) => {
      const mass = s.model.body_mass;
      const total = mass.reduce((sum, m) => sum + m, 0);
      return [0, 1].map((k) => mass.reduce((sum, m, b) => sum + m * s.data.xipos[3 * b + k], 0) / total);
    },
    observe: (s) => {
      const { settings, data } = s;
      return [
        ...data.qpos.subarray(skip(s, 2)),
        ...data.qvel,
        ...(settings.include_cinert_in_observation ? rows(data.cinert, 10) : []),
        ...(settings.include_cvel_in_observation ? rows(data.cvel, 6) : []),
        ...(settings.include_qfrc_actuator_in_observation ? rows(data.qfrc_actuator, 6) : []),
        ...(settings.include_cfrc_ext_in_observation ? rows(data.cfrc_ext, 6) : []),
      ];
    },
    judge: (s) => {
      const healthy = between(s.data.qpos[2], s.settings.healthy_z_range);
      const [low, high] = s.settings.contact_cost_range;
      let contact = s.settings.contact_cost_weight * squares(s.data.cfrc_ext);
      contact = Math.min(Math.max(contact, low ?? -Infinity), high ?? Infinity);
      const costs = s.settings.ctrl_cost_weight * squares(s.data.ctrl) + contact;
      return { reward: forward(s) + alive(s, healthy) - costs, terminated: ends(s, healthy) };
    },
  },
  "InvertedDoublePendulum-v5": {
    ...slider,
    observe: (s) => {
      const [x, ...angles] = s.data.qpos;
      return [
        x,
        ...angles.map(Math.sin),
        ...angles.map(Math.cos),
        ...clip(s.data.qvel, -10, 10),
        ...clip(s.data.qfrc_constraint, -10, 10).slice(0, 1),
      ];
    },
    judge: (s) => {
      const [x, , y] = s.data.site_xpos;
      const [, v1, v2] = s.data.qvel;
      const terminated = y <= 1;
      const penalties = 0.01 * x ** 2 + (y - 2) ** 2 + (1e-3 * v1 ** 2 + 5e-3 * v2 ** 2);
      return { reward: (terminated ? 0 : s.settings.healthy_reward) - penalties, terminated };
    },
  },
  "InvertedPendulum-v5": {
    ...slider,
    observe: (s) => [...s.data.qpos, ...s.data.qvel],
    judge: (s) => {
      const observation = [...s.data.qpos, ...s.data.qvel];
      const terminated = !isFinite(observation) || Math.abs(observation[1]) > 0.2;
      return { reward: terminated ? 0 : 1, terminated };
    },
  },
  "Reacher-v5": {
    position: (s) => {
      const [tip, goal] = ["fingertip", "target"].map((name) => 3 * s.body(name));
      return [0, 1, 2].map((k) => s.data.xpos[tip + k] - s.data.xpos[goal + k]);
    },
    observe: (s) => {
      const [a, b, ...goal] = s.data.qpos;
      const angles = [Math.cos(a), Math.cos(b), Math.sin(a), Math.sin(b)];
      return [...angles, ...goal, ...s.data.qvel.subarray(0, 2), ...s.task.position(s).slice(0, 2)];
    },
    judge: (s) => {
      const distance = Math.hypot(...s.task.position(s)) * s.settings.reward_dist_weight;
      return { reward: -distance - squares(s.action) * s.settings.reward_control_weight, terminated: false };
    },
    reset: (s, random, qpos, qvel) => {
      const start = random.uniform(-0.1, 0.1, qpos.length);
      let goal;
      do goal = random.uniform(-0.2, 0.2, 2);
      while (Math.hypot(...goal) >= 0.2);
      const speeds = random.uniform(-0.005, 0.005, qvel.length);
      for (let i = 0; i < qpos.length; i++) qpos[i] += start[i];
      for (let i = 0; i < qvel.length; i++) qvel[i] += speeds[i];
      qpos.set(goal, qpos.length - 2);
      qvel.fill(0, qvel.length - 2);
    },
  },
  "Swimmer-v5": {
    ...plane,
    observe: (s) => [...s.data.qpos.subarray(skip(s, 2)), ...s.data.qvel],
    judge: (s) => ({ reward: forward(s) - control(s), terminated: false }),
  },
  "Walker2d-v5": walker(
    (s) =>
      between(s.data.qpos[1], s.settings.healthy_z_range) &&
      between(s.data.qpos[2], s.settings.healthy_angle_range),
  ),
};

/** Add the noise of a reset to qpos and qvel, drawn in Gymnasium's order. */
export function addResetNoise(s, random, qpos, qvel) {
  if (s.task.reset) return s.task.reset(s, random, qpos, qvel);
  const scale = s.settings.reset_noise_scale;
  const positions = random.uniform(-scale, scale, qpos.length);
  const isNormal = s.facts.noise === "normal";
  const speeds = isNormal ? random.normal(qvel.length) : random.uniform(-scale, scale, qvel.length);
  for (let i = 0; i < qpos.length; i++) qpos[i] += positions[i];
  for (let i = 0; i < qvel.length; i++) qvel[i] += isNormal ? scale * speeds[i] : speeds[i];
}

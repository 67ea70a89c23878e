// Plays episodes with the page's own code: node driver.mjs SITE < ASKED > RESULTS

import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

const site = new URL(`file://${process.argv[2]}/`);
const read = (path) => readFileSync(new URL(path, site));
const { default: loadMujoco } = await import(new URL("vendor/mujoco.js", site));
const { Policy } = await import(new URL("policy.js", site));
const { Simulation } = await import(new URL("simulation.js", site));

const mujoco = await loadMujoco({ wasmBinary: gunzipSync(read("vendor/mujoco.wasm.gz")) });
const facts = JSON.parse(read("tasks.json"));
const { policies } = JSON.parse(read("policies.json"));

function find(task) {
  const entry = policies.find(({ name }) => name === task);
  const policy = new Policy(entry, new Float32Array(Uint8Array.from(read(entry.numbers)).buffer));
  const start = (own) => new Simulation(mujoco, facts[task], `${read(entry.model)}`, own);
  return { entry, policy, start };
}

/** Play the recorded actions; continue from the recorded state every `every` steps, if given. */
function replay({ task, seed, actions, states, every }) {
  const { entry, policy, start } = find(task);
  let k = 0;
  const recorded = {
    card: entry,
    act: () => Float32Array.from(actions[k]),
    scaled: (action) => policy.scaled(action),
  };
  const simulation = start(recorded);
  simulation.reset(seed);
  const observations = [[...simulation.observation]];
  const rewards = [];
  for (; k < actions.length; k++) {
    if (every && k > 0 && k % every === 0) {
      const { data } = simulation;
      for (const name of ["qpos", "qvel", "qacc_warmstart"]) data[name].set(states[k][name]);
    }
    simulation.step();
    observations.push([...simulation.observation]);
    rewards.push(simulation.reward);
  }
  const chosen = observations.slice(0, -1).map((seen) => [...policy.act(Float32Array.from(seen))]);
  const { over } = simulation;
  simulation.dispose();
  return { observations, rewards, chosen, over };
}

/** The returns of whole episodes in which the page chooses the actions. */
function play({ task, seed, episodes }) {
  const { policy, start } = find(task);
  const simulation = start(policy);
  const returns = [];
  for (let episode = 0; episode < episodes; episode++) {
    simulation.reset(seed, episode);
    while (!simulation.over) simulation.step();
    returns.push(simulation.return);
  }
  simulation.dispose();
  return { returns };
}

const asked = JSON.parse(readFileSync(0));
const results = asked.map((own) => (own.episodes ? play(own) : replay(own)));
process.stdout.write(JSON.stringify(results), () => process.exit(0));

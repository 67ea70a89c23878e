// Loads files of the page, once each.

import loadMujoco from "./vendor/mujoco.js";

const loaded = new Map();

/** What `read` makes of a file; each file is loaded once. */
function get(path, read) {
  if (!loaded.has(path)) {
    loaded.set(path, fetchAndRead(path, read));
    loaded.get(path).catch(() => loaded.delete(path)); // the next choice tries again
  }
  return loaded.get(path);
}

async function fetchAndRead(path, read) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${answer.statusText}`);
  return read(answer);
}

export const load = {
  json: (path) => get(path, (answer) => answer.json()),
  text: (path) => get(path, (answer) => answer.text()),
  numbers: (path) => get(path, async (answer) => new Float32Array(await answer.arrayBuffer())),
  mujoco: () => get("vendor/mujoco.wasm.gz", async (answer) => {
    const unpacked = answer.body.pipeThrough(new DecompressionStream("gzip"));
    return loadMujoco({ wasmBinary: await new Response(unpacked).arrayBuffer() });
  }),
};

// Questions to the server.

/** Ask for api/NAME.json. Throws an Error with the server's sentence. */
export async function ask(name, query = {}) {
  const response = await fetch(`api/${name}.json?${encode(query)}`, { cache: "no-store" });
  if (!response.ok) throw new Error(await response.text());
  const answer = await response.json();
  if (answer.error) throw new Error(answer.error);
  return answer;
}

/** The address of a file that the server makes. */
export function link(path, query) {
  return `${path}?${encode(query)}`;
}

function encode(query) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  return new URLSearchParams(pairs.map(([key, value]) => [key, Array.isArray(value) ? JSON.stringify(value) : value]));
}

/** All runs in the folder, followed: `changed` is called with the keys that changed. */
export class Runs {
  constructor(changed) {
    Object.assign(this, { changed, rows: new Map(), version: 0, studies: [], name: "" });
    this.failed = 0;
    this.loaded = false;
  }

  /** Ask again and again; twice a second while the page is visible. */
  async follow() {
    for (;;) {
      if (!document.hidden) await this.look();
      await new Promise((resolve) => setTimeout(resolve, this.failed ? 2000 : this.waiting() ? 60 : 500));
    }
  }

  /** Whether the server has not read all runs yet. */
  waiting() {
    return !this.loaded || [...this.rows.values()].some((row) => row.reading);
  }

  async look() {
    try {
      const answer = await ask("runs", { since: this.version });
      this.failed = 0;
      this.take(answer);
    } catch {
      this.failed += 1;
      this.changed(new Set());
    }
  }

  take(answer) {
    const keys = new Set();
    for (const row of answer.rows) {
      this.rows.set(row.id, row);
      keys.add(row.id);
    }
    for (const key of answer.gone) if (this.rows.delete(key)) keys.add(key);
    const studies = JSON.stringify(answer.studies) !== JSON.stringify(this.studies);
    Object.assign(this, { version: answer.version, studies: answer.studies, name: answer.name });
    const first = !this.loaded;
    this.loaded = true;
    if (keys.size || studies || first) this.changed(keys);
  }
}

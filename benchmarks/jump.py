"""Why do all three ant seeds improve between 380,000 and 420,000 steps? python -m benchmarks.jump

Reads stored learning curves. They hold the mean and the standard deviation of each evaluation;
losses, Q values and lengths of episodes were not stored. `--age` also plays the pretrained ant in
new simulators and in one that has seen hundreds of episodes (half a minute of processor time).
"""

import argparse
import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np

import td3
from benchmarks.td3_bench.markdown import format_table
from td3.environments.environment import Environment
from td3.intervals import Floats, mean_interval
from td3.report.summary import read_series

RESULTS = Path(__file__).parent / "results"
ANT = RESULTS / "course" / "AntBulletEnv-v0"
WINDOW = 2  # intervals of 20,000 steps
CHECKPOINT = 5  # every 100,000 steps; simulators are made again at the next end of an episode
SHUFFLES = 20_000


def curves(folder: Path) -> tuple[Floats, Floats]:
    """Steps, and the mean returns (seeds, evaluations)."""
    own = read_series(folder)[0]
    agents = sorted(agent for kind, agent in own if kind == "evaluation")
    records = [own["evaluation", agent] for agent in agents]
    steps = np.array([record["step"] for record in records[0]])
    return steps, np.array([[record["mean_return"] for record in one] for one in records])


def rises(returns: Floats, window: int = WINDOW) -> Floats:
    """How much each seed gains within each window, (seeds, windows)."""
    rise: Floats = returns[:, window:] - returns[:, :-window]
    return rise


def common_rise(returns: Floats) -> float:
    """The largest rise that all seeds have in one and the same window."""
    return float(rises(returns).min(axis=0).max())


def shuffled(returns: Floats, rng: np.random.Generator) -> Floats:
    """Curves with the same changes in another order, for each seed on its own."""
    changes = np.diff(returns, axis=1)
    curve: Floats = np.cumsum(np.hstack([returns[:, :1], rng.permuted(changes, axis=1)]), axis=1)
    return curve


def chance_if_independent(returns: Floats, shuffles: int = SHUFFLES) -> float:
    """How often curves with shuffled changes have a common rise as large as the real ones."""
    rng, seen = np.random.default_rng(0), common_rise(returns)
    hits = sum(common_rise(shuffled(returns, rng)) >= seen for _ in range(shuffles))
    return float((hits + 1) / (shuffles + 1))


def steepest(returns: Floats) -> Floats:
    """In which window each seed gains most."""
    return np.array([own.argmax() for own in rises(returns)], dtype=np.float64)


def share_of_triples(returns: Floats, apart: float = 1) -> float:
    """The share of all triples of seeds whose steepest windows are at most so far apart."""
    places = steepest(returns)
    triples = list(itertools.combinations(places, 3))
    return float(np.mean([max(own) - min(own) <= apart for own in triples]))


def changes_by_phase(returns: Floats) -> Floats:
    """Mean change in the intervals that begin 0, 1, … intervals after a checkpoint.

    (phases, checkpoints), in the order of time; without those before the first checkpoint.
    """
    changes: Floats = np.diff(returns, axis=1).mean(axis=0)[CHECKPOINT:]
    return changes.reshape(-1, CHECKPOINT).T


def returns_by_age(episodes: int = 300, every: int = 5, steps: int = 200) -> Floats:
    """Returns of the pretrained ant from the same seeds: (in an old simulator, in a new one).

    Random actions make the old one old: its ants fall, as in training.
    """
    policy = td3.load_policy(pretrained="AntBulletEnv-v0")
    config, rng = policy.environment, np.random.default_rng(0)

    def played(environment: Environment, seed: int) -> float:
        state, total, over, length = environment.reset(seed), 0.0, False, 0
        while not over and length < steps:
            state, reward, terminated, truncated = environment.step(policy.act(state))
            total, over, length = total + reward, terminated or truncated, length + 1
        return total

    found, old = [], Environment(config)
    for episode in range(episodes):
        old.reset(10_000 + episode)
        for _ in range(100):
            action = rng.uniform(-1, 1, 8).astype(np.float32)
            _, _, terminated, truncated = old.step(action)
            if terminated or truncated:
                break
        if episode % every == every - 1:
            new = Environment(config)
            found.append([played(old, episode), played(new, episode)])
            new.close()
    return np.array(found)


def print_ages() -> None:
    old, new = returns_by_age().T
    print("\nReturn of 200 steps of the pretrained ant, by the age of the simulator\n")
    rows = []
    for part, name in ((slice(0, 30), "5-150 episodes"), (slice(30, 60), "155-300 episodes")):
        low, high = mean_interval(old[part] - new[part])
        cells = [f"{old[part].mean():,.0f}", f"{new[part].mean():,.0f}"]
        rows.append([name, *cells, f"{low:+.0f} to {high:+.0f}"])
    print(format_table(["age", "old", "new", "old minus new, 95 %"], rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--age", action="store_true", help="play in old and new simulators too")
    with_age = parser.parse_args().age
    steps, ant = curves(ANT)
    first = int(np.flatnonzero(steps == 380_000)[0])
    print("Mean returns of the ant, recipe course\n")
    rows = [
        [f"{int(step):,}", *(f"{value:,.0f}" for value in ant[:, first + k])]
        for k, step in enumerate(steps[first : first + 4])
    ]
    print(format_table(["step", *(f"seed {seed}" for seed in range(len(ant)))], rows))
    print(f"\nCommon rise within 40,000 steps: {common_rise(ant):,.0f}")
    print(f"as large with shuffled changes:  {chance_if_independent(ant):.4f} of the orders")
    print_events()
    print_phases()
    print_coincidences()
    if with_age:
        print_ages()
    return 0


def print_events() -> None:
    lines = (ANT / "events.jsonl").read_text(encoding="utf-8").splitlines()
    counts = Counter(json.loads(line)["event"] for line in lines)
    print("Events of the run: " + ", ".join(f"{count} {name}" for name, count in counts.items()))


def print_phases() -> None:
    """Do returns rise after checkpoints, when simulators are made again?"""
    rows = []
    for folder in sorted((RESULTS / "course").iterdir()):
        phases = changes_by_phase(curves(folder)[1])
        after, others = phases[0], phases[1:]
        parts = (after[-1], after[:-1].mean(), others.mean(), others.std(ddof=1))
        rows.append([folder.name, *(f"{part:+,.0f}" for part in parts)])
    print("\nChange of the return in 20,000 steps, mean of three seeds\n")
    header = ["task", "after 400,000", "after 100,000 to 300,000", "else", "deviation of else"]
    print(format_table(header, rows))


def print_coincidences() -> None:
    """How often do three seeds have their steepest window together, in all stored runs?"""
    rows = []
    for folder in sorted((*(RESULTS / "course").iterdir(), *(RESULTS / "bullet").iterdir())):
        rows.append(row_of(folder))
    for folder in sorted((RESULTS / "paper").iterdir()):
        rows.append(row_of(folder))
    header = ["run", "seeds", "steepest windows begin at, thousands", "triples together"]
    print("\nWindows of two evaluations in which each seed gains most\n")
    print(format_table(header, rows))


def row_of(folder: Path) -> list[str]:
    steps, returns = curves(folder)
    begins = sorted(int(steps[int(place)]) // 1000 for place in steepest(returns))
    shown = ", ".join(map(str, begins))
    name = f"{folder.parent.name}/{folder.name}"
    return [name, str(len(returns)), shown, f"{share_of_triples(returns):.0%}"]


if __name__ == "__main__":
    raise SystemExit(main())

"""Turn the numbers of a training into records, and write the policies that were evaluated."""

import numpy as np

from td3.policy.file import policy_bytes
from td3.policy.from_agent import policy_card
from td3.run.versions import versions
from td3.training.divergence import freeze
from td3.training.loop_evaluation import Result
from td3.training.metrics import Record, diverged, evaluation_record
from td3.training.state import TrainingState

ENDLESS = 10_000  # steps of an episode; registered tasks end after a thousand or so


def log_training(state: TrainingState) -> None:
    """Write one record per agent about the steps since the last call; freeze diverged agents."""
    state.recorder.note_speed(state.step)
    warn_of_endless_episodes(state)
    seeds, updates = state.config.agent_seeds, state.agent.updates.tolist()
    for record in state.interval.records(state.step, seeds, updates):
        if state.population.frozen[record["agent"]]:
            continue
        state.recorder.write(record)
        if name := diverged(record):
            freeze(state, record["agent"], f"its {name} is {record[name]}")


def warn_of_endless_episodes(state: TrainingState) -> None:
    """Warn once if an episode is so long that it probably never ends."""
    if state.warned_of_length or state.collector.lengths.max() < ENDLESS:
        return
    state.warned_of_length = True
    name = state.environments.task.id
    message = (
        f"{name} has not ended an episode for {ENDLESS:,} steps; give it a time limit, e.g. "
        "--environment.max-episode-steps 1000. Otherwise checkpoints grow with the episode, unless "
        "the state of the simulator can be saved (MuJoCo, classic control, plain attributes)"
    )
    state.recorder.warn(state.step, message)


def record_evaluations(state: TrainingState) -> list[Record]:
    """Wait for the running evaluation, if any; write its results and its policies.

    Returns the records; none of agents that diverged, and none after a stop request.
    """
    records = []
    for result in state.evaluations.results(lambda: state.stop.requested):
        agent, returns, lengths = result.agent, result.found.returns, result.found.lengths
        if np.isnan(returns).any():
            if not state.population.frozen[agent]:
                freeze(state, agent, "its policy gives actions that are not finite")
            continue
        best = float(returns.mean()) > state.best[agent]
        seed = state.config.agent_seeds[agent]
        successes = result.found.successes
        record = evaluation_record(result.step, agent, seed, returns, lengths, best, successes)
        if best:
            state.best[agent] = record["mean_return"]
        state.check_lock()
        write_policies(state, result, record)
        state.recorder.write(record)
        records.append(record)
    return records


def write_policies(state: TrainingState, result: Result, record: Record) -> None:
    """Write the evaluated policy as the last one of its agent; as the best one and kept, if so."""
    agent, evaluation = result.agent, state.config.evaluation
    facts = {key: record[key] for key in ("step", "seed", "mean_return", "std_return")}
    facts |= state.population.facts(agent)
    facts |= {"episodes": evaluation.episodes, "max_steps": evaluation.max_steps}
    facts["versions"] = versions()
    environment = state.population.members[agent].environment
    card = policy_card(state.agent, state.environments.task, environment, facts)
    run = state.recorder.run
    files = [run.policy_file(agent, step=result.step)] if is_kept(state, result.step) else []
    files += [run.policy_file(agent)] if record["best"] else []
    for path in [*files, run.policy_file(agent, last=True)]:
        run.write_later(path, policy_bytes(result.policy, card))


def is_kept(state: TrainingState, step: int) -> bool:
    """Whether the evaluation at `step` is the first one since a multiple of `keep_every`."""
    every, keep_every = state.config.evaluation.every, state.config.evaluation.keep_every
    before = (step - state.collector.count) // every * every
    return bool(keep_every) and step // keep_every > before // keep_every

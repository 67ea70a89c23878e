"""python -m benchmarks campaign and authors: seeds in several processes, the authors' loop."""

import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from support.authors_files import AGENT

from benchmarks.td3_bench import campaign
from benchmarks.td3_bench.authors.captured import TableBuffer
from benchmarks.td3_bench.authors.check import are_equal
from benchmarks.td3_bench.authors.training import AuthorsRun, authors_config
from benchmarks.td3_bench.joined import join_runs
from td3.cli import parse, train
from td3.errors import UserError
from td3.report.summary import read_run


def write_run(folder: Path, seed: int, seeds: int, steps: tuple[int, ...], rate: float) -> Path:
    folder.mkdir()
    config = f"seed = {seed}\nseeds = {seeds}\n[environment]\nid = 'X-v0'\n[agent]\nrate = {rate}\n"
    (folder / "config.toml").write_text(config)
    records = [
        {"kind": "evaluation", "agent": agent, "seed": seed + agent, "step": step}
        | {"mean_return": 100.0 * (seed + agent) + step, "std_return": 1.0}
        for step in steps
        for agent in range(seeds)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    return folder


def test_join_runs_numbers_all_seeds_and_keeps_the_steps_that_all_reached(tmp_path: Path) -> None:
    later = write_run(tmp_path / "b", 2, 1, (0, 10), 0.1)
    first = write_run(tmp_path / "a", 0, 2, (0, 10, 20), 0.1)
    joined = join_runs([later, first], tmp_path / "out")
    assert [found.seed for found in joined.evaluations.values()] == [0, 1, 2]
    assert joined.config["seeds"] == 3
    for seed, found in joined.evaluations.items():
        assert found.steps.tolist() == [0, 10]
        assert found.mean_returns.tolist() == [100 * seed, 100 * seed + 10]


@pytest.mark.parametrize(
    ("seed", "rate", "message"),
    [(2, 0.2, "has agent.rate 0.2, but .* has 0.1"), (3, 0.1, "not consecutive")],
)
def test_join_runs_with_other_settings_or_a_gap_raises(
    seed: int, rate: float, message: str, tmp_path: Path
) -> None:
    runs = [
        write_run(tmp_path / "a", 0, 2, (0,), 0.1),
        write_run(tmp_path / "b", seed, 1, (0,), rate),
    ]
    with pytest.raises(UserError, match=message):
        join_runs(runs, tmp_path / "out")


def test_groups_of_every_part_cover_its_seeds_once() -> None:
    parts = {part.name: part for part in campaign.read_plan("claims").parts}
    for part in parts.values():
        assert [seed for group in part.groups for seed in group] == list(range(part.seeds))
    found = [list(group) for group in parts["float32/Walker2d-v5"].groups]
    assert found == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]


@pytest.mark.parametrize("path", sorted(campaign.PLANS.glob("*.toml")), ids=lambda path: path.stem)
def test_plan_has_parts_whose_settings_are_valid(path: Path) -> None:
    plan = campaign.read_plan(path.stem)
    names = [part.name for part in plan.parts]
    assert len(set(names)) == len(names)
    for part in plan.parts:
        if part.program == "td3":
            words = [part.task, *part.flags, "--loop.steps", str(plan.steps)]
            flags = parse(train.Arguments, "train", words, train.default(words))
            config = train.resolve_config(flags)
            assert config.environment.id == part.task


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks"),
        ("steps = 1\nevaluation_every = 1\nsteeps = 2\n[parts]", "key 'steeps'.*'steps'"),
        ("steps = 1\nevaluation_every = 1\n[parts.a]\nseeds = 1", "lacks 'tasks'"),
        ("steps = 1\nevaluation_every = 1\n[parts.a]\nflag = []", "unknown key 'flag'"),
    ],
)
def test_plan_with_wrong_keys_is_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(UserError, match=message):
        campaign.read_plan(str(tmp_path / "plan.toml"))
    with pytest.raises(UserError, match=r"No plan 'claim'\. Did you mean 'claims'"):
        campaign.read_plan("claim")


def test_started_jobs_train_in_their_own_processes_and_are_joined(tmp_path: Path) -> None:
    part = campaign.Part("tiny/Pendulum-v1", "Pendulum-v1", 2, 2, ("--recipe", "quick"))
    todo = list(campaign.jobs([part], tmp_path / "runs"))
    more = ["--agent.hidden-sizes", "8", "--evaluation.episodes", "1", "--loop.random-steps", "10"]
    processes = campaign.start(todo, tmp_path, steps=60, every=20, more=more)
    assert campaign.collect(todo, 120, tmp_path / "out")
    assert [process.wait() for process in processes] == [0, 0]
    assert campaign.start(todo, tmp_path, steps=60, every=20, more=more) == []
    joined = read_run(tmp_path / "out" / "tiny" / "Pendulum-v1")
    assert [found.steps.tolist() for found in joined.evaluations.values()] == [[0, 20, 40, 60]] * 2
    assert joined.status == "finished"


def test_authors_code_that_is_missing_raises(tmp_path: Path) -> None:
    config = authors_config("Pendulum-v1", 0, 10, 5, 1)
    with pytest.raises(UserError, match=r"TD3.py does not exist. Clone github.com/sfujim/TD3"):
        AuthorsRun(tmp_path, config, tmp_path / "run", plain=True)


def test_authors_loop_stores_no_end_at_the_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TD3", "utils"):
        (tmp_path / f"{name}.py").write_text(AGENT)
    config = authors_config("Pendulum-v1", 3, 450, 200, 2)
    run = AuthorsRun(tmp_path, config, tmp_path / "run", plain=True)
    run.train()
    assert run.agent.noise == (0.4, 1.0)  # Pendulum's actions reach 2
    assert run.agent.trained == 225  # no update in the random half
    assert run.buffer.done == [0.0] * 450  # Pendulum ends only by its limit of 200 steps
    stored = read_run(tmp_path / "run")
    assert stored.evaluations[0].steps.tolist() == [0, 200, 400]
    assert stored.evaluations[0].seed == 3
    assert stored.status == "finished"
    assert stored.recipe == "authors' code"
    env = gym.make("Pendulum-v1")
    env.reset(seed=103)
    total = sum(float(env.step(np.zeros(1))[1]) for _ in range(200))
    env.reset()
    total += sum(float(env.step(np.zeros(1))[1]) for _ in range(200))
    assert stored.evaluations[0].mean_returns == pytest.approx([total / 2] * 3)


def test_table_buffer_returns_what_was_added_and_overwrites_the_oldest() -> None:
    buffer = TableBuffer(2, 1, size=3, batch_size=50, device=torch.device("cpu"))
    for k in range(5):
        buffer.add(np.full(2, k), np.full(1, k), np.full(2, k + 1), reward=10.0 * k, done=k == 4)
    np.random.seed(0)  # noqa: NPY002
    buffer.draw()
    state, action, next_state, reward, not_done = buffer.sample(50)
    assert set(state[:, 0].tolist()) == {2.0, 3.0, 4.0}
    assert torch.equal(action[:, 0], state[:, 1])
    assert torch.equal(next_state, state + 1)
    assert torch.equal(reward, 10 * action)
    assert torch.equal(not_done, (action != 4).float())


def test_check_accepts_rounding_of_one_update_and_no_change_by_graphs() -> None:
    same = {"plain": 0.4, "capturable": 0.0}
    one = {"plain": 7e-6, "capturable": 0.0}
    found = {"float64": same, "float32": same, "one_update": one}
    assert are_equal(found)
    assert not are_equal(found | {"one_update": one | {"plain": 1e-3}})
    assert not are_equal(found | {"float32": same | {"capturable": 1e-12}})

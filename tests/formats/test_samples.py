"""Run folders, policies and agents that older commits wrote can still be used.

Only the command line, public names and files are used here, so that modules can be moved freely.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sample_facts
import torch
from safetensors import safe_open
from safetensors.numpy import load_file

import td3

SAMPLES = Path(__file__).parent / "samples"
FACTS: dict[str, dict[str, Any]] = {
    folder.name: json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    for folder in sorted(SAMPLES.iterdir())
}
RUNS = [f"{run.parent.parent.name}/{run.parent.name}" for run in sorted(SAMPLES.glob("*/*/run"))]
POLICIES = [f"{commit}/{name}" for commit, facts in FACTS.items() for name in facts["policies"]]
AGENTS = [f"{commit}/{name}" for commit, facts in FACTS.items() for name in facts["agents"]]
OF_THE_WRITER = {"versions", "format", "sha256", "card_sha256"}  # newer code may write others


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The samples were made with one thread; another number may round differently."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def is_exact(commit: str) -> bool:
    """Whether machine and packages are those that made the samples."""
    return bool(sample_facts.surroundings() == FACTS[commit]["surroundings"])


def run_command(*words: str | Path) -> str:
    """What a command of td3 prints; it must succeed."""
    line = [sys.executable, "-m", "td3", *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def copy_run(sample: str, folder: Path) -> Path:
    """A copy of a stored run that may be changed."""
    shutil.copytree(SAMPLES / sample / "run", folder)
    return folder


def read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def read_card(policy: Path) -> dict[str, Any]:
    """The card of a policy file, without the entries that depend on its writer."""
    with safe_open(policy, framework="np") as file:
        card = json.loads(file.metadata()["card"])
    return {key: value for key, value in card.items() if key not in OF_THE_WRITER}


def read_numbers(policy: Path) -> dict[str, bytes]:
    """The bytes of every tensor in a policy file."""
    return {name: tensor.tobytes() for name, tensor in load_file(policy).items()}


@pytest.mark.parametrize("sample", RUNS)
def test_resume_of_old_run_matches_the_uninterrupted_old_run(sample: str, tmp_path: Path) -> None:
    run, end = copy_run(sample, tmp_path / "run"), SAMPLES / sample / "end"
    newest = max(int(folder.name) for folder in (run / "checkpoints").iterdir())
    before = len(read_lines(run / "events.jsonl"))
    run_command("resume", run, "--quiet")

    events = read_lines(run / "events.jsonl")[before:]
    assert [event["step"] for event in events if event["event"] == "resume"] == [newest]
    assert events[-1]["event"] == "finish"
    remarks = [event["message"] for event in events if event["event"] == "warning"]
    assert [remark for remark in remarks if "not used" in remark] == []
    metrics, expected = read_lines(run / "metrics.jsonl"), read_lines(end / "metrics.jsonl")
    assert [(r["kind"], r["step"]) for r in metrics] == [(r["kind"], r["step"]) for r in expected]
    policies = sorted(path.name for path in (end / "policy").iterdir())
    written = sorted(path.name for path in (run / "policy").iterdir())
    assert [name for name in written if "-last" not in name] == policies
    if not is_exact(sample.partition("/")[0]):
        return
    for record, stored in zip(metrics, expected, strict=True):
        assert {**record, **stored} == record  # newer code may add keys
    for name in policies:
        mine, theirs = run / "policy" / name, end / "policy" / name
        card = read_card(mine)
        assert {**card, **read_card(theirs)} == card
        assert read_numbers(mine) == read_numbers(theirs)


KEPT = [str(kept.relative_to(SAMPLES)) for kept in sorted(SAMPLES.glob("*/*/run/kept/*"))]


@pytest.mark.parametrize("sample", KEPT)
def test_kept_checkpoint_of_old_run_ends_as_the_uninterrupted_old_run(
    sample: str, tmp_path: Path
) -> None:
    run, end = tmp_path / "run", SAMPLES / Path(sample).parents[2] / "end"
    shutil.copytree(SAMPLES / sample, run)
    run_command("resume", run, "--quiet")
    metrics, expected = read_lines(run / "metrics.jsonl"), read_lines(end / "metrics.jsonl")
    assert [(r["kind"], r["step"]) for r in metrics] == [(r["kind"], r["step"]) for r in expected]
    if is_exact(sample.partition("/")[0]):
        for record, stored in zip(metrics, expected, strict=True):
            assert {**record, **stored} == record


@pytest.mark.parametrize("sample", POLICIES)
def test_old_policy_acts_and_evaluates_as_it_did(sample: str) -> None:
    commit, _, name = sample.partition("/")
    expected = FACTS[commit]["policies"][name]
    found = sample_facts.policy_facts(SAMPLES / sample)
    tolerance = 0.0 if is_exact(commit) else 1e-4
    mine, theirs = np.array(found["actions"]), np.array(expected["actions"])
    np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
    if is_exact(commit):
        assert found["return"] == expected["return"]


def test_policies_of_every_format_are_among_the_samples() -> None:
    formats = set()
    for sample in POLICIES:
        with safe_open(SAMPLES / sample, framework="np") as file:
            formats.add(json.loads(file.metadata()["card"])["format"])
    assert formats >= {1, 2}


@pytest.mark.parametrize("sample", RUNS)
def test_load_policy_of_old_run_takes_its_best_agent(sample: str) -> None:
    run = SAMPLES / sample / "run"
    earned = [read_card(file)["mean_return"] for file in (run / "policy").iterdir()]
    assert td3.load_policy(run).mean_return == max(earned)


@pytest.mark.parametrize("commit", FACTS)
def test_evaluate_command_reads_old_run(commit: str) -> None:
    """One run with several agents; the policies of the others are evaluated above."""
    words = ("evaluate", SAMPLES / commit / "population/run", "--episodes", "1", "--json")
    found = {row["agent"]: row["returns"] for row in json.loads(run_command(*words))["agents"]}
    assert sorted(found) == [f"agent-{agent}" for agent in range(4)]
    for agent, returns in found.items():
        facts = FACTS[commit]["policies"][f"population/run/policy/{agent}.safetensors"]
        assert returns == [facts["return"]] if is_exact(commit) else len(returns) == 1


@pytest.mark.parametrize(
    ("command", "written"),
    [("plot", ["out.png", "out.svg"]), ("report", ["out/report.html", "out/report.md"])],
)
def test_plot_and_report_read_old_runs(command: str, written: list[str], tmp_path: Path) -> None:
    runs = [copy_run(sample, tmp_path / sample.replace("/", "-")) for sample in RUNS]
    printed = json.loads(run_command(command, *runs, "--out", tmp_path / "out", "--json"))
    assert all((tmp_path / name).stat().st_size > 0 for name in written)
    found = {row["folder"]: (row["status"], row["steps"], row["frozen"]) for row in printed["runs"]}
    for run in runs:
        records, events = read_lines(run / "metrics.jsonl"), read_lines(run / "events.jsonl")
        frozen = {str(e["agent"]): e["step"] for e in events if e["event"] == "frozen"}
        assert found[str(run)] == ("stopped", max(r["step"] for r in records), frozen)


@pytest.mark.parametrize("sample", AGENTS)
def test_old_agent_file_loads_and_learns_further_as_it_did(sample: str) -> None:
    commit, _, name = sample.partition("/")
    expected = FACTS[commit]["agents"][name]
    found = sample_facts.agent_facts(SAMPLES / commit / "agents", name)
    tolerance = 0.0 if is_exact(commit) else 1e-3
    for moment in ("loaded", "trained"):
        mine, theirs = np.array(found[moment]), np.array(expected[moment])
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance, err_msg=moment)
    assert expected["loaded"] != expected["trained"]

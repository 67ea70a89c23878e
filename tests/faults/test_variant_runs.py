"""Runs of variants outside the package: killed, resumed, changed, missing, in a grid."""

import ast
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from support.run_tools import TINY, different
from support.variant_tools import (
    MODULE,
    SOURCE,
    begin_command,
    run_command,
    run_patched,
    train_words,
    write_module,
)

import td3
from td3.algorithm.agent import TD3
from td3.cli import main
from td3.config.variants import known, variant_name
from td3.report.curves import curves
from td3.report.summary import read_runs
from td3.run.folder import read_facts


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder with the module of a user, which this process can import."""
    folder = tmp_path / "modules"
    folder.mkdir()
    write_module(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield folder
    forget_module()


def forget_module() -> None:
    """Let the next import read the module again, as a new process does."""
    sys.modules.pop(MODULE, None)
    for name in [name for name in known if name.startswith(f"{MODULE}:")]:
        del known[name]


def test_own_variants_have_at_most_15_lines() -> None:
    classes = [node for node in ast.parse(SOURCE).body if isinstance(node, ast.ClassDef)]
    sizes = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in classes}
    assert sizes["HuberSettings"] + sizes["Huber"] <= 15
    assert sizes["NormalizedCritic"] + sizes["LayerNorm"] <= 15
    assert sizes["ThreeCritics"] <= 15


@pytest.mark.parametrize("variant", ["Huber", "ThreeCritics", "LayerNorm"])
def test_own_variant_after_random_kills_equals_run_in_one(
    variant: str, modules: Path, tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main(train_words(variant, whole, "--seeds", "3", steps=500)) == 0
    rng = random.Random(variant)
    process = begin_command(train_words(variant, killed, "--seeds", "3", steps=500), modules)
    for kill in range(2):
        wait_for_step(killed, rng.randrange(120, 200) + 100 * kill, process)
        time.sleep(rng.uniform(0.0, 0.05))
        process.kill()
        process.communicate()
        process = begin_command(["resume", str(killed), "--quiet"], modules)
    _, problem = process.communicate()
    assert process.returncode == 0 or "is finished" in problem, problem
    events = (killed / "events.jsonl").read_text()
    assert '"resume"' in events
    assert "not exact" not in events
    assert different(whole, killed) == []
    assert read_facts(killed, "code") == read_facts(whole, "code")
    assert read_facts(killed, "code")["class"] == variant


def wait_for_step(folder: Path, step: int, process: Any) -> None:
    """Until there is a checkpoint of this step or a later one, or the process ended."""
    deadline = time.monotonic() + 60
    while process.poll() is None:
        names = [path.name for path in (folder / "checkpoints").glob("[0-9]*")]
        if any(int(name) >= step for name in names):
            return
        assert time.monotonic() < deadline, f"no checkpoint of step {step}"
        time.sleep(0.01)


def test_grid_over_own_setting_trains_evaluates_and_reports(
    modules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, alone = tmp_path / "grid", tmp_path / "alone"
    assert main(train_words("Huber", folder, "--grid", "variant.delta=0.5,1.0")) == 0
    assert main(train_words("Huber", alone, "--variant.delta", "0.5")) == 0
    agents = td3.load_run(folder).agent.tensors()
    first = td3.load_run(alone).agent.tensors()["critic.layer_1.weight"][0]
    both = agents["critic.layer_1.weight"]
    torch.testing.assert_close(both[0], first, rtol=2e-3, atol=2e-4)
    assert (both[0] - both[1]).abs().max() > 1e-3
    capsys.readouterr()
    forget_module()  # neither command needs the class: policies act as TD3 does
    assert main(["evaluate", str(folder), "--episodes", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["agents"]
    assert [row["settings"] for row in rows] == [{"variant.delta": 0.5}, {"variant.delta": 1.0}]
    assert main(["report", str(folder)]) == 0
    assert MODULE not in sys.modules
    page = (folder / "report.md").read_text(encoding="utf-8").replace("\\", "")
    assert f"{MODULE}:Huber" in page
    assert "delta 0.5" in page
    assert "delta 1.0" in page


def test_report_of_two_variants_shows_each_alone(modules: Path, tmp_path: Path) -> None:
    """They have the same recipe, so only the variant tells them apart."""
    folders = [tmp_path / "plain", tmp_path / "three", tmp_path / "huber"]
    for folder, variant in zip(folders, ["", "ThreeCritics", "Huber"], strict=True):
        assert main(train_words(variant, folder)) == 0
    found = [curve.label for curve in curves(read_runs(folders))]
    assert found == [
        "quick, variant TD3",
        f"quick, variant {MODULE}:ThreeCritics",
        f"quick, delta 1.0, variant {MODULE}:Huber",
    ]


def test_resume_of_a_patched_class_is_refused_without_the_patch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run_patched(train_words("", folder), tmp_path) == 0
    before = (folder / "metrics.jsonl").read_bytes()
    words = ["resume", str(folder), "--steps", "400", "--quiet"]
    assert main(words) == 2
    problem = capsys.readouterr().err
    assert "was trained with changed methods" in problem
    assert "--accept-changes" in problem
    assert problem.count("\n") == 1
    assert (folder / "metrics.jsonl").read_bytes() == before
    assert run_patched(words, tmp_path) == 0  # the same patch
    assert "not exact" not in (folder / "events.jsonl").read_text()
    assert main([*words[:3], "500", "--quiet", "--accept-changes"]) == 0
    assert "not exact: the code of the variant changed" in (folder / "events.jsonl").read_text()
    assert read_facts(folder, "code") == {}


def test_resume_of_plain_td3_in_a_patched_process_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main(train_words("", folder)) == 0
    monkeypatch.setattr(TD3, "actor_loss", lambda self, state: state.mean(dim=(1, 2)))
    assert main(["resume", str(folder), "--steps", "400"]) == 2
    assert "was trained with plain TD3, and methods" in capsys.readouterr().err


def test_resume_with_changed_source_is_refused(
    modules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main(train_words("Huber", folder)) == 0
    words = ["resume", str(folder), "--steps", "400", "--quiet"]
    write_module(modules, SOURCE.replace("2 * error - inside", "3 * error - inside"))
    forget_module()
    assert main(words) == 2
    problem = capsys.readouterr().err
    assert f"the source of {MODULE}:Huber, or of what it uses, has changed" in problem
    write_module(modules, SOURCE.replace("critics = 3", "critics = 4"))  # another class
    forget_module()
    assert main(words) == 0
    write_module(modules, SOURCE.replace("2 * error - inside", "3 * error - inside"))
    forget_module()
    assert main([*words[:3], "500", "--accept-changes", "--quiet"]) == 0
    assert "not exact: the code of the variant changed" in (folder / "events.jsonl").read_text()


def test_resume_with_changed_default_of_a_setting_keeps_the_stored_value(
    modules: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    assert main(train_words("Huber", folder)) == 0
    write_module(modules, SOURCE.replace("delta: float = 1.0", "delta: float = 9.0"))
    forget_module()
    assert td3.load_run(folder).config.variant.delta == 1.0


def test_resume_without_the_module_is_refused(modules: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert main(train_words("ThreeCritics", folder)) == 0
    code, problem = run_command(["resume", str(folder), "--steps", "400"])
    assert code == 2
    assert f"Cannot import the variant {MODULE}:ThreeCritics" in problem
    assert problem.count("\n") == 1


def test_policy_with_own_actor_needs_the_class_to_be_named(
    modules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main(train_words("OwnActor", folder)) == 0
    states = torch.linspace(-1, 1, 12).view(4, 3).numpy()
    agent, policy = td3.load_run(folder).agent, td3.load_policy(folder, which="last")
    expected = agent.act(torch.from_numpy(states)[None])[0]
    torch.testing.assert_close(torch.as_tensor(policy.act(states)), expected, rtol=0, atol=1e-5)
    forget_module()
    words = ["evaluate", str(folder), "--episodes", "1"]
    assert main(words) == 2
    assert f"If you trust it, name it: --variant {MODULE}:OwnActor" in capsys.readouterr().err
    assert MODULE not in sys.modules
    assert main([*words, "--variant", "huber"]) == 2
    assert f"needs the variant {MODULE}:OwnActor, not huber" in capsys.readouterr().err
    assert main([*words, "--variant", f"{MODULE}:OwnActor"]) == 0
    assert MODULE in sys.modules


def test_class_defined_in_a_function_is_passed_to_resume(tmp_path: Path) -> None:
    class Doubled(TD3):
        def critic_loss(self, values: Any, target_q: Any) -> Any:
            return 2 * super().critic_loss(values, target_q)

    loop = {**TINY["loop"], "steps": 400}
    given: dict[str, Any] = {**TINY, "threads": 1, "quiet": True, "variant": Doubled}
    del given["environment"]
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    td3.train("Pendulum-v1", run=whole, **{**given, "loop": loop})
    td3.train("Pendulum-v1", run=pieces, **{**given, "loop": {**loop, "steps": 300}})
    del known[variant_name(Doubled)]  # as in a new process
    with pytest.raises(td3.UserError, match=r"td3\.resume\(folder, variant=Doubled\)"):
        td3.resume(pieces, 400, quiet=True)
    run = td3.resume(pieces, 400, variant=Doubled, quiet=True)
    assert type(run.agent) is Doubled
    assert different(whole, pieces) == []


BROKEN = """
import td3


class Broken(td3.TD3):
    def {method}:
        {code}
        raise ValueError("not today")
"""


@pytest.mark.parametrize(
    ("method", "code", "saved"),
    [
        ("critic_loss(self, values, target_q)", "pass", 100),
        ("prepare(self, batch)", "pass", 100),
        (
            "draw_noise(self, batch_size)",
            "if self.updates[0] < 50: return super().draw_noise(batch_size)",
            140,
        ),
    ],
)
def test_exception_in_a_seam_is_one_sentence_and_the_run_resumes(
    method: str,
    code: str,
    saved: int,
    modules: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_module(modules, BROKEN.format(method=method, code=code))
    folder = tmp_path / "run"
    assert main(train_words("Broken", folder)) == 1
    problem = capsys.readouterr().err
    name = method.partition("(")[0]
    assert f"Broken.{name} raised ValueError: not today ({MODULE}.py, line 7)" in problem
    assert f"Saved up to step {saved:,}." in problem
    assert "Traceback" not in problem
    assert "critic_loss" not in problem or name == "critic_loss"
    assert "Traceback" in (folder / "events.jsonl").read_text()
    forget_module()
    write_module(modules, BROKEN.format(method="unused(self)", code="pass"))
    assert main(["resume", str(folder), "--quiet", "--accept-changes"]) == 0
    assert td3.load_run(folder).finished


class Failing(td3.TD3):
    def update(self, *given: Any) -> Any:
        raise KeyError("not today")


def test_exception_in_update_is_the_cause_of_what_train_raises(tmp_path: Path) -> None:
    settings = {name: table for name, table in TINY.items() if name != "environment"}
    problem = r"Failing\.update raised KeyError: 'not today' \(test_variant_runs\.py, line \d+\)"
    with pytest.raises(td3.RunStopped, match=problem) as raised:
        td3.train("Pendulum-v1", run=tmp_path / "run", variant=Failing, quiet=True, **settings)
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize("method", ["__init__(self, *a, **k)", "make_critic(self, inputs, **k)"])
def test_exception_in_a_constructor_is_refused_before_the_run(
    method: str, modules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_module(modules, BROKEN.format(method=method, code="pass"))
    assert main(train_words("Broken", tmp_path / "run")) == 2
    name = method.partition("(")[0]
    expected = f"Broken.{name} raised ValueError: not today ({MODULE}.py, line 7)."
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


KEEPS = """
import td3


class Keeps(td3.TD3):
    def prepare(self, batch):
        self.batch = batch
        return batch
"""


@pytest.mark.parametrize("execution", ["auto", "eager"])
def test_run_whose_updates_add_a_tensor_warns_once_that_it_cannot_be_resumed(
    execution: str, modules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_module(modules, KEEPS)
    folder = tmp_path / "run"
    assert main(train_words("Keeps", folder, "--execution", execution)) == 0
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    (warning,) = [m for event in events if "resumed" in (m := event.get("message", ""))]
    assert warning.startswith("This run cannot be resumed: updates add the tensor self.batch.0;")
    capsys.readouterr()
    assert main(["resume", str(folder), "--quiet", "--steps", "400"]) == 2
    assert "own.batch.0" in capsys.readouterr().err

"""Every script in examples/ runs, with a tiny budget."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
RUN = ROOT / "benchmarks/results/halfcheetah-v5-100k"


def load(name: str) -> ModuleType:
    """An example as a module, without running it."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_loop_by_hand_runs() -> None:
    mean = load("loop_by_hand").main(["--steps", "300", "--random-steps", "200", "--episodes", "1"])
    assert -2_000 < mean < 0


def test_own_environment_trains_and_keeps_a_policy(tmp_path: Path) -> None:
    run = load("own_environment").main(["--steps", "1500", "--run", str(tmp_path / "cart")])
    assert (run / "policy" / "agent-0.safetensors").is_file()


def test_resume_example_ends_in_the_same_bytes(tmp_path: Path) -> None:
    assert load("resume").main(["--steps", "2400", "--folder", str(tmp_path)])


def test_callback_example_stops_when_the_goal_is_reached(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["--steps", "3000", "--goal", "-100000", "--run", str(run)]
    assert load("callbacks").main(words) == run
    assert len((run / "episodes.csv").read_text().splitlines()) == 10
    assert "the last ten episodes reached -100,000" in (run / "events.jsonl").read_text()


def test_variant_example_checks_trains_and_evaluates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mean = load("my_variant").main(["--steps", "1500", "--run", str(tmp_path / "run")])
    assert -2_000 < mean < 0
    assert "FAILED" not in capsys.readouterr().out
    assert 'class = "HuberTD3"' in (tmp_path / "run/config.toml").read_text(encoding="utf-8")


def test_plot_example_reads_every_seed_and_writes_a_figure(tmp_path: Path) -> None:
    example = load("plot_runs")
    curves = example.read_metric(RUN, "evaluations", "mean_return")
    assert {seed: points[-1][0] for seed, points in curves.items()} == dict.fromkeys(
        range(3), 100_000
    )
    out = example.main([str(RUN), "--out", str(tmp_path / "curves.png")])
    assert out.read_bytes().startswith(b"\x89PNG")


def test_load_policy_example_plays_a_stored_run() -> None:
    pytest.importorskip("mujoco")
    assert load("load_policy").main([str(RUN), "--steps", "200"]) > 500


def test_every_example_is_tested() -> None:
    tests = Path(__file__).parent.glob("test_*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in tests)
    names = [path.stem for path in (ROOT / "examples").glob("*.py")]
    assert names
    assert [name for name in names if f'load("{name}")' not in text] == []

"""Verdicts about td3 and the authors' seeds, and the file of these seeds."""

from pathlib import Path

import numpy as np
import pytest
from support.stored_results import REFERENCES, ROOT, write_authors, write_stored_run

from benchmarks.td3_bench import main
from benchmarks.td3_bench.outcomes import comparable, read_tasks
from benchmarks.td3_bench.published import SeedCurves, read_published
from benchmarks.td3_bench.verdicts import ALL, BEST, LAST, verdict_sentences, verdicts
from td3.errors import UserError
from td3.report.reference import read_reference

AUTHORS = REFERENCES / "td3_authors_curves.csv"


def test_stored_results_are_below_the_authors_where_an_outside_test_found_it() -> None:
    found = verdicts(read_tasks(ROOT / "benchmarks" / "results" / "paper", AUTHORS))
    known = {(one.statistic, one.task): one for one in found}
    assert len(found) == 3 * 7
    walker = known[BEST, "Walker2d-v5"]
    assert walker[2:5] == pytest.approx((-671, -1199, -143), abs=0.5)
    assert walker.word(walker.p_value) == "below"
    assert walker.corrected == pytest.approx(6 * walker.p_value)  # one task has a smaller p value
    assert known[ALL, "Walker2d-v5"].difference == pytest.approx(-1117, abs=1)
    assert known[ALL, "Hopper-v5"].difference == pytest.approx(-506, abs=0.5)
    assert known[ALL, "Walker2d-v5"].word(known[ALL, "Walker2d-v5"].corrected) == "below"


def test_reference_has_ten_seeds_whose_moments_are_the_stored_ones() -> None:
    moments = read_reference(AUTHORS)  # as td3 plot --reference reads it
    for task, found in read_published(AUTHORS).items():
        assert isinstance(found, SeedCurves)
        assert found.values.shape == (10, 201)
        np.testing.assert_allclose(found.mean, moments[task].mean, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(found.std, moments[task].std, rtol=1e-4, atol=1e-2)


def test_verdicts_of_several_tasks_are_corrected(tmp_path: Path) -> None:
    """Two tasks, each significant alone: no verdict remains."""
    low = [[0.0, *[96.5 - seed] * 20] for seed in range(10)]
    for task in ("Ant-v5", "Hopper-v5"):
        write_stored_run(tmp_path / "paper", task, low)
    authors = write_authors(tmp_path / "theirs.csv", Ant=(100, 10), Hopper=(100, 10))
    found = verdicts(read_tasks(tmp_path / "paper", authors))
    assert {one.statistic for one in found} == {BEST, LAST, ALL}
    for one in found:
        assert one.high < 0
        assert one.word(one.p_value) == "below"
        assert one.corrected == pytest.approx(2 * one.p_value)
    assert verdict_sentences(found).count("Holm's correction: no significant difference.") == 3


def test_published_means_alone_are_not_compared(tmp_path: Path) -> None:
    """Without seeds there is no test of equal means."""
    write_stored_run(tmp_path / "paper", "Ant-v5", [[0.0, 1.0], [0.0, 2.0]])
    means = tmp_path / "means.csv"
    means.write_text(
        "env,step,mean_return,std_return,seeds\nAnt-v1,0,0,1,10\nAnt-v1,5000,100,10,10\n"
    )
    outcomes = read_tasks(tmp_path / "paper", means)
    assert comparable(outcomes) == []
    assert verdicts(outcomes) == []


def test_reference_command_writes_every_seed_and_the_licence(tmp_path: Path) -> None:
    curves = tmp_path / "learning_curves" / "Walker"
    curves.mkdir(parents=True)
    for seed in range(3):
        np.save(curves / f"TD3_Walker2d-v1_{seed}.npy", np.array([0.0, 10.0 * seed]))
    (tmp_path / "LICENSE").write_text("MIT")
    out = tmp_path / "out.csv"
    words = ["reference", "--source", str(tmp_path), "--out", str(out)]
    assert main(words) == 0
    found = read_published(out)["Walker2d-v1"]
    assert isinstance(found, SeedCurves)
    assert found.values.tolist() == [[0, 0], [0, 10], [0, 20]]
    assert found.steps.tolist() == [0, 5000]
    assert out.with_suffix(".LICENSE").read_text() == "MIT"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not have 2 seeds with equally many evaluations"),
        (b"no array", "is not a NumPy array of numbers"),
        (np.array([[1.0]]), "is not one row of finite numbers"),
        (np.array([np.nan]), "is not one row of finite numbers"),
    ],
)
def test_reference_command_refuses_other_files(
    content: bytes | np.ndarray | None,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    curves = tmp_path / "learning_curves" / "Ant"
    curves.mkdir(parents=True)
    np.save(curves / "TD3_Ant-v1_0.npy", np.array([1.0]))
    if isinstance(content, bytes):
        (curves / "TD3_Ant-v1_1.npy").write_bytes(content)
    else:
        np.save(curves / "TD3_Ant-v1_1.npy", np.zeros(2) if content is None else content)
    assert main(["reference", "--source", str(tmp_path), "--out", str(tmp_path / "o.csv")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "o.csv").exists()


def test_reference_command_without_curves_explains_where_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reference", "--source", str(tmp_path)]) == 2
    assert "Clone github.com/sfujim/TD3" in capsys.readouterr().err


def test_seed_without_a_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("env,step,mean_return,std_return,seeds,seed_0\nAnt-v1,0,0,1,1,x\n")
    with pytest.raises(UserError, match="has a seed without a number"):
        read_published(path)

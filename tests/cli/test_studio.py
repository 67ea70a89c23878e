"""td3 studio, as a process."""

import json
import signal
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from cli.test_play import started
from support.run_tools import command

from benchmarks.studio import write_run


def test_studio_shows_the_runs_of_a_folder_and_stops_with_ctrl_c(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "one", steps=20_000)
    with started(["studio", str(tmp_path / "runs"), "--no-browser"]) as studio:
        assert studio.stdout
        address = studio.stdout.readline().split()[-1]
        assert urlsplit(address).hostname == "127.0.0.1"
        with urlopen(f"{address}api/runs.json", timeout=60) as answer:
            assert [row["id"] for row in json.load(answer)["rows"]] == ["one"]
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{address}one/config.toml", timeout=60)
        studio.send_signal(signal.SIGINT)
        out, problem = studio.communicate(timeout=60)
    assert (studio.returncode, problem) == (0, "")
    assert out.endswith("Stopped.\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing"], "nothing does not exist; name the folder that has your runs."),
        ([".", "--reference", "nothing.csv"], "Cannot read the reference nothing.csv"),
        ([".", "--port", "70000"], "A port is between 0 and 65535"),
    ],
)
def test_studio_with_wrong_arguments_is_one_sentence(
    tmp_path: Path, words: list[str], sentence: str
) -> None:
    result = subprocess.run(
        command("studio", *words), cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert sentence in result.stderr

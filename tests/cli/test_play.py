"""td3 play, as a process."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from support.run_tools import command

from td3.policy.pretrained import pretrained


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A td3 command that reacts to Ctrl-C, even if the tests run in the background."""
    code = "import signal as s, sys; s.signal(s.SIGINT, s.default_int_handler); import td3.cli as c"
    command, pipe = [sys.executable, "-c", f"{code}; sys.exit(c.main())", *words], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_play_serves_the_named_run_only_and_stops_with_ctrl_c(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "policy").mkdir(parents=True)
    (run / "videos").mkdir()
    shutil.copy(pretrained("AntBulletEnv-v0"), run / "policy" / "agent-0.safetensors")
    film = run / "videos" / "agent-0.mp4"
    film.write_bytes(b"film")
    (run / "config.toml").write_text("secret")
    with started(["play", str(run), "--no-browser"]) as play:
        assert play.stdout
        address = urlsplit(play.stdout.readline().split()[-1])
        assert address.hostname == "127.0.0.1"

        def ask(path: str, host: str = address.netloc) -> tuple[int, bytes]:
            connection = HTTPConnection("127.0.0.1", address.port or 0, timeout=5)
            connection.request("GET", path, headers={"Host": host})
            response = connection.getresponse()
            answer = response.status, response.read()
            connection.close()
            return answer

        base = address.path
        assert ask(f"{base}films/0.mp4") == (200, b"film")
        assert ask(f"{base}films/0.mp4", "foreign.example")[0] == 403
        assert ask("/films/0.mp4")[0] == 403
        for path in ("config.toml", "../config.toml", f"..{run}/config.toml", "policy", "%2e%2e/"):
            assert ask(f"{base}{path}")[0] == 404
        film.unlink()
        os.symlink(run / "config.toml", film)
        assert ask(f"{base}films/0.mp4")[0] == 404
        film.unlink()
        assert ask(f"{base}films/0.mp4")[0] == 404
        play.send_signal(signal.SIGINT)
        out, problem = play.communicate(timeout=10)
    assert (play.returncode, problem) == (0, "")
    assert out.endswith("Stopped.\n")


def test_play_without_such_a_policy_is_one_sentence() -> None:
    result = subprocess.run(command("play", "nothing"), capture_output=True, text=True, timeout=30)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "nothing does not exist." in result.stderr

"""Runs commands of td3 with limits: `Bounded` starts this file as a program that stays warm.

Each command runs in a fork of it, so imports are paid once and a command cannot spoil the next one.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple, Self

SECONDS = 2.0  # of processor time
PATIENCE = 30  # seconds after which a command hangs
MEGABYTES = 100
SPARE = 500 * 2**20  # bytes of address space besides: a fork that takes more gets a MemoryError


class Outcome(NamedTuple):
    """What a command did."""

    code: int
    """Exit code; negative: killed by this signal."""
    out: str
    error: str
    seconds: float
    """Processor time."""
    megabytes: float
    """Peak memory above that of the program before the command."""

    def problem(self) -> str:
        """Why this is not a refusal in one sentence within the limits; empty if it is."""
        if self.code == -signal.SIGALRM:
            return f"it did not end within {PATIENCE} s"
        if self.code != 2:
            return f"exit code {self.code}: {self.error[-600:]}"
        return self.excess() or self.problem_of_text()

    def problem_of_use(self, message: str = "") -> str:
        """Why the command did not succeed within the limits, with this message; empty if it did."""
        if self.code or message not in self.error:
            return f"exit code {self.code}, {message!r} is not in {self.error[-1500:]!r}"
        return self.excess()

    def excess(self) -> str:
        if self.seconds > SECONDS or self.megabytes > MEGABYTES:
            return f"it took {self.seconds:.1f} s and {self.megabytes:.0f} MB"
        if not all(character.isprintable() or character == "\n" for character in self.error):
            return f"it printed control characters: {self.error!r}"
        return ""

    def problem_of_text(self) -> str:
        *before, line = self.error.rstrip("\n").split("\n")
        if not line.startswith("td3: ") or not line.rstrip().endswith((".", "?", ")", "}")):
            return f"its last line is no sentence: {line!r}"
        if any("Traceback" in other for other in before) or len(line) > 1200:
            return f"it printed too much: {self.error!r}"
        return ""


class Bounded:
    """A warm program that runs commands."""

    def __init__(self, warm: Sequence[Sequence[str]] = ()) -> None:
        self.program = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for words in warm:
            assert self.run(words, fork=False).code == 0

    def run(self, words: Sequence[str], folder: str = "/", fork: bool = True) -> Outcome:
        """Run `td3 WORDS` in a folder."""
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        print(json.dumps([list(words), folder, fork]), file=self.program.stdin, flush=True)
        return Outcome(*json.loads(self.program.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.program.communicate()


def memory(name: str) -> int:
    """A line of /proc/self/status, in kilobytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def call(words: list[str]) -> int:
    from td3.cli import main

    try:
        return main(words)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1


def opened() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogateescape")


def run_fork(words: list[str], folder: str) -> Outcome:
    """Run a command in a fork with limits."""
    with opened() as out, opened() as error:
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(error.fileno(), 2)
            os.chdir(folder)
            code = 1
            try:
                limit = memory("VmSize") * 1024 + SPARE
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
                signal.alarm(PATIENCE)
                Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # peak = now
                before = memory("VmRSS")
                code = call(words)
            except BaseException:
                sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os.write(writing, str(memory("VmHWM") - before).encode())
                os._exit(code)
        os.close(writing)
        _, status, used = os.wait4(child, 0)
        peak = int(os.read(reading, 100) or 0) / 1024
        os.close(reading)
        for file in (out, error):
            file.seek(0)
        code = os.waitstatus_to_exitcode(status)
        seconds = used.ru_utime + used.ru_stime
        return Outcome(code, out.read(), error.read(), seconds, peak)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(1)  # a fork has no other threads
    for line in sys.stdin:
        words, folder, fork = json.loads(line)
        outcome = run_fork(words, folder) if fork else Outcome(call(words), "", "", 0, 0)
        print(json.dumps(outcome), file=answers, flush=True)


if __name__ == "__main__":
    main()

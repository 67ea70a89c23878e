"""Messages and shared memory between the learner and a worker, without processes."""

import os
import threading
import time
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest

from td3.environments.workers import messages, shared_memory


def test_countdown_does_not_count_time_while_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 0.5, 600.0, 600.5, 601.5])
    monkeypatch.setattr(messages, "time", SimpleNamespace(monotonic=lambda: next(times)))
    countdown = messages.Countdown(2.5)
    for _ in range(3):
        countdown.check()
    with pytest.raises(TimeoutError):
        countdown.check()


def test_receive_waits_while_wake_ups_come_and_times_out_without() -> None:
    ours, theirs = Pipe()

    def wake_and_answer() -> None:
        for _ in range(8):
            time.sleep(0.1)
            messages.wake(theirs)
        theirs.send_bytes(b"done")

    sender = threading.Thread(target=wake_and_answer)
    start = time.monotonic()
    sender.start()
    assert messages.receive(ours, timeout=0.5) == b"done"
    assert time.monotonic() - start >= 0.8
    sender.join()
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        messages.receive(ours, timeout=0.2)
    assert 0.2 <= time.monotonic() - start < 2
    theirs.close()
    with pytest.raises(EOFError):
        messages.receive(ours, timeout=0.2)
    ours.close()


def test_read_of_a_message_that_was_cut_off_raises_eof() -> None:
    """A worker may be killed while it sends."""
    ours, theirs = Pipe()
    os.write(theirs.fileno(), b"\0\0\0\x09part")
    theirs.close()
    with pytest.raises(EOFError):
        messages.read(ours)
    ours.close()


def test_sleep_discards_old_wake_ups_and_keeps_the_answer() -> None:
    """An old wake-up is not a report, and an answer that comes without a wake-up is not lost."""
    memory = shared_memory.create_shared_file()
    learner, worker = (shared_memory.SharedBlock(memory, 1, 1, 1, 1, True) for _ in range(2))
    os.close(memory)
    ours, theirs = Pipe()
    messages.wake(theirs)
    learner.send_command(shared_memory.Command.SNAPSHOT, 5, [ours])
    assert worker.wait_for_command(0, theirs) == (shared_memory.Command.SNAPSHOT, 5)

    def report_and_answer() -> None:
        time.sleep(0.1)
        mailbox = shared_memory.mailbox(0)
        worker.counters[mailbox + shared_memory.DONE] = worker.sequence  # without a wake-up
        theirs.send_bytes(b"answer")

    sender = threading.Thread(target=report_and_answer)
    start = time.monotonic()
    sender.start()
    assert not learner.wait_for_worker(0, ours)
    assert time.monotonic() - start >= 0.1
    sender.join()
    assert messages.receive(ours, timeout=1.0) == b"answer"
    ours.close()
    theirs.close()

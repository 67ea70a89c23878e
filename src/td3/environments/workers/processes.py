"""Processes that work for this one: never forked, named when they die, gone when it is."""

import contextlib
import dataclasses
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from td3.environments.environment import Environment
from td3.environments.simulators import SIMULATORS
from td3.environments.workers.shared_memory import Channel
from td3.errors import RunStopped, UserError, first_line
from td3.signals import shielded

CLOSE_SECONDS = 10.0
GRACE_SECONDS = 5.0


class Reported(Exception):
    """What another process wrote of an error in it."""


@dataclasses.dataclass(frozen=True)
class Link:
    """A process as the one who started it sees it."""

    name: str
    process: subprocess.Popen[bytes]
    channel: Channel

    def obituary(self) -> RunStopped:
        """How it ended."""
        try:
            code = self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            return RunStopped(f"{self.name} closed its channel")
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return RunStopped(f"{self.name} {how}")

    def silence(self, patience: float) -> RunStopped:
        """It hangs, and would not notice that it is to end."""
        self.process.kill()
        return RunStopped(
            f"{self.name} has not answered for {patience:g} s; "
            "if a step may take that long, raise environment.patience"
        )

    def failure(self, facts: dict[str, Any]) -> Exception:
        """An error of its, told by `failure`, as this process would have raised it."""
        if facts["kind"] == "UserError":
            return UserError(facts["message"])
        known = facts["kind"] == "RunStopped"
        message = facts["message"] if known else f"{self.name} failed with {facts['message']}"
        return RunStopped(message)

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self.channel.end.shutdown(socket.SHUT_RDWR)  # wakes a thread that listens here
        self.channel.end.close()


def end_all(links: Sequence[Link]) -> None:
    """End these processes, all at the same time."""
    for link in links:
        link.hang_up()
    limit = time.monotonic() + CLOSE_SECONDS
    for link in links:
        try:
            link.process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            link.process.kill()
            link.process.wait()


def start_process(module: str, name: str, *descriptors: int, **environment: str) -> Link:
    """`python -m module`, given its channel and these descriptors; it imports what we would."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-P", "-W", "ignore", "-m", module]
    # Whoever stops the run stops this process, which closes the others once it has saved.
    with shielded(signal.SIGTERM), theirs:
        given = (theirs.fileno(), *descriptors)
        try:
            process = subprocess.Popen(
                [*command, *map(str, given)],
                stdin=subprocess.DEVNULL,
                pass_fds=given,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
            )
        except OSError as error:
            raise RunStopped(f"Cannot start {name}: {error.strerror}") from error
    return Link(name, process, Channel(ours))


def portable_spec(environment: Environment) -> str:
    """What another process must register to make this environment, as JSON.

    Nothing where the id itself says which module to import. Refuses a task that only we can make.
    """
    env_id, spec = environment.task.id, environment.env.spec
    if ":" in env_id or any(part in env_id for part in SIMULATORS):
        return ""
    registered = gym.registry.get(spec.id) if spec else None
    with contextlib.suppress(TypeError, ValueError):  # callables and other objects
        if registered and not str(registered.entry_point).startswith("__main__"):
            return registered.to_json()
    raise UserError(
        f"{env_id} was registered with an object that only this process has; "
        "register it with an entry_point such as 'my_package:MyEnv' to step it in workers."
    )


def register_spec(spec: str) -> None:
    """In the other process: make `portable_spec`'s environment known."""
    if spec:
        found = gym.envs.registration.EnvSpec.from_json(spec)
        gym.registry.setdefault(found.id, found)


def failure(error: Exception, index: int = 0) -> dict[str, Any]:
    """In the other process: an error as plain facts, for the first one to raise."""
    known = isinstance(error, RunStopped | UserError)
    message = str(error) if known else f"{type(error).__name__}: {first_line(error)}"
    kind = type(error).__name__ if known else ""
    text = "".join(traceback.format_exception(error.__cause__ or error))
    return {"kind": kind, "message": message, "index": index, "traceback": text}


def attend(channel: int, serve: Callable[[Channel, dict[str, Any]], None]) -> None:
    """In the other process: serve, told by a first message how, until the channel closes."""
    watchdog = threading.Thread(target=leave_with, args=(os.getppid(), channel), daemon=True)
    watchdog.start()
    try:
        link = Channel(socket.socket(fileno=channel))
        serve(link, json.loads(link.receive()))
    except (EOFError, OSError):
        pass  # the first process has left


def leave_with(parent: int, channel: int) -> None:
    """End this process when the first one is gone, even from within a step that never ends."""
    closed = select.poll()
    closed.register(channel, 0)
    while not closed.poll(1000) and os.getppid() == parent:
        pass
    time.sleep(GRACE_SECONDS)  # enough to leave in order
    os._exit(1)

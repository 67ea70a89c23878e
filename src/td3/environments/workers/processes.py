"""Start other processes, report how they end, and stop them with this one. Never forks."""

import contextlib
import dataclasses
import json
import math
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym

from td3.environments.factories import is_importable
from td3.environments.simulators import SIMULATORS, resolve_version
from td3.environments.workers.messages import receive
from td3.errors import RunStopped, UserError, first_line, short_traceback
from td3.signals import STOP_SIGNALS, block_signals, end_with

CLOSE_SECONDS = 10.0
START_SECONDS = 60.0
"""A process may need so long to start, even if environment.patience is shorter."""
GRACE_SECONDS = 5.0


class RemoteTraceback(Exception):
    """The traceback of an error in another process."""


@dataclasses.dataclass(frozen=True)
class Link:
    """A process, as its parent sees it."""

    name: str
    process: subprocess.Popen[bytes]
    connection: Connection

    def exit_error(self) -> RunStopped:
        """Return the error for a process that has closed its connection: how it ended."""
        try:
            code = self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            return RunStopped(f"{self.name} closed its connection")
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return RunStopped(f"{self.name} {how}")

    def timeout_error(self, timeout: float) -> RunStopped:
        """Kill a process that hangs; return the error."""
        self.process.kill()
        return RunStopped(
            f"{self.name} has not answered for {timeout:g} s; "
            "if a step may take that long, raise environment.patience"
        )

    def remote_error(self, facts: dict[str, Any]) -> Exception:
        """Rebuild an error from `describe_error`, as this process would have raised it."""
        if facts["kind"] == "UserError":
            return UserError(facts["message"])
        known = facts["kind"] == "RunStopped"
        message = facts["message"] if known else f"{self.name} failed with {facts['message']}"
        return RunStopped(message)

    def close(self) -> None:
        """Close the connection, which ends the process."""
        self.connection.close()


def stop_all(links: Sequence[Link]) -> None:
    """Stop these processes, all at the same time."""
    for link in links:
        link.close()
    limit = time.monotonic() + CLOSE_SECONDS
    for link in links:
        try:
            link.process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            link.process.kill()
            link.process.wait()


def start_patience(patience: float) -> float:
    """How long to wait for a process that has just been started."""
    return max(patience, START_SECONDS)


def start_process(
    module: str, name: str, patience: float, *descriptors: int, **environment: str
) -> Link:
    """Run `python -m module` with a connection, these descriptors and our import path.

    Sending raises BlockingIOError if the process has read nothing for `patience` seconds.
    """
    ours, theirs = Pipe()
    if math.isfinite(patience):
        seconds = struct.pack("ll", math.ceil(start_patience(patience)), 0)
        with socket.socket(fileno=os.dup(ours.fileno())) as channel:
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
    command = [sys.executable, "-P", "-W", "ignore", "-m", module]
    # A signal to the whole group must reach only this process, which saves and then stops them.
    with block_signals(*STOP_SIGNALS), theirs:
        given = (theirs.fileno(), *descriptors)
        try:
            process = subprocess.Popen(
                [*command, *map(str, (os.getpid(), *given))],
                stdin=subprocess.DEVNULL,
                pass_fds=given,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
            )
        except OSError as error:
            raise RunStopped(f"Cannot start {name}: {error.strerror}") from error
    return Link(name, process, ours)


def portable_spec(env_id: str) -> str:
    """Return what another process must register to make this environment, as JSON.

    Empty if the id itself tells which module to import. Raises UserError if only this process can
    make the environment.
    """
    if not is_importable(env_id):
        raise UserError(
            f"{env_id} exists only in this process, so worker processes cannot make it; move it "
            "into a module."
        )
    if ":" in env_id or any(part in env_id for part in SIMULATORS):
        return ""
    registered = gym.registry.get(resolve_version(env_id))
    with contextlib.suppress(TypeError, ValueError):  # JSON cannot hold callables and the like
        if registered and not str(registered.entry_point).startswith("__main__"):
            return registered.to_json()
    raise UserError(
        f"{env_id} was registered with an object that only this process has; "
        "register it with an entry_point such as 'my_package:MyEnv' to step it in workers."
    )


def register_spec(spec: str) -> None:
    """In the other process: register what `portable_spec` returned."""
    if spec:
        found = gym.envs.registration.EnvSpec.from_json(spec)
        gym.registry.setdefault(found.id, found)


def describe_error(error: Exception, index: int = 0) -> dict[str, Any]:
    """In the other process: return an error as JSON values, for `Link.remote_error`."""
    known = isinstance(error, RunStopped | UserError)
    message = str(error) if known else f"{type(error).__name__}: {first_line(error)}"
    kind = type(error).__name__ if known else ""
    text = "\n".join(short_traceback(error.__cause__ or error))
    return {"kind": kind, "message": message, "index": index, "traceback": text}


def serve_parent(
    parent: int, descriptor: int, serve: Callable[[Connection, dict[str, Any]], None]
) -> None:
    """In the other process: call `serve` with the first message until the connection closes."""
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # so an environment's KeyboardInterrupt is its own
    watchdog = threading.Thread(target=exit_with_parent, args=(parent, descriptor), daemon=True)
    watchdog.start()
    try:
        connection = Connection(descriptor)
        serve(connection, json.loads(receive(connection)))
    except (EOFError, OSError):
        pass  # the parent has ended


def exit_with_parent(parent: int, descriptor: int) -> None:
    """End this process when its parent has ended or has closed the connection."""
    closed = select.poll()
    closed.register(descriptor, 0)
    while not closed.poll(1000) and os.getppid() == parent:
        pass
    time.sleep(GRACE_SECONDS)  # the main thread may still end in order
    os._exit(1)

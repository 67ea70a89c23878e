"""What td3 uses of Ray, in threads of this process: the driver's tests need no cluster."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import SimpleNamespace
from typing import Any


class ActorDied(Exception):
    """As ray.exceptions.RayActorError."""


class TaskFailed(Exception):
    """As ray.exceptions.RayTaskError."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Actor:
    """An object whose methods run one after the other in a thread."""

    def __init__(self, kind: Callable[..., Any], *given: Any) -> None:
        self.thread, self.dead = ThreadPoolExecutor(1), False
        self.made = self.thread.submit(kind, *given)

    def die(self) -> None:
        """End as by SIGKILL: its process ends with it, its folder stays."""
        self.dead = True
        if (worker := self.made.result()) and worker.link:
            worker.link.process.kill()
            worker.link.process.wait()
            worker.link.close()
            worker.uploads.shutdown()

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> "Future[Any]":
            def run() -> Any:
                if self.dead:
                    raise ActorDied("The actor died")
                try:
                    return getattr(self.made.result(), name)(*given, **named)
                except Exception as error:
                    raise TaskFailed(error) from error

            return self.thread.submit(run)

        return SimpleNamespace(remote=call)


class FakeRay:
    """A cluster with one node of some CPUs, which starts all actors at once."""

    exceptions = SimpleNamespace(
        RayActorError=ActorDied, ObjectLostError=ActorDied, RayTaskError=TaskFailed
    )

    def __init__(self, cpus: int = 2) -> None:
        self.cpus, self.actors = cpus, list[Actor]()

    def nodes(self) -> list[dict[str, Any]]:
        resources = {"CPU": float(self.cpus)}
        own = {"NodeID": "0" * 56, "NodeManagerAddress": "127.0.0.1", "Alive": True}
        return [own | {"Resources": resources}]

    def available_resources(self) -> dict[str, float]:
        return {"CPU": float(self.cpus)}

    def remote(self, *given: Any, **options: Any) -> Any:
        if not given:
            return self.remote
        kind = given[0]

        def make(*arguments: Any) -> Any:
            if not isinstance(kind, type):
                return ThreadPoolExecutor(1).submit(kind, *arguments)
            self.actors.append(Actor(kind, *arguments))
            return self.actors[-1]

        return SimpleNamespace(options=lambda **own: SimpleNamespace(remote=make), remote=make)

    def wait(self, futures: Any, num_returns: int = 1, timeout: float | None = None) -> Any:
        ready, rest = wait(futures, timeout, FIRST_COMPLETED)
        return list(ready), list(rest)

    def get(self, future: "Future[Any]", timeout: float | None = None) -> Any:
        return future.result(timeout)

    def kill(self, actor: Actor) -> None:
        actor.dead = True
        actor.thread.shutdown(wait=False)

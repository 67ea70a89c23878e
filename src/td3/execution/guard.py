"""Notice what a trace cannot follow: changes of anything that is not a tensor.

A traced update contains the values that numbers, flags and arrays had when it was traced.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from td3.algorithm.agent import TD3
from td3.algorithm.tensors import TensorMapper, join_path
from td3.errors import UserError, first_line
from td3.execution.outside import outside_containers


class NotTraceable(Exception):
    """An update that a trace cannot represent; the message tells why."""


@contextmanager
def traceable() -> Iterator[None]:
    """Turn errors while tracing into NotTraceable; plain PyTorch shows whether they are real."""
    try:
        yield
    except (NotTraceable, UserError):
        raise
    except Exception as error:
        raise NotTraceable(f"it cannot be traced ({first_line(error)})") from error


class Guard:
    """Reports whether anything but the content of tensors changed since it was made."""

    def __init__(self, agent: TD3) -> None:
        mapper = TensorMapper(lambda path, tensor: tensor, share_arrays=True)
        mapper.copy(agent)
        mapper.containers |= outside_containers(mapper)
        self.watched: list[tuple[str, Any, Any]] = [
            (path, container, container.copy())
            for path, container in mapper.containers.items()
            if container and not is_internal(path)
        ]
        groups = [network.optimizer.param_groups[0] for network in agent.trained.values()]
        self.groups = [
            (now, then) for _, now, then in self.watched if any(now is g for g in groups)
        ]
        self.first_change = ""
        """Where something changed."""

    def holds(self) -> bool:
        """Whether all values and the identity of all tensors are as before."""
        for now, then in self.groups:
            then["lr"] = now["lr"]  # an input of the trace
        for path, now, then in self.watched:
            try:
                if now == then:
                    continue
            except (RuntimeError, ValueError):  # another tensor or array: == gives no single truth
                pass
            self.first_change = changed_path(path, now, then)
            return False
        return True


def changed_path(path: str, now: Any, then: Any) -> str:
    """The path of a container, or of the first entry of a dictionary that is another object."""
    if not isinstance(now, dict):
        return path
    changed = [key for key in {**now, **then} if key not in now or now[key] is not then.get(key)]
    return join_path(path, changed[0]) if changed else path


def is_internal(path: str) -> bool:
    """Whether PyTorch keeps its own bookkeeping there."""
    return "_hooks" in path or path.endswith(("._non_persistent_buffers_set", ".defaults"))


class WatchedCount(np.ndarray):
    """`updates` during a trace: it may be increased by one, and notes when it is read."""

    was_read = False

    def note(self) -> None:
        type(self).was_read = True

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", ())
        counting = ufunc is np.add and any(o is self for o in out) and inputs[1:] == (1,)
        if not counting:
            self.note()
        plain = [np.asarray(value) if isinstance(value, np.ndarray) else value for value in inputs]
        result = getattr(ufunc, method)(*plain, **options)
        if out:
            np.asarray(out[0])[...] = result
            return out[0]
        return result

    def __getitem__(self, key: Any) -> Any:
        self.note()
        return np.asarray(self)[key]

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__") and name not in ("note", "was_read"):
            object.__getattribute__(self, "note")()
        return object.__getattribute__(self, name)


def watch_count(agents: int, count: int) -> WatchedCount:
    """A number of updates for a copied agent."""
    kind = type("WatchedCount", (WatchedCount,), {"was_read": False})
    return cast(WatchedCount, np.full(agents, count, dtype=np.int64).view(kind))

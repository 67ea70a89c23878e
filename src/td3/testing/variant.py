"""Check that a variant keeps what td3 promises: the same numbers in every mode, exact resume."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.config import EnvironmentConfig
from td3.environments.task import Task
from td3.errors import UserError
from td3.execution.cpu.learner import CpuLearner
from td3.policy.file import save_policy
from td3.policy.from_agent import policy_card, policy_tensors
from td3.policy.load import read_policy
from td3.testing.small_training import (
    ACTION,
    STATE,
    continue_from,
    make_training,
    numbers_of,
    one_step_rows,
    small_config,
)
from td3.training.learner import Learner
from td3.training.user_classes import describe_last_call, describe_own_error

UPDATES = 24
LEARNING_UPDATES = 1500
SAME = 1e-9  # relative difference in float64
CLOSE = 0.05  # in float32, after UPDATES
CLOSE_TF32 = 0.3


class VariantError(AssertionError):
    """A variant does not keep a promise of td3; the message lists what fails."""


@dataclass
class CheckReport:
    """What `check_variant` found."""

    name: str
    passed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What holds, but is slower than it could be."""
    failed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        marks = (("ok", self.passed), ("note", self.notes), ("FAILED", self.failed))
        lines = [f"  {mark:<7}{text}" for mark, texts in marks for text in texts]
        return "\n".join([f"{self.name}:", *lines])


def check_variant(
    variant: type[TD3],
    settings: Mapping[str, Any] | None = None,
    *,
    learns: bool = True,
) -> CheckReport:
    """Check that a variant can be used everywhere, in the manner of `check_estimator`.

    Takes about ten seconds. It checks

    - parity: every execution mode of this machine gives the numbers of plain PyTorch; a mode that
      cannot represent the update is a note, because a run then uses plain PyTorch;
    - population: in double precision, three agents side by side get the numbers that each gets
      alone, up to rounding;
    - resume: an agent restored from a checkpoint continues with the same numbers, bit for bit;
    - policy: a saved and loaded policy gives the actions of the agent;
    - learning: in a world of one step, the actor finds the best action.

    Args:
        variant: The class, a subclass of `td3.TD3`.
        settings: Values of its own settings; default: their defaults.
        learns: Whether it should learn the small world, with 32 units and 1,500 updates.

    Returns:
        A report; printing it shows one line per check.

    Raises:
        VariantError: At least one check failed, or a method of the variant raised an exception.
        UserError: The class is not a variant, or the settings are wrong.

    Example:
        >>> import td3.testing
        >>> from td3.algorithm.variants.huber import HuberTD3
        >>> print(td3.testing.check_variant(HuberTD3, learns=False))  # doctest: +ELLIPSIS
        HuberTD3:
          ok     ...
    """
    small_config(variant, settings or {}, 1)
    make = partial(make_training, variant, dict(settings or {}))
    report, cause = CheckReport(variant.__name__), None
    places = {"ok": report.passed, "note": report.notes, "failed": report.failed}
    for name, check in CHECKS.items():
        try:
            for kind, text in check(make) if learns or name != "learning" else ():
                places[kind].append(f"{name}: {text}")
        except Exception as error:  # a method of the variant may raise anything
            report.failed.append(f"{name}: {describe(error, variant)}")
            cause = error
            break  # the other checks need the same methods
    if report.failed:
        raise VariantError(str(report)) from cause
    return report


def describe(error: Exception, variant: type[TD3]) -> str:
    """One sentence about an exception in a method of the variant, or because of its result."""
    if isinstance(error, UserError):
        return str(error)
    return describe_own_error(error, [variant]) or describe_last_call(error)


Make = Callable[..., Learner]
Found = Iterator[tuple[str, str]]


def check_modes(make: Make) -> Found:
    """Compare each fast mode with plain PyTorch."""
    for mode, device, learner, limit in fast_modes():
        notes: list[str] = []
        plain = make(seeds=2, device=device)
        fast = make(seeds=2, device=device, learner=partial(learner, report=notes.append))
        if name := first_difference(numbers_of(plain), numbers_of(fast)):
            yield (
                "failed",
                f"two new agents of one seed differ in {name}; draw initial numbers from "
                'shared["streams"] in make_actor or make_critic, or with PyTorch',
            )
            return
        for each in (plain, fast):
            torch.manual_seed(0)
            each.learn(UPDATES)
        off, where = largest_difference(numbers_of(plain), numbers_of(fast))
        fast.close()
        if off > limit:
            yield (
                "failed",
                f"with {mode}, {where} differs from plain PyTorch by {off:.1e}; a parameter "
                "without effect on the loss, such as a bias before batch normalisation, has random "
                "gradients: leave it out",
            )
        elif notes:
            yield "note", f"{notes[0]}"
        else:
            yield "ok", f"{mode} gives the numbers of plain PyTorch (within {off:.0e})"


def fast_modes() -> Iterator[tuple[str, str, Any, float]]:
    """Name, device, learner and largest difference of each mode that this machine has."""
    yield "the CPU plan", "cpu", CpuLearner, CLOSE
    if torch.cuda.is_available():
        from td3.execution import can_compile
        from td3.execution.gpu.learner import GpuLearner

        plain = partial(GpuLearner, compiled=False, fused=False)
        yield "CUDA graphs", "cuda", plain, CLOSE_TF32
        if can_compile():
            yield "fused kernels", "cuda", GpuLearner, CLOSE_TF32


def check_population(make: Make) -> Found:
    """Compare three agents side by side with each alone."""
    together = make(seeds=3, dtype=torch.float64)
    together.learn(UPDATES)
    for number in range(3):
        alone = make(seeds=1, seed=number, dtype=torch.float64)
        alone.learn(UPDATES)
        mine = {k: v.clone() for k, v in together.agent.member(number).tensors().items()}
        off, where = largest_difference(alone.agent.tensors(), mine)
        if off > SAME:
            yield (
                "failed",
                f"{where} of agent {number} differs by {off:.1e} from training "
                "alone; are losses and norms computed for each agent, with its axis first?",
            )
            return
    yield "ok", "agents get the numbers that each gets alone, up to rounding"


def check_resume(make: Make) -> Found:
    """Restore a fresh agent from another one, and continue with both."""
    first, second = make(seeds=2), make(seeds=2)
    first.learn(UPDATES // 2)
    continue_from(first, second)
    for each in (first, second):
        torch.manual_seed(1)
        each.learn(UPDATES // 2)
    if name := first_difference(numbers_of(first), numbers_of(second)):
        yield (
            "failed",
            f"{name} differs after a restart; what an update changes must be "
            "tensors of the agent, made in __init__",
        )
    else:
        yield "ok", "a restored agent continues with the same numbers, bit for bit"


def check_policy(make: Make) -> Found:
    """Save and load a policy."""
    learner = make(seeds=2)
    learner.learn(UPDATES)
    bounds = spaces.Box(-1, 1, (ACTION,), np.float32)
    task = Task.of("none", spaces.Box(-9, 9, (STATE,), np.float32), bounds)
    card = policy_card(learner.agent, task, EnvironmentConfig(id="none"), {})
    states = np.random.default_rng(0).normal(size=(2, STATE)).astype(np.float32)
    expected = learner.act(states)
    with tempfile.TemporaryDirectory() as folder:
        for agent, tensors in enumerate(policy_tensors(learner.agent)):
            path = Path(folder) / f"agent-{agent}.safetensors"
            save_policy(tensors, card, path)
            off = np.abs(read_policy(path).act(states[agent]) - expected[agent]).max()
            if not off < 1e-4:
                yield "failed", f"a loaded policy acts otherwise (by {off:.1e})"
                return
    yield "ok", "a saved and loaded policy gives the actions of the agent"


def check_learning(make: Make) -> Found:
    """Train in a world of one step, whose best action is 0.5."""
    learner = make(seeds=2, rows=one_step_rows, learner=partial(CpuLearner, report=ignore))
    learner.learn(LEARNING_UPDATES)
    states = one_step_rows(np.random.default_rng(9))[:100, :STATE].astype(np.float32)
    off = np.abs(learner.act(states) - 0.5).mean()
    if off > 0.2:
        yield "failed", f"actions are {off:.2f} from the best one in a world of one step"
    else:
        yield "ok", f"actions are {off:.2f} from the best one in a world of one step"


CHECKS: dict[str, Callable[[Make], Found]] = {
    "parity": check_modes,
    "population": check_population,
    "resume": check_resume,
    "policy": check_policy,
    "learning": check_learning,
}


def ignore(message: str) -> None:
    """Another check reports that the CPU plan is not used."""


def first_difference(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> str:
    """The name of the first tensor that is not equal; empty if there is none."""
    return next((name for name in mine if not torch.equal(mine[name], theirs[name])), "")


def largest_difference(
    right: Mapping[str, Tensor], found: Mapping[str, Tensor]
) -> tuple[float, str]:
    """The largest relative difference between two sets of tensors, and the name of that one."""
    largest, where = 0.0, ""
    for name, tensor in right.items():
        off = float((tensor.double() - found[name].double()).norm())
        off /= max(float(tensor.double().norm()), 1e-12)
        if not off <= largest:
            largest, where = off, name
    return largest, where

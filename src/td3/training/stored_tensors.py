"""Check the tensors of a checkpoint against a training, before any of them is used."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from td3.algorithm.lazy_state import make_lazy_state
from td3.config.checks import EXACT
from td3.environments.replayable import ReplayableEnvironment
from td3.policy.from_agent import policy_tensors
from td3.run.manifest import Invalid
from td3.training.state import TrainingState

PARTS = ("agent", "interval", "collector", "evaluation", "replay", "random")
Group = dict[str, Tensor]


class Form(NamedTuple):
    """What a stored tensor must look like."""

    shape: tuple[int | None, ...]
    """None: any length."""
    kind: str = "f"
    """f, i or b: float, integer or boolean."""


Forms = Mapping[str, Form]
NONE: Forms = {}


def group_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Group]:
    """The tensors of each part, which are named `part/key`. Raises Invalid for another part."""
    groups: dict[str, Group] = {part: {} for part in PARTS}
    for name, tensor in tensors.items():
        part, _, key = name.partition("/")
        if part not in groups:
            raise Invalid(f"it has an unknown tensor {name[:60]!r}")
        groups[part][key] = tensor
    return groups


def check_tensors(state: TrainingState, groups: Mapping[str, Group]) -> None:
    """Raise Invalid if tensors are missing, unknown, of another form, or not finite.

    Those of the replay buffer are checked when it is filled.
    """
    make_lazy_state(state.agent, groups["agent"])
    check_group("agent", groups["agent"], forms_of(state.agent.tensors()))
    sums = {name: f for name, f in forms_of(state.interval.tensors()).items() if "." not in name}
    reported = {n: Form((state.agent.agents, 2)) for n in groups["interval"] if "info." in n}
    check_group("interval", groups["interval"], sums, reported)
    check_collector(state, groups["collector"])
    if found := dict(groups["evaluation"]):
        for agent, tensors in enumerate(policy_tensors(state.agent)):
            own = {name: found.pop(name) for name in list(found) if name.startswith(f"{agent}.")}
            expected = {f"{agent}.{name}": form for name, form in forms_of(tensors).items()}
            check_group("evaluation", own, expected if own else {})
        check_group("evaluation", found, {})
    for name, tensor in groups["random"].items():
        try:
            torch.Generator(name).set_state(tensor)
        except (RuntimeError, TypeError) as error:
            raise Invalid(f"random/{name[:20]} is not the state of a generator") from error


def check_collector(state: TrainingState, found: Group) -> None:
    """Check the step in progress and what environments need; exploration knows its own arrays."""
    task, count = state.environments.task, len(state.environments.states)
    states, each = Form((count, task.state_dim)), Form((count,))
    flags = Form((count,), "b")
    required = {"returns": each, "lengths": Form((count,), "i")}
    optional = {"last.real": flags}
    if any(name.startswith("last.") for name in found):
        required |= {
            "last.states": states,
            "last.actions": Form((count, task.action_dim)),
            "last.begins": flags,
            "last.next_states": states,
            "last.rewards": each,
            "last.terminated": flags,
            "last.truncated": flags,
        }
    if state.config.environment.vectorization in EXACT:
        life, actions, resets, current, origin, later, marks = ReplayableEnvironment.KEYS
        for index in range(count):
            required |= {
                f"env.{index}.{life}": Form((2,), "i"),
                f"env.{index}.{actions}": Form((None, task.action_dim)),
                f"env.{index}.{resets}": Form((None,), "i"),
                f"env.{index}.{current}": Form((task.state_dim,)),
            }
            optional |= {
                f"env.{index}.{origin}": Form((None,), "i"),
                f"env.{index}.{later}": Form((None,), "i"),
                f"env.{index}.{marks}": Form((2,), "i"),
            }
    others = {name: tensor for name, tensor in found.items() if is_own(name)}
    known = {name: tensor for name, tensor in found.items() if name not in others}
    check_group("collector", known, required, optional)


def is_own(name: str) -> bool:
    """Whether the exploration checks this array when it is restored."""
    return name == "noise" or name.startswith("explore.")


def forms_of(tensors: Mapping[str, Tensor]) -> dict[str, Form]:
    return {name: Form(tuple(tensor.shape), kind_of(tensor)) for name, tensor in tensors.items()}


def kind_of(tensor: Tensor) -> str:
    return "f" if tensor.is_floating_point() else "b" if tensor.dtype == torch.bool else "i"


def check_group(part: str, found: Group, required: Forms, optional: Forms = NONE) -> None:
    if missing := required.keys() - found.keys():
        raise Invalid(f"it has no tensor {part}/{min(missing)}")
    for name, tensor in found.items():
        form = required.get(name) or optional.get(name)
        if form is None:
            raise Invalid(f"it has an unknown tensor {f'{part}/{name}'[:60]!r}")
        shape = tuple(tensor.shape)
        fits = len(shape) == len(form.shape) and kind_of(tensor) == form.kind
        if not fits or any(b not in (a, None) for a, b in zip(shape, form.shape, strict=True)):
            what = f"{tensor.dtype} of shape {shape}, not {form.kind} of shape {form.shape}"
            raise Invalid(f"its tensor {part}/{name} is {what}")
        check_finite(f"{part}/{name}", tensor)
        if form.kind == "i" and part == "collector" and (tensor < 0).any():
            raise Invalid(f"its tensor {part}/{name} has a negative number")


def check_finite(name: str, tensor: Tensor) -> None:
    """Raise Invalid for NaN or infinity."""
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        raise Invalid(f"its tensor {name[:60]} has NaN or infinity")

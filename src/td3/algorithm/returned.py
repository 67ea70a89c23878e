"""Checks of what overridden methods of a variant return: a wrong shape must not broadcast."""

from typing import Any

from torch import Tensor

from td3.errors import UserError


def check_kind(method: str, found: Any, kind: type[Any], expected: str) -> None:
    """Raise UserError if a method returned an object of another class."""
    if not isinstance(found, kind):
        raise UserError(f"{method} must return {expected}, got {name_of(found)}.")


def check_loss(loss: Any, agents: int) -> None:
    """Raise UserError if a loss is not one number per agent, or has no gradient."""
    if not isinstance(loss, Tensor) or loss.shape != (agents,):
        raise UserError(
            f"A loss must be one number per agent, a tensor of the shape ({agents},), got "
            f"{name_of(loss)}; take the mean over the axes 1 and 2."
        )
    if not loss.requires_grad:
        raise UserError(
            "A loss must depend on parameters of the networks; is all of it detached or computed "
            "with torch.no_grad?"
        )


def check_values(method: str, values: Any, reward: Tensor) -> None:
    """Raise UserError if values do not have the axes agents and batch, and one more."""
    agents, batch_size, _ = reward.shape
    if not isinstance(values, Tensor) or values.dim() != 3 or values.shape[:2] != reward.shape[:2]:
        raise UserError(
            f"{method} must return a tensor of the shape ({agents}, {batch_size}, 1), for agents "
            f"and batch, got {name_of(values)}."
        )


def name_of(found: Any) -> str:
    """The shape of a tensor; of anything else its class."""
    if isinstance(found, Tensor):
        return str(tuple(found.shape))
    return "None" if found is None else f"an object of the class {type(found).__name__}"

"""A trained policy: acts without the agent that was trained.

Reading a policy file runs no code, and playing it imports no module that only the file names
(`trust.py`). A policy of the stock actor or of `flash` needs NumPy only: this module imports
neither PyTorch nor Gymnasium until they are needed.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from td3.config import EnvironmentConfig, EvaluationConfig
from td3.errors import UserError
from td3.layout import Observation, describe_layout, flatten, has_images, layout_size
from td3.policy.batches import describe_not_finite, flatten_batch
from td3.policy.file import action_card, read_bounds
from td3.policy.layers import (
    Layers,
    Statistics,
    apply_layers,
    normalize,
    read_layers,
    read_statistics,
)
from td3.policy.residual import ResidualActor, read_residual_actor

if TYPE_CHECKING:
    from td3.algorithm.networks import Actor
    from td3.environments.factories import Factory
    from td3.environments.task import Task
    from td3.policy.evaluation import Evaluation
    from td3.policy.networks import Rows


class Policy:
    """Maps an observation of the environment to an action of the environment; batches too.

    Args:
        card: How to use the tensors; see `policy_card`.
        tensors: The actor, the encoder for images, and the observation statistics.
        name: Name for error messages.
        actor_class: Class of the actor network, if it is not td3's own.
        variant: Class or name of the variant, if the policy acts in its own way.

    Example:
        policy = td3.load_policy("runs/my-run")
        action = policy(observation)
    """

    def __init__(
        self,
        card: Mapping[str, Any],
        tensors: Mapping[str, ArrayLike],
        name: str = "policy",
        actor_class: "type[Actor] | None" = None,
        variant: str | type[Any] | None = None,
    ) -> None:
        self.card, self.tensors, self.name = dict(card), dict(tensors), name
        self.layout = card["observation"]
        self.bounds = read_bounds(card)
        self.statistics: Statistics | None = None
        """(shift, scale) for normalized observations."""
        self.layers: Layers = []
        """(weight, bias) of each layer of the stock actor."""
        self.encoder: Rows | None = None
        """From states with images to features."""
        self.actor: Rows | None = None
        """Acts instead of `layers`, for an actor of another class."""
        self.residual: ResidualActor | None = None
        """The actor of the variant flash, in NumPy."""
        table = card.get("variant", {})
        acts_in_numpy = table.get("name") == "flash" and variant in (None, "flash")
        if table and not acts_in_numpy:
            from td3.policy.networks import on_rows
            from td3.policy.variants import build_agent

            agent = build_agent(card, self.bounds.low.size, tensors, variant, name)
            self.actor = on_rows(agent.act)
            return
        inputs = layout_size(self.layout)
        self.statistics = read_statistics(tensors, inputs)
        if acts_in_numpy:
            outputs, residual = self.bounds.low.size, bool(table.get("residual", True))
            self.residual = read_residual_actor(tensors, inputs, outputs, residual)
            self.actor = self.residual.act
            return
        if has_images(self.layout):
            from td3.policy.networks import build_encoder, on_rows

            encoder = build_encoder(self.layout, card, tensors)
            self.encoder, inputs = on_rows(encoder), encoder.outputs
        widths = (inputs, *card["hidden_sizes"], self.bounds.low.size)
        if actor_class is None:
            self.layers = read_layers(tensors, widths)
        else:
            from td3.policy.networks import build_actor, on_rows

            self.actor = on_rows(build_actor(actor_class, widths, tensors))

    def __repr__(self) -> str:
        when = "" if self.step is None else f", of step {self.step:,}"
        return f"Policy({self.environment.id}{when})"

    def __call__(self, observation: Any, *, check: bool = True) -> NDArray[Any]:
        """Return the action for one observation, or the actions for a batch of observations.

        Args:
            observation: As the environment gives it. A batch has a leading axis in every array,
                inside dictionaries and tuples too. What could be both is one observation.
            check: Whether NaN and infinity in the observation are an error.

        Returns:
            The action in the shape of the environment, with a leading axis for a batch.

        Raises:
            ValueError: The observation has another shape than expected, or is not finite.
        """
        try:
            state = flatten(self.layout, observation)
        except (KeyError, TypeError, ValueError) as error:
            state = self.flatten_batch(observation, error)
        # isfinite().all() takes three times as long.
        if check and np.count_nonzero(np.isfinite(state)) < state.size:
            what = describe_not_finite(self.layout, state)
            raise ValueError(f"not a finite observation of {self.environment.id}: {what}")
        return self.bounds.scale(self.act(state))

    def flatten_batch(self, observations: Any, error: Exception) -> Observation:
        """A batch as rows; `error` is why it is not a single observation."""
        try:
            return flatten_batch(self.layout, observations)
        except (IndexError, KeyError, TypeError, ValueError):
            raise ValueError(
                f"not an observation of {self.environment.id} "
                f"(expected {describe_layout(self.layout)}): {error}"
            ) from error

    @np.errstate(over="ignore", invalid="ignore")  # the caller checks for finite actions
    def act(self, state: Observation) -> NDArray[np.float32]:
        """The action for one flat state, or for each row of a batch.

        It is within [-1, 1], and not finite if the networks overflow.
        """
        x = normalize(state, self.statistics) if self.statistics else state
        if self.encoder:
            x = self.encoder(x)
        return self.actor(x) if self.actor else apply_layers(x, self.layers)

    def evaluate(
        self,
        episodes: int = 10,
        seed: int = 1_000_000,
        tick: Callable[[], None] = lambda: None,
        environment: "str | Factory" = "",
        max_steps: int | None = None,
    ) -> "Evaluation":
        """Play noise-free episodes of its task, as `td3 evaluate` does.

        Args:
            episodes: Number of episodes.
            seed: Seed of the episodes.
            tick: Called after each episode.
            environment: Id, class or function of the task to play instead of the one in the policy
                file. A task `module:Env-v0` or `module:name` needs it, because it imports
                `module`.
            max_steps: Longest episode. Default: as in the evaluations of training.

        Returns:
            The returns and lengths, with mean, standard deviation and 95 % interval.

        Raises:
            UserError: The task does not fit the policy, or it would import a module that only the
                policy file names.
        """
        from td3.environments.environment import Environment
        from td3.policy.evaluation import episode_seeds, evaluate

        config = self.task_to_play(environment)
        tried = Environment(config)
        tried.close()
        self.check_fits(tried.task)
        seeds = episode_seeds(seed, episodes)
        return evaluate(self.act, config, seeds, max_steps or self.max_steps, tick)

    def task_to_play(
        self,
        environment: "str | Factory" = "",
        command: str = 'policy.evaluate(environment="{task}")',
    ) -> EnvironmentConfig:
        """Return the task in the card, or `environment` with the card's other settings.

        Raises UserError, with `command` as advice, if only the card names a module to import.
        """
        from td3.policy.trust import task_to_play

        return task_to_play(self.name, self.environment, environment, command)

    def check_fits(self, task: "Task") -> None:
        """Refuse a task that changed since the policy was trained."""
        if task.layout != self.layout:
            now, then = describe_layout(task.layout), describe_layout(self.layout)
            if now == then:
                then += " with other bounds, keys or order"
            raise UserError(f"{task.id} now observes {now}, but {self.name} was trained on {then}.")
        own, found = self.card["action"], action_card(task.bounds)
        if found != own:
            changed = [key for key in own if found[key] != own[key]]
            raise UserError(
                f"The actions of {task.id} are no longer those that {self.name} was trained on: "
                f"{', '.join(f'{key} {found[key]}, not {own[key]}' for key in changed)}."
            )

    @property
    def step(self) -> int | None:
        """The training step of this policy; None if the card does not contain it."""
        step = self.card.get("step")
        return step if isinstance(step, int) else None

    @property
    def mean_return(self) -> float:
        """The mean return of its evaluation in training; -inf if the card does not contain it."""
        mean = self.card.get("mean_return")
        return float(mean) if isinstance(mean, int | float) else -np.inf

    @property
    def max_steps(self) -> int:
        """The longest episode in an evaluation."""
        return int(self.card.get("max_steps") or EvaluationConfig.max_steps)

    @property
    def environment(self) -> EnvironmentConfig:
        """The task that it was trained for."""
        return EnvironmentConfig(**self.card["environment"])

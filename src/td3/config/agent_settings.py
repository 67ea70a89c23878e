"""Settings of the networks and the update, and those of a variant."""

from dataclasses import dataclass
from typing import Literal

from td3.config.fields import setting


def learning_rate(networks: str) -> float:
    """A learning rate; the authors use the same for actor and critics."""
    return setting(
        3e-4,
        f"Learning rate of the {networks} (Adam).",
        above=0,
        code=3e-4,
        paper=1e-3,
        search=(1e-5, 1e-2, "log"),
        common=True,
    )


@dataclass(frozen=True)
class AgentConfig:
    """The networks and the update (steps 2 to 15)."""

    hidden_sizes: tuple[int, ...] = setting(
        (256, 256),
        "Hidden layers of actor and critics.",
        min=1,
        code=(256, 256),
        paper=(400, 300),
        choices=((64, 64), (256, 256), (400, 300)),
        common=True,
    )
    actor_learning_rate: float = learning_rate("actor")
    critic_learning_rate: float = learning_rate("critics")
    batch_size: int = setting(
        256,
        "Transitions per update.",
        min=1,
        code=256,
        paper=100,
        choices=(100, 256, 512),
        common=True,
    )
    discount: float = setting(
        0.99,
        "Discount factor gamma.",
        min=0,
        max=1,
        code=0.99,
        paper=0.99,
        search=(0.9, 0.999, "complement"),
        common=True,
    )
    tau: float = setting(
        0.005,
        "Share of the online network in each target update.",
        "Steps 14 and 15.",
        min=0,
        max=1,
        code=0.005,
        paper=0.005,
        search=(0.001, 0.05, "log"),
    )
    policy_noise: float = setting(
        0.2,
        "Standard deviation of the smoothing noise on target actions.",
        unit="half the action range",
        min=0,
        code=0.2,
        paper=0.2,
        search=(0.05, 0.5, "log"),
    )
    noise_clip: float = setting(
        0.5,
        "Largest smoothing noise.",
        unit="half the action range",
        min=0,
        code=0.5,
        paper=0.5,
        search=(0.1, 1.0, "log"),
    )
    policy_freq: int = setting(2, "Critic updates per actor update.", min=1, code=2, paper=2)
    learning_rate_schedule: Literal["constant", "linear", "cosine"] = setting(
        "constant",
        "How the learning rates change over the run.",
        "linear and cosine go from the learning rates at step 0 to their final fraction at the "
        "last step.",
        code="constant",
        paper="constant",
    )
    final_learning_rate: float = setting(
        0.1,
        "Learning rates at the last step, as a fraction of the first ones.",
        "For the schedules linear and cosine.",
        min=0,
        max=1,
    )
    channels: tuple[int, ...] = setting(
        (32, 32, 32, 32),
        "Channels of the convolutions for images; the first has stride 2.",
        "Changes steps 2 and 3. DrQ-v2 uses 32 32 32 32.",
        min=1,
    )
    features: int = setting(
        50, "Features per image that actor and critics receive.", "DrQ-v2 uses 50.", min=1
    )
    random_shift: int = setting(
        0,
        "Shift sampled images at random by up to this many pixels; 0: off.",
        "Changes step 4. DrQ-v2 uses 4.",
        unit="pixels",
        min=0,
    )
    n_step: int = setting(
        1,
        "Rewards to sum before bootstrapping (n-step return).",
        "Changes step 9. DrQ-v2 uses 3.",
        min=1,
        max=100,
        code=1,
        choices=(1, 3),
    )


@dataclass(frozen=True)
class VariantSettings:
    """The variant of the algorithm and its settings.

    A variant's own settings are fields of a subclass: a frozen dataclass whose fields all have
    defaults. The variant names it as `Settings` and reads the values from `self.variant`.
    """

    name: str = setting(
        "",
        "Variant of TD3: a built-in name, or module:Class.",
        "Built in: ensemble, flash, huber, lap, layer_norm, lean. Its own settings are "
        "--variant.NAME; --help-all lists them.",
        common=True,
    )

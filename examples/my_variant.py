"""Change the algorithm: TD3 with the Huber loss. Copy this file and change what is learned.

python examples/my_variant.py                    # checks, trains Pendulum, evaluates: half a minute
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# --8<-- [start:variant]
import td3


@dataclass(frozen=True)
class HuberSettings(td3.VariantSettings):
    delta: float = td3.setting(1.0, "Error from which the loss is linear.", above=0, common=True)


class HuberTD3(td3.TD3):
    """Replaces step 11: the Huber loss instead of the squared error."""

    Settings = HuberSettings

    def critic_loss(self, values, target_q):
        delta = td3.per_agent(self.variant.delta, target_q)
        loss = 0
        for value in values:  # of each critic, (agents, batch, 1)
            error = (value - target_q).abs()
            inside = error.clamp(max=delta)
            loss += (inside * (2 * error - inside)).mean(dim=(1, 2))
        return loss  # one number per agent, (agents,)


# --8<-- [end:variant]


def main(arguments: Sequence[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5_000)
    parser.add_argument("--delta", type=float, default=0.5)
    parser.add_argument("--run", type=Path, default=None)
    given = parser.parse_args(arguments)

    from td3.testing import check_variant

    print(check_variant(HuberTD3))
    run = td3.train(
        "Pendulum-v1",
        recipe="quick",
        steps=given.steps,
        variant={"name": HuberTD3, "delta": given.delta},
        run=given.run,
    )
    found = td3.evaluate(run, episodes=10)
    print(found)
    return float(found.mean)


if __name__ == "__main__":
    main()

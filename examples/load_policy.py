"""Load a trained policy and let it act in an environment of your own making.

python examples/load_policy.py runs/my-run
python examples/load_policy.py --pretrained Hopper-v5      # needs td3[mujoco]
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym

import td3


def main(arguments: Sequence[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?", type=Path, help="run folder or policy file")
    parser.add_argument("--pretrained", default="", help="a task with a pretrained policy")
    parser.add_argument("--task", default="", help="task to act in; default: the policy's own")
    parser.add_argument("--steps", type=int, default=1_000)
    given = parser.parse_args(arguments)

    policy = td3.load_policy(given.run, pretrained=given.pretrained)
    env = gym.make(given.task or policy.environment.id)
    observation, _ = env.reset(seed=0)
    total = 0.0
    for _ in range(given.steps):
        action = policy(observation)  # as the environment gives it, as the environment takes it
        observation, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        if terminated or truncated:
            break
    env.close()
    print(f"{policy}: return {total:.1f}")
    return total


if __name__ == "__main__":
    main()

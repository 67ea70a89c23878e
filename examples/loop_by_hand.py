"""The fifteen steps by hand: ReplayBuffer, TD3 and a Gymnasium environment.

python examples/loop_by_hand.py                  # learns Pendulum in about a minute
python examples/loop_by_hand.py --steps 2000     # only to see it run
"""

import argparse
from collections.abc import Sequence

import gymnasium as gym
import numpy as np
import torch

import td3


# --8<-- [start:loop]
def train(task: str, steps: int, random_steps: int, seed: int) -> td3.TD3:
    """Act, store, update, step by step; returns the trained agent."""
    env = gym.make(task)
    state_dim, action_dim = env.observation_space.shape[0], env.action_space.shape[0]
    limit = float(env.action_space.high[0])
    noise = np.random.default_rng(seed)

    buffer = td3.ReplayBuffer(max_size=steps, seed=seed)  # step 1
    agent = td3.TD3(state_dim, action_dim, limit, hidden_sizes=(64, 64), seed=seed)  # steps 2, 3

    state, _ = env.reset(seed=seed)
    env.action_space.seed(seed)
    for step in range(steps):
        if step < random_steps:
            action = env.action_space.sample()
        else:
            action = agent.select_action(state) + noise.normal(0, 0.1 * limit, action_dim)
            action = action.clip(-limit, limit).astype(np.float32)

        next_state, reward, terminated, truncated, _ = env.step(action)
        # Only `terminated` goes into the buffer: after a time limit, life would go on.
        buffer.add((state, next_state, action, reward, terminated))
        state = env.reset()[0] if terminated or truncated else next_state

        if step >= random_steps:
            agent.train(  # steps 4 to 15
                buffer,
                iterations=1,
                batch_size=128,
                discount=0.98,
            )
    env.close()
    return agent


# --8<-- [end:loop]


def play(agent: td3.TD3, task: str, episodes: int) -> float:
    """The mean return of a few episodes without noise."""
    env = gym.make(task)
    returns = []
    for episode in range(episodes):
        state, _ = env.reset(seed=1_000 + episode)
        total, over = 0.0, False
        while not over:
            state, reward, terminated, truncated, _ = env.step(agent.select_action(state))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    env.close()
    return float(np.mean(returns))


def main(arguments: Sequence[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="Pendulum-v1")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--random-steps", type=int, default=1_000)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)  # for small networks, threads cost more than they gain
    agent = train(given.task, given.steps, given.random_steps, given.seed)
    mean = play(agent, given.task, given.episodes)
    print(f"Mean return over {given.episodes} episodes: {mean:.1f}")
    return mean


if __name__ == "__main__":
    main()

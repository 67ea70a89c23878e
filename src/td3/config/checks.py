"""What a configuration must be like, each demand with the sentence that says so."""

import dataclasses

from td3.config import VARIABLE, WRAPPERS, Config, EnvironmentConfig, setting_near, varied
from td3.errors import UserError


def check_grid(config: Config) -> None:
    """Refuse a grid that cannot be trained as one population."""
    for key, values in config.grid.items():
        if key not in VARIABLE:
            if (meant := setting_near(key)) in VARIABLE:
                raise UserError(f"{key} is no setting of a grid. Did you mean {meant!r}?")
            raise UserError(f"{key} cannot be varied in a grid; these can: {', '.join(VARIABLE)}.")
        if not values:
            raise UserError(f"The grid names no value for {key}.")
        for position, value in enumerate(values):
            if value in values[:position]:
                raise UserError(f"The grid names {key} {value} twice.")
            check(dataclasses.replace(varied(config, {key: value}), grid={}))


LARGEST = 10**15
MOST_THREADS = 1024
MOST_STACKED = 100


def check(config: Config) -> Config:
    """Return the configuration, or say in one sentence what is wrong with it."""
    check_grid(config)
    positive = {
        "agent.batch_size": config.agent.batch_size,
        "agent.actor_learning_rate": config.agent.actor_learning_rate,
        "agent.critic_learning_rate": config.agent.critic_learning_rate,
        "agent.policy_freq": config.agent.policy_freq,
        "agent.features": config.agent.features,
        "agent.n_step": config.agent.n_step,
        "environment.action_repeat": config.environment.action_repeat,
        "environment.frame_stack": config.environment.frame_stack,
        "environment.count": config.environment.count,
        "environment.reward_scale": config.environment.reward_scale,
        "loop.steps": config.loop.steps,
        "loop.updates_per_step": config.loop.updates_per_step,
        "loop.replay_size": config.loop.replay_size,
        "loop.log_every": config.loop.log_every,
        "evaluation.every": config.evaluation.every,
        "evaluation.episodes": config.evaluation.episodes,
        "evaluation.max_steps": config.evaluation.max_steps,
        "checkpoint.every": config.checkpoint.every,
        "seeds": config.seeds,
    }
    not_negative = {
        "agent.policy_noise": config.agent.policy_noise,
        "agent.noise_clip": config.agent.noise_clip,
        "agent.random_shift": config.agent.random_shift,
        "environment.patience": config.environment.patience,
        "environment.resize": config.environment.resize,
        "environment.workers": config.environment.workers,
        "loop.exploration_noise": config.loop.exploration_noise,
        "loop.random_steps": config.loop.random_steps,
        "seed": config.seed,
        "threads": config.threads,
    }
    for key, number in (positive | not_negative).items():
        if isinstance(number, int) and number > LARGEST:
            raise UserError(f"{key} must be less than a million billion.")
    if config.environment.frame_stack > MOST_STACKED:
        raise UserError(
            f"environment.frame_stack must be at most {MOST_STACKED}, "
            f"not {config.environment.frame_stack}."
        )
    if config.agent.n_step > MOST_STACKED:
        raise UserError(f"agent.n_step must be at most {MOST_STACKED}, not {config.agent.n_step}.")
    if config.threads > MOST_THREADS:
        raise UserError(f"threads must be at most {MOST_THREADS}, not {config.threads}.")
    shares = {"agent.discount": config.agent.discount, "agent.tau": config.agent.tau}
    for key, number in positive.items():
        if not 0 < number < float("inf"):
            raise UserError(f"{key} must be greater than 0, not {number}.")
    for key, number in not_negative.items():
        if not 0 <= number < float("inf"):
            raise UserError(f"{key} must be 0 or more, not {number}.")
    for key, number in shares.items():
        if not 0 <= number <= 1:
            raise UserError(f"{key} must lie between 0 and 1, not {number}.")
    if not config.agent.hidden_sizes or min(config.agent.hidden_sizes) < 1:
        raise UserError("agent.hidden_sizes needs at least one width of 1 or more.")
    if not config.agent.channels or min(config.agent.channels) < 1:
        raise UserError("agent.channels needs at least one number of 1 or more.")
    if config.device not in ("auto", "cpu", "cuda") and not config.device.startswith("cuda:"):
        raise UserError(f"device must be cpu, cuda or auto, not {config.device!r}.")
    if not config.environment.id:
        raise UserError("Name an environment, e.g. td3 train Pendulum-v1.")
    if config.environment.workers and config.environment.vectorization not in ("auto", "workers"):
        raise UserError(
            f"environment.workers is {config.environment.workers}, but environment.vectorization "
            f"{config.environment.vectorization} has none; use workers."
        )
    default = EnvironmentConfig()
    for name in WRAPPERS:
        changed = getattr(config.environment, name) != getattr(default, name)
        if changed and config.environment.vectorization not in ("auto", "own", "workers"):
            raise UserError(
                f"environment.{name} needs environments that td3 steps itself; use "
                f"environment.vectorization auto instead of {config.environment.vectorization}."
            )
    if config.loop.replay_size < config.environment.count:
        raise UserError(
            f"loop.replay_size ({config.loop.replay_size}) must hold a transition of each of the "
            f"{config.environment.count} environments."
        )
    if config.loop.update == "step" and config.loop.random_steps >= config.loop.steps:
        raise UserError(
            f"loop.random_steps ({config.loop.random_steps}) leaves nothing to learn from in "
            f"{config.loop.steps} steps; train for more, or lower it, e.g. to "
            f"{config.loop.steps // 10} (--loop.random-steps, or in a recipe of your own)."
        )
    return config

"""TD3, a reinforcement-learning algorithm for continuous actions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from td3.algorithm.agent import TD3
    from td3.algorithm.networks import Actor, Critic
    from td3.algorithm.replay import ReplayBuffer
    from td3.algorithm.stacked import per_agent
    from td3.api.evaluate import evaluate
    from td3.api.export import export
    from td3.api.resume import resume
    from td3.api.run import Run, load_run
    from td3.api.train import train
    from td3.api.tune import tune
    from td3.config.agent_settings import VariantSettings
    from td3.config.fields import setting
    from td3.errors import RunStopped, UserError
    from td3.microscope.update import record_update
    from td3.policy.load import load_policy
    from td3.policy.policy import Policy
    from td3.training.callbacks import STOP, Callback
    from td3.training.exploration.base import Exploration

# Name → module. Loaded at first use, because importing torch takes over a second.
_PUBLIC = {
    "TD3": "td3.algorithm.agent",
    "ReplayBuffer": "td3.algorithm.replay",
    "Actor": "td3.algorithm.networks",
    "Critic": "td3.algorithm.networks",
    "train": "td3.api.train",
    "resume": "td3.api.resume",
    "tune": "td3.api.tune",
    "Callback": "td3.training.callbacks",
    "STOP": "td3.training.callbacks",
    "Exploration": "td3.training.exploration.base",
    "Run": "td3.api.run",
    "load_run": "td3.api.run",
    "evaluate": "td3.api.evaluate",
    "export": "td3.api.export",
    "Policy": "td3.policy.policy",
    "load_policy": "td3.policy.load",
    "record_update": "td3.microscope.update",
    "VariantSettings": "td3.config.agent_settings",
    "setting": "td3.config.fields",
    "per_agent": "td3.algorithm.stacked",
    "RunStopped": "td3.errors",
    "UserError": "td3.errors",
}

__all__ = [
    "STOP",
    "TD3",
    "Actor",
    "Callback",
    "Critic",
    "Exploration",
    "Policy",
    "ReplayBuffer",
    "Run",
    "RunStopped",
    "UserError",
    "VariantSettings",
    "evaluate",
    "export",
    "load_policy",
    "load_run",
    "per_agent",
    "record_update",
    "resume",
    "setting",
    "train",
    "tune",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "lessons":  # td3.lessons.check(5, my_function)
        return import_module("td3.lessons")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'td3' has no attribute {name!r}")
    module = import_module(_PUBLIC[name])
    if name == "TD3":
        fast_paths = import_module("td3.algorithm.settings").FAST_PATHS
        if not fast_paths:
            fast_paths.append(_train_fast)
    return getattr(module, name)


def _train_fast(*given: Any) -> Any:
    from td3.execution.direct import train_fast  # not before it is needed: it takes a second

    return train_fast(*given)


def __dir__() -> list[str]:
    return __all__

"""EnvPool: environments in C++ threads, for the tasks that EnvPool implements."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from gymnasium.vector import VectorEnv

from td3.config import EnvironmentConfig
from td3.environments.episode_info import OUTCOMES
from td3.environments.gym_vector import GymVector
from td3.environments.simulators import silence_pybullet
from td3.errors import UserError, first_line
from td3.seeding import Stream

Make = Callable[[list[int]], "VectorEnv[Any, Any, Any]"]


class EnvPool(GymVector):
    """A vector that takes its seeds when it is made, so a restart makes a new one."""

    warning = (
        "not exact: EnvPool is a different build of the simulator; its numbers differ from "
        "Gymnasium's, which evaluates the policies, and resuming starts new episodes"
    )

    def __init__(
        self,
        make: Make,
        env_id: str,
        streams: list[Stream],
        names: Sequence[str] = OUTCOMES,
    ) -> None:
        self.make_vector = make
        with warnings.catch_warnings():  # caused by how EnvPool declares its spaces
            warnings.filterwarnings("ignore", ".*precision lowered", UserWarning)
            super().__init__(make([0] * len(streams)), env_id, streams, names)
        self.description = f"{len(streams)} environments in EnvPool"

    def start(self) -> None:
        self.vector.close()
        self.vector = self.make_vector([int(stream.integers(2**31)) for stream in self.streams])
        with silence_pybullet(self.task.id):
            observations, _ = self.vector.reset()
        self.begin(observations)

    @classmethod
    def make(cls, config: EnvironmentConfig, streams: list[Stream]) -> "EnvPool":
        try:
            import envpool
        except ImportError as error:
            raise UserError(
                "vectorization envpool needs the extra 'envpool': pip install 'td3[envpool]'"
            ) from error
        if config.id not in envpool.list_all_envs():
            raise UserError(f"EnvPool has no {config.id}; use environment.vectorization workers.")

        def make(seeds: list[int]) -> "VectorEnv[Any, Any, Any]":
            kwargs: dict[str, Any] = dict(config.kwargs)
            try:
                vector: VectorEnv[Any, Any, Any] = envpool.make(
                    config.id, env_type="gymnasium", num_envs=len(seeds), seed=seeds, **kwargs
                )
            except (TypeError, ValueError, RuntimeError, AssertionError) as error:
                raise UserError(f"EnvPool cannot make {config.id}: {first_line(error)}.") from error
            return vector

        return cls(make, config.id, streams, config.info)

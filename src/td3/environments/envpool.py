"""EnvPool: environments in threads of one C++ program, for the tasks that it has built."""

import warnings
from collections.abc import Callable
from typing import Any

from gymnasium.vector import VectorEnv

from td3.config import EnvironmentConfig
from td3.environments.gym_vector import Vectorized
from td3.environments.simulators import hushed
from td3.errors import UserError, first_line
from td3.seeding import Stream

Make = Callable[[list[int]], "VectorEnv[Any, Any, Any]"]


class EnvPool(Vectorized):
    """A vector that takes its seeds when it is made, so starting anew means making it anew."""

    remark = (
        "not exact: EnvPool is another build of the simulator; its numbers are not those of "
        "Gymnasium's, with which policies are evaluated, and resuming begins new episodes"
    )

    def __init__(self, make: Make, env_id: str, streams: list[Stream]) -> None:
        self.make_vector = make
        with warnings.catch_warnings():  # of the way in which EnvPool declares its spaces
            warnings.filterwarnings("ignore", ".*precision lowered", UserWarning)
            super().__init__(make([0] * len(streams)), env_id, streams)
        self.arrangement = f"{len(streams)} environments in EnvPool"

    def start(self) -> None:
        self.vector.close()
        self.vector = self.make_vector([int(stream.integers(2**31)) for stream in self.streams])
        with hushed(self.task.id):
            observations, _ = self.vector.reset()
        self.begin(observations)

    @classmethod
    def make(cls, config: EnvironmentConfig, streams: list[Stream]) -> "EnvPool":
        try:
            import envpool
        except ImportError as error:
            raise UserError(
                "environment.vectorization envpool needs an extra: pip install 'td3[envpool]'"
            ) from error
        if config.id not in envpool.list_all_envs():
            raise UserError(f"EnvPool has no {config.id}; use workers instead of envpool.")

        def make(seeds: list[int]) -> "VectorEnv[Any, Any, Any]":
            kwargs: dict[str, Any] = dict(config.kwargs)
            try:
                vector: VectorEnv[Any, Any, Any] = envpool.make(
                    config.id, env_type="gymnasium", num_envs=len(seeds), seed=seeds, **kwargs
                )
            except (TypeError, ValueError, RuntimeError, AssertionError) as error:
                raise UserError(f"EnvPool cannot make {config.id}: {first_line(error)}.") from error
            return vector

        return cls(make, config.id, streams)

"""The state of an agent: share it, copy it, store it, and act with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from td3.algorithm.adam import Adam
from td3.algorithm.images.encoder import Encoder
from td3.algorithm.lazy_state import make_lazy_state
from td3.algorithm.networks import Actor, Critic
from td3.algorithm.normalizer import Normalizer
from td3.algorithm.tensors import clone_tensors, named_tensors, take_member
from td3.algorithm.trained import Trained
from td3.seeding import Stream

FLUSH_EVERY = 256  # updates
FORMAT_KEY, FORMAT = "agent_format", "1"  # of files that `save` writes


def is_setting(path: str) -> bool:
    """Whether a tensor with this path holds a setting, which the configuration stores."""
    return path.startswith("variant.") or (".optimizer." in path and path.endswith(".lr"))


class AgentState:
    """Everything that an agent has learned, by name."""

    agents: int
    state_dim: int
    action_dim: int
    device: torch.device
    dtype: torch.dtype
    smooth: list[Stream]
    """Each agent's stream of smoothing noise (step 6)."""
    trained: dict[str, Trained[Any]]
    """`actor` and `critic`, and `encoder` if states have images."""
    normalizer: Normalizer | None
    updates: NDArray[np.int64]
    """Number of updates of each agent."""

    @property
    def actor(self) -> Actor:
        return self.trained["actor"].online  # type: ignore[no-any-return]

    @property
    def actor_target(self) -> Actor:
        return self.trained["actor"].target  # type: ignore[no-any-return]

    @property
    def actor_optimizer(self) -> Adam:
        return self.trained["actor"].optimizer

    @property
    def critic(self) -> Critic:
        return self.trained["critic"].online  # type: ignore[no-any-return]

    @property
    def critic_target(self) -> Critic:
        return self.trained["critic"].target  # type: ignore[no-any-return]

    @property
    def critic_optimizer(self) -> Adam:
        return self.trained["critic"].optimizer

    @property
    def encoder(self) -> Encoder | None:
        return self.trained["encoder"].online if "encoder" in self.trained else None

    @property
    def encoder_target(self) -> Encoder | None:
        return self.trained["encoder"].target if "encoder" in self.trained else None

    @property
    def critic_networks(self) -> list[Trained[Any]]:
        """What step 12 trains: the critics, and the encoder of images if there is one."""
        return [self.trained[name] for name in ("critic", "encoder") if name in self.trained]

    def member(self, agent: int) -> Self:
        """One agent of several as an agent of its own, on the same memory and streams."""
        if self.agents == 1:
            return self
        one = take_member(self, self.agents, agent)
        one.agents, one.smooth = 1, self.smooth[agent : agent + 1]
        one.updates = self.updates[agent : agent + 1]
        return one

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return clone_tensors(self)

    def tensors(self) -> dict[str, Tensor]:
        """Everything learned, by name: networks, targets, Adam moments and counts."""
        found = {"max_action": self.actor.max_action, "updates": torch.from_numpy(self.updates)}
        for name, network in self.trained.items():
            found |= network.tensors(name)
        if self.normalizer:
            found |= {f"normalizer.{k}": v for k, v in self.normalizer.state_dict().items()}
        return found | self.own_tensors(found)

    def own_tensors(self, found: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a variant, by their paths: all that nothing else stores."""
        stored = {tensor.data_ptr() for tensor in found.values()}
        derived = [own.max_action for own in (self.actor, self.actor_target)]
        if self.normalizer:
            derived += [self.normalizer.shift, self.normalizer.scale]
        stored |= {tensor.data_ptr() for tensor in derived}
        return {
            f"own.{path}": tensor.detach()
            for path, tensor in named_tensors(self).items()
            if tensor.data_ptr() not in stored and not is_setting(path)
        }

    def check_shapes(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise ValueError unless an agent of the same shape returned these `tensors`."""
        make_lazy_state(self, tensors)
        mine = self.tensors()
        for name in sorted(mine.keys() ^ tensors.keys()):
            where = "missing" if name in mine else "unknown"
            raise ValueError(f"the stored agent has another shape: {name} is {where}")
        for name, tensor in mine.items():
            if tensor.shape != tensors[name].shape:
                stored, own = tuple(tensors[name].shape), tuple(tensor.shape)
                raise ValueError(
                    f"the stored agent has another shape: {name} is {stored}, expected {own}"
                )

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Set every number to the one that `tensors` returned earlier."""
        self.check_shapes(tensors)
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])
        self.actor_target.max_action.copy_(self.actor.max_action)
        if self.normalizer:
            self.normalizer.refresh()

    def save(self, filename: str, directory: str | Path = ".") -> Path:
        """Write the whole agent to `directory/filename.safetensors`."""
        path = Path(directory) / f"{filename}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {k: v.contiguous() for k, v in self.tensors().items()}
        save_file(tensors, path, metadata={FORMAT_KEY: FORMAT})
        return path

    def load(self, filename: str, directory: str | Path = ".") -> None:
        """Read an agent that `save` wrote; this one must have the same shape."""
        path = Path(directory) / f"{filename}.safetensors"
        with safe_open(path, framework="pt") as file:
            found = (file.metadata() or {}).get(FORMAT_KEY, FORMAT)  # older files have none
        if found != FORMAT:
            raise ValueError(f"{path} has format {found}, and this td3 reads format {FORMAT}")
        self.restore(load_file(path))

    def flush_denormals(self) -> None:
        """Every 256 updates, set Adam moments that are nearly zero to zero. Call after updates."""
        if self.updates[0] % FLUSH_EVERY == 0:
            for network in self.trained.values():
                network.optimizer.flush_denormals()

    def observe(self, state: Tensor) -> Tensor:
        """What the networks see of a state."""
        raise NotImplementedError

    @torch.no_grad()
    def act(self, states: Tensor) -> Tensor:
        """Actions without exploration noise: (agents, n, state_dim) → (agents, n, action_dim)."""
        return self.actor(self.observe(states))  # type: ignore[no-any-return]

    def select_action(self, state: ArrayLike) -> NDArray[np.floating]:
        """The action for one state; with several agents, one state and one action for each."""
        array = np.asarray(state, dtype=np.float64)
        if array.size != self.agents * self.state_dim:
            expected = f"{self.state_dim} numbers"
            if self.agents > 1:
                expected += f" for each of {self.agents} agents"
            raise ValueError(f"expected a state of {expected}, got an array of {array.shape}")
        states = torch.as_tensor(array, dtype=self.dtype, device=self.device)
        action = self.act(states.view(self.agents, 1, self.state_dim))
        flat: NDArray[np.floating] = action.squeeze(1).cpu().numpy()
        return flat[0] if self.agents == 1 else flat

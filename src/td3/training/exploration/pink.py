"""Pink noise."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.environments.base import Arrays
from td3.errors import UserError
from td3.seeding import Stream
from td3.training.exploration.base import Exploration

SHORTEST = 2  # one step has no frequencies


class PinkExploration(Exploration):
    """Pink noise in every action component (Eberhard et al., 2023).

    Its power falls with the frequency, so it explores on short and on long time scales. Noise is
    made in blocks of `length` steps, best the length of an episode. Each episode begins a block.
    """

    def __init__(self, *given: Any, length: int = 1000) -> None:
        super().__init__(*given)
        if isinstance(length, bool) or not isinstance(length, int) or length < SHORTEST:
            raise UserError(
                f"length of pink noise must be a whole number of {SHORTEST} or more, got {length}."
            )
        environments = len(self.standard_deviation)
        self.rows = np.arange(environments)
        self.blocks = np.zeros((environments, length, self.shape[1]))
        self.used = np.full(environments, length)
        """How much of its block each environment has used."""

    def draw(self, begins: NDArray[np.bool_]) -> NDArray[np.float64]:
        length = self.blocks.shape[1]
        for row in np.flatnonzero(begins | (self.used >= length)):
            stream = self.streams[int(row) // self.shape[0]]
            self.blocks[row] = pink_noise(stream, length, self.shape[1])
            self.used[row] = 0
        noise: NDArray[np.float64] = self.blocks[self.rows, self.used] * self.standard_deviation
        self.used += 1
        return noise

    def restart(self, agent: int) -> None:
        self.used[self.rows_of(agent)] = self.blocks.shape[1]

    def state(self) -> Arrays:
        return {"blocks": self.blocks, "used": self.used}

    def restore(self, arrays: Arrays) -> None:
        if "blocks" in arrays and arrays["blocks"].shape == self.blocks.shape:
            self.blocks, self.used = arrays["blocks"].copy(), arrays["used"].copy()


def pink_noise(stream: Stream, length: int, components: int) -> NDArray[np.float64]:
    """Draw noise of variance 1 whose power is 1 / frequency, (length, components).

    The method of Timmer & König (1995): random amplitudes of each frequency, transformed to time.
    The frequency 0, the mean of the block, has the power of the lowest other frequency.
    """
    frequencies = np.fft.rfftfreq(length)
    frequencies[0] = frequencies[1]
    scale = frequencies**-0.5
    real, imaginary = stream.standard_normal((2, components, len(scale))) * scale
    # The mean, and the highest frequency if the length is even, have no imaginary part.
    alone = [0] if length % 2 else [0, -1]
    real[:, alone] *= np.sqrt(2)
    imaginary[:, alone] = 0
    power = 4 * scale**2
    power[alone] = 2 * scale[alone] ** 2
    deviation = np.sqrt(power.sum()) / length
    noise: NDArray[np.float64] = np.fft.irfft(real + 1j * imaginary, n=length) / deviation
    return noise.T

"""A policy that needs only NumPy. Written by `td3 export --to numpy`.

    policy = Policy()
    policy.reset()                    # at the start of each episode
    action = policy(observation)      # as the environment gives it
    policy.ok                         # False: the safe action was returned

If the observation has NaN or infinity, a choice that does not exist or a pixel out of range, the
action is the safe action, zero within the bounds, and `ok` is False. Such an observation does not
enter the frame stack. An observation of another shape raises ValueError.

    python policy.py --selftest [VECTORS]    # compare with recorded actions, measure the time
"""

import base64
import json
import pathlib
import sys
import time
from typing import Any

import numpy as np

TOLERANCE = 1e-6  # of the range of each action
ROUNDING = 1e-3  # how far a pixel may exceed its range, as a fraction of the range
PROGRAM = ""  # the policy as JSON; at the end of this file


class Policy:
    """Maps one observation of the environment to one action of the environment.

    Args:
        program: The policy as a dictionary. Default: the one in this file.
    """

    def __init__(self, program: dict[str, Any] | None = None) -> None:
        self.program = unpack(json.loads(PROGRAM)) if program is None else program
        self.low, self.high = (np.array(self.program[name]) for name in ("low", "high"))
        self.safe_action = np.clip(0.0, self.low, self.high)
        self.ok = True
        """Whether the last observation and action were valid."""
        self.reset()

    def reset(self) -> None:
        """Forget the observations of the last episode. Only policies with a frame stack do."""
        self.frames: list[Any] = []

    def __call__(self, observation: Any) -> Any:
        """The action, in the shape and type of the environment."""
        action = self.act(self.read(observation))
        return action.astype(self.program["dtype"]).reshape(self.program["shape"])

    def act(self, frame: Any) -> Any:
        """The action in double precision for one flat observation, see `read`."""
        self.ok = bool(np.isfinite(frame).all())
        if self.ok:
            stack = self.program["stack"]
            self.frames = [*(self.frames or [frame] * stack), frame][-stack:]
            x = self.network(np.concatenate(self.frames).astype(np.float64))
            share = (x + 1) / 2
            action = np.clip(self.low * (1 - share) + self.high * share, self.low, self.high)
            self.ok = bool(np.isfinite(action).all())
        return action if self.ok else self.safe_action.copy()

    def network(self, state: Any) -> Any:
        """From a state to an action within [-1, 1]."""
        return run(self.program["steps"], state)

    def read(self, observation: Any) -> Any:
        """One observation as the flat float32 numbers that the network sees; NaN: invalid."""
        parts = []
        for part in self.program["inputs"]:
            value = observation
            for key in part["path"]:
                value = value[key]
            with np.errstate(over="ignore"):
                numbers = np.asarray(value, dtype=np.float32)
            if list(numbers.shape) != part["shape"]:
                name = ".".join(map(str, ["observation", *part["path"]]))
                raise ValueError(f"{name} has the shape {numbers.shape}, not {part['shape']}")
            parts.append(READERS[part["kind"]](part, numbers.ravel()))
        return np.concatenate(parts)

    def read_vector(self, vector: Any) -> Any:
        """The same for an observation whose parts are one vector, as in the test vectors."""
        parts, start = [], 0
        for part in self.program["inputs"]:
            size = int(np.prod(part["shape"], dtype=int))
            parts.append(READERS[part["kind"]](part, vector[start : start + size]))
            start += size
        return np.concatenate(parts)


def read_choices(part: dict[str, Any], numbers: Any) -> Any:
    """Each choice as a one-hot vector."""
    vectors = []
    for count, start, number in zip(part["counts"], part["starts"], numbers, strict=True):
        vector = (np.arange(count) == number - start).astype(np.float32)
        vectors.append(vector if vector.any() else np.full(count, np.nan, dtype=np.float32))
    return np.concatenate(vectors)


def read_image(part: dict[str, Any], numbers: Any) -> Any:
    """Pixels as whole numbers from 0 to 255."""
    low, high = np.float32(part["low"]), np.float32(part["high"])
    margin = ROUNDING * (high - low)
    outside = ~((numbers >= low - margin) & (numbers <= high + margin))
    factor = np.float32(255 / (part["high"] - part["low"]))
    return np.where(outside, np.nan, np.rint((np.clip(numbers, low, high) - low) * factor))


READERS = {"numbers": lambda part, numbers: numbers, "choices": read_choices, "image": read_image}


def run(steps: list[dict[str, Any]], x: Any) -> Any:
    """Apply the steps to one vector."""
    for step in steps:
        match step["op"]:
            case "normalize":
                x = np.clip((x - step["shift"]) * step["scale"], -step["clip"], step["clip"])
            case "dense":
                x = x @ step["weight"] + step["bias"]
            case "relu":
                x = np.maximum(x, 0)
            case "tanh":
                x = np.tanh(x)
            case "layer_norm":
                x = (x - x.mean()) / np.sqrt(x.var() + step["epsilon"])
            case "rms_norm":
                x = x / np.sqrt(np.square(x).mean() + step["epsilon"])
            case "residual":
                x = x + run(step["branches"][0][1], x)
            case "pixels":
                x = x / 255 - 0.5
            case "convolve":
                x = convolve(step, x.reshape(step["sides"])).ravel()
            case "branches":
                x = np.concatenate([run(own, x[index]) for index, own in step["branches"]])
    return x


def convolve(step: dict[str, Any], image: Any) -> Any:
    """(channels, height, width) → the same with fewer rows and columns."""
    size, stride = step["weight"].shape[-1], step["stride"]
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(1, 2))
    windows = windows[:, ::stride, ::stride]
    seen = np.tensordot(step["weight"], windows, axes=([1, 2, 3], [0, 3, 4]))
    return seen + step["bias"][:, None, None]


def unpack(value: Any) -> Any:
    """Turn packed arrays inside dictionaries and lists into arrays; numbers become double."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "base64" in value:
        array = np.frombuffer(base64.b64decode(value["base64"]), value["dtype"])
        array = array.reshape(value["sides"])
        return array.astype(np.float64) if value["dtype"] == "<f4" else array
    return {key: unpack(item) for key, item in value.items()}


def selftest(policy: Any, path: pathlib.Path) -> int:
    """Compare with recorded actions; returns the exit code."""
    stack, outputs = policy.program["stack"], len(policy.low)
    inputs = sum(int(np.prod(part["shape"], dtype=int)) for part in policy.program["inputs"])
    data = path.read_bytes()
    count = len(data) // (4 * stack * inputs + 8 * outputs)
    observations = np.frombuffer(data, "<f4", count * stack * inputs).reshape(count, stack, inputs)
    expected = np.frombuffer(data, "<f8", offset=observations.nbytes).reshape(count, outputs)
    span, largest, seconds = np.maximum(policy.high - policy.low, 1e-300), 0.0, []
    for frames, action in zip(observations, expected, strict=True):
        policy.reset()
        for frame in frames:
            begin = time.perf_counter()
            found = policy.act(policy.read_vector(frame))
            seconds.append(time.perf_counter() - begin)
        largest = max(largest, float(np.abs((found - action) / span).max())) if policy.ok else 1.0
    policy.act(policy.read_vector(np.full(inputs, np.nan)))
    safe = not policy.ok
    passed = safe and largest <= TOLERANCE and count > 0
    print(
        f"{'passed' if passed else 'FAILED'}: {count:,} observations, largest error {largest:.1e} "
        f"of the action range, NaN {'refused' if safe else 'ACCEPTED'}, "
        f"median {1e6 * float(np.median(seconds)):.1f} us per action"
    )
    return 0 if passed else 1


def main() -> int:
    """The command line."""
    if sys.argv[1:2] != ["--selftest"] or len(sys.argv) > 3:
        print(__doc__)
        return 2
    beside = pathlib.Path(__file__).with_name("policy_vectors.bin")
    return selftest(Policy(), pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else beside)

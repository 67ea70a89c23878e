"""Film a trained policy as mp4 (for watching) and GIF (for a README)."""

import subprocess
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.environment import Environment
from td3.environments.watch import CALL, Interrupted, as_run_stopped
from td3.environments.wrappers import track_with_camera
from td3.errors import RunStopped, UserError, first_line
from td3.files import TEMPORARY, check_output, make_writable, remove
from td3.policy.evaluation import episode_seeds
from td3.policy.policy import Policy

Frame = NDArray[np.uint8]
SMALLEST_HEIGHT = 240
NEEDS_EXTRA = "Videos need an extra: pip install 'td3[video]'"
NOT_FILMED = (
    '{} cannot be filmed: accept render_mode="rgb_array" in its constructor and return an image '
    "from render()."
)
REFUSED_MODE = ("unexpected keyword argument 'render_mode'", "() takes no arguments")
GIF_FPS, GIF_WIDTH, GIF_SECONDS, GIF_COLORS = 20, 320, 10, 128


def film(
    policy: Policy,
    out: Path,
    *,
    episodes: int = 1,
    seconds: float = 30.0,
    seed: int = 1_000_000,
    environment: str = "",
    caption: bool = True,
    on_frame: Callable[[int], None] = lambda frames: None,
) -> list[Path]:
    """Play a policy and write `out`.mp4 and `out`.gif.

    Args:
        policy: The policy to film.
        out: Files to write, without the ending.
        episodes: Number of episodes, filmed one after the other.
        seconds: Maximum length of each episode.
        seed: Seed of the episodes.
        environment: Id of the task, as in `Policy.evaluate`; by default the policy's own.
        caption: Whether a bar below the frame shows task, training step and return so far.
        on_frame: Called after each frame with the number of frames so far.
    """
    if out.suffix in (".mp4", ".gif"):
        out = out.with_suffix("")
    mp4, gif = (out.with_name(out.name + ending) for ending in (".mp4", ".gif"))
    check_output(mp4)
    check_output(gif)
    find_ffmpeg()  # fail now rather than after the last episode
    config = policy.task_to_play(environment, 'film(policy, out, environment="{task}")')
    simulator = make_renderable(config)
    fps = frames_per_second(simulator, config.action_repeat)
    step = "" if policy.step is None else f" · step {policy.step:,}"
    frames: list[Frame] = []
    try:
        policy.check_fits(simulator.task)
        track_with_camera(simulator.env)
        simulator.reset(seed=seed)
        render(simulator)  # fail before anything is written
        make_writable(out.parent)
        for episode_seed in episode_seeds(seed, episodes):
            for frame, earned in play(policy, simulator, episode_seed, limit=int(seconds * fps)):
                text = f"{config.id}{step} · return {earned:,.1f}"
                frames.append(add_caption(frame, text) if caption else frame)
                on_frame(len(frames))
    finally:
        simulator.close()
    write_mp4(mp4, frames, fps)
    write_gif(gif, frames, fps)
    return [mp4, gif]


def make_renderable(config: EnvironmentConfig) -> Environment:
    """An environment that renders frames."""
    try:
        return Environment(config, render_mode="rgb_array")
    except UserError as error:
        if any(text in str(error) for text in REFUSED_MODE):
            raise UserError(NOT_FILMED.format(config.id)) from error
        raise


def can_film(config: EnvironmentConfig) -> bool:
    """Whether an environment states that it renders frames; it is made, but not reset."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium warns about a mode that is not stated
            environment = make_renderable(config)
    except (RunStopped, UserError):
        return False
    env = environment.env
    draws = type(env.unwrapped).render is not gym.Env.render
    stated = "rgb_array" in (env.metadata or {}).get("render_modes", ())
    environment.close()
    return draws and (stated or env.render_mode == "rgb_array")


def play(
    policy: Policy, environment: Environment, seed: int, limit: int
) -> Iterator[tuple[Frame, float]]:
    """Play one noise-free episode; yield each frame with the return so far."""
    state, earned = environment.reset(seed=seed), 0.0
    yield render(environment), earned
    for _ in range(limit - 1):
        state, reward, terminated, truncated = environment.step(policy.act(state))
        earned += reward
        yield render(environment), earned
        if terminated or truncated:
            return


def add_caption(frame: Frame, text: str) -> Frame:
    """The frame with a line of text in a bar below it."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise UserError(NEEDS_EXTRA) from error
    width = frame.shape[1]
    height = max(16, width // 18)
    size = 0.7 * height
    length = ImageFont.load_default(size).getlength(text)
    font = ImageFont.load_default(min(size, size * (width - height) / length))  # long ids shrink
    bar = Image.new("RGB", (width, height), "#222222")
    ImageDraw.Draw(bar).text((height / 2, height / 2), text, "white", font, anchor="lm")
    return np.vstack([frame, np.asarray(bar)])


def render(environment: Environment) -> Frame:
    """The current frame as RGB, enlarged if it is as small as a network's input."""
    CALL.enter(environment.task.id, "render")
    try:
        frame: Any = environment.env.render()
    except Interrupted as error:
        raise as_run_stopped(environment.task.id, error) from error
    except NotImplementedError as error:
        raise UserError(NOT_FILMED.format(environment.task.id)) from error
    except Exception as error:
        reason = first_line(error)
        raise UserError(f"{environment.task.id} cannot be rendered here: {reason}.") from error
    finally:
        CALL.leave()
    if isinstance(frame, np.ndarray) and frame.ndim == 2:  # greyscale
        frame = frame[..., None]
    if isinstance(frame, np.ndarray) and frame.shape[2:] == (1,):
        frame = frame.repeat(3, axis=2)
    if not isinstance(frame, np.ndarray) or frame.shape[2:] not in ((3,), (4,)) or not frame.size:
        raise UserError(NOT_FILMED.format(environment.task.id))
    factor = -(-SMALLEST_HEIGHT // len(frame))
    larger = frame[..., :3].repeat(factor, axis=0).repeat(factor, axis=1)
    return np.ascontiguousarray(larger, dtype=np.uint8)


def frames_per_second(environment: Environment, action_repeat: int) -> int:
    """The frame rate of real time, from the simulator's time step or else from its metadata."""
    dt = getattr(environment.env.unwrapped, "dt", None)
    steps = environment.env.metadata.get("render_fps") or 30
    if isinstance(dt, float) and 0.005 < dt < 1:
        steps = 1 / dt
    return max(1, round(steps / action_repeat))


def find_ffmpeg() -> str:
    """The path of the ffmpeg program that imageio installs."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise UserError(NEEDS_EXTRA) from error
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def write_mp4(path: Path, frames: Sequence[Frame], fps: int) -> None:
    """Write h264 with even sides and 4:2:0 colours, which every browser plays."""
    even = "pad=ceil(iw/2)*2:ceil(ih/2)*2"
    options = ["-vf", even, "-c:v", "libx264", "-crf", "23", "-pix_fmt", "yuv420p"]
    encode(path, frames, fps, [*options, "-movflags", "+faststart"])


def write_gif(path: Path, frames: Sequence[Frame], fps: int) -> None:
    """Write a small GIF of at most GIF_SECONDS, with its own palette."""
    rate = min(fps, GIF_FPS)
    width = min(frames[0].shape[1], GIF_WIDTH)
    filters = (
        f"fps={rate},scale={width}:-1:flags=lanczos,split[a][b];"
        f"[a]palettegen=max_colors={GIF_COLORS}:stats_mode=diff[p];"
        "[b][p]paletteuse=dither=bayer:bayer_scale=5:diff_mode=rectangle"
    )
    encode(path, frames[: GIF_SECONDS * fps], fps, ["-filter_complex", filters, "-loop", "0"])


def encode(path: Path, frames: Sequence[Frame], fps: int, options: list[str]) -> None:
    """Pipe raw frames through ffmpeg; an older film stays until the new one is complete."""
    height, width, _ = frames[0].shape
    if any(frame.shape != frames[0].shape for frame in frames):
        raise UserError("Frames differ in size; a video needs frames of one size.")
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps)]
    temporary = path.with_name(TEMPORARY + path.name)
    check_output(temporary)
    command = [find_ffmpeg(), "-y", "-loglevel", "error", *source, "-i", "-", *options]
    command.append(str(temporary.absolute()))  # its name may begin with a dash
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        _, problem = process.communicate(b"".join(frame.tobytes() for frame in frames))
    if process.returncode:
        remove(temporary)
        reason = problem.decode(errors="replace").strip().splitlines() or ["no error message"]
        raise UserError(f"ffmpeg could not write {path}: {reason[-1].rstrip('.')}.")
    temporary.replace(path)

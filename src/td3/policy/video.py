"""Film a trained policy: mp4 for watching, GIF for a README."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.environment import Environment
from td3.environments.wrappers import track_with_camera
from td3.errors import UserError, first_line
from td3.files import check_output, make_writable
from td3.policy.evaluation import episode_seeds
from td3.policy.policy import Policy

Frame = NDArray[np.uint8]
SMALLEST_HEIGHT = 240
GIF_FPS, GIF_WIDTH, GIF_SECONDS, GIF_COLORS = 20, 320, 10, 128


def film(
    policy: Policy,
    out: Path,
    *,
    episodes: int = 1,
    seconds: float = 30.0,
    seed: int = 1_000_000,
    tell: Callable[[int], None] = lambda frames: None,
    environment: str = "",
) -> list[Path]:
    """Play a policy and write `out.mp4` and `out.gif`.

    Several episodes are filmed one after the other; each for at most `seconds`. `tell` hears how
    many frames there are. `environment` is the id of the task, as in `Policy.evaluate`.
    """
    if out.suffix in (".mp4", ".gif"):
        out = out.with_suffix("")
    mp4, gif = (out.with_name(out.name + ending) for ending in (".mp4", ".gif"))
    check_output(mp4)
    check_output(gif)
    config = policy.task_to_play(environment, 'film(policy, out, environment="{task}")')
    simulator = rendering(config)
    fps = frames_per_second(simulator, config.action_repeat)
    frames: list[Frame] = []
    try:
        policy.check_fits(simulator.task)
        track_with_camera(simulator.env)
        simulator.reset(seed=seed)
        render(simulator)  # whether there will be pictures, before anything is written
        make_writable(out.parent)
        for episode_seed in episode_seeds(seed, episodes):
            for frame in play(policy, simulator, episode_seed, limit=int(seconds * fps)):
                frames.append(frame)
                tell(len(frames))
    finally:
        simulator.close()
    write_mp4(mp4, frames, fps)
    write_gif(gif, frames, fps)
    return [mp4, gif]


def rendering(config: EnvironmentConfig) -> Environment:
    """The environment, drawing pictures."""
    try:
        return Environment(config, render_mode="rgb_array")
    except UserError as error:
        if "unexpected keyword argument 'render_mode'" in str(error):
            raise UserError(f"{config.id} offers no rgb_array pictures to film.") from error
        raise


def play(policy: Policy, environment: Environment, seed: int, limit: int) -> Iterator[Frame]:
    """One noise-free episode, frame by frame."""
    state = environment.reset(seed=seed)
    yield render(environment)
    for _ in range(limit - 1):
        state, _, terminated, truncated = environment.step(policy.act(state))
        yield render(environment)
        if terminated or truncated:
            return


def render(environment: Environment) -> Frame:
    try:
        frame: Any = environment.env.render()
    except Exception as error:
        reason = first_line(error)
        raise UserError(f"{environment.task.id} cannot be rendered here: {reason}.") from error
    if isinstance(frame, np.ndarray) and frame.ndim == 2:  # grey
        frame = frame[..., None]
    if isinstance(frame, np.ndarray) and frame.shape[2:] == (1,):
        frame = frame.repeat(3, axis=2)
    if not isinstance(frame, np.ndarray) or frame.shape[2:] not in ((3,), (4,)) or not frame.size:
        raise UserError(f"{environment.task.id} gives no picture when rendered as rgb_array.")
    factor = -(-SMALLEST_HEIGHT // len(frame))  # what a network sees is small for us
    larger = frame[..., :3].repeat(factor, axis=0).repeat(factor, axis=1)
    return np.ascontiguousarray(larger, dtype=np.uint8)


def frames_per_second(environment: Environment, action_repeat: int) -> int:
    """Real time, as far as the simulator tells: from its time step, else from its metadata."""
    dt = getattr(environment.env.unwrapped, "dt", None)
    steps = environment.env.metadata.get("render_fps") or 30
    if isinstance(dt, float) and 0.005 < dt < 1:
        steps = 1 / dt
    return max(1, round(steps / action_repeat))


def ffmpeg() -> str:
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise UserError("Videos need an extra: pip install 'td3[video]'") from error
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def write_mp4(path: Path, frames: Sequence[Frame], fps: int) -> None:
    """h264 with even sides and 4:2:0 colours: plays in every browser."""
    even = "pad=ceil(iw/2)*2:ceil(ih/2)*2"
    options = ["-vf", even, "-c:v", "libx264", "-crf", "23", "-pix_fmt", "yuv420p"]
    encode(path, frames, fps, [*options, "-movflags", "+faststart"])


def write_gif(path: Path, frames: Sequence[Frame], fps: int) -> None:
    """Small, with a palette of its own, at most GIF_SECONDS long."""
    rate = min(fps, GIF_FPS)
    width = min(frames[0].shape[1], GIF_WIDTH)
    filters = (
        f"fps={rate},scale={width}:-1:flags=lanczos,split[a][b];"
        f"[a]palettegen=max_colors={GIF_COLORS}:stats_mode=diff[p];"
        "[b][p]paletteuse=dither=bayer:bayer_scale=5:diff_mode=rectangle"
    )
    encode(path, frames[: GIF_SECONDS * fps], fps, ["-filter_complex", filters, "-loop", "0"])


def encode(path: Path, frames: Sequence[Frame], fps: int, options: list[str]) -> None:
    """Pipe raw frames through the ffmpeg that imageio brings along."""
    height, width, _ = frames[0].shape
    if any(frame.shape != frames[0].shape for frame in frames):
        raise UserError("The pictures change their size, which a film cannot.")
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps)]
    command = [ffmpeg(), "-y", "-loglevel", "error", *source, "-i", "-", *options, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        _, problem = process.communicate(b"".join(frame.tobytes() for frame in frames))
    if process.returncode:
        reason = problem.decode(errors="replace").strip().splitlines() or ["it says not why"]
        raise UserError(f"ffmpeg could not write {path}: {reason[-1]}.")

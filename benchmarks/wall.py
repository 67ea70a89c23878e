"""Pretrained policies in one animated picture: python -m benchmarks.wall FILE [TASK …]

Default: the tasks of `python -m benchmarks paper`.
"""

import sys
from itertools import count, islice
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from benchmarks.td3_bench.plan import OTHER_TASKS, PAPER_TASKS
from td3.environments.wrappers import track_with_camera
from td3.policy.policy import load_policy
from td3.policy.video import Frame, frames_per_second, play, rendering

COLUMNS, SIDE, LABEL = 3, 200, 22  # side and label height in pixels
FPS, SECONDS, QUALITY = 20, 4, 40
SEED = 1_000_000


def make_tile(task: str) -> list[Frame]:
    """Return some seconds of a task in real time, with its name above."""
    print(f"filming {task}")
    policy = load_policy(pretrained=task)
    environment = rendering(policy.environment)
    track_with_camera(environment.env)
    fps = frames_per_second(environment, policy.environment.action_repeat)
    length = SECONDS * fps
    endless = (frame for seed in count(SEED) for frame in play(policy, environment, seed, length))
    frames = list(islice(endless, length))
    environment.close()
    return [add_label(frames[round(k * fps / FPS)], task) for k in range(SECONDS * FPS)]


def add_label(frame: Frame, task: str) -> Frame:
    picture = Image.new("RGB", (SIDE, SIDE + LABEL), "white")
    fitted = ImageOps.fit(Image.fromarray(frame), (SIDE, SIDE), Image.Resampling.LANCZOS)
    picture.paste(fitted, (0, LABEL))
    middle = (SIDE / 2, LABEL / 2)
    ImageDraw.Draw(picture).text(middle, task, "#333333", ImageFont.load_default(13), anchor="mm")
    return np.asarray(picture)


def join_row(tiles: list[list[Frame]]) -> list[Frame]:
    blank = np.full_like(tiles[0][0], 255)
    rest = [blank] * (COLUMNS - len(tiles))
    return [np.hstack([*side_by_side, *rest]) for side_by_side in zip(*tiles, strict=True)]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out, *tasks = sys.argv[1:]
    tiles = [make_tile(task) for task in tasks or (*PAPER_TASKS, *OTHER_TASKS)]
    rows = [join_row(tiles[k : k + COLUMNS]) for k in range(0, len(tiles), COLUMNS)]
    first, *others = (Image.fromarray(np.vstack(frames)) for frames in zip(*rows, strict=True))
    settings: dict[str, Any] = {"duration": 1000 // FPS, "loop": 0, "quality": QUALITY}
    first.save(out, save_all=True, append_images=others, **settings)

"""Policies that come along in one moving picture: python benchmarks/wall.py FILE [TASK …]

Without tasks it is those of `td3 bench paper`.
"""

import sys
from itertools import count, islice

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from td3.bench.paper import BEYOND, TASKS
from td3.environments.environment import follow
from td3.policy.load import load_policy
from td3.policy.video import Frame, frames_per_second, play, rendering

COLUMNS, SIDE, LABEL = 3, 200, 22  # the last two in pixels
FPS, SECONDS, QUALITY = 20, 4, 40
SEED = 1_000_000


def tile(task: str) -> list[Frame]:
    """Some seconds of a task in real time, episode after episode, with its name above."""
    print(f"filming {task}")
    policy = load_policy(pretrained=task)
    environment = rendering(policy.environment)
    follow(environment.env)
    fps = frames_per_second(environment, policy.environment.action_repeat)
    length = SECONDS * fps
    endless = (frame for seed in count(SEED) for frame in play(policy, environment, seed, length))
    frames = list(islice(endless, length))
    environment.close()
    return [labelled(frames[round(k * fps / FPS)], task) for k in range(SECONDS * FPS)]


def labelled(frame: Frame, task: str) -> Frame:
    picture = Image.new("RGB", (SIDE, SIDE + LABEL), "white")
    fitted = ImageOps.fit(Image.fromarray(frame), (SIDE, SIDE), Image.Resampling.LANCZOS)
    picture.paste(fitted, (0, LABEL))
    middle = (SIDE / 2, LABEL / 2)
    ImageDraw.Draw(picture).text(middle, task, "#333333", ImageFont.load_default(13), anchor="mm")
    return np.asarray(picture)


def row(tiles: list[list[Frame]]) -> list[Frame]:
    blank = np.full_like(tiles[0][0], 255)
    rest = [blank] * (COLUMNS - len(tiles))
    return [np.hstack([*side_by_side, *rest]) for side_by_side in zip(*tiles, strict=True)]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out, *tasks = sys.argv[1:]
    tiles = [tile(task) for task in tasks or (*TASKS, *BEYOND)]
    rows = [row(tiles[k : k + COLUMNS]) for k in range(0, len(tiles), COLUMNS)]
    first, *others = (Image.fromarray(np.vstack(frames)) for frames in zip(*rows, strict=True))
    how = {"append_images": others, "duration": 1000 // FPS, "loop": 0, "quality": QUALITY}
    first.save(out, save_all=True, **how)

"""Film pretrained policies side by side: python -m benchmarks.wall FILE [TASK …]

Without tasks, film those of `python -m benchmarks paper`. Each tile shows the policy's mean return
over its 100 test episodes.
"""

import sys
from itertools import count, islice
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from benchmarks.td3_bench.plan import OTHER_TASKS, PAPER_TASKS
from td3.environments.wrappers import track_with_camera
from td3.policy.load import load_policy
from td3.policy.video import Frame, add_caption, frames_per_second, make_renderable, play
from td3.text import number

COLUMNS, SIDE, LABEL = 3, 200, 22  # SIDE and LABEL in pixels
FPS, SECONDS, QUALITY = 20, 4, 40
SEED = 1_000_000


def film_tile(task: str) -> list[Frame]:
    """Some seconds of a task in real time, episode after episode."""
    print(f"filming {task}")
    policy = load_policy(pretrained=task)
    environment = make_renderable(policy.environment)
    track_with_camera(environment.env)
    fps = frames_per_second(environment, policy.environment.action_repeat)
    length = SECONDS * fps
    endless = (
        frame for seed in count(SEED) for frame, _ in play(policy, environment, seed, length)
    )
    frames = list(islice(endless, length))
    environment.close()
    earned = f"mean return {number(policy.card['tested']['mean_return'], 4)}"
    return [label(frames[round(k * fps / FPS)], task, earned) for k in range(SECONDS * FPS)]


def label(frame: Frame, task: str, earned: str) -> Frame:
    """The frame as a tile with the task above and the return below."""
    tile = Image.new("RGB", (SIDE, SIDE + LABEL), "white")
    tile.paste(
        ImageOps.fit(Image.fromarray(frame), (SIDE, SIDE), Image.Resampling.LANCZOS), (0, LABEL)
    )
    middle = (SIDE / 2, LABEL / 2)
    ImageDraw.Draw(tile).text(middle, task, "#333333", ImageFont.load_default(13), anchor="mm")
    return add_caption(np.asarray(tile), earned)


def join_row(tiles: list[list[Frame]]) -> list[Frame]:
    """The films of one row as one film; missing tiles are white."""
    blank = np.full_like(tiles[0][0], 255)
    rest = [blank] * (COLUMNS - len(tiles))
    return [np.hstack([*side_by_side, *rest]) for side_by_side in zip(*tiles, strict=True)]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out, *tasks = sys.argv[1:]
    tiles = [film_tile(task) for task in tasks or (*PAPER_TASKS, *OTHER_TASKS)]
    rows = [join_row(tiles[k : k + COLUMNS]) for k in range(0, len(tiles), COLUMNS)]
    first, *others = (Image.fromarray(np.vstack(frames)) for frames in zip(*rows, strict=True))
    options: dict[str, Any] = {"append_images": others, "duration": 1000 // FPS, "loop": 0}
    first.save(out, save_all=True, quality=QUALITY, method=6, **options)  # 6: smallest file

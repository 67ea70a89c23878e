"""Files of a run for the browser: films, policies, and exports that are made on request."""

import io
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from td3.errors import UserError
from td3.files import read_regular
from td3.play.site import read_plain
from td3.play.sources import is_plain
from td3.policy.load import KEPT, POLICY_FILES

FILM_TYPES = {".mp4": "video/mp4", ".gif": "image/gif"}
FILM = re.compile(r"[\w.-]{1,100}\.(mp4|gif)", re.ASCII)
EXPORTS = ("policy", "numpy", "c", "js", "onnx", "torch")
LARGEST = 2**29  # bytes of a policy
SECONDS = 300  # that an export may take
MOST = 500


def film_names(folder: Path) -> list[str]:
    """The films in a run; links and other names are left out."""
    return names_in(folder / "videos", FILM.fullmatch)


def policy_names(folder: Path) -> list[str]:
    """The policy files of a run: best and last of each agent, and those that were kept."""
    kinds = (*POLICY_FILES.values(), KEPT)
    found = names_in(folder / "policy", lambda name: any(kind.fullmatch(name) for kind in kinds))
    return sorted((name.removesuffix(".safetensors") for name in found), key=natural)


def names_in(folder: Path, fits: object) -> list[str]:
    assert callable(fits)
    try:
        if folder.is_symlink():
            return []
        found = [path.name for path in folder.iterdir() if fits(path.name) and is_plain(path)]
    except OSError:
        return []
    return sorted(found)[:MOST]


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts agent-2 before agent-10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


def read_film(folder: Path, name: str) -> tuple[bytes, str] | None:
    """A film and its media type; None if there is none of this name."""
    if name not in film_names(folder):
        return None
    return read_plain(folder / "videos" / name), FILM_TYPES[Path(name).suffix]


def make_export(folder: Path, policy: str, kind: str) -> tuple[bytes, str] | None:
    """A download and its name: the policy file, or a zip of what `td3 export` writes.

    td3 export runs in a process of its own, in a temporary folder: it may load PyTorch and play
    the task. The run folder is only read.
    """
    if policy not in policy_names(folder) or kind not in EXPORTS:
        return None
    file = folder / "policy" / f"{policy}.safetensors"
    stem = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', folder.name)}-{policy}"
    if kind == "policy":
        return read_regular(file, LARGEST), f"{stem}.safetensors"
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "out"
        words = ["export", str(file), "--to", kind, "--out", str(out)]
        run_td3(words, Path(temporary))
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(out.iterdir()):
                archive.write(path, f"{stem}-{kind}/{path.name}")
    return data.getvalue(), f"{stem}-{kind}.zip"


def run_td3(words: list[str], here: Path) -> None:
    """Run a td3 command. Raises UserError with its message if it fails."""
    command = [sys.executable, "-m", "td3", *words]
    try:
        done = subprocess.run(
            command, cwd=here, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"td3 export took more than {SECONDS} seconds.") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise UserError(lines[-1].removeprefix("td3: ") if lines else "td3 export failed.")

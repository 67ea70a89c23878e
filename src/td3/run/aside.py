"""Move what a run cannot use to its folder `aside`: nothing that td3 did not understand is lost."""

import os
from contextlib import suppress
from pathlib import Path

from td3.files import check_folder, flush_path, make_folder, remove_folder, rename, replace_file
from td3.run.manifest import FILES, Invalid, read_manifest

ASIDE = "aside"


def place_aside(run: Path, name: str) -> Path:
    """An unused path in the folder `aside`."""
    make_folder(run / ASIDE)
    candidate, number = run / ASIDE / name, 2
    while os.path.lexists(candidate):
        candidate, number = run / ASIDE / f"{name}.{number}", number + 1
    return candidate


def set_aside(run: Path, path: Path) -> Path:
    """Move a file or folder of the run aside; returns where it is now."""
    target = place_aside(run, path.name)
    rename(path, target)
    flush_path(target.parent)
    flush_path(path.parent)
    return target


def copy_aside(run: Path, path: Path) -> Path:
    """Keep the content of a file that will be replaced; returns where it is."""
    target = place_aside(run, path.name)
    try:
        os.link(path, target, follow_symlinks=False)  # the old content stays there
    except OSError:  # this disk has no links
        replace_file(target, path.read_bytes())
    return target


def set_checkpoint_aside(run: Path, folder: Path) -> Path:
    """Move a checkpoint aside, with links to its replay files, which others may share."""
    with suppress(Invalid):
        segments = read_manifest(folder)["segments"]
        make_folder(run / ASIDE)
        make_folder(run / ASIDE / "replay")
        check_folder(run / "replay")
        for segment in segments:
            with suppress(OSError):  # it is missing, there already, or links are impossible
                source, target = run / "replay" / segment["file"], run / ASIDE / "replay"
                os.link(source, target / segment["file"], follow_symlinks=False)
    target = place_aside(run, folder.name)
    target.mkdir()
    for name in reversed(FILES):
        if os.path.lexists(folder / name):
            rename(folder / name, target / name)
    remove_folder(folder, FILES)  # unless it holds a file of the user
    flush_path(target)
    flush_path(target.parent)
    return target

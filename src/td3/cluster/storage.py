"""A place for checkpoints that all nodes reach: a shared folder, or any address of fsspec."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from td3.cluster.mirror import Mirror, checkpoint_files
from td3.cluster.pieces import Piece, file_pieces, write_piece
from td3.errors import UserError, first_line
from td3.run.manifest import MANIFEST, Invalid

TEXTS = ("config.toml", "metrics.jsonl", "events.jsonl")


class Storage:
    """Run folders at an address of fsspec, or in a folder that all nodes share."""

    def __init__(self, address: str) -> None:
        self.address = address
        fsspec = import_fsspec(address)
        try:
            self.system, self.root = fsspec.core.url_to_fs(address)
        except Exception as error:  # fsspec and its plug-ins raise anything
            raise UserError(f"Cannot open --storage {address}: {first_line(error)}.") from error
        self.is_local = (
            "file"
            in ((self.system.protocol,), self.system.protocol)[
                isinstance(self.system.protocol, tuple | list)
            ]
        )

    def check(self) -> None:
        """Raises UserError if nothing can be written there."""
        try:
            self.system.makedirs(self.root, exist_ok=True)
            probe = f"{self.root}/.td3-{os.getpid()}"
            self.system.pipe_file(probe, b"")
            self.system.rm_file(probe)
        except Exception as error:
            raise UserError(
                f"Cannot write to --storage {self.address}: {first_line(error)}."
            ) from (error)

    def put(self, name: str, folder: Path, path: str) -> None:
        """Store a file of a folder; it is complete or absent."""
        if self.is_local:  # fsspec's copy could be seen half written
            for piece in file_pieces(folder, path):
                write_piece(Path(self.root) / name, piece)
            return
        self.system.put_file(str(folder / path), f"{self.root}/{name}/{path}")

    def remove(self, name: str, path: str) -> None:
        if self.is_local:  # with folders that are empty then
            write_piece(Path(self.root) / name, Piece(path, None))
            return
        target = f"{self.root}/{name}/{path}"
        if self.system.exists(target):
            self.system.rm_file(target)

    def fetch(self, name: str, folder: Path) -> int | None:
        """Copy the newest complete checkpoint and its records into a folder; returns its step."""
        for step in sorted(self.steps(name), key=int, reverse=True):
            own = f"checkpoints/{step}"
            try:
                self.get(name, f"{own}/{MANIFEST}", folder)
                for path in checkpoint_files(folder, step):
                    self.get(name, path, folder)
            except (FileNotFoundError, Invalid):
                (folder / own / MANIFEST).unlink(missing_ok=True)
                continue
            for path in [*TEXTS, *self.policies(name)]:
                self.get(name, path, folder)
            return int(step)
        return None

    def before(self, name: str, step: int) -> dict[str, dict[str, str]]:
        """Name of each checkpoint older than this step → its files, to remove them later."""
        found = {}
        with tempfile.TemporaryDirectory() as temporary:
            for own in self.steps(name):
                if int(own) < step:
                    with suppress(FileNotFoundError, Invalid):
                        self.get(name, f"checkpoints/{own}/{MANIFEST}", Path(temporary))
                        found[own] = checkpoint_files(Path(temporary), own)
        return found

    def steps(self, name: str) -> list[str]:
        """The names of the checkpoints of a run, complete or not."""
        return [Path(path).name for path in self.listing(f"{self.root}/{name}/checkpoints")]

    def policies(self, name: str) -> list[str]:
        files = self.listing(f"{self.root}/{name}/policy")
        return [f"policy/{Path(path).name}" for path in files if path.endswith(".safetensors")]

    def listing(self, folder: str) -> list[str]:
        self.system.invalidate_cache()
        try:
            return [str(path) for path in self.system.ls(folder, detail=False)]
        except FileNotFoundError:
            return []

    def get(self, name: str, path: str, folder: Path) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        self.system.get_file(f"{self.root}/{name}/{path}", str(folder / path))

    def store(self, name: str, mirror: Mirror, checkpoint: str) -> None:
        """Store the snapshot of a mirror, its manifest last, and remove older files."""
        texts = [path for path in TEXTS if (mirror.snapshot / path).exists()]
        policies = sorted((mirror.snapshot / "policy").glob("*.safetensors"))
        for path in [*texts, *(f"policy/{own.name}" for own in policies)]:
            self.put(name, mirror.snapshot, path)
        for path in mirror.missing(checkpoint):
            self.put(name, mirror.snapshot, path)
        for path in mirror.arrived(checkpoint):
            self.remove(name, path)


def import_fsspec(address: str) -> Any:
    try:
        import fsspec.core
    except ImportError as error:  # torch needs it, so it is there
        raise UserError(f"--storage {address} needs fsspec: pip install 'td3[ray]'") from error
    return fsspec

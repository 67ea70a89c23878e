"""A damaged checkpoint is detected and named, and the previous one is used."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.run_tools import different, tiny, train_in_pieces

from td3.algorithm.replay import ReplayBuffer
from td3.errors import UserError
from td3.files import digest
from td3.launch.session import open_training
from td3.run import checkpoint
from td3.run.checkpoint import newest_checkpoint
from td3.run.manifest import Invalid, seal, unseal

DAMAGES = 1000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corruption") / "run"
    train_in_pieces(tiny(loop={"steps": 200}, checkpoint={"every": 100}), folder, [])
    return folder


def open_newest(folder: Path) -> checkpoint.Checkpoint:
    found = newest_checkpoint(folder, ReplayBuffer(400, seed=0))
    assert found is not None
    return found


def test_checkpoint_with_flipped_bit_or_truncation_is_rejected(run: Path) -> None:
    """Damage every file that only the newest checkpoint uses, then restore it."""
    newest = run / "checkpoints" / "000000200"
    targets = [
        newest / "manifest.json",
        newest / "state.safetensors",
        run / "replay/000000200.rows",
    ]
    originals = {path: path.read_bytes() for path in targets}
    rng = random.Random(0)
    for _ in range(DAMAGES):
        path = rng.choice(targets)
        data = bytearray(originals[path])
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        found = open_newest(run)
        assert found.step == 100
        assert len(found.rejected) == 1
        assert "000000200" in found.rejected[0]
        assert path.name in found.rejected[0]
        path.write_bytes(originals[path])
    assert open_newest(run).step == 200


def test_resume_from_older_checkpoint_is_exact(tmp_path: Path) -> None:
    config = tiny(loop={"steps": 400})
    train_in_pieces(config, tmp_path / "whole", [])
    train_in_pieces(tiny(loop={"steps": 300}), tmp_path / "broken", [])
    (tmp_path / "broken/checkpoints/000000300/state.safetensors").write_bytes(b"rubbish")
    from td3.launch.resume import resume

    assert resume(tmp_path / "broken", steps=400) == 0
    assert different(tmp_path / "whole", tmp_path / "broken") == []
    assert (
        "000000300 is not used: state.safetensors has 7 bytes"
        in (tmp_path / "broken/events.jsonl").read_text()
    )


def test_resume_without_valid_checkpoint_gives_the_reasons(run: Path, tmp_path: Path) -> None:
    broken = tmp_path / "run"
    shutil.copytree(run, broken)
    for manifest in broken.glob("checkpoints/*/manifest.json"):
        manifest.write_text("{}")
    with pytest.raises(UserError, match=r"No checkpoint .* can be used: .*200 .*; .*100 .*\.$"):
        open_newest(broken)


CHANGES: list[tuple[str, Any]] = [
    ("step", -1),
    ("step", "200"),
    ("step", 201),
    ("state", None),
    ("state.bytes", -5),
    ("state.sha256", "abc"),
    ("segments", {}),
    ("segments", [None]),
    ("segments.0.file", "../../secret"),
    ("segments.0.bytes", 1.5),
    ("segments.0.dims", [3]),
    ("segments.0.dims", [2**40, 1]),
    ("segments.0.dims", [4, 1]),
    ("segments.0.tables", {}),
    ("segments.0.tables.rows.stop", [98]),
    ("segments.0.tables.rows.stop", [0, 99]),
    ("segments.0.tables.rows.start", [100]),
    ("segments.0.tables.rows.stop", [10**18]),
    ("segments.1.tables.rows.start", [0]),
    ("facts", []),
    ("facts.best", 3),
    ("facts.best", [True]),
    ("facts.best", []),
    ("facts.frozen", [1]),
    ("facts.frozen", "0"),
    ("facts.metrics_bytes", -1),
    ("facts.streams", None),
    ("facts.streams", {}),
    ("facts.streams", {"replay.0": {"bit_generator": "MT19937"}}),
    ("facts.config", {"loop": 1}),
    ("facts.evaluating", -1),
    ("facts.plain", [1]),
]


@pytest.mark.parametrize(("key", "value"), CHANGES)
def test_manifest_with_wrong_value_is_rejected_and_the_one_before_used(
    run: Path, key: str, value: Any, tmp_path: Path
) -> None:
    """The checksum is valid: somebody made this file."""
    shutil.copytree(run, tmp_path / "run")
    manifest = tmp_path / "run/checkpoints/000000200/manifest.json"
    body = unseal(manifest.read_bytes())
    place: Any = body
    *path, last = key.split(".")
    for name in path:
        place = place[int(name) if name.isdigit() else name]
    place[last] = value
    manifest.write_bytes(seal(body))
    remarks = train_further(tmp_path / "run")
    assert [remark for remark in remarks if "000000200 is not used" in remark] == remarks[:1]
    assert remarks[0].count("\n") == 0


def train_further(folder: Path) -> list[str]:
    """The remarks of a run that is restored."""
    with open_training(tiny(loop={"steps": 300}, checkpoint={"every": 100}), folder) as training:
        return training.restore()


@pytest.mark.parametrize(
    "content",
    [
        b"null",
        b"[]",
        b'"text"',
        b"7",
        b"[" * 10_000 + b"]" * 10_000,
        b'{"format": 3, "a": ' + b"[" * 10_000,
        b'{"format": ' + b"9" * 400 + b"}",
        b'{"format": ' + b"9" * 5000 + b"}",
        b'{"format": {"a": 1}}',
        b"\xff\xfe",
        b"",
    ],
)
def test_manifest_that_is_no_table_is_rejected(content: bytes) -> None:
    with pytest.raises(Invalid):
        unseal(content + b"\n" + digest(content).encode() + b"\n")

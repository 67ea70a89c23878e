"""The recorded update is the plain update, bit for bit, and shows what each step computed."""

import copy
import hashlib
from pathlib import Path

import pytest
import torch
from support.microscope import VARIANTS

import td3
from td3.microscope.specimen import Specimen, read_specimen


def contents(folder: Path) -> dict[str, str]:
    """The checksum and the time of change of every file in a folder."""
    return {
        str(path.relative_to(folder)): f"{path.stat().st_mtime_ns} "
        + (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
        for path in folder.rglob("*")
    }


def plain_update(specimen: Specimen) -> dict[str, torch.Tensor]:
    """The numbers of an agent after the plain update of the same inputs."""
    agent, replay = copy.deepcopy(specimen.agent), specimen.replay.reading_copy()
    with specimen.own_random_state():
        chosen = replay.draw(specimen.batch_size)
        noise = agent.draw_noise(specimen.batch_size)
        agent.update(replay.gather(chosen), noise, specimen.settings)
    return agent.tensors()


@pytest.mark.parametrize("variant", VARIANTS)
def test_recorded_update_of_each_variant_leaves_the_numbers_of_the_plain_one(
    variant: str, run_of: dict[str, Path]
) -> None:
    run = run_of[variant]
    before = contents(run)
    for agent in (0, 1):
        update = td3.record_update(run, agent)
        specimen = read_specimen(run, agent)
        right, found = plain_update(specimen), update.after.tensors()
        assert right.keys() == found.keys()
        for name, tensor in right.items():
            assert torch.equal(tensor, found[name]), name
        start = specimen.agent.tensors()
        assert any(not torch.equal(found[name], start[name]) for name in start)
        for name, tensor in update.before.tensors().items():
            assert torch.equal(tensor, start[name]), name
    assert contents(run) == before

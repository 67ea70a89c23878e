"""Classes of a user, images, several environments, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.microscope import OwnUpdate, make_run

import td3
from td3.algorithm.agent import TD3
from td3.errors import UserError
from td3.microscope.landscape import critic_landscape, smoothed_cloud, target_landscape
from td3.microscope.returns import measure_returns
from td3.microscope.specimen import read_specimen


def test_recorded_update_is_the_one_that_the_run_makes_next(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", seeds=1)
    update = td3.record_update(run)
    resumed = td3.resume(run, steps=241, quiet=True)
    for name, tensor in resumed.agent.tensors().items():
        assert torch.equal(tensor, update.after.tensors()[name]), name
    ahead = td3.record_update(run, step=240, ahead=1)
    assert (update.number, ahead.number) == (200, 201)
    assert (update.is_due, ahead.is_due) == (True, False)
    again = td3.resume(run, steps=242, quiet=True)
    # The second update samples from one transition more than the checkpoint of step 240 has.
    assert ahead.after.updates[0] == again.agent.updates[0] == 202


def test_fields_of_td3_keep_its_equations(run_of: Any) -> None:
    update = td3.record_update(run_of[""])
    assert update.asked == ()
    noise = update.smoothed_action - update.next_action
    assert np.abs(noise).max() <= 0.5 + 1e-6
    assert np.abs(update.smoothed_action).max() <= 1
    assert np.array_equal(update.kept_value, update.next_values.min(axis=0))
    discount = np.float32(update.settings["discount"])
    bellman = update.reward + (1 - update.done) * discount * update.kept_value
    assert np.array_equal(update.target_q, bellman)
    loss = np.square(update.values - update.target_q).mean(axis=1).sum()
    assert update.critic_loss == pytest.approx(loss, rel=1e-5)
    assert np.array_equal(update.values, update.values_before)
    before, after = update.distances["critic"]
    assert after == pytest.approx(0.995 * before, rel=1e-4)
    assert set(update.gradients["critic"]) == {"layer_1", "layer_2", "layer_3"}
    assert all(len(norm) == 2 for norm in update.gradients["critic"].values())


def test_landscapes_pass_through_the_values_of_the_update(run_of: Any) -> None:
    update = td3.record_update(run_of[""])
    for sample in (0, 31):
        target = target_landscape(update, sample, points=201)
        at = np.abs(target.axes[0] - update.smoothed_action[sample, 0]).argmin()
        found, right = target.values[:, at], update.next_values[:, sample]
        assert np.allclose(found, right, atol=0.05 * np.ptp(target.values) + 1e-4)
        own = critic_landscape(update, sample, after=False)
        assert own.values.shape == (2, 41)
    cloud = smoothed_cloud(update, 3)
    assert cloud.shape == (300, 1)
    assert np.abs(cloud - update.next_action[3]).max() <= 0.5 + 1e-6
    assert np.array_equal(cloud, smoothed_cloud(update, 3))


def test_class_of_a_user_is_watched_where_it_overrides(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", OwnUpdate)
    update = td3.record_update(run)
    assert np.allclose(update.kept_value, update.next_values.mean(axis=0))
    before, after = update.distances["critic"]
    assert after == pytest.approx(0.9 * before, rel=1e-4)


class Silent(TD3):
    """Does everything in `update`, without the methods that the recorder watches."""

    def update(self, batch: Any, noise: Any, settings: Any = None) -> Any:
        plain = super().update
        hidden = {"combine": self.__dict__.pop("combine", None)}
        try:
            return plain(batch, noise, settings)
        finally:
            self.__dict__.update({k: v for k, v in hidden.items() if v})


def test_what_an_update_does_not_show_is_asked_and_named(tmp_path: Path) -> None:
    update = td3.record_update(make_run(tmp_path / "run", Silent))
    assert update.asked == ("kept_value",)
    assert np.allclose(update.kept_value, update.next_values.min(axis=0), atol=1e-3)


def test_images_and_stacks_are_recorded_with_their_episodes(tmp_path: Path) -> None:
    environment = {"id": "Pendulum-v1", "pixels": True, "resize": 20, "frame_stack": 2}
    settings = {"agent.channels": (4, 4), "agent.features": 5, "seeds": 1}
    run = make_run(tmp_path / "run", environment=environment, **settings)
    update = td3.record_update(run)
    assert set(update.distances) == {"actor", "critic", "encoder"}
    assert update.episodes is not None
    assert all(len(own) <= 30 for own in update.episodes.members)
    assert max(len(own) for own in update.episodes.members) == 30
    assert target_landscape(update, 0).values.shape == (2, 41)
    assert len(measure_returns(read_specimen(run), 1).achieved)


@pytest.mark.parametrize("settings", [{"environment.count": 3}, {"loop.replay_size": 100}])
def test_episodes_are_found_in_mixed_and_overwritten_buffers(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    run = make_run(tmp_path / "run", seeds=1, **settings)
    update = td3.record_update(run)
    episodes, replay = update.episodes, update.specimen.replay
    assert episodes is not None
    rows = replay.rows
    assert rows is not None
    for sample, members in enumerate(episodes.members):
        place = int(episodes.numbers[sample]) % replay.capacity
        assert np.array_equal(rows[0, place, :3].numpy(), update.state[sample])
        assert members[episodes.positions[sample]] == episodes.numbers[sample]
        assert len(members) <= 30
        chain = rows[0, torch.from_numpy(members % replay.capacity)]
        assert torch.equal(chain[:-1, 3:6], chain[1:, :3])
    lengths = [len(members) for members in episodes.members]
    assert max(lengths) == 30
    if "loop.replay_size" in settings:
        assert not episodes.complete.all()


def test_agents_of_a_grid_use_their_own_settings(tmp_path: Path) -> None:
    grid = {"agent.policy_noise": (0.0, 0.2), "agent.critic_learning_rate": (1e-3, 1e-5)}
    run = make_run(tmp_path / "run", seeds=1, grid=grid)
    changes = {}
    for agent, own in enumerate(td3.load_run(run).config.combinations):
        update = td3.record_update(run, agent)
        same = np.array_equal(update.next_action, update.smoothed_action)
        assert same == (own["agent.policy_noise"] == 0)
        changes[own["agent.critic_learning_rate"]] = update.changes["critic"]["layer_1"].max()
    assert changes[1e-3] > 20 * changes[1e-5]


def test_wrong_choices_are_one_sentence(run_of: Any, tmp_path: Path) -> None:
    run = run_of[""]
    for given, message in (
        ({"agent": 2}, "has no agent 2; it has 0 to 1"),
        ({"step": 81}, "has no checkpoint of step 81; it has: 80, 160, 240"),
        ({"ahead": 101}, "ahead must be from 0 to 100"),
    ):
        with pytest.raises(UserError, match=message):
            td3.record_update(run, **given)
    with pytest.raises(UserError, match="does not exist"):
        td3.record_update(tmp_path / "none")
    update = td3.record_update(run)
    with pytest.raises(UserError, match="only the number 0"):
        target_landscape(update, 0, (0, 1))
    with pytest.raises(UserError, match="transitions 0 to 31, not 32"):
        smoothed_cloud(update, 32)


def test_kept_checkpoints_differ_and_the_newest_is_the_default(run_of: Any) -> None:
    updates = [td3.record_update(run_of[""], step=step) for step in (80, 160, 240)]
    assert [update.number for update in updates] == [40, 120, 200]
    newest = td3.record_update(run_of[""])
    assert np.array_equal(newest.target_q, updates[-1].target_q)
    assert len({float(update.critic_loss) for update in updates}) == 3

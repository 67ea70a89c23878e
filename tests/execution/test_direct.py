"""`agent.train` of the public classes: fast, with the numbers of plain PyTorch."""

import copy
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import td3
from td3.algorithm.prioritized import PrioritizedReplay
from td3.algorithm.variants.ensemble import EnsembleTD3
from td3.algorithm.variants.huber import HuberTD3
from td3.algorithm.variants.lap import LAP
from td3.execution import direct

STATE, ACTION = 5, 2


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(direct, "EAGER_UPDATES", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def make(kind: type[Any] = td3.TD3, count: int = 2, **given: Any) -> Any:
    sizes = {"hidden_sizes": (16, 16), "seed": range(count), **given}
    return kind(STATE, ACTION, 1.5, **sizes)


def make_buffer(kind: type[Any] = td3.ReplayBuffer, count: int = 2, **given: Any) -> Any:
    buffer, rng = kind(100, seed=range(count), **given), np.random.default_rng(3)
    sizes = (STATE, STATE, ACTION, 1, 1)
    for _ in range(60):
        buffer.add(tuple(rng.normal(size=(count, size)) > -1 for size in sizes))
    return buffer


def is_fast(agent: Any) -> bool:
    own = vars(agent).get(direct.KEY)
    return own is not None and own.learner is not None and own.usable


def compare(mine: Any, right: Any) -> None:
    expected = right.tensors()
    for name, tensor in mine.tensors().items():
        torch.testing.assert_close(tensor, expected[name], rtol=2e-3, atol=2e-5, msg=name)


@pytest.mark.parametrize(
    ("kind", "buffer"),
    [
        (td3.TD3, td3.ReplayBuffer),
        (HuberTD3, td3.ReplayBuffer),
        (EnsembleTD3, td3.ReplayBuffer),
        (LAP, PrioritizedReplay),
    ],
)
def test_train_gives_the_numbers_of_plain_pytorch(kind: Any, buffer: Any) -> None:
    fast, plain = make(kind), make(kind)
    plain.execution = "eager"
    one, other = make_buffer(buffer), make_buffer(buffer)
    for count in (1, 7, 3):
        found = fast.train(one, count, batch_size=16)
        expected = plain.train(other, count, batch_size=16)
        assert len(found) == count
        for mine, right in zip(found, expected, strict=True):
            torch.testing.assert_close(mine[:2], right[:2], rtol=1e-4, atol=1e-5)
            assert (mine.actor_loss is None) == (right.actor_loss is None)
        extra = (np.ones((2, STATE)), np.zeros((2, STATE)), np.ones((2, ACTION)), [1, 2], [0, 1])
        one.add(extra)
        other.add(extra)
    assert is_fast(fast)
    assert not is_fast(plain)
    compare(fast, plain)
    np.testing.assert_array_equal(fast.updates, [11, 11])
    np.testing.assert_array_equal(one.sample(3)[0], other.sample(3)[0])  # the same streams


def test_train_follows_other_settings_and_buffers() -> None:
    fast, plain = make(), make()
    plain.execution = "eager"
    one, other = make_buffer(), make_buffer()
    calls: list[dict[str, Any]] = [{}, *({"policy_noise": 0.2 - 0.01 * k} for k in range(15))]
    tau = torch.tensor([0.1, 0.2])
    calls += [{"batch_size": 8}, {"policy_freq": 3}, {"tau": tau}, {"tau": tau}]
    for given in calls:
        fast.train(one, 2, **{"batch_size": 16, **given})
        plain.train(other, 2, **{"batch_size": 16, **given})
    fast.train(make_buffer(), 2, batch_size=16)
    plain.train(make_buffer(), 2, batch_size=16)
    assert is_fast(fast)
    assert vars(fast)[direct.KEY].changes == 5
    assert tau.tolist() == torch.tensor([0.1, 0.2]).tolist()
    compare(fast, plain)


def test_train_of_copies_and_members_works_on_their_own_networks() -> None:
    agent, buffer = make(), make_buffer()
    agent.train(buffer, 2, batch_size=16)
    before = {name: tensor.clone() for name, tensor in agent.tensors().items()}
    copied, unpickled = copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))
    for other in (copied, unpickled):
        other.train(make_buffer(), 2, batch_size=16)
        assert is_fast(other)
        assert int(other.updates[0]) == 4
    assert all(torch.equal(before[k], tensor) for k, tensor in agent.tensors().items())
    agent.member(1).train(buffer.member(1), 3, batch_size=16)
    assert agent.updates.tolist() == [2, 5]
    assert before.keys() == agent.tensors().keys()


def test_train_leaves_the_number_of_threads_as_it_was() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        agent = make()
        agent.train(make_buffer(), 2, batch_size=16)
        assert vars(agent)[direct.KEY].threads == 1  # small networks
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_train_begins_as_plain_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "EAGER_UPDATES", 5)
    agent, buffer = make(), make_buffer()
    agent.train(buffer, 5, batch_size=16)
    assert not is_fast(agent)
    agent.train(buffer, 1, batch_size=16)
    assert is_fast(agent)


def test_train_of_what_cannot_be_traced_warns_once() -> None:
    class Drawing(td3.TD3):
        def critic_loss(self, values: Any, target_q: Any) -> Any:
            return super().critic_loss(values, target_q + torch.randn(target_q.shape))

    agent, buffer = make(Drawing), make_buffer()
    with pytest.warns(RuntimeWarning, match="CPU plan disabled for Drawing.update") as caught:
        found = [len(agent.train(buffer, 3, batch_size=16)) for _ in range(3)]
    assert found == [3, 3, 3]
    assert len(caught) == 1
    assert agent.updates.tolist() == [9, 9]


def test_agent_of_a_run_is_updated_by_its_learner_alone() -> None:
    class Wrapped(td3.TD3):
        def train(self, *given: Any, **named: Any) -> Any:
            return super().train(*given, **named)

    agent = make(Wrapped)
    agent.train(make_buffer(), 2, batch_size=16)
    assert direct.KEY not in vars(agent)

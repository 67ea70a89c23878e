"""What the lessons say about mistakes in listings is true."""

import numpy as np
import pytest
import torch


@pytest.mark.parametrize(("kind", "shared"), [(np.float32, True), (np.float64, False)])
def test_noise_of_the_listings_overwrites_float32_actions(kind: type, shared: bool) -> None:
    """Lesson 6: step 4 makes `action`, step 6 draws noise, step 10 uses `action`."""
    batch_actions = np.full((4, 1), 7, kind)
    action = torch.Tensor(batch_actions)
    torch.Tensor(batch_actions).data.normal_(0, 0.2)
    assert bool((action != 7).all()) is shared


def test_array_without_copy_of_a_reward_is_an_error() -> None:
    """Lesson 1."""
    with pytest.raises(ValueError, match="copy"):
        np.array(0.5, copy=False)


def test_state_dict_without_brackets_is_an_error() -> None:
    """Lesson 2."""
    network = torch.nn.Linear(1, 1)
    with pytest.raises(TypeError):
        network.load_state_dict(network.state_dict)  # type: ignore[arg-type]


def test_reward_without_a_column_broadcasts_to_a_square() -> None:
    """Lesson 4."""
    assert (torch.zeros(8) + torch.zeros(8, 1)).shape == (8, 8)

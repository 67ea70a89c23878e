"""The helpers of the running example."""

import numpy as np

from td3.lessons import pendulum


def test_trained_agent_is_better_than_an_untrained_one() -> None:
    assert pendulum.episode_return(pendulum.trained_agent(), 3) > -500
    assert pendulum.episode_return(pendulum.new_agent(), 3) < -700


def test_states_and_angles_are_inverse() -> None:
    angle, speed, states = pendulum.state_grid(5)
    found, same = pendulum.angle_and_speed(states)
    assert np.allclose(np.cos(found), np.cos(angle).ravel(), atol=1e-6)
    assert np.allclose(np.sin(found), np.sin(angle).ravel(), atol=1e-6)
    assert np.allclose(same, speed.ravel())


def test_random_experience_keeps_the_newest_and_never_terminates() -> None:
    buffer = pendulum.random_experience(250, max_size=100)
    assert len(buffer) == 100
    _, _, action, reward, done = buffer.sample(200)
    assert not done.any()
    assert np.abs(action).max() <= pendulum.MAX_TORQUE
    assert reward.max() <= 0

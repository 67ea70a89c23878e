"""The playground in a real browser: it runs, and mouse, keyboard and sliders have their effects."""

import json

import numpy as np
import pytest
from support.playground import Playground

from td3.environments.environment import Environment
from td3.play.entries import tasks
from td3.policy.evaluation import episode_seeds
from td3.policy.load import load_policy
from td3.serving import LocalServer


def return_of_td3(task: str, steps: int) -> float:
    """The return of the first steps of `td3 evaluate`."""
    policy = load_policy(pretrained=task)
    environment = Environment(policy.environment)
    observation, total = environment.reset(seed=episode_seeds(1_000_000, 1)[0]), 0.0
    for _ in range(steps):
        observation, reward, *_ = environment.step(policy.act(observation))
        total += reward
    environment.close()
    return total


def test_page_plays_each_policy_with_the_return_of_td3_evaluate(playground: Playground) -> None:
    for task, facts in tasks().items():
        playground.choose(task)
        assert playground.text(".count") == f"0 of {facts['max_steps']}"
        assert playground.return_after(10) == pytest.approx(return_of_td3(task, 10), rel=1e-3)
        assert playground.text(".count") == f"10 of {facts['max_steps']}"


def test_page_runs_by_itself_and_shows_the_return_in_the_card(playground: Playground) -> None:
    playground.press(" ")
    playground.page.wait_for_function("parseInt(document.querySelector('.count').innerText) > 10")
    card = load_policy(pretrained="HalfCheetah-v5").card["tested"]
    assert playground.text(".card").startswith(f"{card['mean_return']:,.1f}")
    assert f"{card['episodes']} episodes" in playground.text(".card")


def test_page_before_the_first_frame_loads_less_than_6_megabytes_from_its_server_only(
    playground: Playground, server: LocalServer
) -> None:
    assert all(url.startswith((server.address, "blob:", "data:")) for url in playground.requests)
    sizes = playground.page.evaluate(
        "performance.getEntriesByType('resource').map((entry) => entry.transferSize)"
    )
    assert 2_000_000 < sum(sizes) < 6_000_000


def test_page_keyboard_pauses_steps_resets_and_changes_the_speed(playground: Playground) -> None:
    assert playground.text("#pause") == "Play"
    playground.press(".", ".")
    assert playground.text(".count") == "2 of 1000"
    playground.press("r")
    assert playground.text(".count") == "0 of 1000"
    playground.press("-", "-", "+")
    assert playground.page.locator("#speed").input_value() == "0.5"
    playground.press(" ")
    assert playground.text("#pause") == "Pause"


def test_page_slow_motion_is_slower(playground: Playground) -> None:
    def steps_in_a_second(speed: str) -> int:
        playground.page.select_option("#speed", speed)
        playground.page.click("#reset")
        playground.page.click("#pause")
        playground.page.wait_for_timeout(1000)
        playground.page.click("#pause")
        return int(playground.text(".count").split()[0])

    assert 4 * steps_in_a_second("0.1") < steps_in_a_second("1")


def test_page_seed_starts_the_same_episode_again(playground: Playground) -> None:
    first = playground.return_after(5)
    playground.page.fill("#seed", "7")
    playground.page.press("#seed", "Enter")
    playground.page.locator("#seed").blur()
    other = playground.return_after(5)
    playground.page.fill("#seed", "1000000")
    playground.page.locator("#seed").blur()
    assert playground.return_after(5) == first != other


def test_page_arrow_pushes_the_body(playground: Playground) -> None:
    calm = playground.return_after(6)
    playground.press("r", "ArrowRight")
    ahead = playground.return_after(6)
    playground.press("r", "ArrowLeft")
    assert playground.return_after(6) < calm < ahead


def test_page_mouse_pulls_the_body_and_turns_the_camera(playground: Playground) -> None:
    page = playground.page
    calm = playground.return_after(6)
    playground.press("r")
    playground.texts(".now")
    box = page.locator(".view").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    found = page.evaluate(FIND_BODY, [middle[0], box["y"], box["height"]])
    page.mouse.move(middle[0], found)
    page.mouse.down()
    page.mouse.move(middle[0] + 100, found, steps=3)
    pulled = playground.return_after(6)
    page.mouse.up()
    assert pulled > calm + 1
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    before = page.locator(".view").screenshot()
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 5, steps=3)
    page.mouse.up()
    playground.texts(".now")
    assert page.locator(".view").screenshot() != before


# The height at which a press grabs the body: there the cursor's style says so.
FIND_BODY = """([x, top, height]) => {
  const canvas = document.querySelector(".view");
  for (let y = top; y < top + height; y += 3) {
    canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y }));
    if (canvas.style.cursor === "grab") return y;
  }
}"""


SLIDERS = [
    ("gravity", 0, "Hopper-v5"),
    ("friction", 0, "HalfCheetah-v5"),
    ("strength", 0.3, "HalfCheetah-v5"),
    ("noise", 0.5, "HalfCheetah-v5"),
    ("delay", 3, "HalfCheetah-v5"),
]


def test_page_slider_changes_the_world_and_as_trained_restores_it(playground: Playground) -> None:
    for slider, value, task in SLIDERS:
        playground.choose(task)
        trained = playground.return_after(20)
        playground.page.locator(f"input[name={slider}]").fill(str(value))
        playground.page.click("#reset")
        assert abs(playground.return_after(20) - trained) > 0.1, slider
        playground.page.click("#restore")
        playground.page.click("#reset")
        assert playground.return_after(20) == trained, slider


def test_page_compare_shows_two_policies_in_the_same_world(playground: Playground) -> None:
    playground.press("c")
    playground.page.wait_for_function("document.querySelectorAll('.stage .now').length == 2")
    playground.page.wait_for_function("location.hash == '#HalfCheetah-v5&Ant-v5'")
    playground.choose("HalfCheetah-v5", stage=1)
    playground.press("r", ".", ".", ".")
    one, two = playground.texts(".now")
    assert one == two
    assert playground.texts(".count") == ["3 of 1000"] * 2
    playground.press("c")
    assert len(playground.texts(".now")) == 1


def test_page_address_names_its_policies(playground: Playground, server: LocalServer) -> None:
    playground.page.goto("about:blank")
    playground.open("#Swimmer-v5&Reacher-v5")
    labels = playground.page.locator(".stage select").evaluate_all(
        "all => all.map((select) => select.selectedOptions[0].textContent)"
    )
    assert labels == ["Swimmer-v5, pretrained", "Reacher-v5, pretrained"]


def test_page_task_of_another_simulator_shows_its_film(playground: Playground) -> None:
    playground.choose("AntBulletEnv-v0")
    assert playground.text(".message") == (
        "AntBulletEnv-v0 is none of the MuJoCo tasks that this page simulates. "
        "This is a film of it."
    )
    playground.page.evaluate("document.querySelector('video').play()")
    playground.page.wait_for_function("document.querySelector('video').currentTime > 0")
    assert playground.page.evaluate("document.querySelector('video').videoWidth") == 320


def test_page_episode_ends_and_the_next_one_begins(playground: Playground) -> None:
    playground.choose("Reacher-v5")
    playground.press("r", *["."] * 50)
    assert playground.text(".message").startswith("The time limit was reached after 50 steps")
    playground.press(".")
    assert playground.text(".count") == "0 of 50"
    assert playground.text(".message") == ""


def test_page_bars_have_one_bar_for_each_number(playground: Playground) -> None:
    """The action of Ant has 8 numbers: 8 bars stand on the line in the middle."""
    playground.choose("Ant-v5")
    playground.press("r", ".")
    playground.texts(".now")
    pixels = playground.page.evaluate(
        """() => {
          const canvas = document.querySelector(".action");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return JSON.stringify([canvas.width, [...data.filter((_, k) => k % 4 === 3)]]);
        }"""
    )
    width, alpha = json.loads(pixels)
    rows = np.array(alpha).reshape(-1, width) > 0
    middle = len(rows) // 2
    touched = rows[middle - 2] | rows[middle + 2]
    assert 6 <= np.count_nonzero(np.diff(touched.astype(int)) == 1) + touched[0] <= 8

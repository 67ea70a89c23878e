"""Recipes that come with the package are valid."""

import dataclasses

import pytest

from td3.config import load_recipe, recipe_names, recipe_text
from td3.config.checks import check


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_is_a_valid_configuration(name: str) -> None:
    config = load_recipe(name)
    task = config.environment.id or "Pendulum-v1"
    environment = dataclasses.replace(config.environment, id=task)
    assert check(dataclasses.replace(config, environment=environment)).recipe == name


@pytest.mark.parametrize("name", recipe_names())
def test_comment_at_the_top_of_a_recipe_fits_the_list(name: str) -> None:
    lines = recipe_text(name).splitlines()
    assert max(map(len, lines[: lines.index("")])) <= 67  # a text of 65 characters

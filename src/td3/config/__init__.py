"""The settings of a run: declaration, validation, TOML files, recipes, grids."""

from td3.config.agent_settings import AgentConfig, VariantSettings
from td3.config.checks import check
from td3.config.environment_settings import WRAPPERS, EnvironmentConfig, Value
from td3.config.fields import Setting, declared_settings
from td3.config.grid import VARIABLE, describe_settings
from td3.config.loop_settings import (
    EXPLORATIONS,
    CheckpointConfig,
    EvaluationConfig,
    LoopConfig,
    StopConfig,
)
from td3.config.parsing import changes, dotted, from_dict, to_dict
from td3.config.recipe_files import load_recipe, recipe_names, recipe_text
from td3.config.schema import Config, varied
from td3.config.spelling import ELSEWHERE, setting_near
from td3.config.toml import read_toml, to_toml

__all__ = [
    "ELSEWHERE",
    "EXPLORATIONS",
    "VARIABLE",
    "WRAPPERS",
    "AgentConfig",
    "CheckpointConfig",
    "Config",
    "EnvironmentConfig",
    "EvaluationConfig",
    "LoopConfig",
    "Setting",
    "StopConfig",
    "Value",
    "VariantSettings",
    "changes",
    "check",
    "declared_settings",
    "describe_settings",
    "dotted",
    "from_dict",
    "load_recipe",
    "read_toml",
    "recipe_names",
    "recipe_text",
    "setting_near",
    "to_dict",
    "to_toml",
    "varied",
]

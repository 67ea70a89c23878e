"""Variants in a module outside the package, and runs that train with them."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from support.run_tools import command, flags, tiny

MODULE = "own_variants"
SOURCE = '''
"""Variants that a user may write."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

import td3
from td3.algorithm.stacked import per_agent


@dataclass(frozen=True)
class HuberSettings(td3.VariantSettings):
    delta: float = 1.0


class Huber(td3.TD3):
    Settings = HuberSettings

    def critic_loss(self, values, target_q):
        delta = per_agent(self.variant.delta, target_q)
        error = (torch.stack(list(values)) - target_q).abs()
        inside = error.clamp(max=delta)
        return (inside * (2 * error - inside)).mean(dim=(2, 3)).sum(dim=0)


class ThreeCritics(td3.TD3):
    critics = 3


class NormalizedCritic(td3.Critic):
    def compute(self, x, flat):
        *hidden, (weight, bias) = self.layers(flat)
        for w, b in hidden:
            x = torch.baddbmm(b, x, w)
            x = F.relu(F.layer_norm(x, x.shape[-1:]))
        return torch.baddbmm(bias, x, weight)


class LayerNorm(td3.TD3):
    def make_critic(self, inputs, **shared):
        return NormalizedCritic(inputs, self.action_dim, self.hidden_sizes, **shared)


class SineActor(td3.Actor):
    def forward(self, state):
        return torch.sin(super().forward(state))


class OwnActor(td3.TD3):
    def make_actor(self, inputs, **shared):
        sizes = inputs, self.action_dim, self.max_action, self.hidden_sizes
        return SineActor(*sizes, **shared)
'''
PATCH = """
import sys

import td3
from td3.cli import main


def halved(self, values, target_q, old=td3.TD3.critic_loss):
    return 0.5 * old(self, values, target_q)


td3.TD3.critic_loss = halved
sys.exit(main(sys.argv[1:]))
"""


def write_module(folder: Path, source: str = SOURCE) -> Path:
    path = folder / f"{MODULE}.py"
    path.write_text(textwrap.dedent(source).lstrip(), encoding="utf-8")
    return path


def train_words(variant: str, folder: Path, *words: str, steps: int = 300) -> list[str]:
    """The command that trains a variant for a short time. One thread: runs are compared."""
    config = tiny(loop={"steps": steps}, checkpoint={"every": 20})
    own = ["--variant", f"{MODULE}:{variant}"] if variant else []
    all_words = ["train", *flags(config), "--recipe", "quick", "--threads", "1", *own, *words]
    return [*all_words, "--run", str(folder), "--quiet"]


def begin_command(words: list[str], modules: Path | None) -> subprocess.Popen[str]:
    """Start the command in a new process that finds modules in the folder `modules`."""
    paths = [str(modules) if modules else "", os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # a test changes the module within a second
    return subprocess.Popen(
        command(*words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def run_command(words: list[str], modules: Path | None = None) -> tuple[int, str]:
    """Exit code and error message of the command in a new process."""
    process = begin_command(words, modules)
    _, problem = process.communicate()
    return process.returncode, problem


def run_patched(words: list[str], folder: Path) -> int:
    """The command in a script that replaces a method of TD3."""
    script = folder / "patched.py"
    script.write_text(PATCH, encoding="utf-8")
    return subprocess.run([sys.executable, str(script), *words], check=False).returncode

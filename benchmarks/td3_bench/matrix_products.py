"""The matrix products of one update, as a lower bound for its time.

Plain PyTorch cannot do without them. Activations, Adam and sampling are left out.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from td3.bench.measure import (
    Benchmark,
    Figure,
    Rounds,
    describe_circumstances,
    measure_in_turn,
)
from td3.bench.update import prepare_update, update_figures
from td3.config import Config
from td3.errors import UserError


@dataclass(frozen=True)
class Product:
    """(networks, rows, inner) times (networks, inner, columns)."""

    step: int
    """The step of the algorithm that needs it."""
    networks: int
    rows: int
    inner: int
    columns: int
    left_transposed: bool = False
    """Left is a layer's input, transposed for the gradient of the weights."""
    right_transposed: bool = False
    """Right is a layer's weights, transposed for the gradient of the input."""

    @property
    def flop(self) -> int:
        """Count one multiplication and one addition per term."""
        return 2 * self.networks * self.rows * self.inner * self.columns


@dataclass(frozen=True)
class UpdateProducts:
    """All products of an update."""

    every: tuple[Product, ...]
    """Steps 5 to 12, in every update."""
    delayed: tuple[Product, ...]
    """Step 13, in every `policy_freq`-th update."""

    def flop_per_update(self, policy_freq: int) -> float:
        """Return the mean over a cycle of `policy_freq` updates, for all agents together."""
        every, delayed = (sum(p.flop for p in part) for part in (self.every, self.delayed))
        return every + delayed / policy_freq


@dataclass(frozen=True)
class LayerSizes:
    """The linear layers of several equal networks."""

    widths: tuple[int, ...]
    batch_size: int
    networks: int

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.widths))

    def forward(self, step: int) -> list[Product]:
        return [Product(step, self.networks, self.batch_size, m, n) for m, n in self.pairs]

    def weight_gradients(self, step: int) -> list[Product]:
        return [
            Product(step, self.networks, m, self.batch_size, n, left_transposed=True)
            for m, n in reversed(self.pairs)
        ]

    def input_gradients(self, step: int, inputs: int) -> list[Product]:
        """List them from last to first layer; the first needs `inputs` columns only."""
        columns = [inputs, *self.widths[1:-1]]
        return [
            Product(step, self.networks, self.batch_size, n, m, right_transposed=True)
            for m, n in reversed(list(zip(columns, self.widths[1:], strict=True)))
            if m
        ]


def update_products(
    state_dim: int, action_dim: int, hidden_sizes: Sequence[int], batch_size: int, agents: int = 1
) -> UpdateProducts:
    """Return the products of steps 5 to 13, forward and backward, for all agents together."""
    actor = LayerSizes((state_dim, *hidden_sizes, action_dim), batch_size, agents)
    critics = LayerSizes((state_dim + action_dim, *hidden_sizes, 1), batch_size, 2 * agents)
    first_critic = LayerSizes(critics.widths, batch_size, agents)
    every = (
        *actor.forward(step=5),
        *critics.forward(step=7),
        *critics.forward(step=10),
        # The batch needs no gradient.
        *critics.input_gradients(step=12, inputs=0),
        *critics.weight_gradients(step=12),
    )
    delayed = (
        *actor.forward(step=13),
        *first_critic.forward(step=13),
        # Only the gradient of the action is needed: not the state's, not the critic's weights'.
        *first_critic.input_gradients(step=13, inputs=action_dim),
        *actor.input_gradients(step=13, inputs=0),
        *actor.weight_gradients(step=13),
    )
    return UpdateProducts(every, delayed)


class Multiplier:
    """Computes the products and nothing else, in the memory layouts of the update."""

    def __init__(self, products: UpdateProducts, device: torch.device) -> None:
        self.device = device
        self.pool: dict[tuple[str, tuple[int, ...]], Tensor] = {}
        self.every = [self.make_operands(product) for product in products.every]
        self.delayed = [self.make_operands(product) for product in products.delayed]

    def make_operands(self, product: Product) -> tuple[Tensor, Tensor, Tensor]:
        """Return left, right and memory for the result."""
        networks, rows, columns = product.networks, product.rows, product.columns
        left = (
            self.tensor("left", networks, product.inner, rows).transpose(1, 2)
            if product.left_transposed
            else self.tensor("left", networks, rows, product.inner)
        )
        right = (
            self.tensor("right", networks, columns, product.inner).transpose(1, 2)
            if product.right_transposed
            else self.tensor("right", networks, product.inner, columns)
        )
        return left, right, self.tensor("result", networks, rows, columns)

    def tensor(self, role: str, *shape: int) -> Tensor:
        # Equal shapes share memory and stay in the cache, which keeps the bound low.
        key = (role, shape)
        if key not in self.pool:
            self.pool[key] = torch.randn(shape, device=self.device)
        return self.pool[key]

    @torch.no_grad()
    def multiply(self, updates: int, policy_freq: int) -> None:
        """Compute the products of this many updates."""
        for update in range(updates):
            for left, right, result in self.every:
                torch.bmm(left, right, out=result)
            if update % policy_freq == 0:
                for left, right, result in self.delayed:
                    torch.bmm(left, right, out=result)


def bench_update_and_products(
    config: Config, state_dim: int, action_dim: int, rounds: Rounds
) -> Benchmark:
    """Measure updates in turn with their matrix products alone."""
    circumstances = describe_circumstances()
    prepared = prepare_update(config, state_dim, action_dim)
    if prepared.flop is None:
        raise UserError(
            f"The variant {config.variant.name} has networks of its own, whose matrix products are "
            "not known; use 'td3 bench update'."
        )
    agent, agents = config.agent, config.agents
    sizes = (state_dim, action_dim, agent.hidden_sizes, agent.batch_size, agents)
    multiplier = Multiplier(update_products(*sizes), prepared.device)

    def multiply(updates: int) -> None:
        multiplier.multiply(updates, agent.policy_freq)

    works = {"products": multiply, "update": prepared.learner.learn}
    seconds = measure_in_turn(works, agent.policy_freq, rounds, prepared.device)
    products, updates, flop = seconds["products"], seconds["update"], prepared.flop
    ratios = [update / bare for update, bare in zip(updates, products, strict=True)]
    figures = update_figures(updates, flop, agents) | {
        "products_milliseconds_per_update": Figure("ms", [1e3 * s for s in products]),
        "products_gigaflop_per_second": Figure("GFLOP/s", [flop / s / 1e9 for s in products]),
        "update_over_products": Figure("", ratios),
    }
    return Benchmark("update", prepared.describe(rounds), figures, circumstances)

"""The matrix products that one update cannot do without: the floor that its speed is held against.

Derived from the sizes alone. Activations, Adam, sampling and everything else is left out.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Product:
    """(networks, rows, inner) times (networks, inner, columns)."""

    step: int
    """Which of the fifteen steps it belongs to."""
    networks: int
    rows: int
    inner: int
    columns: int
    left_transposed: bool = False
    """A layer's input, turned round to give its weights' gradient."""
    right_transposed: bool = False
    """A layer's weights, turned round to give its input's gradient."""

    @property
    def flop(self) -> int:
        """A multiplication and an addition for each term."""
        return 2 * self.networks * self.rows * self.inner * self.columns


@dataclass(frozen=True)
class UpdateProducts:
    """What one update multiplies."""

    every: tuple[Product, ...]
    """Steps 5 to 12, in every update."""
    delayed: tuple[Product, ...]
    """Step 13, in every `policy_freq`-th update."""

    def flop_per_update(self, policy_freq: int) -> float:
        """On average over a cycle of `policy_freq` updates, all agents together."""
        every, delayed = (sum(p.flop for p in part) for part in (self.every, self.delayed))
        return every + delayed / policy_freq


def update_products(
    state_dim: int, action_dim: int, hidden_sizes: Sequence[int], batch_size: int, agents: int = 1
) -> UpdateProducts:
    """The products of steps 5 to 13, forward and backward, for agents side by side."""
    actor = Layers((state_dim, *hidden_sizes, action_dim), batch_size, agents)
    twins = Layers((state_dim + action_dim, *hidden_sizes, 1), batch_size, 2 * agents)
    first = Layers(twins.widths, batch_size, agents)
    every = (
        *actor.forward(step=5),
        *twins.forward(step=7),
        *twins.forward(step=10),
        # The batch needs no gradient, so the first layer passes none on to its input.
        *twins.input_gradients(step=12, inputs=0),
        *twins.weight_gradients(step=12),
    )
    delayed = (
        *actor.forward(step=13),
        *first.forward(step=13),
        # Through the critic to the action: none of its weights' gradients, none for the state.
        *first.input_gradients(step=13, inputs=action_dim),
        *actor.input_gradients(step=13, inputs=0),
        *actor.weight_gradients(step=13),
    )
    return UpdateProducts(every, delayed)


@dataclass(frozen=True)
class Layers:
    """The linear layers of networks side by side."""

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
        """From the last layer back to the first, whose input needs it in `inputs` columns only."""
        columns = [inputs, *self.widths[1:-1]]
        return [
            Product(step, self.networks, self.batch_size, n, m, right_transposed=True)
            for m, n in reversed(list(zip(columns, self.widths[1:], strict=True)))
            if m
        ]


class Multiplier:
    """Does the products and nothing else, in the memory layouts that the update meets."""

    def __init__(self, products: UpdateProducts, device: torch.device) -> None:
        self.device = device
        self.pool: dict[tuple[str, int, int, int], Tensor] = {}
        self.every = [self.operands(product) for product in products.every]
        self.delayed = [self.operands(product) for product in products.delayed]

    def operands(self, product: Product) -> tuple[Tensor, Tensor, Tensor]:
        """Left, right and room for the result."""
        networks, rows, inner, columns = (
            product.networks,
            product.rows,
            product.inner,
            product.columns,
        )
        left = (
            self.tensor("left", networks, inner, rows).transpose(1, 2)
            if product.left_transposed
            else self.tensor("left", networks, rows, inner)
        )
        right = (
            self.tensor("right", networks, columns, inner).transpose(1, 2)
            if product.right_transposed
            else self.tensor("right", networks, inner, columns)
        )
        return left, right, self.tensor("result", networks, rows, columns)

    def tensor(self, role: str, *shape: int) -> Tensor:
        # Equal shapes share memory: the products then find it in the cache, and the floor is low.
        key = (role, *shape)
        if key not in self.pool:
            self.pool[key] = torch.randn(shape, device=self.device)  # type: ignore[index]
        return self.pool[key]  # type: ignore[index]

    @torch.no_grad()
    def multiply(self, updates: int, policy_freq: int) -> None:
        """The products of so many updates."""
        for update in range(updates):
            for left, right, result in self.every:
                torch.bmm(left, right, out=result)
            if update % policy_freq == 0:
                for left, right, result in self.delayed:
                    torch.bmm(left, right, out=result)

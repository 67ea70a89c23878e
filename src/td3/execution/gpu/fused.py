"""Fused kernels for networks, Adam and sampling: the same results in fewer passes over memory.

The forward pass is one kernel for all layers. The backward pass is one kernel, one matrix product
for the large weight, and a sum over partial gradients. They support two hidden layers of up to 256
units, float32 numbers and tf32 products (`replaceable.py` decides).
"""

from collections.abc import Callable
from typing import Any, cast

import torch
import triton
from torch import Tensor
from torch.autograd import Function

from td3.algorithm.adam import Adam
from td3.algorithm.agent import TD3
from td3.algorithm.images.frame_replay import FrameReplay
from td3.algorithm.images.random_shift import pixel_width
from td3.algorithm.stacked import StackedMLP
from td3.execution.gpu import triton_kernels as kernels
from td3.execution.replaceable import is_fusible, is_plain_adam
from td3.layout import Part, channels_first

PRECISION = "tf32"
FEW = 8  # networks; for fewer, a batch is split further to occupy the device
FORWARD_FEW, FORWARD_MANY = (16, 32, 4, 3), (32, 32, 4, 3)  # rows, chunk, warps, stages
BACKWARD_FEW, BACKWARD_MANY = (16, 32, 4, 3), (64, 32, 4, 3)
PICTURE_BLOCK = 2048  # bytes


def fuse(agent: TD3) -> None:
    """Replace the networks' `compute` and Adam's `step` of a copied agent by fused kernels."""
    fuse_networks(agent)
    if agent.dtype == torch.float32:
        for network in agent.trained.values():
            if is_plain_adam(network.optimizer):
                network.optimizer.__dict__["step"] = make_fused_step(network.optimizer)


def fuse_networks(agent: TD3) -> None:
    """Replace `compute` of those networks that the kernels support."""
    for trained in agent.trained.values():
        for network in (trained.online, trained.target):
            if isinstance(network, StackedMLP) and network.flat.is_cuda and is_fusible(network):
                network.__dict__["compute"] = FusedMLP(network.widths)


class FusedMLP:
    """`StackedMLP.compute` as a fused kernel, for given widths."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        self.widths = list(widths)

    def __call__(self, x: Tensor, flat: Tensor) -> Tensor:
        x = x if x.stride(-1) == 1 else x.contiguous()
        if torch.is_grad_enabled() and (x.requires_grad or flat.requires_grad):
            return cast(Tensor, FusedMLPFunction.apply(x, flat, self.widths))  # type: ignore[no-untyped-call]
        return cast(Tensor, layers_forward(x, flat, self.widths, keep=False)[0])


class FusedMLPFunction(Function):
    """`FusedMLP` with gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, flat: Tensor, widths: list[int]) -> Tensor:
        out, hidden_1, hidden_2 = layers_forward(x, flat, widths, keep=True)
        ctx.save_for_backward(x, flat, hidden_1, hidden_2)
        ctx.widths = widths
        return cast(Tensor, out)

    @staticmethod
    def backward(ctx: Any, out_gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, flat, hidden_1, hidden_2 = ctx.saved_tensors
        to_input, to_weights, _ = ctx.needs_input_grad
        given = (out_gradient.contiguous(), x, flat, hidden_1, hidden_2, ctx.widths)
        # Two calls, so that an unused gradient (the critic's in step 13) is removed from the trace.
        x_gradient = layers_backward(*given, True, False)[0] if to_input else None
        flat_gradient = layers_backward(*given, False, True)[1] if to_weights else None
        return x_gradient, flat_gradient, None


def power_of_two(number: int) -> int:
    return int(max(16, triton.next_power_of_2(number)))


def constants(batch: int, widths: list[int]) -> dict[str, int]:
    """The sizes for which the kernels are compiled."""
    inputs, width_1, width_2, outputs = widths
    return {
        "BATCH": batch,
        "INPUTS": inputs,
        "WIDTH_1": width_1,
        "WIDTH_2": width_2,
        "OUTPUTS": outputs,
        "PADDED_OUTPUTS": power_of_two(outputs),
    }


@torch.library.custom_op("td3::layers_forward", mutates_args=())
def layers_forward(
    x: Tensor, flat: Tensor, widths: list[int], keep: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs and, if `keep`, both hidden activations for the backward pass."""
    networks, batch, inputs = x.shape
    _, width_1, width_2, outputs = widths
    kept = batch if keep else 0
    out = x.new_empty(networks, batch, outputs)
    hidden_1, hidden_2 = x.new_empty(networks, kept, width_1), x.new_empty(networks, kept, width_2)
    rows, chunk, warps, stages = FORWARD_FEW if networks < FEW else FORWARD_MANY
    kernels.forward_kernel[networks, triton.cdiv(batch, rows)](
        x,
        flat,
        out,
        hidden_1,
        hidden_2,
        x.stride(0),
        x.stride(1),
        flat.stride(0),
        **constants(batch, widths),
        PADDED_INPUTS=power_of_two(inputs),
        PADDED_WIDTH=power_of_two(width_2),
        ROWS=rows,
        CHUNK=chunk,
        KEEP=keep,
        PRECISION=PRECISION,
        num_warps=warps,
        num_stages=stages,
    )
    return out, hidden_1, hidden_2


@layers_forward.register_fake
def _(x: Tensor, flat: Tensor, widths: list[int], keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    networks, batch, _ = x.shape
    kept = batch if keep else 0
    out = x.new_empty(networks, batch, widths[3])
    return out, x.new_empty(networks, kept, widths[1]), x.new_empty(networks, kept, widths[2])


@torch.library.custom_op("td3::layers_backward", mutates_args=())
def layers_backward(
    out_gradient: Tensor,
    x: Tensor,
    flat: Tensor,
    hidden_1: Tensor,
    hidden_2: Tensor,
    widths: list[int],
    to_input: bool,
    to_weights: bool,
) -> tuple[Tensor, Tensor]:
    """The gradients of the input and of `flat`; empty tensors if not wanted."""
    networks, batch, _ = hidden_1.shape
    inputs, width_1, width_2, outputs = widths
    rows, chunk, warps, stages = BACKWARD_FEW if networks < FEW else BACKWARD_MANY
    programs = triton.cdiv(batch, rows)
    first, large, last = (
        (inputs + 1) * width_1,
        width_1 * width_2,
        width_2 + (width_2 + 1) * outputs,
    )
    x_gradient = x.new_empty(networks, batch if to_input else 0, inputs)
    flat_gradient = flat.new_empty(networks, flat.shape[1] if to_weights else 0)
    gradient_2 = torch.empty_like(hidden_2) if to_weights else hidden_2
    partial = flat.new_empty(networks, programs if to_weights else 0, first + last)
    kernels.backward_kernel[networks, programs](
        out_gradient,
        x,
        flat,
        hidden_1,
        hidden_2,
        gradient_2,
        x_gradient,
        partial,
        x.stride(0),
        x.stride(1),
        flat.stride(0),
        **constants(batch, widths),
        PADDED_INPUTS=power_of_two(inputs + 1),
        PADDED_WIDTH=power_of_two(width_1),
        ROWS=rows,
        CHUNK=chunk,
        TO_INPUT=to_input,
        TO_WEIGHTS=to_weights,
        PRECISION=PRECISION,
        num_warps=warps,
        num_stages=stages,
    )
    if to_weights:
        product = flat_gradient[:, first : first + large].view(networks, width_1, width_2)
        torch.bmm(hidden_1.transpose(1, 2), gradient_2, out=product)
        padding = flat.shape[1] - first - large - last
        kernels.sum_kernel[networks, triton.cdiv(first + last + padding, 1024)](
            partial,
            flat_gradient,
            flat_gradient.stride(0),
            PARTS=programs,
            FIRST=first,
            SKIPPED=large,
            LAST=last,
            PADDING=padding,
            BLOCK=1024,
        )
    return x_gradient, flat_gradient


@layers_backward.register_fake
def _(
    out_gradient: Tensor,
    x: Tensor,
    flat: Tensor,
    hidden_1: Tensor,
    hidden_2: Tensor,
    widths: list[int],
    to_input: bool,
    to_weights: bool,
) -> tuple[Tensor, Tensor]:
    networks, batch, inputs = x.shape
    x_gradient = x.new_empty(networks, batch if to_input else 0, inputs)
    return x_gradient, flat.new_empty(networks, flat.shape[1] if to_weights else 0)


def make_fused_step(optimizer: Adam) -> Callable[[], None]:
    """`Adam.step` in one pass over memory."""

    def step() -> None:
        group = optimizer.param_groups[0]
        (parameter,) = group["params"]
        beta_1, beta_2 = group["betas"]
        optimizer.count += 1
        rate = (group["lr"] * torch.ones_like(optimizer.count)).float()
        with torch.no_grad():
            adam_step(
                parameter,
                parameter.grad,
                optimizer.mean,
                optimizer.square,
                rate,
                (1 - beta_1**optimizer.count).float(),
                (1 - beta_2**optimizer.count).float(),
                beta_1,
                beta_2,
                group["eps"],
            )

    return step


@torch.library.custom_op("td3::adam_step", mutates_args=("parameter", "mean", "square"))
def adam_step(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    rate: Tensor,
    correction_1: Tensor,
    correction_2: Tensor,
    beta_1: float,
    beta_2: float,
    eps: float,
) -> None:
    numbers = parameter.shape.numel()  # padding included
    kernels.adam_kernel[(triton.cdiv(numbers, 1024),)](
        parameter,
        gradient,
        mean,
        square,
        rate,
        correction_1,
        correction_2,
        numbers,
        numbers // len(rate),
        beta_1,
        beta_2,
        eps,
        BLOCK=1024,
        num_warps=4,
    )


@adam_step.register_fake
def _(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    rate: Tensor,
    correction_1: Tensor,
    correction_2: Tensor,
    beta_1: float,
    beta_2: float,
    eps: float,
) -> None:
    pass


def pick(ring: Tensor, given: dict[str, Tensor], picked: Tensor) -> None:
    """Step 4 as one kernel: gather rows of `ring`, (agents, capacity, width), into `picked`."""
    agents, capacity, width = ring.shape
    ahead, batch = given["uniform"].shape[2:]
    rows = 4 if agents < FEW else 16
    kernels.sample_kernel[agents, triton.cdiv(batch, rows)](
        ring,
        given["uniform"],
        given["position"],
        given["sizes"],
        picked,
        capacity,
        agents,
        AHEAD=ahead,
        BATCH=batch,
        WIDTH=width,
        PADDED_WIDTH=power_of_two(width),
        ROWS=rows,
        num_warps=4,
    )


def fuse_image_gather(replay: FrameReplay) -> None:
    """Let one kernel gather and shift the images of a copied replay buffer."""
    stored = replay.images  # not `replay`, which will refer to `gather`

    def gather(part: Part, start: int, slots: Tensor, shifts: Tensor) -> Tensor:
        assert part.image
        _, height, width = channels_first(part.image)
        sizes = (part.size, height, width, pixel_width(part.image))
        return cast(Tensor, gather_images(stored, slots, shifts, start, *sizes))

    replay.__dict__["gather_images"] = gather


@torch.library.custom_op("td3::gather_images", mutates_args=())
def gather_images(
    images: Tensor,
    slots: Tensor,
    shifts: Tensor,
    start: int,
    size: int,
    height: int,
    width: int,
    depth: int,
) -> Tensor:
    """`FrameReplay.gather_images`. `size`: bytes per image; `depth`: adjacent bytes per pixel."""
    out = images.new_empty(*slots.shape, size)
    shifts = shifts.flatten(0, 1)
    kernels.pictures_kernel[slots.numel(), triton.cdiv(size, PICTURE_BLOCK)](
        images,
        slots.contiguous(),
        shifts,
        out,
        images.shape[-1],
        start,
        shifts.stride(0),
        SIZE=size,
        STACK=slots.shape[-1],
        HEIGHT=height,
        WIDTH=width,
        BESIDE=depth,
        BLOCK=PICTURE_BLOCK,
        num_warps=4,
    )
    return out


@gather_images.register_fake
def _(
    images: Tensor,
    slots: Tensor,
    shifts: Tensor,
    start: int,
    size: int,
    height: int,
    width: int,
    depth: int,
) -> Tensor:
    return images.new_empty(*slots.shape, size)

"""Random shifts of images: data augmentation when sampling."""

import torch
from torch import Tensor

from td3.errors import UserError
from td3.layout import Part, channel_axis, channels_first


def check_shift(random_shift: int, parts: list[Part]) -> None:
    """Refuse a shift that can move an image out of its frame."""
    for shape in (part.image for part in parts if part.image):
        if random_shift >= min(channels_first(shape)[1:]):
            raise UserError(
                f"agent.random_shift {random_shift} can move images of {shape} out of the frame; "
                "use a smaller value."
            )


def pixel_width(shape: tuple[int, ...]) -> int:
    """How many numbers of one pixel are neighbours in memory: its channels, if they come last."""
    return channels_first(shape)[0] if channel_axis(shape) == 2 else 1


def shift_images(images: Tensor, shape: tuple[int, ...], shifts: Tensor) -> Tensor:
    """Move images (agents, batch, stack, pixels) by (down, right); repeat the pixels at the edge.

    `shifts`: (agents, batch, 2), the same for all images of a stack.
    """
    _, height, width = channels_first(shape)
    depth = pixel_width(shape)
    device, (down, right) = images.device, shifts.flatten(0, 1).unbind(-1)
    samples, lines = len(down), images[0, 0].numel() // (width * depth)
    rows = (torch.arange(height, device=device) - down[:, None]).clamp(0, height - 1)
    columns = (torch.arange(width, device=device) - right[:, None]).clamp(0, width - 1)
    # First choose whole lines, then numbers within each line: both copy long contiguous pieces.
    first_lines = torch.arange(0, samples * lines, height, device=device).view(samples, -1, 1)
    chosen_lines = (first_lines + rows[:, None]).flatten()
    moved = images.reshape(samples * lines, -1).index_select(0, chosen_lines)
    numbers = (columns[..., None] * depth + torch.arange(depth, device=device)).flatten(1)
    moved = moved.view(samples, lines, -1)
    return moved.gather(2, numbers[:, None].expand(-1, lines, -1)).view(images.shape)

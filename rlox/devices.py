"""From one device to another, and how many threads the CPU is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["moved", "torch_threads"]

# Kinds of devices to which pinned memory is copied while the host goes on.
PINNED = ("cuda",)


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """`tensor` on `device`: itself if it is there already.

    What goes from the CPU to a CUDA device goes through pinned memory of its own, so that the host does
    not wait for it and `tensor` may be written to at once.
    """
    if device.type in PINNED and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Run a block with `count` torch threads and put the caller's number back."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

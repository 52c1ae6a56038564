"""From one device to another."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["moved"]

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

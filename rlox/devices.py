"""From one device to another, and how many threads the CPU is given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch
    from torch import Tensor, nn

__all__ = ["is_module", "moved", "torch_threads"]

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
    """Run a block with `count` torch threads and put the caller's number back.

    Where nobody has imported torch there is nothing to set.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def is_module(given: object) -> TypeGuard[nn.Module]:
    """Whether that is a module of torch, which nothing is where nobody has imported torch."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.nn.Module)

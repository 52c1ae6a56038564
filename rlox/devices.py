"""From one device to another, and how many threads the CPU is given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeGuard

from rlox.errors import ConfigError

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch
    from torch import Tensor, nn

__all__ = [
    "imported_torch",
    "inference_mode",
    "is_module",
    "loaded_torch",
    "moved",
    "outside_inference",
    "require_float32",
    "require_unmixed",
    "torch_threads",
]

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


def loaded_torch() -> Any:
    """torch, if anybody has imported it, else None; one that a thread is importing just now is waited for."""
    if sys.modules.get("torch") is None:
        return None
    import torch

    return torch


class _Late:
    """What a block of `torch_threads` asked for where there was no torch, and what is put back after it."""

    wanted: int | None = None
    before: int | None = None


def imported_torch() -> Any:
    """torch, imported if nobody has; within `torch_threads` with the number that is asked for there."""
    import torch

    if _Late.wanted is not None and _Late.before is None:
        _Late.before = torch.get_num_threads()
        torch.set_num_threads(_Late.wanted)
    return torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Run a block with `count` torch threads and put the caller's number back.

    Where nobody has imported torch it is set if `imported_torch` is called in the block.
    """
    torch = loaded_torch()
    if torch is None:
        outer, _Late.wanted = _Late.wanted, count
        try:
            yield
        finally:
            _Late.wanted = outer
            if _Late.before is not None and outer is None:
                loaded_torch().set_num_threads(_Late.before)
                _Late.before = None
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def inference_mode() -> AbstractContextManager[Any]:
    """torch's, where anybody has imported torch; elsewhere there are no gradients to do without."""
    torch = loaded_torch()
    return nullcontext() if torch is None else torch.inference_mode()


def outside_inference() -> AbstractContextManager[Any]:
    """The block in which a learner is made, as if nobody was in a block of torch's inference."""
    torch = loaded_torch()
    inside = torch is not None and torch.is_inference_mode_enabled()
    return torch.inference_mode(False) if inside else nullcontext()


def require_float32() -> None:
    """`ConfigError` where torch makes networks of other numbers than float32, as observations are."""
    import torch

    if (found := torch.get_default_dtype()) != torch.float32:
        raise ConfigError(
            f"torch.get_default_dtype() is {found}, expected torch.float32, of which rlox makes networks; "
            "call torch.set_default_dtype(torch.float32) before, and where they are used"
        )
    _require_numbers(torch)


def require_unmixed() -> None:
    """`ConfigError` where torch would learn in a block that computes in other numbers, or in none."""
    import torch

    for kind in ("cpu", "cuda", "mps"):
        if torch.is_autocast_enabled(kind):
            raise ConfigError(
                f"training inside torch.autocast({kind!r}), which computes in "
                f"{torch.get_autocast_dtype(kind)}, expected torch.float32, in which rlox learns; call train "
                "outside of that block"
            )
    _require_numbers(torch)


def _require_numbers(torch: Any) -> None:
    if torch.get_default_device().type == "meta":
        raise ConfigError(
            "torch.get_default_device() is meta, whose tensors hold no numbers, expected cpu; call "
            "torch.set_default_device('cpu') before"
        )


def is_module(given: object) -> TypeGuard[nn.Module]:
    """Whether that is a module of torch, which nothing is where nobody has imported torch."""
    torch = loaded_torch()
    return torch is not None and isinstance(given, torch.nn.Module)

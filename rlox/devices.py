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
    "import_torch",
    "inference_mode",
    "is_module",
    "leave_inference_mode",
    "require_float32",
    "require_no_autocast",
    "to_device",
    "torch_if_imported",
    "torch_threads",
]

# Kinds of devices to which pinned memory is copied while the host goes on.
PINNED_DEVICES = ("cuda",)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """`tensor` on `device`: itself if it is there already.

    What goes from the CPU to a CUDA device goes through pinned memory of its own, so that the host does
    not wait for it and `tensor` may be written to at once.
    """
    if device.type in PINNED_DEVICES and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def torch_if_imported() -> Any:
    """torch, if anybody has imported it, else None; one that a thread is importing just now is waited for."""
    if sys.modules.get("torch") is None:
        return None
    import torch

    return torch


class _DeferredThreads:
    """What a block of `torch_threads` asked for where there was no torch, and what is put back after it."""

    requested_threads: int | None = None
    previous_threads: int | None = None


def import_torch() -> Any:
    """torch, imported if nobody has; within `torch_threads` with the number that is asked for there."""
    import torch

    if _DeferredThreads.requested_threads is not None and _DeferredThreads.previous_threads is None:
        _DeferredThreads.previous_threads = torch.get_num_threads()
        torch.set_num_threads(_DeferredThreads.requested_threads)
    return torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Run a block with `count` torch threads and put the caller's number back.

    Where nobody has imported torch it is set if `import_torch` is called in the block.
    """
    torch = torch_if_imported()
    if torch is None:
        outer_request, _DeferredThreads.requested_threads = _DeferredThreads.requested_threads, count
        try:
            yield
        finally:
            _DeferredThreads.requested_threads = outer_request
            if _DeferredThreads.previous_threads is not None and outer_request is None:
                torch_if_imported().set_num_threads(_DeferredThreads.previous_threads)
                _DeferredThreads.previous_threads = None
        return
    previous_threads = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(previous_threads)


def inference_mode() -> AbstractContextManager[Any]:
    """torch's, where anybody has imported torch; elsewhere there are no gradients to do without."""
    torch = torch_if_imported()
    return nullcontext() if torch is None else torch.inference_mode()


def leave_inference_mode() -> AbstractContextManager[Any]:
    """The block in which a learner is made, as if nobody was in a block of torch's inference."""
    torch = torch_if_imported()
    is_inference = torch is not None and torch.is_inference_mode_enabled()
    return torch.inference_mode(False) if is_inference else nullcontext()


def require_float32() -> None:
    """`ConfigError` where torch makes networks of other numbers than float32, as observations are."""
    import torch

    if (dtype := torch.get_default_dtype()) != torch.float32:
        raise ConfigError(
            f"torch.get_default_dtype() is {dtype}, expected torch.float32, of which rlox makes networks; "
            "call torch.set_default_dtype(torch.float32) before, and where they are used"
        )
    _require_no_meta_device(torch)


def require_no_autocast() -> None:
    """`ConfigError` where torch would learn in a block that computes in other numbers, or in none."""
    import torch

    for device_type in ("cpu", "cuda", "mps"):
        if torch.is_autocast_enabled(device_type):
            raise ConfigError(
                f"training inside torch.autocast({device_type!r}), which computes in "
                f"{torch.get_autocast_dtype(device_type)}, expected torch.float32, in which rlox learns; "
                "call train outside of that block"
            )
    _require_no_meta_device(torch)


def _require_no_meta_device(torch: Any) -> None:
    if torch.get_default_device().type == "meta":
        raise ConfigError(
            "torch.get_default_device() is meta, whose tensors hold no numbers, expected cpu; call "
            "torch.set_default_device('cpu') before"
        )


def is_module(value: object) -> TypeGuard[nn.Module]:
    """Whether that is a module of torch, which nothing is where nobody has imported torch."""
    torch = torch_if_imported()
    return torch is not None and isinstance(value, torch.nn.Module)

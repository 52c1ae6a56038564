"""Copies between devices, the number of torch's CPU threads, and checks of torch's modes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeGuard

from rlox.errors import ConfigError

if TYPE_CHECKING:  # so that a run with the native engine does not import torch
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

# Device types to which pinned memory is copied asynchronously.
PINNED_DEVICES = ("cuda",)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return `tensor` on `device`: the same tensor if it is there already.

    A copy from the CPU to a CUDA device goes through newly pinned memory, so the host does not wait for it
    and `tensor` may be overwritten at once.
    """
    if device.type in PINNED_DEVICES and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def torch_if_imported() -> Any:
    """Return torch if it has been imported, else None; wait if another thread is importing it."""
    if sys.modules.get("torch") is None:
        return None
    import torch

    return torch


class _DeferredThreads:
    """The thread count that `torch_threads` requested before torch was imported, and the one to restore."""

    requested_threads: int | None = None
    previous_threads: int | None = None


def import_torch() -> Any:
    """Import and return torch; within `torch_threads`, set the thread count requested there."""
    import torch

    if _DeferredThreads.requested_threads is not None and _DeferredThreads.previous_threads is None:
        _DeferredThreads.previous_threads = torch.get_num_threads()
        torch.set_num_threads(_DeferredThreads.requested_threads)
    return torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Run a block with `count` torch threads and restore the previous count afterwards.

    If torch has not been imported yet, the count is set when `import_torch` is called in the block.
    """
    torch = torch_if_imported()
    if torch is None:
        outer_request, _DeferredThreads.requested_threads = _DeferredThreads.requested_threads, count
        try:
            yield
        finally:
            _DeferredThreads.requested_threads = outer_request
            # of nested blocks, the outermost one restores the count
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
    """Return torch's inference mode if torch has been imported, else a context that does nothing."""
    torch = torch_if_imported()
    return nullcontext() if torch is None else torch.inference_mode()


def leave_inference_mode() -> AbstractContextManager[Any]:
    """Return a context without torch's inference mode, in which learners are created."""
    torch = torch_if_imported()
    is_inference = torch is not None and torch.is_inference_mode_enabled()
    return torch.inference_mode(False) if is_inference else nullcontext()


def require_float32() -> None:
    """Raise `ConfigError` unless torch's default dtype is float32, the dtype of observations.

    Also raises it if the default device is `meta`.
    """
    import torch

    if (dtype := torch.get_default_dtype()) != torch.float32:
        raise ConfigError(
            f"torch.get_default_dtype() is {dtype}, expected torch.float32, the dtype of rlox's "
            "networks; call torch.set_default_dtype(torch.float32) before you create and use them"
        )
    _require_no_meta_device(torch)


def require_no_autocast() -> None:
    """Raise `ConfigError` if training runs inside `torch.autocast`, or if the default device is `meta`."""
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
            "torch.set_default_device('cpu') first"
        )


def is_module(value: object) -> TypeGuard[nn.Module]:
    """Return whether `value` is a torch module; false if torch has not been imported."""
    torch = torch_if_imported()
    return torch is not None and isinstance(value, torch.nn.Module)

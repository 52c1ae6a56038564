"""Imitates a device other than the CPU, on any machine.

Its tensors report torch's `meta` device. They hold CPU numbers, and the CPU computes for them. As on a GPU,
they do not mix with CPU tensors, and NumPy cannot read them. `SyncRecorder` lists the operations that would
make the host wait for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rlox import devices
from rlox.rng import Streams
from rlox.training import device

DEVICE = torch.device("meta")
COPIES = ("_to_copy", "copy_")
# Operators whose result, or its size, the host reads.
READS = (
    "_local_scalar_dense",
    "nonzero",
    "equal",
    "masked_select",
    "_unique2",
    "repeat_interleave",
)


class FakeDeviceTensor(Tensor):
    """A tensor on the fake device."""

    cpu_tensor: Tensor  # the same numbers on the CPU

    @staticmethod
    def __new__(cls, cpu_tensor: Tensor) -> FakeDeviceTensor:
        strides, offset = cpu_tensor.stride(), cpu_tensor.storage_offset()
        kind = {"dtype": cpu_tensor.dtype, "device": DEVICE}
        tensor: FakeDeviceTensor = Tensor._make_wrapper_subclass(
            cls, cpu_tensor.size(), strides, offset, **kind
        )
        tensor.cpu_tensor = cpu_tensor
        return tensor

    @property
    def data(self) -> Tensor:
        """The data, as of any tensor; setting it replaces the numbers of a parameter."""
        return torch._C.TensorBase.data.__get__(self)

    @data.setter
    def data(self, other: FakeDeviceTensor) -> None:
        torch._C.TensorBase.data.__set__(self, other)
        self.cpu_tensor = other.cpu_tensor

    def tolist(self) -> Any:
        """Return a list through a CPU copy, as a GPU tensor does."""
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


class _Generator(torch.Generator):
    """Draws the same numbers as a CPU generator."""

    device = DEVICE


class SyncRecorder(TorchDispatchMode):
    """Makes tensors of the fake device on request; `waits` lists the operations that the host waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled here, and skipping dynamo takes seconds of imports.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = _tensors(args, kwargs)
        if requested_device(kwargs) != DEVICE and not any(isinstance(x, FakeDeviceTensor) for x in tensors):
            return func(*args, **kwargs)
        self.waits += host_waits(func.overloadpacket.__name__, args, kwargs)
        return compute(func, args, kwargs)


def install_fake_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `device=cuda` the fake device, inside a `SyncRecorder`."""
    generator = Streams.generator

    def make_generator(self: Streams, name: str, counter: int = 0, device: str = "cpu") -> torch.Generator:
        if device != str(DEVICE):
            return generator(self, name, counter, device)
        return _Generator().manual_seed(self.key(name, counter))

    def pin_memory(tensor: Tensor) -> Tensor:
        copy: Any = tensor.clone()
        copy.pinned = True
        return copy

    monkeypatch.setattr(Streams, "generator", make_generator)
    monkeypatch.setattr(Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(devices, "PINNED_DEVICES", (DEVICE.type,))
    real = device.require_device
    monkeypatch.setattr(device, "require_device", lambda n: str(DEVICE) if n == "cuda" else real(n))
    # In `inference_mode` composite operators would arrive here whole.
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)


def requested_device(kwargs: dict[str, Any]) -> torch.device | None:
    requested = kwargs.get("device")
    return None if requested is None else torch.device(requested)


def host_waits(name: str, args: Any, kwargs: dict[str, Any]) -> list[str]:
    """Return the operations of an operator that the host waits for."""
    if name == "_to_copy":
        source, target = args[0], requested_device(kwargs)
        if target is None or isinstance(source, FakeDeviceTensor) == (target == DEVICE):
            return []
        if target == DEVICE and kwargs.get("non_blocking") and getattr(source, "pinned", False):
            return []
        return ["copied there" if target == DEVICE else "copied from there"]
    if name == "copy_":
        return (
            ["copied"]
            if isinstance(args[0], FakeDeviceTensor) != isinstance(args[1], FakeDeviceTensor)
            else []
        )
    if name in ("index", "index_put_", "index_put"):
        masks = [x for x in _tensors(args[1], {}) if x.dtype == torch.bool]
        return ["indexed by a mask"] if masks else []
    return [name] if name in READS else []


def compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator on the held tensors; the result is on their device or on the requested one."""
    tensors, requested = _tensors(args, kwargs), requested_device(kwargs)
    on_fake_device = [x for x in tensors if isinstance(x, FakeDeviceTensor)]
    mixed = on_fake_device and any(x.dim() and not isinstance(x, FakeDeviceTensor) for x in tensors)
    if mixed and func.overloadpacket.__name__ not in COPIES:
        raise RuntimeError(f"{func}: expected all tensors on one device, one is on the CPU")
    args_held = [map_tensors(x, to_cpu) for x in args]
    kwargs_held = {name: map_tensors(x, to_cpu) for name, x in kwargs.items()}
    if requested is not None:
        kwargs_held["device"] = torch.device("cpu")
    out = func(*args_held, **kwargs_held)
    if requested not in (None, DEVICE):
        return out
    owners = {id(x.cpu_tensor): x for x in on_fake_device}  # owners of tensors that were changed in place
    return map_tensors(out, lambda x: owners[id(x)] if id(x) in owners else FakeDeviceTensor(x))


def to_cpu(tensor: Tensor) -> Tensor:
    return tensor.cpu_tensor if isinstance(tensor, FakeDeviceTensor) else tensor


def _tensors(args: Any, kwargs: dict[str, Any]) -> list[Tensor]:
    """Return the tensors among an operator's arguments, which are values and lists of values."""
    lists = [x if isinstance(x, (list, tuple)) else (x,) for x in (*args, *kwargs.values())]
    return [x for part in lists for x in part if isinstance(x, Tensor)]


def map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return a value, or a list of values, with its tensors changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map_tensors(x, change) for x in value)
    return value

"""A device that is not the CPU, on any machine.

Its tensors say that they are on torch's `meta` device and hold numbers of the CPU, which computes for
them. As with a GPU's, one of them and one of the CPU do not mix, and NumPy reads none. `Watch` lists what
a GPU would let the host wait for.
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
# Operators whose result the host reads, or its size.
READS = (
    "_local_scalar_dense",
    "nonzero",
    "equal",
    "masked_select",
    "_unique2",
    "repeat_interleave",
)


class There(Tensor):
    """Numbers on the pretended device."""

    held: Tensor  # the same on the CPU

    @staticmethod
    def __new__(cls, held: Tensor) -> There:
        strides, offset = held.stride(), held.storage_offset()
        kind = {"dtype": held.dtype, "device": DEVICE}
        made: There = Tensor._make_wrapper_subclass(cls, held.size(), strides, offset, **kind)
        made.held = held
        return made

    @property
    def data(self) -> Tensor:
        """As of any tensor; a parameter that is given other data holds those."""
        return torch._C.TensorBase.data.__get__(self)

    @data.setter
    def data(self, other: There) -> None:
        torch._C.TensorBase.data.__set__(self, other)
        self.held = other.held

    def tolist(self) -> Any:
        """Through a copy, as of a GPU's."""
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


class _Generator(torch.Generator):
    """Draws what a CPU's does."""

    device = DEVICE


class Watch(TorchDispatchMode):
    """Makes tensors of the device where they are asked for; `waits` lists what the host waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and to be skipped takes seconds of imports

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = _tensors(args, kwargs)
        if _asked(kwargs) != DEVICE and not any(isinstance(x, There) for x in given):
            return func(*args, **kwargs)
        self.waits += _waits(func.overloadpacket.__name__, args, kwargs)
        return _computed(func, args, kwargs)


def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """`device=cuda` is the pretended one, inside of a `Watch`."""
    generator = Streams.generator

    def made(self: Streams, name: str, counter: int = 0, device: str = "cpu") -> torch.Generator:
        if device != str(DEVICE):
            return generator(self, name, counter, device)
        return _Generator().manual_seed(self.key(name, counter))

    def pinned(tensor: Tensor) -> Tensor:
        copy: Any = tensor.clone()
        copy.pinned = True
        return copy

    monkeypatch.setattr(Streams, "generator", made)
    monkeypatch.setattr(Tensor, "pin_memory", pinned)
    monkeypatch.setattr(devices, "PINNED", (DEVICE.type,))
    real = device.usable_device
    monkeypatch.setattr(device, "usable_device", lambda n: str(DEVICE) if n == "cuda" else real(n))
    # inside of `inference_mode` operators come here whole that are made of others
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)


def _asked(kwargs: dict[str, Any]) -> torch.device | None:
    asked = kwargs.get("device")
    return None if asked is None else torch.device(asked)


def _waits(name: str, args: Any, kwargs: dict[str, Any]) -> list[str]:
    """What of an operator the host waits for."""
    if name == "_to_copy":
        source, to = args[0], _asked(kwargs)
        if to is None or isinstance(source, There) == (to == DEVICE):
            return []
        if to == DEVICE and kwargs.get("non_blocking") and getattr(source, "pinned", False):
            return []
        return ["copied there" if to == DEVICE else "copied from there"]
    if name == "copy_":
        return ["copied"] if isinstance(args[0], There) != isinstance(args[1], There) else []
    if name in ("index", "index_put_", "index_put"):
        masks = [x for x in _tensors(args[1], {}) if x.dtype == torch.bool]
        return ["indexed by a mask"] if masks else []
    return [name] if name in READS else []


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operator on what the tensors hold; what comes out is where they are, or where it was asked for."""
    given, asked = _tensors(args, kwargs), _asked(kwargs)
    there = [x for x in given if isinstance(x, There)]
    mixed = there and any(x.dim() and not isinstance(x, There) for x in given)
    if mixed and func.overloadpacket.__name__ not in COPIES:
        raise RuntimeError(f"{func}: expected all tensors on one device, one is on the CPU")
    args_held = [_mapped(x, _held) for x in args]
    kwargs_held = {name: _mapped(x, _held) for name, x in kwargs.items()}
    if asked is not None:
        kwargs_held["device"] = torch.device("cpu")
    out = func(*args_held, **kwargs_held)
    if asked not in (None, DEVICE):
        return out
    owners = {id(x.held): x for x in there}  # of what was changed in place
    return _mapped(out, lambda x: owners[id(x)] if id(x) in owners else There(x))


def _held(tensor: Tensor) -> Tensor:
    return tensor.held if isinstance(tensor, There) else tensor


def _tensors(args: Any, kwargs: dict[str, Any]) -> list[Tensor]:
    """Those of an operator's arguments, which are values and lists of them."""
    lists = [x if isinstance(x, (list, tuple)) else (x,) for x in (*args, *kwargs.values())]
    return [x for part in lists for x in part if isinstance(x, Tensor)]


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A value, or a list of them, with its tensors changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(x, change) for x in value)
    return value

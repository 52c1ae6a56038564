"""Named random streams: every draw of a run is a function of (seed, name, counter).

A stream is keyed by its name and does not depend on draws from other streams, so a new stream changes no
other. Its position is a number that a checkpoint can hold. Torch generators are re-keyed at each use:
`streams.generator("action", rollout)` always yields the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING

from rlox._core import stream_seed
from rlox.devices import import_torch

if TYPE_CHECKING:  # so that a run with the native engine does not import torch
    import torch

__all__ = ["Streams", "seeded_default_generators"]


@contextmanager
def seeded_default_generators(key: int, devices: Iterable[torch.device] = ()) -> Iterator[None]:
    """Run a block in which torch's default generators are seeded with `key`.

    This covers the generators of the CPU and of `devices` (each CUDA device and MPS has its own); they are
    restored afterwards. Use it for code that rlox cannot change: module constructors, a user's policy.
    """
    import torch

    with ExitStack() as forked:
        forked.enter_context(torch.random.fork_rng(devices=[]))  # the CPU's
        torch.default_generator.manual_seed(key)
        for device in {d for d in devices if d.type not in ("cpu", "meta")}:
            forked.enter_context(torch.random.fork_rng([device], device_type=device.type))
            start = torch.Generator(device=device).manual_seed(key).get_state()
            torch.get_device_module(device).set_rng_state(start, device)
        yield


class Streams:
    """The random streams of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = int(seed)

    def key(self, name: str, counter: int = 0) -> int:
        """Return a 63-bit key for the stream `name` at `counter`."""
        return stream_seed(self.seed, name, counter)

    def generator(self, name: str, counter: int = 0, device: str = "cpu") -> torch.Generator:
        """Return a torch generator at the start of the stream `(name, counter)`."""
        generator: torch.Generator = import_torch().Generator(device=device)
        return generator.manual_seed(self.key(name, counter))

    def seeded_generators(
        self, name: str, counter: int = 0, device: torch.device | None = None
    ) -> AbstractContextManager[None]:
        """Seed torch's default generators by the stream `(name, counter)`, see `seeded_default_generators`.

        `device` adds the default generator of that device.
        """
        return seeded_default_generators(self.key(name, counter), () if device is None else (device,))

"""Named random streams: every draw of a run is a function of (seed, name, counter).

A stream is keyed by its name and does not depend on draws from other streams, so a new stream changes no
other. Its position is a number that a checkpoint can hold. Torch generators are re-keyed at each use:
`streams.generator("action", rollout)` always yields the same numbers. A lock refuses calls at the same time,
which would mix their random numbers.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlox._core import Stream, stream_seed
from rlox.devices import import_torch
from rlox.errors import RloxError

if TYPE_CHECKING:  # so that a run with the native engine does not import torch
    import torch

__all__ = ["ExclusiveLock", "Streams", "seeded_default_generators", "update_noise"]


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


class ExclusiveLock:
    """A block that only one caller can be in; a second entry raises `RloxError` at once.

    `activity` describes what runs in the block: "PPO is training".
    """

    def __init__(self, activity: str) -> None:
        self._activity, self._lock = activity, threading.Lock()
        self._thread: threading.Thread | None = None  # the thread that holds the lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._raise_in_use()
        self._thread = threading.current_thread()

    def __exit__(self, *_: object) -> None:
        self._thread = None
        self._lock.release()

    def require_free(self, include_own_thread: bool = False) -> None:
        """Raise `RloxError` if another thread is in the block, or, with `include_own_thread`, this thread."""
        if self._thread is not None and (
            include_own_thread or self._thread is not threading.current_thread()
        ):
            self._raise_in_use()

    def _raise_in_use(self) -> None:
        holder = self._thread
        if holder is threading.current_thread():
            raise RloxError(
                f"{self._activity}, expected one call at a time; this call comes from within another, "
                "such as from a callback: make it when the other has returned"
            )
        thread_text = f" in thread {holder.name}" if holder else ""
        raise RloxError(
            f"{self._activity}{thread_text}, expected one call at a time; wait until it has returned, or use "
            "an object for each thread"
        )


def update_noise(seed: int, update: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return standard normal numbers that are a function of the run's seed and the update's number."""
    return Stream(seed, "noise", update).standard_normal(math.prod(shape)).reshape(shape)

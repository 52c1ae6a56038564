"""Named random streams: every draw of a run is a function of (seed, name, counter).

A stream is keyed, never advanced by somebody else's draws, so adding one shifts no other, and a
position is a number that a checkpoint can hold. Torch generators are re-keyed at each use:
`streams.generator("action", rollout)` gives the same numbers whoever asks, whenever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rlox._core import stream_seed

__all__ = ["Streams"]


class Streams:
    """The random streams of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = int(seed)

    def key(self, name: str, counter: int = 0) -> int:
        """A 63-bit key for the stream `name` at `counter`."""
        return stream_seed(self.seed, name, counter)

    def generator(self, name: str, counter: int = 0, device: str = "cpu") -> torch.Generator:
        """A torch generator at the start of the stream `(name, counter)`."""
        return torch.Generator(device=device).manual_seed(self.key(name, counter))

    @contextmanager
    def default(self, name: str, counter: int = 0) -> Iterator[None]:
        """Run a block whose code draws from torch's default generator, leaving that untouched.

        For code that is not ours to change: module constructors, a user's own policy.
        """
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.key(name, counter))
            yield

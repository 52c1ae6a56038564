"""Seeds that are not kept to, and randomness from where no seed reaches."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import numpy as np

from .kinds import Line, broken

ENTROPY = np.random.default_rng(int.from_bytes(os.urandom(8), "big"))  # which nobody can seed


@broken("seed-refused")
class OldReset(Line):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


@broken("options-refused")
class NoOptions(Line):
    def reset(self, *, seed: int | None = None) -> Any:  # type: ignore[override]
        return super().reset(seed=seed)


@broken("seed-ignored")
class IgnoresTheSeed(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset()


@broken("seed-zero-ignored")
class TakesZeroForNone(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed or None)


@broken("seed-large-refused")
class SeedsOf16Bits(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        assert seed is None or seed < 1 << 16
        return super().reset(seed=seed)


@broken("numpy-random")
class DrawsFromNumpy(Line):
    def paid(self) -> Any:
        return super().paid() + np.random.normal()  # noqa: NPY002


@broken("numpy-reseeded")
class SeedsNumpy(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            np.random.seed(seed % 2**32)  # noqa: NPY002
        return super().reset(seed=seed)


@broken("python-random")
class DrawsFromPython(Line):
    def paid(self) -> Any:
        return super().paid() + random.random()


@broken("episodes-repeat")
class SeedsWithWhatItKept(Line):
    """Each reset begins anew with the seed of the first."""

    seed = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.seed = self.seed if seed is None else seed
        return super().reset(seed=self.seed)


@broken("episodes-unseeded")
class NewGeneratorEachTime(Line):
    """Without a seed a reset takes a generator that nobody has seeded."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.np_random = np.random.default_rng(seed)
        return super().reset()


@broken("transitions-random")
class NoiseOfItsOwn(Line):
    def push(self, action: Any) -> float:
        return super().push(action) + 0.1 * float(ENTROPY.normal())


@broken("rewards-random")
class PaysForSpeed(Line):
    def __init__(self) -> None:
        super().__init__()
        self.since = time.perf_counter()

    def paid(self) -> Any:
        return self.since - time.perf_counter()


@broken("ends-random")
class EndsByChance(Line):
    def over(self) -> Any:
        return bool(ENTROPY.random() < 0.2)

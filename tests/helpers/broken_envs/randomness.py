"""Environments that ignore seeds or draw from unseeded generators."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import numpy as np

from .base import Line, register_broken

ENTROPY = np.random.default_rng(int.from_bytes(os.urandom(8), "big"))  # no seed reaches it


@register_broken("seed-refused")
class OldReset(Line):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


@register_broken("options-refused")
class NoOptions(Line):
    def reset(self, *, seed: int | None = None) -> Any:  # type: ignore[override]
        return super().reset(seed=seed)


@register_broken("seed-ignored")
class IgnoresTheSeed(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset()


@register_broken("seed-zero-ignored")
class TakesZeroForNone(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed or None)


@register_broken("seed-large-refused")
class SeedsOf16Bits(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        assert seed is None or seed < 1 << 16
        return super().reset(seed=seed)


@register_broken("numpy-random")
class DrawsFromNumpy(Line):
    def compute_reward(self) -> Any:
        return super().compute_reward() + np.random.normal()  # noqa: NPY002


@register_broken("numpy-reseeded")
class SeedsNumpy(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            np.random.seed(seed % 2**32)  # noqa: NPY002
        return super().reset(seed=seed)


@register_broken("python-random")
class DrawsFromPython(Line):
    def compute_reward(self) -> Any:
        return super().compute_reward() + random.random()


@register_broken("episodes-repeat")
class ReusesFirstSeed(Line):
    """Each reset starts again with the seed of the first reset."""

    seed = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.seed = self.seed if seed is None else seed
        return super().reset(seed=self.seed)


@register_broken("episodes-unseeded")
class NewGeneratorEachTime(Line):
    """A reset without a seed makes a new unseeded generator."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.np_random = np.random.default_rng(seed)
        return super().reset()


@register_broken("transitions-random")
class NoiseOfItsOwn(Line):
    def action_force(self, action: Any) -> float:
        return super().action_force(action) + 0.1 * float(ENTROPY.normal())


@register_broken("rewards-random")
class PaysForSpeed(Line):
    def __init__(self) -> None:
        super().__init__()
        self.since = time.perf_counter()

    def compute_reward(self) -> Any:
        return self.since - time.perf_counter()


@register_broken("ends-random")
class EndsByChance(Line):
    def is_terminated(self) -> Any:
        return bool(ENTROPY.random() < 0.2)

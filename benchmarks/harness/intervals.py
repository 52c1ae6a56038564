"""Ratios of medians with percentile-bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000


@dataclass(frozen=True)
class Ratio:
    """How many times as long the peer takes, with a 95% interval."""

    value: float
    low: float
    high: float


def ratio_of_medians(ours: Sequence[float], peer: Sequence[float], seed: int = 0) -> Ratio:
    """median(peer) / median(ours), both `[rounds]`.

    A round's samples were taken side by side, so rounds are resampled as pairs (10,000 times).
    """
    ours_s, peer_s = np.asarray(ours, np.float64), np.asarray(peer, np.float64)
    rounds = np.random.default_rng(seed).integers(0, ours_s.size, (RESAMPLES, ours_s.size))
    draws = np.median(peer_s[rounds], axis=1) / np.median(ours_s[rounds], axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return Ratio(float(np.median(peer_s) / np.median(ours_s)), float(low), float(high))

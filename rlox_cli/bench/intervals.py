"""Ratios of medians with percentile-bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
PASS_RESAMPLES = 400  # resamples of passes
LOW_QUANTILE = 0.2  # the quantile of a pass's rounds that counts
MIN_PASSES = 7  # passes of which some may lie far off
# Median deviations in a standard deviation: 1.4826 for many normal numbers, 1.1 times that for nine.
MAD_TO_STD = 1.4826 * 1.1


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


@dataclass(frozen=True)
class RatioEstimate:
    """The ratio that several passes found, as a logarithm, and its standard error."""

    log_ratio: float
    log_error: float
    low: float  # of a 95% interval, as ratios
    high: float

    @property
    def ratio(self) -> float:
        """The ratio itself."""
        return float(np.exp(self.log_ratio))

    @property
    def relative_error(self) -> float:
        """The standard error as a share of the ratio."""
        return float(np.expm1(self.log_error))


def estimate_ratio(passes: Sequence[tuple[Sequence[float], Sequence[float]]], seed: int = 0) -> RatioEstimate:
    """Ours over the yardstick's; of each pass the seconds of both, a number a round.

    Others' work only adds to a time, so of the rounds of a pass the low ones count (`LOW_QUANTILE`), and of
    the passes the median. Rounds of one pass share a process, its memory and its minute: what passes differ
    by is the error, whatever the few differ by that had a bad minute. Of fewer than `MIN_PASSES` passes
    nobody can say which those are. The interval resamples passes, and rounds within each, as pairs.
    """
    rng = np.random.default_rng(seed)
    values, draws = [], []
    for ours, yardstick in passes:
        log_seconds = np.log(np.array([ours, yardstick], np.float64))
        values.append(_log_ratio(log_seconds))
        rounds = rng.integers(0, log_seconds.shape[1], (PASS_RESAMPLES, log_seconds.shape[1]))
        draws.append(_log_ratio(log_seconds[:, rounds]))
    logs = np.array(values)
    # of a median the variance is pi / 2 times that of a mean, for normal numbers
    error = np.sqrt(np.pi / 2 / logs.size) * _spread(logs, draws)
    indices = rng.integers(0, logs.size, (PASS_RESAMPLES, logs.size))
    medians = np.median(np.take_along_axis(np.stack(draws, axis=1), indices, axis=1), axis=1)
    low, high = np.exp(np.quantile(medians, [0.025, 0.975]))
    return RatioEstimate(float(np.median(logs)), float(error), float(low), float(high))


def _spread(logs: NDArray[np.float64], draws: Sequence[NDArray[np.float64]]) -> float:
    """The standard deviation of passes, by the median deviation where there are enough of them; of few
    not less than what their rounds leave open, as few may lie close to each other by chance.
    """
    if logs.size >= MIN_PASSES:
        return float(MAD_TO_STD * np.median(np.abs(logs - np.median(logs))))
    between = float(np.var(logs, ddof=1)) if logs.size > 1 else 0.0
    return float(np.sqrt(max(between, np.mean([np.var(each) for each in draws]))))


def _log_ratio(log_seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """The difference of the low ones of both, `[2, ..., rounds]` -> `[...]`."""
    ours, yardstick = np.quantile(log_seconds, LOW_QUANTILE, axis=-1)
    return np.asarray(ours - yardstick)

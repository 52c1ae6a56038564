"""Ratios of medians with percentile-bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
PASS_RESAMPLES = 400  # resamples of passes
LOW_QUANTILE = 0.2  # quantile of a pass's rounds that represents the pass
MIN_PASSES = 7  # with this many passes or more, outliers among them can be recognised
# Standard deviation per median absolute deviation: 1.4826 for many normal numbers, 1.1 times that for nine.
MAD_TO_STD = 1.4826 * 1.1


@dataclass(frozen=True)
class Ratio:
    """The peer's time divided by ours, with a 95% interval."""

    value: float
    low: float
    high: float


def ratio_of_medians(ours: Sequence[float], peer: Sequence[float], seed: int = 0) -> Ratio:
    """Return median(peer) / median(ours), both `[rounds]`.

    A round's samples were taken side by side, so rounds are resampled as pairs (10,000 times).
    """
    ours_s, peer_s = np.asarray(ours, np.float64), np.asarray(peer, np.float64)
    rounds = np.random.default_rng(seed).integers(0, ours_s.size, (RESAMPLES, ours_s.size))
    draws = np.median(peer_s[rounds], axis=1) / np.median(ours_s[rounds], axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return Ratio(float(np.median(peer_s) / np.median(ours_s)), float(low), float(high))


@dataclass(frozen=True)
class RatioEstimate:
    """The ratio over several passes, as a logarithm, and its standard error."""

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
    """Estimate our time divided by the yardstick's.

    A pass has the seconds of both, one number per round. Other processes only add to a time, so a low
    quantile of the rounds (`LOW_QUANTILE`) represents a pass, and the estimate is the median over passes.
    Rounds of one pass share a process, its memory and its minute, so the error is the spread between passes,
    without the few that had a bad minute. With fewer than `MIN_PASSES` passes those cannot be identified. The
    interval resamples passes, and rounds within each, as pairs.
    """
    rng = np.random.default_rng(seed)
    values, draws = [], []
    for ours, yardstick in passes:
        log_seconds = np.log(np.array([ours, yardstick], np.float64))
        values.append(_log_ratio(log_seconds))
        rounds = rng.integers(0, log_seconds.shape[1], (PASS_RESAMPLES, log_seconds.shape[1]))
        draws.append(_log_ratio(log_seconds[:, rounds]))
    logs = np.array(values)
    # for normal numbers, the variance of a median is pi / 2 times that of a mean
    error = np.sqrt(np.pi / 2 / logs.size) * _spread(logs, draws)
    indices = rng.integers(0, logs.size, (PASS_RESAMPLES, logs.size))
    medians = np.median(np.take_along_axis(np.stack(draws, axis=1), indices, axis=1), axis=1)
    low, high = np.exp(np.quantile(medians, [0.025, 0.975]))
    return RatioEstimate(float(np.median(logs)), float(error), float(low), float(high))


def _spread(logs: NDArray[np.float64], draws: Sequence[NDArray[np.float64]]) -> float:
    """Return the standard deviation of passes, from the median absolute deviation if there are enough.

    With few passes it is at least the spread over resampled rounds: a few may be close by chance.
    """
    if logs.size >= MIN_PASSES:
        return float(MAD_TO_STD * np.median(np.abs(logs - np.median(logs))))
    pass_variance = float(np.var(logs, ddof=1)) if logs.size > 1 else 0.0
    return float(np.sqrt(max(pass_variance, np.mean([np.var(each) for each in draws]))))


def _log_ratio(log_seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the low quantile of our log seconds minus the yardstick's: `[2, ..., rounds]` -> `[...]`."""
    ours, yardstick = np.quantile(log_seconds, LOW_QUANTILE, axis=-1)
    return np.asarray(ours - yardstick)

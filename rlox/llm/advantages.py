"""Advantages of completions relative to others of the same prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlox._core import compute_batch_group_advantages
from rlox.errors import ConfigError, ShapeError
from rlox.masked_arrays import is_masked

__all__ = ["group_advantages", "leave_one_out_advantages", "weighted_rewards"]

EPS = 1e-4  # added to a standard deviation, as in TRL
Rewards = NDArray[np.floating[Any]]
NON_NUMERIC_TYPES = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64)


def group_advantages(
    rewards: Rewards,
    group_size: int,
    weights: Sequence[float] | None = None,
    scale: Literal["group", "batch", "none"] = "group",
    aggregation: Literal["sum_then_normalize", "normalize_then_sum"] = "sum_then_normalize",
) -> NDArray[np.float32]:
    """Compute GRPO's advantages (Shao et al. 2024, arXiv:2402.03300, section 4.1.2), as in TRL.

    An advantage is (r - mean of the group) / (sample deviation of the group + 1e-4), with r the weighted sum
    of rewards.

    Parameters
    ----------
    rewards : rewards of completions by each function, `[B, F]`, or `[B]` for one function; completions of a
        prompt are adjacent. NaN means no reward: it adds nothing to a sum, and a completion without any
        reward is excluded from its group and gets the advantage 0
    group_size : completions per prompt; it divides B
    weights : weights of the functions; None: 1 each
    scale : the standard deviation is that of each group or of the whole batch; `none` does not divide by one
        (Liu et al. 2025, arXiv:2503.20783)
    aggregation : normalize_then_sum computes the advantages of each function in each group, regardless of
        `scale`, and standardises their weighted sum over the batch (Liu et al. 2026, GDPO, arXiv:2601.05242)

    Returns float32 `[B]`.
    """
    for name, option_value, allowed in (
        ("scale", scale, ("group", "batch", "none")),
        ("aggregation", aggregation, ("sum_then_normalize", "normalize_then_sum")),
    ):
        if option_value not in allowed:
            raise ConfigError(f"{name}={option_value}, expected one of {', '.join(allowed)}")
    table = _reward_table(rewards, group_size)
    reward_weights = _reward_weights(weights, table.shape[1])
    if aggregation == "normalize_then_sum":
        groups = table.reshape(-1, group_size, table.shape[1])
        standardized = _standardize(groups, axis=1).reshape(table.shape)
        return _finite_float32(_standardize(_weighted_sum(standardized, reward_weights, table), axis=None))
    total = _weighted_sum(table, reward_weights, table)
    if not np.isnan(total).any():  # the common case, in Rust; the results are equal up to rounding
        advantages = compute_batch_group_advantages(total, group_size, scale=scale, ddof=1, eps=EPS)
        return advantages.astype(np.float32)
    rows = total.reshape(-1, group_size)
    centered = rows - _nan_mean(rows, 1)
    if scale == "none":
        return _finite_float32(centered)
    std = _sample_std(rows, 1 if scale == "group" else None)
    return _finite_float32(centered / (std + EPS))


def leave_one_out_advantages(rewards: Rewards, group_size: int) -> NDArray[np.float32]:
    """Compute RLOO's advantages: each reward minus the mean of the others in its group.

    Ahmadian et al. 2024, arXiv:2402.14740, eq. 7.
    `[B]` -> float32 `[B]`. A completion without a reward (NaN), or with the only reward of its group, gets 0.
    """
    if np.ndim(rewards) != 1:
        raise ShapeError(f"rewards {list(np.shape(rewards))}: expected [B]")
    groups = _reward_table(rewards, group_size).reshape(-1, group_size)
    n_others = (~np.isnan(groups)).sum(1, keepdims=True) - 1
    mean = (np.nansum(groups, 1, keepdims=True) - groups) / np.maximum(n_others, 1)
    return _finite_float32(np.where(n_others > 0, groups - mean, 0.0))


def _reward_table(rewards: Rewards, group_size: int) -> NDArray[np.float64]:
    """Return rewards as `[B, F]`; an error unless groups are complete and have at least two completions."""
    table = _parse_numbers(rewards, "rewards")
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or not table.size:
        raise ShapeError(f"rewards {list(table.shape)}: expected [B] or [B, F], at least one")
    is_integer = isinstance(group_size, (int, np.integer)) and not isinstance(group_size, bool)
    if not is_integer or group_size < 2 or len(table) % group_size:
        raise ConfigError(
            f"group_size={group_size} and {len(table)} completions: expected groups of at least 2, all full"
        )
    if np.isinf(table).any():
        raise ConfigError(f"reward {table[np.isinf(table)][0]}: expected numbers, or NaN for none")
    return table


def _parse_numbers(value: Any, label: str) -> NDArray[np.float64]:
    """Convert to a float array; an error for text, dates, complex and masked values, which NumPy accepts."""
    if is_masked(value):
        raise ConfigError(f"{label}: some are masked, expected numbers, or NaN for none")
    try:
        array = np.asarray(value)
        value_types = {type(item) for item in array.flat} if array.dtype.kind == "O" else {array.dtype.type}
        if not any(issubclass(value_type, NON_NUMERIC_TYPES) for value_type in value_types):
            return array.astype(np.float64)
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise ShapeError(f"{label} {value!r:.80}: expected an array of numbers: {error}") from error
    raise ConfigError(f"{label} {value!r:.80}: expected numbers")


def weighted_rewards(
    rewards: NDArray[np.float64], weights: Sequence[float] | None = None
) -> NDArray[np.float64]:
    """Return weighted sums `[B]` of rewards `[B, F]`; NaN for a completion without any reward."""
    return _weighted_sum(rewards, _reward_weights(weights, rewards.shape[1]), rewards)


def _reward_weights(weights: Sequence[float] | None, n_functions: int) -> NDArray[np.float64]:
    """Return one weight for each function."""
    reward_weights = np.ones(n_functions) if weights is None else _parse_numbers(weights, "weights")
    if reward_weights.shape != (n_functions,):
        count_text = len(reward_weights) if reward_weights.ndim == 1 else f"{list(reward_weights.shape)}"
        raise ShapeError(f"{count_text} weights for {n_functions} rewards of each completion")
    if not np.isfinite(reward_weights).all():
        raise ConfigError(f"weights {reward_weights.tolist()}: expected finite numbers")
    return reward_weights


def _weighted_sum(
    values: NDArray[np.float64], reward_weights: NDArray[np.float64], rewards: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return weighted sums `[B]` of `values`; NaN for a completion without any reward."""
    total = np.nansum(values * reward_weights, axis=1)
    return np.where(np.isnan(rewards).all(1), np.nan, total)


def _nan_mean(x: NDArray[np.float64], axis: int | None) -> NDArray[np.float64]:
    """Return the mean without NaN; NaN if nothing is left."""
    is_present = ~np.isnan(x)
    count = is_present.sum(axis, keepdims=True)
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = np.where(is_present, x, 0.0).sum(axis, keepdims=True) / count
    return means


def _sample_std(x: NDArray[np.float64], axis: int | None) -> NDArray[np.float64]:
    """Return the sample standard deviation without NaN; NaN for fewer than two values."""
    count = (~np.isnan(x)).sum(axis, keepdims=True)
    square = np.square(x - _nan_mean(x, axis))
    with np.errstate(invalid="ignore", divide="ignore"):
        stds: NDArray[np.float64] = np.sqrt(
            _nan_mean(square, axis) * count / np.where(count > 1, count - 1, np.nan)
        )
    return stds


def _standardize(x: NDArray[np.float64], axis: int | None) -> NDArray[np.float64]:
    return (x - _nan_mean(x, axis)) / (_sample_std(x, axis) + EPS)


def _finite_float32(advantages: NDArray[np.float64]) -> NDArray[np.float32]:
    """Flatten to float32, with 0 for NaN."""
    return np.nan_to_num(advantages.ravel(), nan=0.0).astype(np.float32)

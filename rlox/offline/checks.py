"""Checks of a dataset for errors and probable mistakes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlox.offline.description import episode_lengths
from rlox.sources.file_columns import iter_blocks

__all__ = ["Finding", "find_problems"]

MIN_FRACTION = 0.5  # if at least this part of the terminated episodes ends at one length, it is a time limit
MIN_COUNT = 3  # number of episodes; if fewer end at one length, that means nothing

Columns = Mapping[str, Any]  # as `read_dataset` returns them


@dataclass(frozen=True)
class Finding:
    """A problem of a dataset, with a stable code."""

    code: str
    severity: Literal["error", "warning"]
    message: str


def find_problems(columns: Columns, metadata: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield all findings in the columns and the metadata of a dataset."""
    for check in (
        _check_numbers,
        _check_next_obs,
        _check_flags,
        _check_time_limits,
        _check_actions,
        _check_episodes,
    ):
        yield from check(columns, metadata)


def _check_numbers(columns: Columns, metadata: Mapping[str, Any]) -> Iterator[Finding]:
    for name in ("obs", "next_obs", "actions", "rewards"):
        column = columns[name]
        if column.dtype.kind != "f":
            continue
        is_bad = np.concatenate(
            [~np.isfinite(rows).reshape(len(rows), -1).all(1) for _, (rows,) in iter_blocks(column)]
        )
        if is_bad.any():
            first_row = int(np.flatnonzero(is_bad)[0])
            yield Finding(
                "not_finite",
                "error",
                f"{name} is NaN or infinite in {int(is_bad.sum()):,} rows, the first is row {first_row}; "
                "every algorithm refuses such rows: remove their episodes",
            )


def _check_next_obs(columns: Columns, metadata: Mapping[str, Any]) -> Iterator[Finding]:
    """Check that, within an episode, `next_obs` of a row equals `obs` of the next row."""
    is_inside = ~(columns["terminated"] | columns["truncated"])[:-1]
    masks = [
        _rows_differ(next_obs[:-1], obs[1:])
        for _, (next_obs, obs) in iter_blocks(columns["next_obs"], columns["obs"], overlap=1)
    ]
    is_different = np.concatenate(masks) & is_inside
    if is_different.any():
        first_row = int(np.flatnonzero(is_different)[0])
        yield Finding(
            "next_obs",
            "error",
            f"next_obs of {int(is_different.sum()):,} of {int(is_inside.sum()):,} rows inside episodes is "
            f"not the obs of the next row, the first is row {first_row}: an end of an episode is not "
            "marked, or the rows are not in time order",
        )


def _rows_differ(next_obs: NDArray[Any], obs: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows differ; NaN equals NaN."""
    is_equal = (next_obs == obs) | ((next_obs != next_obs) & (obs != obs))
    is_different: NDArray[np.bool_] = ~is_equal.all(axis=tuple(range(1, is_equal.ndim)))
    return is_different


def _check_flags(columns: Columns, metadata: Mapping[str, Any]) -> Iterator[Finding]:
    is_both = columns["terminated"] & columns["truncated"]
    if is_both.any():
        yield Finding(
            "both_ends",
            "warning",
            f"{int(is_both.sum()):,} rows are both terminated and truncated; they count as terminations",
        )


def _check_time_limits(columns: Columns, metadata: Mapping[str, Any]) -> Iterator[Finding]:
    """Check for many terminations at the time limit or at the longest length: probably truncations."""
    lengths = episode_lengths(columns)
    if not len(lengths):
        return
    is_end = columns["terminated"] | columns["truncated"]
    is_terminated_only = (columns["terminated"] & ~columns["truncated"])[
        is_end
    ]  # with both flags, an episode terminated just at its time limit: no mistake
    is_registered = _registered_time_limit(metadata) is not None
    limit = _registered_time_limit(metadata) or int(lengths.max())
    terminated, n_at_limit = lengths[is_terminated_only], int((lengths == limit).sum())
    at_limit = int((terminated == limit).sum())
    is_rare = at_limit < (1 if is_registered else MIN_COUNT) or at_limit < MIN_FRACTION * (
        n_at_limit if is_registered else len(terminated)
    )
    if is_rare or limit == 1:
        return
    limit_text = "the environment's time limit" if is_registered else "the longest episode's length"
    yield Finding(
        "time_limit",
        "error" if is_registered else "warning",
        f"{at_limit:,} of {len(terminated):,} terminations are at {limit:,} steps, {limit_text}: time limits "
        "are marked as terminations, so no value is bootstrapped there; mark them as truncations: "
        f"rlox dataset convert DATA to=OTHER time_limit={limit}",
    )


def _registered_time_limit(metadata: Mapping[str, Any]) -> int | None:
    """Return the registered time limit from the dataset's spec text, without importing the environment."""
    try:
        limit = json.loads(metadata.get("spec") or "{}").get("max_episode_steps")
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None
    return limit if isinstance(limit, int) and limit > 0 else None


def _check_actions(columns: Columns, metadata: Mapping[str, Any]) -> Iterator[Finding]:
    """Check for negative discrete actions, and for action components that are constant over all rows."""
    column = columns["actions"]
    if column.dtype.kind == "i":
        min_choice = min(int(rows.min()) for _, (rows,) in iter_blocks(column))
        if min_choice < 0:
            yield Finding(
                "negative_choice",
                "error",
                f"the smallest discrete action is {min_choice}; expected choices from 0",
            )
    first_action = column[:1].reshape(-1)
    masks = [(rows.reshape(len(rows), -1) == first_action).all(0) for _, (rows,) in iter_blocks(column)]
    constant_columns = np.flatnonzero(np.logical_and.reduce(masks))
    if len(constant_columns) and len(column) > 1:
        yield Finding(
            "constant_action",
            "warning",
            f"component {int(constant_columns[0])} of the actions is {first_action[constant_columns[0]]:g} "
            "in all rows: nothing can be learned about other values",
        )


def _check_episodes(columns: Columns, metadata: Mapping[str, Any]) -> Iterator[Finding]:
    if not (columns["terminated"] | columns["truncated"]).any():
        yield Finding(
            "no_end",
            "warning",
            "no episode ends: returns are unknown, and all rows count as one episode",
        )

"""What is wrong with a dataset, or probably not meant."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlox.offline.description import lengths_of
from rlox.sources.file_columns import blocks

__all__ = ["Finding", "findings"]

MOSTLY = 0.5  # of the episodes that are said to terminate: so many at one length are no accident
FEW = 3  # episodes of which nothing is concluded

Columns = Mapping[str, Any]  # as `read_dataset` gives them


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, by a code that stays."""

    code: str
    severity: Literal["error", "warning"]
    message: str


def findings(columns: Columns, about: Mapping[str, Any]) -> Iterator[Finding]:
    """Everything that is found in the columns of a dataset, and in what it says of itself."""
    for look in (_numbers, _next_obs, _flags, _time_limits, _actions, _episodes):
        yield from look(columns, about)


def _numbers(columns: Columns, about: Mapping[str, Any]) -> Iterator[Finding]:
    for name in ("obs", "next_obs", "actions", "rewards"):
        column = columns[name]
        if column.dtype.kind != "f":
            continue
        bad = np.concatenate(
            [~np.isfinite(rows).reshape(len(rows), -1).all(1) for _, (rows,) in blocks(column)]
        )
        if bad.any():
            where = int(np.flatnonzero(bad)[0])
            yield Finding(
                "not_finite",
                "error",
                f"{name} is NaN or infinite in {int(bad.sum()):,} rows, the first is row {where}; such rows "
                "are refused by every algorithm: leave their episodes out",
            )


def _next_obs(columns: Columns, about: Mapping[str, Any]) -> Iterator[Finding]:
    """Within an episode what a step led to is what the next one saw."""
    goes_on = ~(columns["terminated"] | columns["truncated"])[:-1]
    parts = [
        _apart(led[:-1], seen[1:])
        for _, (led, seen) in blocks(columns["next_obs"], columns["obs"], overlap=1)
    ]
    apart = np.concatenate(parts) & goes_on
    if apart.any():
        where = int(np.flatnonzero(apart)[0])
        yield Finding(
            "next_obs",
            "error",
            f"next_obs of {int(apart.sum()):,} of {int(goes_on.sum()):,} rows inside episodes is not the obs "
            f"of the row behind, the first is row {where}: an end of an episode is not marked, or rows are "
            "in another order than they were played in",
        )


def _apart(led: NDArray[Any], seen: NDArray[Any]) -> NDArray[np.bool_]:
    """In which rows these are not the same; NaN is NaN."""
    same = (led == seen) | ((led != led) & (seen != seen))
    apart: NDArray[np.bool_] = ~same.all(axis=tuple(range(1, same.ndim)))
    return apart


def _flags(columns: Columns, about: Mapping[str, Any]) -> Iterator[Finding]:
    both = columns["terminated"] & columns["truncated"]
    if both.any():
        yield Finding(
            "both_ends",
            "warning",
            f"{int(both.sum()):,} rows are terminated and truncated; they are learned from as terminations",
        )


def _time_limits(columns: Columns, about: Mapping[str, Any]) -> Iterator[Finding]:
    """Ends at one length, the longest, which are said to be terminations."""
    lengths = lengths_of(columns)
    if not len(lengths):
        return
    ended = columns["terminated"] | columns["truncated"]
    only = (columns["terminated"] & ~columns["truncated"])[ended]  # else it ended on the last step
    told = _limit(about) is not None
    limit = _limit(about) or int(lengths.max())
    terminated, reached = lengths[only], int((lengths == limit).sum())
    at_limit = int((terminated == limit).sum())
    few = at_limit < (1 if told else FEW) or at_limit < MOSTLY * (
        reached if told else len(terminated)
    )
    if few or limit == 1:
        return
    known = "the environment's time limit" if told else "the longest episode's length"
    yield Finding(
        "time_limit",
        "error" if told else "warning",
        f"{at_limit:,} of {len(terminated):,} terminations are at {limit:,} steps, {known}: time limits are "
        "marked as terminations, so that what comes behind them would count for nothing; mark them so, "
        f"rlox dataset convert DATA to=OTHER time_limit={limit}",
    )


def _limit(about: Mapping[str, Any]) -> int | None:
    """The time limit that Gymnasium has registered, as the dataset has it as text; nothing is imported."""
    try:
        limit = json.loads(about.get("spec") or "{}").get("max_episode_steps")
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None
    return limit if isinstance(limit, int) and limit > 0 else None


def _actions(columns: Columns, about: Mapping[str, Any]) -> Iterator[Finding]:
    """An action that never changes teaches nothing."""
    column = columns["actions"]
    if column.dtype.kind == "i":
        least = min(int(rows.min()) for _, (rows,) in blocks(column))
        if least < 0:
            yield Finding(
                "negative_choice",
                "error",
                f"the actions are whole numbers from {least} on, expected choices from 0: no environment has "
                "such a one",
            )
    first = column[:1].reshape(-1)
    parts = [(rows.reshape(len(rows), -1) == first).all(0) for _, (rows,) in blocks(column)]
    constant = np.flatnonzero(np.logical_and.reduce(parts))
    if len(constant) and len(column) > 1:
        yield Finding(
            "constant_action",
            "warning",
            f"number {int(constant[0])} of the actions is {first[constant[0]]:g} in all rows: no other "
            "value of it can be learned from",
        )


def _episodes(columns: Columns, about: Mapping[str, Any]) -> Iterator[Finding]:
    if not (columns["terminated"] | columns["truncated"]).any():
        yield Finding(
            "no_end",
            "warning",
            "no episode ends: returns are not known, and rows that follow each other count as one episode",
        )

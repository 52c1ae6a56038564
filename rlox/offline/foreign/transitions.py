"""Conversion of foreign columns to the transitions of a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.errors import CheckpointError, ConfigError
from rlox.offline.foreign.formats import ColumnBlock

__all__ = ["DERIVED_KEY", "to_transitions"]

DERIVED_KEY = "next_obs_derived"  # metadata key: `next_obs` was derived, not a column of the file
UNKNOWN_NEXT_KEY = "lost"  # column that marks rows whose true `next_obs` is unknown


def to_transitions(
    blocks: Iterable[ColumnBlock],
    source_name: str,
    time_limit: int | None = None,
    metadata_out: MutableMapping[str, Any] | None = None,
) -> Iterator[ColumnBlock]:
    """Yield blocks with the dtypes and all columns of a dataset.

    If `next_obs` is missing, it is the next row's `obs`. A truncated step is then dropped, because its next
    observation is unknown, and the step before it is marked as truncated. After a termination `next_obs` has
    no effect, so `obs` is used. `time_limit` is the number of steps after which episodes were cut off: every
    end at that length becomes a truncation. `metadata_out` records that `next_obs` was derived; if it says so
    already, rows that `time_limit` now truncates are dropped in the same way.
    """
    metadata: MutableMapping[str, Any] = {} if metadata_out is None else metadata_out
    return _with_next_obs(
        _with_time_limit(_check_columns(blocks, source_name, time_limit, metadata), time_limit, metadata)
    )


def _check_columns(
    blocks: Iterable[ColumnBlock],
    source_name: str,
    time_limit: int | None,
    metadata: MutableMapping[str, Any],
) -> Iterator[ColumnBlock]:
    for block in blocks:
        if "next_obs" not in block:
            metadata[DERIVED_KEY] = True
        if "truncated" not in block and time_limit is None:
            raise ConfigError(
                f"{source_name} has no timeouts, so truncated episodes are unknown; give time_limit=N, the "
                "steps after which episodes were truncated, or if none was, more steps than any episode has"
            )
        yield _cast_columns(block, source_name)


def _cast_columns(block: ColumnBlock, source_name: str) -> ColumnBlock:
    """Cast columns to the dtypes of a dataset; observations become rows."""
    cast_columns: ColumnBlock = {}
    for name in ("obs", "next_obs"):
        if name in block:
            rows = block[name].reshape(len(block[name]), -1)
            cast_columns[name] = rows if rows.dtype == np.uint8 else _to_float32(name, rows, source_name)
    actions = block["actions"]
    if actions.dtype.kind == "f":
        cast_columns["actions"] = _to_float32("actions", actions, source_name)
    else:
        cast_columns["actions"] = actions.astype(np.int64)
    cast_columns["rewards"] = _to_float32(
        "rewards", _flatten_column("rewards", block, source_name), source_name
    )
    for name in ("terminated", "truncated"):
        flags = (
            _flatten_column(name, block, source_name)
            if name in block
            else np.zeros(len(cast_columns["rewards"]), bool)
        )
        if not np.isin(flags, (0, 1)).all():
            raise CheckpointError(
                f"{source_name}: {name} has {flags[~np.isin(flags, (0, 1))][0]}, expected 0 or 1"
            )
        cast_columns[name] = flags.astype(np.bool_)
    return cast_columns


def _to_float32(name: str, column: NDArray[np.generic], source_name: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        rows = column.astype(np.float32)
    if not (np.isfinite(rows) | ~np.isfinite(column)).all():
        raise CheckpointError(f"{source_name}: {name} has numbers beyond float32")
    return rows


def _flatten_column(name: str, block: ColumnBlock, source_name: str) -> NDArray[np.generic]:
    column: NDArray[np.generic] = block[name]
    if column.size != len(column):
        raise ConfigError(f"{source_name}: {name} has shape {column.shape}, expected one number a row")
    return column.reshape(-1)


def _with_time_limit(
    blocks: Iterable[ColumnBlock], time_limit: int | None, metadata: Mapping[str, Any]
) -> Iterator[ColumnBlock]:
    """Mark ends at `time_limit` as truncations; add `UNKNOWN_NEXT_KEY` if `next_obs` was derived earlier."""
    steps_before = 0  # steps of the current episode in earlier blocks
    for block in blocks:
        if time_limit is not None:
            n = len(block["rewards"])
            is_end = block["terminated"] | block["truncated"]
            last_rows = np.flatnonzero(is_end)
            starts = np.repeat(
                np.concatenate([[-steps_before], last_rows + 1]), np.diff(last_rows, prepend=-1, append=n - 1)
            )
            step_numbers = np.arange(n) - starts + 1
            is_at_limit = step_numbers % time_limit == 0
            if "next_obs" in block and metadata.get(DERIVED_KEY):
                # a derived `next_obs` is, at a termination, the row's `obs`; else perhaps of the next episode
                block[UNKNOWN_NEXT_KEY] = is_at_limit & (block["terminated"] | ~block["truncated"])
            block["terminated"] = block["terminated"] & ~is_at_limit
            block["truncated"] = block["truncated"] | is_at_limit
            steps_before = 0 if n and is_end[-1] else int(step_numbers[-1]) if n else steps_before
        yield block


def _with_next_obs(blocks: Iterable[ColumnBlock]) -> Iterator[ColumnBlock]:
    """Add `next_obs`; where it is missing or unknown, the last row of a block waits for the next block."""
    last_row: ColumnBlock | None = None
    for block in blocks:
        if not len(block["rewards"]):
            continue
        if "next_obs" in block and UNKNOWN_NEXT_KEY not in block:
            yield block
            continue
        joined = block if last_row is None else {n: np.concatenate([last_row[n], block[n]]) for n in block}
        yield from _rows_with_next_obs(joined)
        last_row = {name: column[-1:] for name, column in joined.items()}
    if (
        last_row is not None
        and (~last_row[UNKNOWN_NEXT_KEY] if UNKNOWN_NEXT_KEY in last_row else last_row["terminated"])[0]
    ):
        yield {"next_obs": last_row["obs"], **_drop_unknown_next(last_row)}


def _rows_with_next_obs(rows: ColumnBlock) -> Iterator[ColumnBlock]:
    """Yield the rows without the last and without truncated ones, whose next observation is unknown."""
    is_end = rows["terminated"] | rows["truncated"]
    if UNKNOWN_NEXT_KEY in rows:
        is_unknown, next_obs = rows[UNKNOWN_NEXT_KEY], rows["next_obs"][:-1]
    else:
        is_unknown = rows["truncated"] & ~rows["terminated"]
        next_obs = np.where(rows["terminated"][:-1, None], rows["obs"][:-1], rows["obs"][1:])
    complete = {name: column[:-1] for name, column in _drop_unknown_next(rows).items()} | {
        "next_obs": next_obs
    }
    # the step before a dropped one ends its episode
    complete["truncated"] = complete["truncated"] | (is_unknown[1:] & ~is_end[:-1])
    if not is_unknown[:-1].all():
        yield {name: column[~is_unknown[:-1]] for name, column in complete.items()}


def _drop_unknown_next(rows: ColumnBlock) -> ColumnBlock:
    return {name: column for name, column in rows.items() if name != UNKNOWN_NEXT_KEY}

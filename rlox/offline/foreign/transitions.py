"""Columns as others have them -> the transitions of a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.errors import CheckpointError, ConfigError
from rlox.offline.foreign.kinds import Raw

__all__ = ["DERIVED", "transitions"]

DERIVED = "next_obs_derived"  # what a dataset says whose `next_obs` were no column of a file
LOST = "lost"  # a column of rows whose `next_obs` stood for what is not known


def transitions(
    blocks: Iterable[Raw],
    where: str,
    time_limit: int | None = None,
    about: MutableMapping[str, Any] | None = None,
) -> Iterator[Raw]:
    """Blocks with the types and all columns of a dataset.

    Without `next_obs` what a step led to is the next row's `obs`. A step that is cut off there is left out
    and the one before it marked, for what it led to is not known; behind a termination nothing counts, and
    `obs` stands for it. `time_limit` says after how many steps episodes were cut off: ends there are
    truncations, whatever they are said to be. That `next_obs` was missing is noted in `about`; rows of which
    it says so already, and that a `time_limit` cuts off now, are left out in the same way.
    """
    told: MutableMapping[str, Any] = {} if about is None else about
    return _led(_limited(_checked(blocks, where, time_limit, told), time_limit, told))


def _checked(
    blocks: Iterable[Raw], where: str, time_limit: int | None, about: MutableMapping[str, Any]
) -> Iterator[Raw]:
    for block in blocks:
        if "next_obs" not in block:
            about[DERIVED] = True
        if "truncated" not in block and time_limit is None:
            raise ConfigError(
                f"{where} has no timeouts: where episodes were cut off is not known; give time_limit=N, the "
                "steps after which they were, or more than any episode has where none was"
            )
        yield _typed(block, where)


def _typed(block: Raw, where: str) -> Raw:
    """Each column in the type that it has in a dataset; observations as rows."""
    found: Raw = {}
    for name in ("obs", "next_obs"):
        if name in block:
            rows = block[name].reshape(len(block[name]), -1)
            found[name] = rows if rows.dtype == np.uint8 else _floats(name, rows, where)
    actions = block["actions"]
    if actions.dtype.kind == "f":
        found["actions"] = _floats("actions", actions, where)
    else:
        found["actions"] = actions.astype(np.int64)
    found["rewards"] = _floats("rewards", _flat("rewards", block, where), where)
    for name in ("terminated", "truncated"):
        flags = (
            _flat(name, block, where) if name in block else np.zeros(len(found["rewards"]), bool)
        )
        if not np.isin(flags, (0, 1)).all():
            raise CheckpointError(
                f"{where}: {name} has {flags[~np.isin(flags, (0, 1))][0]}, expected 0 or 1"
            )
        found[name] = flags.astype(np.bool_)
    return found


def _floats(name: str, column: NDArray[np.generic], where: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        rows = column.astype(np.float32)
    if not (np.isfinite(rows) | ~np.isfinite(column)).all():
        raise CheckpointError(f"{where}: {name} has numbers beyond float32")
    return rows


def _flat(name: str, block: Raw, where: str) -> NDArray[np.generic]:
    column: NDArray[np.generic] = block[name]
    if column.size != len(column):
        raise ConfigError(f"{where}: {name} has shape {column.shape}, expected one number a row")
    return column.reshape(-1)


def _limited(
    blocks: Iterable[Raw], time_limit: int | None, about: Mapping[str, Any]
) -> Iterator[Raw]:
    """With ends at `time_limit` as truncations, and with `LOST` where `next_obs` was derived."""
    before = 0  # steps of the episode in the blocks before
    for block in blocks:
        if time_limit is not None:
            n = len(block["rewards"])
            ended = block["terminated"] | block["truncated"]
            last = np.flatnonzero(ended)
            begins = np.repeat(
                np.concatenate([[-before], last + 1]), np.diff(last, prepend=-1, append=n - 1)
            )
            step = np.arange(n) - begins + 1
            cut = step % time_limit == 0
            if "next_obs" in block and about.get(DERIVED):
                # of a termination it is `obs`, of a step inside an episode perhaps the next one's first
                block[LOST] = cut & (block["terminated"] | ~block["truncated"])
            block["terminated"] = block["terminated"] & ~cut
            block["truncated"] = block["truncated"] | cut
            before = 0 if n and ended[-1] else int(step[-1]) if n else before
        yield block


def _led(blocks: Iterable[Raw]) -> Iterator[Raw]:
    """With `next_obs`; of a block without it, or with `LOST`, the last row waits for the next block."""
    held: Raw | None = None
    for block in blocks:
        if not len(block["rewards"]):
            continue
        if "next_obs" in block and LOST not in block:
            yield block
            continue
        joined = block if held is None else {n: np.concatenate([held[n], block[n]]) for n in block}
        yield from _known(joined)
        held = {name: column[-1:] for name, column in joined.items()}
    if held is not None and (~held[LOST] if LOST in held else held["terminated"])[0]:
        yield {"next_obs": held["obs"], **_without_lost(held)}


def _known(rows: Raw) -> Iterator[Raw]:
    """All rows but the last and those that were cut off, whose next observation nothing says."""
    ended = rows["terminated"] | rows["truncated"]
    if LOST in rows:
        out, led = rows[LOST], rows["next_obs"][:-1]
    else:
        out = rows["truncated"] & ~rows["terminated"]
        led = np.where(rows["terminated"][:-1, None], rows["obs"][:-1], rows["obs"][1:])
    found = {name: column[:-1] for name, column in _without_lost(rows).items()} | {"next_obs": led}
    # the step before one that is left out ends its episode
    found["truncated"] = found["truncated"] | (out[1:] & ~ended[:-1])
    if not out[:-1].all():
        yield {name: column[~out[:-1]] for name, column in found.items()}


def _without_lost(rows: Raw) -> Raw:
    return {name: column for name, column in rows.items() if name != LOST}

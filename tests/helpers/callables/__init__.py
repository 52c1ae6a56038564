"""Every public callable of the extension, with a NumPy model of its expected result."""

from __future__ import annotations

from helpers.callables import (
    advantages,
    envs,
    explained,
    groups,
    packing,
    pairs,
    returns,
    single_envs,
    statistics,
    streams,
    threads,
    token_kl,
)
from helpers.callables.engine import Case

AREAS = (
    advantages, envs, explained, groups, packing, pairs, returns, single_envs, statistics, streams, threads,
    token_kl,
)  # fmt: skip
CASES: dict[str, Case] = {name: case for area in AREAS for name, case in area.CASES.items()}

__all__ = ["CASES", "Case"]

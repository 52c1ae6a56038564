"""From what SAC replayed on its way TD3+BC and IQL learn more than a clone of it.

The dataset is the whole episodes in SAC's buffer when its policy is a third of the way from random actions
(-1233) to a pendulum that is swung up (-150): most of it is play as bad as random. Runs in the native engine,
which learns what torch does (tests/unit/algorithms/test_native_offline.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlox import OfflineDatasetBuffer
from rlox.algorithms import BC, IQL, SAC, TD3BC
from rlox.offline.description import described
from rlox.offline.replayed import replayed_columns

pytestmark = pytest.mark.learning
RANDOM, UP, SEEDS = -1233.0, -150.0, (0, 1, 2)
SMALL: dict[str, Any] = {"net_arch": (64, 64), "learning_rate": 1e-3, "backend": "native"}


def replayed(seed: int) -> dict[str, Any]:
    """What is in SAC's buffer then."""
    sac = SAC("Pendulum-v1", seed=seed, **SMALL)
    for steps in range(1_000, 8_000, 250):
        sac.train(steps)
        if sac.evaluate(10).mean > RANDOM + (UP - RANDOM) / 3:
            return replayed_columns(sac)
    raise AssertionError(f"SAC is not a third of the way after {steps} steps")


@pytest.fixture(scope="module")
def scores() -> dict[str, list[float]]:
    """Final policies' mean returns of 50 episodes, seed by seed, and the behaviour's."""
    found: dict[str, list[float]] = {name: [] for name in ("behaviour", "bc", "td3_bc", "iql")}
    for seed in SEEDS:
        columns = replayed(seed)
        found["behaviour"].append(described(columns)["returns"]["mean"])
        for kind in (BC, TD3BC, IQL):
            data = OfflineDatasetBuffer(**columns)
            algorithm: Any = kind(data, env_id="Pendulum-v1", seed=seed, **SMALL)
            algorithm.train(8_000)
            found[kind.name].append(algorithm.evaluate(50).mean)
    print(found)
    return found


@pytest.mark.parametrize(("name", "least"), [("td3_bc", 0.0), ("iql", 400.0)])
def test_what_values_are_learned_with_plays_better_than_a_clone(
    name: str, least: float, scores: dict[str, list[float]]
) -> None:
    gains = np.array(scores[name]) - np.array(scores["bc"])
    assert gains.mean() > max(least, gains.std(ddof=1) / np.sqrt(len(SEEDS))), (name, gains)


def test_a_clone_plays_no_better_than_what_it_clones(scores: dict[str, list[float]]) -> None:
    apart = np.array(scores["bc"]) - np.array(scores["behaviour"])
    assert -300 < apart.mean() < 100, apart

"""Tests that a clone plays as well as its dataset, and that TD3+BC and IQL, which learn values, play better.

There are two datasets of SAC, from the time when its policy was a third of the way from random actions
(-1233) to a pendulum that is swung up (-150): sampled play of that policy, and the whole episodes in its
buffer, most of which are as bad as random. Doing nothing pays -1286. The runs use the native engine, which
learns the same as torch (tests/unit/algorithms/test_native_offline.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlox import OfflineDatasetBuffer
from rlox.algorithms import BC, IQL, SAC, TD3BC
from rlox.offline.description import describe_dataset
from rlox.offline.replay_columns import read_replay_columns
from rlox.runs.record import record

pytestmark = pytest.mark.slow
RANDOM, UP, SEEDS = -1233.0, -150.0, (0, 1, 2)
SMALL: dict[str, Any] = {"net_arch": (64, 64), "learning_rate": 1e-3, "backend": "native"}
LEARN: dict[str, tuple[type[Any], ...]] = {"medium": (BC, TD3BC), "replay": (BC, IQL)}


def datasets(seed: int) -> dict[str, dict[str, Any]]:
    """Return sampled play of SAC's policy at that time, and the episodes in its buffer."""
    sac = SAC("Pendulum-v1", seed=seed, **SMALL)
    for steps in range(1_000, 8_000, 250):
        sac.train(steps)
        if sac.evaluate(10).mean > RANDOM + (UP - RANDOM) / 3:
            played = record(sac, deterministic=False, steps=10_000)
            return {"medium": dict(played.columns), "replay": read_replay_columns(sac)}
    raise AssertionError(f"SAC is not a third of the way after {steps} steps")


@pytest.fixture(scope="module")
def scores() -> dict[str, list[float]]:
    """Return mean returns by seed: of the datasets' behaviour, and of 50 episodes of the final policies."""
    found: dict[str, list[float]] = {}
    for seed in SEEDS:
        for name, columns in datasets(seed).items():
            behaviour = describe_dataset(columns)["returns"]["mean"]
            found.setdefault(f"{name} behaviour", []).append(behaviour)
            for kind in LEARN[name]:
                data = OfflineDatasetBuffer(**columns)
                algorithm = kind(data, env_id="Pendulum-v1", seed=seed, **SMALL)
                algorithm.train(8_000)
                found.setdefault(f"{name} {kind.name}", []).append(algorithm.evaluate(50).mean)
    print(found)
    return found


@pytest.mark.parametrize(("name", "above"), [("medium td3_bc", 50.0), ("replay iql", 400.0)])
def test_td3_bc_and_iql_score_higher_than_behaviour_cloning_on_pendulum(
    name: str, above: float, scores: dict[str, list[float]]
) -> None:
    clones = scores[f"{name.split()[0]} bc"]
    gains = np.array(scores[name]) - np.array(clones)
    assert gains.mean() > max(above, gains.std(ddof=1) / np.sqrt(len(SEEDS))), (name, gains)
    assert np.mean(scores[name]) > RANDOM + 300.0


def test_a_clone_of_a_policy_plays_as_well_as_it(scores: dict[str, list[float]]) -> None:
    apart = np.array(scores["medium bc"]) - np.array(scores["medium behaviour"])
    assert abs(apart.mean()) < 150.0, apart
    assert np.mean(scores["medium bc"]) > RANDOM + 200.0


def test_a_clone_of_a_buffer_is_no_better_than_the_buffer(scores: dict[str, list[float]]) -> None:
    assert np.mean(scores["replay bc"]) < np.mean(scores["replay behaviour"]) + 100.0

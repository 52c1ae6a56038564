"""What was learned from a dataset goes on in an environment: `init_from` into TD3 and SAC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlox import OfflineDatasetBuffer
from rlox.algorithms import CQL, IQL, SAC, TD3, TD3BC
from rlox.errors import ConfigError

SMALL: dict[str, Any] = {"net_arch": (8,), "batch_size": 8}
ONLINE: dict[str, Any] = {**SMALL, "learning_starts": 20, "buffer_size": 1000, "backend": "torch"}


def trained(kind: Any, folder: Path, **options: Any) -> Any:
    """Learned from 200 steps of Pendulum whose observations are far from standardised."""
    rng = np.random.default_rng(3)
    obs = rng.normal([0.3, -0.2, 4.0], [0.5, 0.1, 3.0], (201, 3)).astype(np.float32)
    no = np.zeros(200, bool)
    data = OfflineDatasetBuffer(
        obs[:-1], obs[1:], rng.uniform(-2, 2, (200, 1)).astype("f4"), rng.normal(size=200), no, no
    )
    algorithm = kind(data, env_id="Pendulum-v1", **SMALL, **options)
    algorithm.train(10)
    algorithm.save(folder)
    return algorithm


@pytest.mark.parametrize(("offline", "online"), [(TD3BC, TD3), (CQL, SAC)])
@pytest.mark.parametrize("standardize_obs", [True, False])
def test_the_policy_acts_as_it_did_and_its_critics_are_taken_over(
    offline: Any, online: Any, standardize_obs: bool, tmp_path: Path
) -> None:
    before = trained(offline, tmp_path / "a", standardize_obs=standardize_obs)
    after = online("Pendulum-v1", init_from=tmp_path / "a", normalize_obs=standardize_obs, **ONLINE)
    seen = np.array([[0.5, -0.4, 3.0], [-1.0, 0.0, -8.0]], np.float32)
    np.testing.assert_allclose(after.predict(seen), before.predict(seen), atol=1e-5)
    pairs = zip(before.policy.named_parameters(), after.policy.parameters(), strict=True)
    assert all(torch.equal(one, other) for (_, one), other in pairs)
    if standardize_obs:
        moments = after.parts.actor.normalizer.moments
        assert moments.count == 80  # rows that were drawn
        np.testing.assert_allclose(moments.mean, before.source.load().stats()["obs_mean"])
    after.train(40)
    assert after.clock.updates > 0


WRONG: dict[str, tuple[Any, dict[str, Any], Any, dict[str, Any], str]] = {
    "observations as they are": (
        TD3BC, {"standardize_obs": True}, TD3, {}, "set env.normalize_obs=true",
    ),
    "standardised ones": (
        CQL, {"standardize_obs": False}, SAC, {"normalize_obs": True}, "set env.normalize_obs=false",
    ),
    "other rewards": (
        CQL, {"standardize_obs": False, "scale_rewards": "0.5"}, SAC, {}, "set env.reward_scale=0.5",
    ),
    "rewards by returns": (
        TD3BC, {"standardize_obs": False, "scale_rewards": "returns"}, TD3, {}, "train with a number",
    ),
    "another policy": (IQL, {"standardize_obs": False}, SAC, {}, "a policy is taken over whole"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_would_be_another_function_is_refused(wrong: str, tmp_path: Path) -> None:
    kind, options, online, more, said = WRONG[wrong]
    rng = np.random.default_rng(0)
    obs, ends = rng.normal(size=(9, 3)).astype("f4"), np.arange(8) % 4 == 3
    data = OfflineDatasetBuffer(
        obs[:-1], obs[1:], np.ones((8, 1), "f4"), rng.normal(size=8), np.zeros(8, bool), ends
    )
    algorithm = kind(data, env_id="Pendulum-v1", **SMALL, **options)
    algorithm.train(1)
    algorithm.save(tmp_path / "a")
    with pytest.raises(ConfigError, match=said):
        online("Pendulum-v1", init_from=tmp_path / "a", **ONLINE, **more)


def test_scaled_rewards_go_on_scaled(tmp_path: Path) -> None:
    trained(TD3BC, tmp_path / "a", standardize_obs=False, scale_rewards="0.1")
    online = TD3("Pendulum-v1", init_from=tmp_path / "a", reward_scale=0.1, **ONLINE)
    online.train(40)
    assert online.clock.updates > 0

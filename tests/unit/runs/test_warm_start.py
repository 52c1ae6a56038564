"""Tests what a run takes over from another one with `init_from`, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.observation_spaces import Samples

from rlox.algorithms import A2C, DQN, PPO
from rlox.errors import CheckpointError, ConfigError

SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 1}
WHOLE = (
    "init_from loads a whole policy: give the run the same algorithm, algo.net_arch and policy, and an "
    "environment with the same spaces"
)


def weights(algorithm: Any) -> list[torch.Tensor]:
    return [p.detach().clone() for p in algorithm.policy.parameters()]


def same(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "ppo"
    algorithm = PPO("CartPole-v1", seed=1, normalize_obs=True, **SMALL)
    algorithm.train(64)
    algorithm.save(folder)
    return folder


@pytest.mark.parametrize("kind", [PPO, A2C])
def test_init_from_takes_only_the_weights_and_the_moments_of_observations(saved: Path, kind: Any) -> None:
    trained = PPO.from_checkpoint(saved)
    options = {k: v for k, v in SMALL.items() if kind is PPO or k in ("n_envs", "n_steps")}
    begun = kind("CartPole-v1", seed=9, normalize_obs=True, init_from=saved, learning_rate=1e-2, **options)
    assert same(weights(begun), weights(trained))
    obs = [0.4, 0.2, 0.1, -0.3]
    assert begun.predict(obs) == trained.predict(obs)
    moments = [a.collector.obs_normalizer.state()["mean"].tolist() for a in (begun, trained)]
    assert moments[0] == moments[1]
    assert (begun.clock.now, begun.recent.count, begun.config.seed) == (0, 0, 9)
    state = begun.learner.optimizer.state()
    assert not any(value.any() for value in state.values() if isinstance(value, torch.Tensor))
    begun.train(32)
    assert not same(weights(begun), weights(trained))


def test_init_from_copies_the_weights_into_the_q_network_and_its_target(tmp_path: Path) -> None:
    options: dict[str, Any] = {"net_arch": (8,), "learning_starts": 8, "buffer_size": 64}
    trained = DQN("CartPole-v1", seed=1, **options)
    trained.train(64)
    trained.save(tmp_path / "dqn")
    begun = DQN("CartPole-v1", seed=2, init_from=tmp_path / "dqn", **options)
    assert same(weights(begun), weights(trained))
    target = begun.learner.target_network.state().values()
    assert same([torch.as_tensor(value) for value in target], weights(trained))
    assert len(begun.source.replay_sampler.buffer) == 0


def test_a_run_begun_with_init_from_resumes_without_that_folder(saved: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    saved.rename(moved)
    try:
        options: dict[str, Any] = {"seed": 3, "normalize_obs": True, **SMALL}
        whole = PPO("CartPole-v1", init_from=moved, **options)
        stopped = PPO("CartPole-v1", init_from=moved, **options)
        stopped.train(32)
        stopped.save(tmp_path / "half")
    finally:
        moved.rename(saved)
    again = PPO.from_checkpoint(tmp_path / "half")
    assert again.config.init_from == str(moved)
    for one in (whole, again):
        one.train(96)
    assert same(weights(whole), weights(again))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"env_id": "Acrobot-v1"}, "actor.0.weight is [64, 4] there and [64, 6] here\n  " + WHOLE),
        ({"net_arch": (8,)}, "actor.0.weight is [64, 4] there and [8, 4] here\n  " + WHOLE),
        (
            {"net_arch": (64, 64, 64)},
            "actor.4.weight is [2, 64] there and [64, 64] here\n  " + WHOLE,
        ),
        (
            {"activation": "relu"},
            "its policy has algo.activation=tanh, but this run has relu; set algo.activation=tanh",
        ),
        (
            {"normalize_obs": False},
            "its policy was trained on standardised observations; set env.normalize_obs=true",
        ),
    ],
)
def test_init_from_refuses_other_network_shapes_and_settings_by_name(
    saved: Path, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        PPO(**{"env_id": "CartPole-v1", "normalize_obs": True, "init_from": saved, **options})
    assert str(raised.value) == f"init_from={saved}: {told}"


def test_init_from_refuses_normalize_obs_after_unstandardised_observations(tmp_path: Path) -> None:
    PPO("CartPole-v1", **SMALL).save(tmp_path / "plain")
    with pytest.raises(ConfigError, match=r"unstandardised observations; set env.normalize_obs=false$"):
        PPO("CartPole-v1", normalize_obs=True, init_from=tmp_path / "plain", **SMALL)


@pytest.mark.parametrize(("there", "here"), [("relative", "sb3"), ("sb3", "relative")])
def test_init_from_refuses_moments_of_another_rule_than_the_runs(
    there: str, here: str, tmp_path: Path
) -> None:
    options = {"normalize_obs": True, "normalize_reward": True, **SMALL}
    PPO("CartPole-v1", normalize_rule=there, **options).save(tmp_path / "a")
    told = rf"{there}, but this run has env\.normalize_rule={here}; set env\.normalize_rule={there}$"
    with pytest.raises(ConfigError, match=told):
        PPO("CartPole-v1", normalize_rule=here, init_from=tmp_path / "a", **options)
    begun = PPO("CartPole-v1", normalize_rule=there, init_from=tmp_path / "a", **options)
    assert begun.collector.obs_normalizer.moments.rule == there


def test_init_from_and_from_checkpoint_refuse_pixels_of_another_range(
    tmp_path: Path,
) -> None:
    def seeing(high: int) -> Any:
        space = spaces.Box(0, high, (8, 8, 1), np.uint8)
        return lambda: Samples(space, spaces.Discrete(2))

    options: dict[str, Any] = {"net_arch": (8,), "encoder_features": 4, **SMALL}
    PPO(seeing(255), **options).save(tmp_path / "bright")
    PPO(seeing(255), init_from=tmp_path / "bright", **options)
    with pytest.raises(ConfigError) as raised:
        PPO(seeing(1), init_from=tmp_path / "bright", **options)
    told = "its networks see pixels divided by [255.0], these by [1.0]; give it an environment"
    assert str(raised.value).startswith(f"init_from={tmp_path / 'bright'}: {told}")
    with pytest.raises(CheckpointError, match=r"pixels divided by \[255.0\], these by \[1.0\]"):
        PPO.from_checkpoint(tmp_path / "bright", env_id=seeing(1))

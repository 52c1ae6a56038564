"""Tests that hybrid PPO collects as PPO does in the native engine and learns as PPO does in torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rlox
from rlox.algorithms import PPO, HybridPPO
from rlox.errors import ConfigError
from rlox_cli.main import main

SMALL: dict[str, Any] = {"n_envs": 3, "n_steps": 40, "batch_size": 30, "n_epochs": 2, "seed": 4}
ENVS = pytest.mark.parametrize("env_id", rlox.native_env_ids())


def weights(algorithm: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in algorithm.policy.parameters()])


@ENVS
def test_hybrid_ppo_collects_native_rollouts_and_learns_with_torch(env_id: str) -> None:
    hybrid, native, learner = (
        HybridPPO(env_id, **SMALL),
        PPO(env_id, backend="native", **SMALL),
        PPO(env_id, backend="torch", **SMALL),
    )
    assert torch.equal(weights(hybrid), weights(native))
    ours, rollout = (run.collector.collect(run.learner.native, 40) for run in (hybrid, native))
    for name in ("obs", "actions", "rewards", "log_probs", "values", "advantages", "returns"):
        assert torch.equal(getattr(ours, name), getattr(rollout, name)), name
    learner.learner.update(rollout, learner.clock)
    trained = HybridPPO(env_id, **SMALL)
    trained.train(120)
    assert torch.equal(weights(trained), weights(learner))


@ENVS
def test_the_second_rollout_is_of_the_weights_that_the_first_update_left(env_id: str) -> None:
    hybrid = HybridPPO(env_id, **SMALL)
    hybrid.train(120)
    rollout, _ = hybrid.source.next(hybrid.clock)
    with torch.no_grad():
        log_probs, _, values = hybrid.policy.evaluate_actions(rollout.obs, rollout.actions)
    torch.testing.assert_close(rollout.log_probs, log_probs, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rollout.values, values, atol=1e-5, rtol=1e-5)


def test_an_action_is_an_int_for_choices_and_an_array_for_boxes() -> None:
    assert isinstance(HybridPPO("CartPole-v1", **SMALL).predict(np.zeros(4, np.float32)), int)
    action = HybridPPO("Pendulum-v1", **SMALL).predict(np.zeros(3, np.float32))
    assert (action.shape, action.dtype) == ((1,), np.float32)


def test_hidden_is_the_width_of_both_layers_and_sixteen_environments_are_stepped() -> None:
    hybrid = HybridPPO("CartPole-v1", hidden=24)
    assert hybrid.config.algo.net_arch == (24, 24)
    assert hybrid.config.env.n_envs == 16
    assert HybridPPO(net_arch=(8,)).config.algo.net_arch == (8,)
    with pytest.raises(ConfigError, match=r"^hidden and net_arch are two names of the same argument"):
        HybridPPO(hidden=24, net_arch=(8,))


def test_the_times_of_collecting_and_training_add_up() -> None:
    hybrid = HybridPPO("CartPole-v1", **SMALL)
    nothing = {"collection_s": 0.0, "training_s": 0.0, "total_s": 0.0, "collection_fraction": 0.0}
    assert hybrid.timing_summary() == nothing
    hybrid.train(600)
    told = hybrid.timing_summary()
    assert told.keys() == nothing.keys()
    assert told["collection_s"] > 0 and told["training_s"] > 0
    assert told["total_s"] == told["collection_s"] + told["training_s"]
    assert told["collection_fraction"] == told["collection_s"] / told["total_s"]
    assert told["collection_s"] == hybrid.timings.collect


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"env_id": "FrozenLake-v1"}, "env=FrozenLake-v1: .* steps only native environments: .*algo=ppo"),
        ({"env_id": lambda: None}, "env=<.*>: hybrid_ppo collects in Rust"),
        ({"wrappers": ["time_aware_observation"]}, "env.wrappers: .* leave it out, or set algo=ppo"),
        (
            {"env_backend": "gymnasium", "max_episode_steps": 9},
            "env.max_episode_steps and env.backend=gymnasium: .* leave them out",
        ),
        ({"policy": "my_pkg:Net"}, "algo.policy=my_pkg:Net: hybrid_ppo takes no policy of your own"),
        ({"device": "meta"}, "device=meta: "),
        ({"backend": "native"}, "algo.backend=native: expected cpu, the only choice"),
    ],
)  # fmt: skip
def test_hybrid_ppo_refuses_settings_that_rust_cannot_collect_with_a_remedy(
    options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        HybridPPO(**options)


def test_the_command_line_refuses_another_environment_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "algo=hybrid_ppo", "env=FrozenLake-v1"]) == 2
    told = capsys.readouterr().err
    assert "hybrid_ppo collects in Rust and steps only native environments" in told
    assert not list(tmp_path.iterdir())

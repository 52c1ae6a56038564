"""Tests that PPO and A2C with `backend="native"` equal torch up to rounding, and that both read one state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.observation_probes import EYE
from helpers.policies import UserMlp

from rlox.algorithms import A2C, PPO, RecurrentPPO
from rlox.errors import ConfigError, NonFiniteError
from rlox.types import Clock

SMALL: dict[str, Any] = {"n_envs": 4, "n_steps": 64, "n_epochs": 3, "batch_size": 50, "seed": 5}
STEP = 256


def weights(algorithm: PPO | A2C) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in algorithm.policy.parameters()])


def apart(left: PPO | A2C, right: PPO | A2C) -> float:
    return float((weights(left) - weights(right)).norm() / weights(right).norm())


def learned(runs: dict[str, Any], rounds: int = 1) -> dict[str, Mapping[str, float]]:
    """Return the metrics of each run's last update; all learn from rollouts of the first run's actions."""
    told: dict[str, Mapping[str, float]] = {}
    first = next(iter(runs.values()))
    for number in range(rounds):
        rollout = first.collector.collect(first.policy, first.config.algo.n_steps)
        clock = Clock(env_steps=number * len(rollout), horizon=rounds * len(rollout))
        told = {name: run.learner.update(rollout, clock).metrics for name, run in runs.items()}
    return told


@pytest.mark.parametrize(
    "settings",
    [
        {"env_id": "CartPole-v1", "anneal_lr": True, "clip_vloss": True, "ent_coef": 0.01},
        {"env_id": "Pendulum-v1", "activation": "silu", "net_arch": (32, 16), "anneal_clip": True},
        {"env_id": "Pendulum-v1", "use_sde": True, "normalize_obs": True},
    ],
)
def test_native_ppo_updates_equal_those_of_torch_up_to_rounding(settings: dict[str, Any]) -> None:
    runs = {name: PPO(backend=name, **SMALL, **settings) for name in ("torch", "native")}
    told = learned(runs)
    assert apart(runs["native"], runs["torch"]) < 1e-5
    assert told["native"].keys() == told["torch"].keys()
    for name, value in told["torch"].items():
        assert told["native"][name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
    start = PPO(backend="torch", **SMALL, **settings)
    assert apart(start, runs["torch"]) > 1e-3  # the torch run has learned something


@pytest.mark.parametrize(
    "settings",
    [
        {"env_id": "CartPole-v1", "anneal_lr": True, "ent_coef": 0.01},
        {"env_id": "Pendulum-v1", "use_sde": True, "use_rms_prop": False},
        {"env_id": "Pendulum-v1", "normalize_advantages": True, "rms_prop_tf_like": True},
    ],
)
def test_native_a2c_updates_equal_those_of_torch_up_to_rounding(
    settings: dict[str, Any],
) -> None:
    runs = {name: A2C(backend=name, n_envs=4, seed=5, **settings) for name in ("torch", "native")}
    start = weights(runs["torch"])
    told = learned(runs, rounds=3)
    moved = (weights(runs["torch"]) - start).norm()
    assert moved > 1e-4
    assert (weights(runs["native"]) - weights(runs["torch"])).norm() < 1e-2 * moved
    for name, value in told["torch"].items():
        assert told["native"][name] == pytest.approx(value, rel=1e-3, abs=1e-5), name


def test_either_backend_goes_on_from_a_checkpoint_of_the_other(tmp_path: Path) -> None:
    first = PPO("CartPole-v1", backend="torch", **SMALL)
    first.train(2 * STEP)
    first.save(tmp_path / "saved")
    went_on = {name: PPO.from_checkpoint(tmp_path / "saved", backend=name) for name in ("torch", "native")}
    learned(went_on)
    assert apart(went_on["native"], went_on["torch"]) < 1e-5
    assert apart(first, went_on["torch"]) > 1e-4
    for run in went_on.values():
        run.train(3 * STEP)
    assert went_on["native"].clock.env_steps == went_on["torch"].clock.env_steps == 3 * STEP
    went_on["native"].save(tmp_path / "native")
    back = PPO.from_checkpoint(tmp_path / "native", backend="torch")
    assert torch.equal(weights(back), weights(went_on["native"]))
    assert back.learner.optimizer.steps == went_on["native"].learner.optimizer.steps > 0


def test_epochs_end_early_at_the_target_of_the_kl_in_both() -> None:
    settings: dict[str, Any] = {**SMALL, "learning_rate": 0.02, "target_kl": 0.01}
    runs = {name: PPO("CartPole-v1", backend=name, **settings) for name in ("torch", "native")}
    told = learned(runs)
    assert told["torch"]["train/epochs"] < SMALL["n_epochs"]
    assert told["native"]["train/epochs"] == told["torch"]["train/epochs"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"env_id": EYE, "net_arch": (8,), "encoder_features": 8}, "from vectors, not from images"),
        ({"env_id": "CartPole-v1", "policy": UserMlp(4, 2)}, "a UserPolicy, not a built-in policy"),
    ],
)
def test_native_ppo_refuses_encoders_and_user_policies_at_construction(
    settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=f"algo.backend=native: .*{says}.*algo.backend=torch"):
        PPO(backend="native", **SMALL, **settings)


def test_native_ppo_stops_in_the_update_that_makes_weights_nonfinite() -> None:
    endless = PPO("CartPole-v1", backend="native", **{**SMALL, "learning_rate": 1e38})
    with pytest.raises(NonFiniteError, match=r"in the update of rollout 0 .*lower algo.learning_rate"):
        endless.train(STEP)


def test_native_ppo_refuses_to_train_after_the_user_changed_its_module() -> None:
    for change, says in [
        (lambda p: p.actor[0].register_forward_hook(lambda *_: None), "hooked"),
        (lambda p: p.actor[0].weight.requires_grad_(False), r"frozen in actor\.0\.weight"),
        (lambda p: setattr(p, "evaluate_actions", p.evaluate_actions), "of its own"),
        (lambda p: p.actor.__setitem__(1, torch.nn.ReLU()), "of other layers"),
    ]:
        run = PPO("CartPole-v1", backend="native", **SMALL)
        run.train(STEP)
        change(run.policy)
        before = weights(run)
        with pytest.raises(ConfigError, match=says):
            run.train(2 * STEP)
        assert torch.equal(weights(run), before)


def test_steps_that_were_taken_are_counted_where_an_update_fails() -> None:
    run = PPO("CartPole-v1", backend="native", **{**SMALL, "learning_rate": 1e18})
    with pytest.raises(NonFiniteError):
        run.train(STEP)
    assert 1 <= run.learner.optimizer.steps < 18


def test_the_backend_of_algorithms_that_have_but_one_cannot_be_changed(tmp_path: Path) -> None:
    run = RecurrentPPO("CartPole-v1", n_steps=8)
    run.save(tmp_path / "saved")
    with pytest.raises(ConfigError, match=r"algo.backend='?native"):
        RecurrentPPO.from_checkpoint(tmp_path / "saved", backend="native")

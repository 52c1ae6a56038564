"""Tests that native BC, TD3+BC and IQL learn the same weights as torch from the same initial weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlox import OfflineDatasetBuffer
from rlox.algorithms import BC, CQL, IQL, TD3BC
from rlox.errors import ConfigError
from rlox.parameters.engine import NativeUnsupportedError

N = 600
SIZES: dict[str, Any] = {
    "obs_dim": 5,
    "act_dim": 3,
    "net_arch": (16, 12),
    "batch_size": 16,
    "seed": 3,
}
BOUNDED: dict[str, Any] = {**SIZES, "act_high": 2.0}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "td3_bc": (TD3BC, BOUNDED),
    "td3_bc, its own settings": (
        TD3BC,
        {**BOUNDED, "alpha": 0.5, "policy_delay": 3, "target_noise": 0.0, "max_grad_norm": 0.5,
         "n_critics": 3},
    ),
    "iql": (IQL, BOUNDED),
    "iql, its own settings": (
        IQL,
        {**BOUNDED, "expectile": 0.9, "temperature": 10.0, "max_weight": 2.0, "cosine_actor": False,
         "standardize_obs": True, "scale_rewards": "returns", "activation": "silu", "critic_net_arch": (9,)},
    ),
    "bc": (BC, SIZES),
    "bc, squared": (BC, {**SIZES, "loss": "mse", "activation": "tanh", "max_grad_norm": 0.2}),
    "bc, choices": (BC, {**SIZES, "continuous": False, "anneal_lr": True}),
}  # fmt: skip


def dataset(choices: bool = False) -> OfflineDatasetBuffer:
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(N + 1, 5)).astype(np.float32)
    taken = rng.integers(0, 3, N) if choices else rng.uniform(-2, 2, (N, 3)).astype(np.float32)
    step = np.arange(N) % 60
    return OfflineDatasetBuffer(obs[:-1], obs[1:], taken, rng.normal(size=N), step == 29, step == 59)


def made(case: str, backend: str, **more: Any) -> Any:
    kind, options = CASES[case]
    data = dataset(choices=options.get("continuous") is False)
    return kind(data, **options, backend=backend, **more)


def weights(algorithm: Any) -> dict[str, Any]:
    return {name: p.detach().numpy().copy() for name, p in algorithm.policy.state_dict().items()}


def apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    assert one.keys() == other.keys()
    mine, theirs = (np.concatenate([of[name].ravel() for name in one]) for of in (one, other))
    return float(np.linalg.norm(mine - theirs) / np.linalg.norm(mine))


@pytest.mark.parametrize("case", CASES)
def test_native_offline_algorithms_learn_the_weights_of_torch_up_to_rounding(case: str) -> None:
    torch, native = made(case, "torch"), made(case, "native")
    assert apart(weights(torch), weights(native)) == 0.0
    told = [algorithm.train(50) for algorithm in (torch, native)]
    assert apart(weights(torch), weights(native)) < 1e-5
    assert told[0].keys() == told[1].keys()
    for name, value in told[0].items():
        assert told[1][name] == pytest.approx(value, rel=1e-3, abs=1e-5, nan_ok=True), name
    rows = np.random.default_rng(1).normal(size=(9, 5)).astype(np.float32)
    np.testing.assert_allclose(native.predict(rows), torch.predict(rows), atol=1e-4)
    sampled = native.predict(rows, deterministic=False)
    assert np.asarray(sampled).shape == np.asarray(torch.predict(rows)).shape


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("there", ["torch", "native"])
def test_an_offline_run_continues_in_the_other_engine_up_to_rounding(
    case: str, there: str, tmp_path: Path
) -> None:
    whole, first = made(case, there), made(case, there)
    for algorithm in (whole, first):
        algorithm.train(20)
    first.save(tmp_path / "a")
    other = {"torch": "native", "native": "torch"}[there]
    options = CASES[case][1]
    data = dataset(choices=options.get("continuous") is False)
    again = type(first).from_checkpoint(tmp_path / "a", dataset=data, backend=other)
    whole.train(40)
    again.train(40)
    assert apart(weights(whole), weights(again)) < 1e-5
    assert again.clock.updates == 40


def test_native_bc_refuses_actions_of_several_parts_and_cql_has_no_native_engine() -> None:
    import gymnasium as gym
    from gymnasium import spaces

    class Parts(gym.Env[Any, Any]):
        observation_space = spaces.Box(-1, 1, (5,))
        action_space = spaces.MultiDiscrete([3, 2])

    rows, no = np.zeros((8, 5), np.float32), np.zeros(8, bool)
    data = OfflineDatasetBuffer(rows, rows, np.zeros((8, 2), int), np.zeros(8), no, no)
    with pytest.raises(NativeUnsupportedError, match="not actions of several parts"):
        BC(data, env_id=Parts, backend="native", net_arch=(8,))
    assert BC(data, env_id=Parts, net_arch=(8,)).components.backend.name == "torch"
    with pytest.raises(ConfigError, match=r"algo\.backend=native: expected torch, the only choice"):
        CQL(dataset(), **BOUNDED, backend="native")


def test_a_module_that_was_changed_is_refused() -> None:
    algorithm = made("iql", "native")
    algorithm.policy.actor.log_prob = lambda *_: None
    with pytest.raises(NativeUnsupportedError, match="log_prob of its own"):
        algorithm.train(2)
    frozen = made("bc", "native")
    frozen.policy.log_std.requires_grad_(False)
    with pytest.raises(NativeUnsupportedError, match="frozen in log_std"):
        frozen.train(2)

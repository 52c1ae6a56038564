"""Tests that export refuses by name what a file of numbers cannot express."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.masked_envs import Masked
from helpers.policies import UserMlp

from rlox import OfflineDatasetBuffer
from rlox.algorithms.cql import CQL
from rlox.algorithms.dqn import DQN
from rlox.algorithms.ppo import PPO
from rlox.algorithms.recurrent_ppo import RecurrentPPO
from rlox.errors import ConfigError
from rlox.export import build_exported_policy
from rlox.policies import DiscretePolicy
from rlox.runs.algorithm import Algorithm

BOX = spaces.Box(-1, 1, (2,), np.float32)


class Spaced(gym.Env[Any, Any]):
    """Has any spaces, and no dynamics."""

    def __init__(self, seen: gym.Space[Any], taken: gym.Space[Any]) -> None:
        self.observation_space, self.action_space = seen, taken

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 0.0, False, False, {}


class Own(DiscretePolicy):
    """A subclass that might do anything."""


def ppo(seen: gym.Space[Any] = BOX, taken: gym.Space[Any] = BOX, **options: Any) -> Algorithm:
    return PPO(lambda: Spaced(seen, taken), n_envs=1, net_arch=(4,), **options)


def dqn(**options: Any) -> Algorithm:
    return DQN("CartPole-v1", buffer_size=100, net_arch=(4,), **options)


def cql() -> Algorithm:
    obs, no = np.zeros((8, 4), np.float32), np.zeros(8, bool)
    data = OfflineDatasetBuffer(obs, obs, np.arange(8) % 2, np.zeros(8), no, no)
    return CQL(data, env_id="CartPole-v1", hidden=4)


REFUSED: dict[str, tuple[Callable[[], Algorithm], str]] = {
    "several": (cql, "several networks, of which the lowest counts"),
    "images": (
        lambda: PPO(
            lambda: Spaced(spaces.Box(0, 255, (16, 16, 3), np.uint8), BOX),
            n_envs=1,
            encoder="small",
        ),
        "observations with images",
    ),
    "parts": (lambda: ppo(spaces.Dict({"a": BOX, "b": BOX})), "encoded: Dict("),
    "choices": (lambda: ppo(spaces.Discrete(3)), "encoded: Discrete(3)"),
    "factors": (lambda: ppo(taken=spaces.MultiDiscrete([2, 3])), "several parts: MultiDiscrete"),
    "dict": (lambda: ppo(taken=spaces.Dict({"a": BOX, "b": BOX})), "several parts: Dict("),
    "whole": (lambda: ppo(taken=spaces.Box(0, 9, (2,), np.int8)), "actions of whole numbers"),
    "masks": (
        lambda: PPO(lambda: Masked("info"), n_envs=1, net_arch=(4,), action_mask="info"),
        "masks of actions",
    ),
    "memory": (lambda: RecurrentPPO("CartPole-v1", n_envs=1), "a memory"),
    "own": (lambda: PPO("CartPole-v1", n_envs=1, policy=UserMlp(4, 2)), "methods of your own"),
    "subclass": (lambda: PPO("CartPole-v1", n_envs=1, policy=Own(4, 2)), "a Own, not a built-in"),
    "noisy": (lambda: dqn(noisy=True), "noisy layers"),
    "quantiles": (lambda: dqn(distribution="quantile"), "distributions of returns"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_export_refuses_policies_that_a_weights_file_cannot_express(name: str) -> None:
    make, said = REFUSED[name]
    with pytest.raises(ConfigError) as raised:
        build_exported_policy(make())
    assert said in str(raised.value)
    assert "play it from Python: from_checkpoint(path)" in str(raised.value)


def test_a_hook_and_a_method_that_the_layers_do_not_show_are_noticed() -> None:
    hooked = PPO("CartPole-v1", n_envs=1, net_arch=(4,))
    build_exported_policy(hooked)
    hooked.policy.actor.register_forward_hook(lambda module, given, gave: 2 * gave)
    with pytest.raises(ConfigError, match="hooks, or layers that do more"):
        build_exported_policy(hooked)
    changed = PPO("CartPole-v1", n_envs=1, net_arch=(4,))
    changed.policy.mode = lambda obs: changed.policy.actor(obs).argmin(-1)  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="its actions differ from those of its network"):
        build_exported_policy(changed)


def test_export_refuses_a_built_in_policy_with_replaced_layers() -> None:
    from torch import nn

    for changed in (nn.GELU(), nn.ELU(0.5), nn.Identity()):
        algorithm = PPO("CartPole-v1", n_envs=1, net_arch=(4,))
        algorithm.policy.actor[1] = changed
        with pytest.raises(ConfigError, match="other layers than linear ones"):
            build_exported_policy(algorithm)


def test_bounds_of_float64_are_kept_to_in_float32() -> None:
    third = spaces.Box(np.array([1 / 3, -np.inf]), np.array([2 / 3, 0.1]), dtype=np.float64)
    bounds = build_exported_policy(ppo(taken=third)).bounds
    assert bounds is not None
    assert (bounds.low.dtype, bounds.high.dtype) == (np.float32, np.float32)
    assert bounds.low[0] >= 1 / 3
    assert bounds.high[0] <= 2 / 3
    assert bounds.low[0] - 1 / 3 < 1e-7
    assert bounds.high[1] <= 0.1
    assert bounds.low[1] == np.finfo(np.float32).min


def test_the_exported_start_is_the_environments_first_choice() -> None:
    policy = build_exported_policy(ppo(taken=spaces.Discrete(3, start=5)))
    assert policy.description()["action"] == {"kind": "discrete", "n": 3, "start": 5}
    assert set(policy.golden.actions) <= {5, 6, 7}

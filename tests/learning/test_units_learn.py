"""Tests that the learned policy does not depend on the unit of an observation or of a reward."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.seeds import check_learned

from rlox.algorithms import PPO

SETTINGS: dict[str, Any] = {
    "n_envs": 8, "n_steps": 32, "n_epochs": 4, "batch_size": 64, "net_arch": (16,), "gamma": 0.0,
    "learning_rate": 3e-3, "normalize_obs": True, "normalize_reward": True,
}  # fmt: skip


class Sensor(gym.Env[Any, Any]):
    """Shows `offset + unit * bit`; the action that equals the bit pays `paid`, the other pays nothing."""

    def __init__(self, offset: float, unit: float, paid: float) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.offset, self.unit, self.paid = offset, unit, paid

    def _reading(self) -> Any:
        self.bit = int(self.np_random.integers(2))
        return np.array([self.offset + self.unit * self.bit], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self._reading(), {}

    def step(self, action: Any) -> Any:
        reward, self.t = self.paid * (int(action) == self.bit), self.t + 1
        return self._reading(), reward, self.t == 10, False, {}


def share_right(rule: str, offset: float, unit: float, paid: float, seed: int) -> float:
    """Return the share of right actions of a policy that learned for 4,096 steps.

    Of 20 seeds each: 1.0 in every unit by `relative`, 0.44 to 0.56 in picoamperes by `sb3`. The numbers are
    the same on an Intel Xeon with AVX-512 and with the kernels that every x86 CPU has.
    """
    make = partial(Sensor, offset, unit, paid)
    algorithm = PPO(make, seed=seed, normalize_rule=rule, **SETTINGS)
    algorithm.train(4_096)
    return float(np.mean(algorithm.evaluate(20).returns)) / (10 * paid)


@pytest.mark.parametrize(
    ("offset", "unit", "paid"),
    [
        pytest.param(0.0, 1.0, 1.0, id="plain"),
        pytest.param(48.137, 5e-4, 1.0, id="latitude"),
        pytest.param(0.0, 1e-6, 1e-6, id="microamperes"),
        pytest.param(0.0, 1e-12, 1e9, id="picoamperes"),
    ],
)
def test_ppo_reads_a_sensor_in_any_unit(offset: float, unit: float, paid: float) -> None:
    assert check_learned(partial(share_right, "relative", offset, unit, paid), at_least=0.9)


def test_ppo_with_stable_baselines3s_rule_cannot_read_picoamperes() -> None:
    assert share_right("sb3", 0.0, 1e-12, 1.0, seed=0) < 0.75

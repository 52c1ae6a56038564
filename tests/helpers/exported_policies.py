"""Briefly trained policies of every kind that can be exported, with observations of their play."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox import OfflineDatasetBuffer
from rlox.algorithms.a2c import A2C
from rlox.algorithms.bc import BC
from rlox.algorithms.cql import CQL
from rlox.algorithms.ddpg import DDPG
from rlox.algorithms.dqn import DQN
from rlox.algorithms.iql import IQL
from rlox.algorithms.ppo import PPO
from rlox.algorithms.sac import SAC
from rlox.algorithms.td3 import TD3
from rlox.algorithms.td3_bc import TD3BC
from rlox.algorithms.tqc import TQC
from rlox.runs.algorithm import Algorithm

# Layer widths smaller than a block of the kernels, equal to one block, and larger.
NARROW, ONE, MORE = (8, 8), (64, 16), (130, 70)


def on_policy(kind: Any, env: str, **options: Any) -> Algorithm:
    algorithm: Algorithm = kind(env, n_envs=2, n_steps=32, seed=1, **options)
    algorithm.train(256)
    return algorithm


def off_policy(kind: Any, env: str, **options: Any) -> Algorithm:
    options_with_defaults = {
        "learning_starts": 32,
        "buffer_size": 1000,
        "batch_size": 16,
        **options,
    }
    algorithm: Algorithm = kind(env, n_envs=1, seed=1, **options_with_defaults)
    algorithm.train(96)
    return algorithm


def ppo(env: str, **options: Any) -> Algorithm:
    return on_policy(PPO, env, batch_size=32, n_epochs=2, **options)


def from_dataset(env: str, continuous: bool, kind: Any = BC) -> Algorithm:
    """Return a policy that learned from a random dataset and plays with its moments."""
    rng = np.random.default_rng(0)
    env_instance = gym.make(env)
    dim = env_instance.observation_space.shape[0]
    obs = rng.normal(3.0, 2.0, (65, dim)).astype(np.float32)
    obs[:, 0] = 1.0  # rlox only centres it
    size = env_instance.action_space.shape[0] if continuous else env_instance.action_space.n
    actions = rng.uniform(-2.0, 2.0, (64, size)) if continuous else rng.integers(0, size, 64)
    ends = np.zeros(64, bool)
    dataset = OfflineDatasetBuffer(
        obs[:-1], obs[1:], actions.astype(np.float32 if continuous else np.int64),
        np.zeros(64, np.float32), ends, ends, normalize=True,
    )  # fmt: skip
    algorithm: Algorithm = kind(dataset, env_id=env, hidden=8, batch_size=16, seed=1)
    algorithm.train(20)
    return algorithm


Make = Callable[..., Algorithm]
CAR = "MountainCarContinuous-v0"
# The maker of each policy, with or without `normalize_obs`.
KINDS: Mapping[str, Make] = {
    "ppo_categorical": lambda **more: ppo("CartPole-v1", net_arch=NARROW, **more),
    "ppo_gaussian": lambda **more: ppo("Pendulum-v1", net_arch=ONE, activation="elu", **more),
    "ppo_gsde": lambda **more: ppo(CAR, net_arch=ONE, activation="silu", use_sde=True, **more),
    "sac": lambda **more: off_policy(SAC, "Pendulum-v1", **{"net_arch": MORE, **more}),
    "td3": lambda **more: off_policy(TD3, "Pendulum-v1", net_arch=NARROW, **more),
    "dqn": lambda **more: off_policy(DQN, "MountainCar-v0", **{"net_arch": MORE, **more}),
}
# Policies that differ from these in one setting.
VARIANTS: Mapping[str, Make] = {
    "bc_choices": lambda **more: from_dataset("CartPole-v1", False, **more),
    "bc_vectors": lambda **more: from_dataset("Pendulum-v1", True, **more),
    "td3_bc": lambda **more: from_dataset("Pendulum-v1", True, TD3BC, **more),
    "iql": lambda **more: from_dataset("Pendulum-v1", True, IQL, **more),
    "cql": lambda **more: from_dataset("Pendulum-v1", True, CQL, **more),
    "tqc": lambda **more: off_policy(TQC, "Pendulum-v1", net_arch=NARROW, n_quantiles=4, **more),
    "a2c": lambda **more: on_policy(A2C, "Acrobot-v1", net_arch=(5,), **more),
    "ddpg": lambda **more: off_policy(DDPG, CAR, net_arch=(70,), **more),
    "dqn_dueling": lambda **more: off_policy(
        DQN, "CartPole-v1", net_arch=NARROW, dueling=True, activation="tanh", **more
    ),
    "dqn_dueling_of_one_layer": lambda **more: off_policy(
        DQN, "CartPole-v1", net_arch=(66,), dueling=True, **more
    ),
    "sac_choices": lambda **more: off_policy(SAC, "CartPole-v1", net_arch=NARROW, **more),
    "sac_gsde": lambda **more: off_policy(SAC, "Pendulum-v1", net_arch=NARROW, use_sde=True, **more),
}


def collect_observations(algorithm: Algorithm, steps: int, seed: int = 5) -> NDArray[np.float32]:
    """Return raw observations `[steps, dim]` of episodes that the policy plays."""
    env = gym.make(algorithm.env_id)
    rows = []
    obs, _ = env.reset(seed=seed)
    for _ in range(steps):
        rows.append(np.asarray(obs, np.float32).ravel())
        obs, _, terminated, truncated, _ = env.step(algorithm.predict(obs))
        if terminated or truncated:
            obs, _ = env.reset()
    env.close()
    return np.stack(rows)

"""`GymVecEnv`: any Gymnasium environment with the dictionary interface of `rlox.VecEnv`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.configs import EnvConfig, RunConfig, make
from rlox.configs.check import check_integer
from rlox.configs.env import AtariConfig
from rlox.envs.make import EnvLike, make_vec
from rlox.rng import ExclusiveLock

__all__ = ["GymVecEnv"]


class GymVecEnv:
    """`n_envs` copies of a Gymnasium environment, reset in the step that ends an episode.

    Parameters
    ----------
    env_id : an id, a `gymnasium.Env`, or a callable that makes one
    n_envs : parallel copies
    seed : seed of the run; it gives each environment its own seed, with which it is reset once
    workers : `"sync"` (this process) or `"subprocess"` (supervised processes, with a deadline)
    step_timeout : seconds a subprocess may take to answer before it is replaced
    max_restarts : how often in a row an environment in a subprocess may fail
    worker_envs : environments per subprocess; by default there are as many subprocesses as CPUs
    seeding : `"keyed"`, or `"offset"`: environment i is first reset with `seed + i`
    """

    def __init__(
        self,
        env_id: EnvLike,
        n_envs: int,
        seed: int = 0,
        workers: str = "sync",
        step_timeout: float = 60.0,
        max_restarts: int = 5,
        worker_envs: int | None = None,
        seeding: str = "keyed",
    ) -> None:
        name = env_id if isinstance(env_id, str) else "env"
        settings = {
            "id": name,
            "n_envs": n_envs,
            "backend": "gymnasium",
            "workers": workers,
            "step_timeout": step_timeout,
            "max_restarts": max_restarts,
            "worker_envs": worker_envs,
            "seeding": seeding,
            "atari": AtariConfig(life_loss=False, clip_rewards=False),  # full games with unclipped rewards
        }
        config = make(EnvConfig, settings, "GymVecEnv")
        seed = check_integer(RunConfig, "seed", seed, "seed")
        self._step_lock = ExclusiveLock("the GymVecEnv is being stepped")
        self.vec = make_vec(config, seed, None if isinstance(env_id, str) else env_id)
        self.n_envs = config.n_envs
        self.observation_space = self.vec.observation_space
        self.action_space = self.vec.action_space

    def reset_all(self) -> NDArray[Any]:
        """Reset every environment; return observations `[n_envs, obs_dim]` float32, uint8 with images."""
        with self._step_lock:
            obs = self.vec.observations.rows(self.n_envs)
            self.vec.reset_into(obs)
            self._last_obs = obs
            return obs

    def step_all(self, actions: Any) -> dict[str, NDArray[Any]]:
        """Step every environment with `actions` of its space, `[n_envs, ...]`, or dicts or tuples of arrays.

        Returns a dict of `obs` and `final_obs` `[n_envs, obs_dim]`, `rewards` float64, and `terminated`,
        `truncated`, `final_mask` and `lost` bool, all `[n_envs]`. `final_obs` is the observation that the
        step reached: where an episode ended, its last one. Where `lost` is true, a subprocess failed and the
        result of the step is unknown, or an engine used the step for a reset. Such a row is not a
        transition, and its `final_obs` is the observation before the step. Raises `RloxError` while another
        thread steps or resets the environments.
        """
        with self._step_lock:
            return self._step_encoded(self.vec.actions.from_env(actions, self.n_envs))

    def _step_encoded(self, encoded_actions: NDArray[Any]) -> dict[str, NDArray[Any]]:
        obs = self.vec.observations.rows(self.n_envs)
        rewards = np.empty(self.n_envs, np.float64)
        terminated, truncated = np.zeros(self.n_envs, np.bool_), np.zeros(self.n_envs, np.bool_)
        ends = self.vec.step_into(encoded_actions, obs, rewards, terminated, truncated)
        final_obs = obs.copy()
        is_lost = np.zeros(self.n_envs, np.bool_)
        if ends is not None:
            final_obs[ends.envs] = ends.obs
            final_obs[ends.invalid_envs] = self._last_obs[ends.invalid_envs]
            is_lost[ends.invalid_envs] = True
        self._last_obs = obs
        return {
            "obs": obs,
            "rewards": rewards,
            "terminated": terminated,
            "truncated": truncated,
            "final_obs": final_obs,
            "final_mask": terminated | truncated,
            "lost": is_lost,
        }

    def close(self) -> None:
        """Close the environments."""
        self.vec.close()

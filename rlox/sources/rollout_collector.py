"""A collector of rollouts with generalised advantage estimates."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import compute_gae_time_major
from rlox.configs import EnvConfig
from rlox.envs.base import VectorEnv
from rlox.envs.make import EnvLike
from rlox.errors import ConfigError
from rlox.parameters.lazy_torch import ActingPolicy
from rlox.sources.collector import Collector
from rlox.types import ArrayT, Rollout

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch

__all__ = ["RolloutCollector", "gae"]


def gae(rollout: Rollout[ArrayT], gamma: float, lam: float) -> tuple[ArrayT, ArrayT]:
    """Compute generalised advantage estimates (Schulman et al. 2016) and returns, each `[T*N]`.

    A_t = delta_t + gamma lam A_{t+1} within an episode and delta_t at its end, with delta_t = r_t + gamma
    V'_t - V_t; the returns are A_t + V_t. V'_t is `next_values`, the value of the state after step t: 0 after
    termination, the value of the final observation after truncation.

    Results are written to `rollout.advantages` and `rollout.returns`, which are returned. The rollout must be
    on the CPU, where its columns are read in place.
    """

    def grid(column: ArrayT) -> NDArray[Any]:
        return np.asarray(column).reshape(rollout.n_steps, rollout.n_envs)

    compute_gae_time_major(
        grid(rollout.rewards),
        grid(rollout.values),
        grid(rollout.next_values),
        grid(rollout.terminated),
        grid(rollout.truncated),
        gamma,
        lam,
        advantages=grid(rollout.advantages),
        returns=grid(rollout.returns),
    )
    return rollout.advantages, rollout.returns


class RolloutCollector(Collector):
    """Steps `n_envs` environments with a policy and returns rollouts with GAE advantages.

    Episodes continue across rollouts. Terminated episodes are not bootstrapped. Truncated episodes are
    bootstrapped from the value of their final observation (never of the reset state). No advantage sums TD
    errors beyond the end of an episode. Native environments run in Rust, all others in Gymnasium.
    On the CPU a rollout is valid until the next one, which overwrites its memory.

    Parameters
    ----------
    env_id : Gymnasium id, `gymnasium.Env`, or a callable that makes one
    n_envs : number of parallel environments
    seed : seed of environments and exploration
    device : device of the policy and of the returned rollout
    gamma, gae_lambda : discount and trace decay
    config : environment settings beyond id and n_envs (normalisation, workers, wrappers)
    env : an existing `VectorEnv` to use instead of making one
    """

    def __init__(
        self,
        env_id: EnvLike = "CartPole-v1",
        n_envs: int = 1,
        seed: int = 0,
        device: str | torch.device = "cpu",
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        *,
        config: EnvConfig | None = None,
        env: VectorEnv | None = None,
    ) -> None:
        for name, value in (("gamma", gamma), ("gae_lambda", gae_lambda)):
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value <= 1:
                raise ConfigError(f"{name}={value!r}: expected a number from 0 to 1")
        super().__init__(env_id, n_envs, seed, device, gamma, config=config, env=env)
        self.gamma = gamma
        self.gae_lambda = gae_lambda

    def collect(self, policy: ActingPolicy, n_steps: int) -> Rollout:
        """Collect `n_steps` steps of every environment; `self.progress` has steps and finished episodes.

        On the CPU the rollout is in the collector's own memory, which the next call of `collect` overwrites:
        learn from it before that call, or keep copies (`rollout.obs.clone()`). `ConfigError` unless `n_steps`
        is an integer of at least 1.
        """
        rollout = self.collect_in_arena(policy, n_steps)
        gae(rollout, self.gamma, self.gae_lambda)
        return rollout.to(self.device)

"""Rainbow (Hessel et al. 2018): DQN with all of its extensions.

These are double Q-learning, dueling networks, n-step returns, prioritized replay, noisy networks and C51.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlox.algorithms.dqn import make
from rlox.callbacks import Callback, LoggerCallback
from rlox.envs.make import EnvLike
from rlox.runs.algorithm import Algorithm
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, resolve_env

__all__ = ["Rainbow"]


class Rainbow(Algorithm):
    """Rainbow for Discrete actions.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : number of parallel environments; `None`: 1, or that of a given vectorised environment
    seed : seed of every random stream of the run
    logger : receives the rows of metrics
    callbacks : called during training; if `on_step` returns False, training stops
    **config_kwargs : any field of `RainbowConfig` (`v_min`, `v_max`, `n_step`, `noisy`, ...), of its buffer
        (`buffer_size`, `alpha`, `beta`, ...) or of `EnvConfig` (its `backend` as `env_backend`), or
        `device`; unknown names are errors
    """

    name = "rainbow"
    make = staticmethod(make)

    def __init__(
        self,
        env_id: EnvLike = DEFAULT_ENV,
        n_envs: int | None = None,
        seed: int = 42,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        **config_kwargs: Any,
    ) -> None:
        env_id = resolve_env(env_id, DEFAULT_ENV, config_kwargs)
        config = config_from_arguments("rainbow", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)

"""DDPG: deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlox.algorithms.td3 import make
from rlox.callbacks import Callback, LoggerCallback
from rlox.envs.make import EnvLike
from rlox.runs.algorithm import Algorithm
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, resolve_env

__all__ = ["DDPG"]


class DDPG(Algorithm):
    """Deep deterministic policy gradient, for Box actions with finite bounds.

    It is TD3 with one critic, an actor update after every critic update, and no noise on the target action.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : number of parallel environments; `None`: 1, or that of a given vectorised environment
    seed : seed of every random stream of the run
    logger : receives the rows of metrics
    callbacks : called during training; if `on_step` returns False, training stops
    **config_kwargs : any field of `DDPGConfig`, of its buffer (`buffer_size`, ...) or of `EnvConfig`
        (its `backend` as `env_backend`), or `device`; unknown names are errors
    """

    name = "ddpg"
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
        config = config_from_arguments("ddpg", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)

"""DQN: deep Q-learning (Mnih et al. 2015), and what became of it, part by part (Hessel et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rlox.algorithms import native_dqn
from rlox.algorithms.encoding import Encoding
from rlox.algorithms.off_policy import OffPolicy, off_policy_parts
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import DQNConfig, RunConfig
from rlox.envs.base import VectorEnv
from rlox.envs.make import EnvSource
from rlox.policies.native_q import QSizes
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import Choice
from rlox.training.parts import Parts, Tools
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, environment_of

__all__ = ["DQN"]


def make(config: RunConfig, tools: Tools) -> Parts:
    """DQN's learner, with whatever parts, on replayed transitions."""
    algo = cast(DQNConfig, config.algo)

    def compose(env: VectorEnv, encoding: Encoding, choice: Choice) -> OffPolicy:
        given = config, tools, env, encoding
        sizes = QSizes(
            env.actions.size, encoding.features, algo.net_arch, algo.activation, algo.dueling
        )
        made = choice.native(sizes.widest, lambda: native_dqn.composed(*given, sizes))
        if made is not None:
            return made
        from rlox.algorithms.torch_dqn import composed

        return composed(*given)

    return off_policy_parts(config, tools, compose)


class DQN(Algorithm):
    """Deep Q-learning for Discrete actions.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : parallel environments; `None`: 1, or as many as a ready vectorised one has
    seed : keys every random stream of the run
    logger : receives metrics rows
    callbacks : called during training; one that returns False from `on_step` stops it
    **config_kwargs : any field of `DQNConfig` (`double_dqn`, `dueling`, `n_step`, `prioritized`, `noisy`,
        `distribution`, ...), of its buffer (`buffer_size`, `alpha`, `beta`, ...) or of `EnvConfig` (its
        `backend` as `env_backend`), or `device`; unknown names are errors
    """

    name = "dqn"
    make = staticmethod(make)

    def __init__(
        self,
        env_id: EnvSource = DEFAULT_ENV,
        n_envs: int | None = None,
        seed: int = 42,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        **config_kwargs: Any,
    ) -> None:
        env_id = environment_of(env_id, DEFAULT_ENV, config_kwargs)
        config = config_from_arguments("dqn", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)

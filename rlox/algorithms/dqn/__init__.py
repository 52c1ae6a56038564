"""DQN: deep Q-learning (Mnih et al. 2015) with optional extensions (Hessel et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.off_policy import OffPolicyComponents, build_off_policy_run
from rlox.algorithms.dqn import native as native_dqn
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import DQNConfig, RunConfig
from rlox.envs.base import VectorEnv
from rlox.envs.make import EnvLike
from rlox.native.q_policy import QSizes
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, resolve_env

__all__ = ["DQN"]


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a DQN run, with the configured extensions, on replayed transitions."""
    algo = cast(DQNConfig, config.algo)

    def build_learner(
        env: VectorEnv, encoder_spec: EncoderSpec, selector: BackendSelector
    ) -> OffPolicyComponents:
        args = config, context, env, encoder_spec
        sizes = QSizes(env.actions.size, encoder_spec.features, algo.net_arch, algo.activation, algo.dueling)
        native = selector.make_native(sizes.max_width, lambda: native_dqn.build_native(*args, sizes))
        if native is not None:
            return native
        from rlox.algorithms.dqn.learner import build_torch

        return build_torch(*args)

    return build_off_policy_run(config, context, build_learner)


class DQN(Algorithm):
    """Deep Q-learning for Discrete actions.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : number of parallel environments; `None`: 1, or that of a given vectorised environment
    seed : seed of every random stream of the run
    logger : receives the rows of metrics
    callbacks : called during training; if `on_step` returns False, training stops
    **config_kwargs : any field of `DQNConfig` (`double_dqn`, `dueling`, `n_step`, `prioritized`, `noisy`,
        `distribution`, ...), of its buffer (`buffer_size`, `alpha`, `beta`, ...) or of `EnvConfig` (its
        `backend` as `env_backend`), or `device`; unknown names are errors
    """

    name = "dqn"
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
        config = config_from_arguments("dqn", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)

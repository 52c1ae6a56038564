"""TD3 (Fujimoto et al. 2018, arXiv:1802.09477), an extension of DDPG (Lillicrap et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.off_policy import OffPolicyComponents, build_off_policy_run
from rlox.algorithms.td3 import native as native_td3
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import RunConfig
from rlox.configs.td3 import DeterministicConfig
from rlox.envs.base import VectorEnv
from rlox.envs.make import EnvLike
from rlox.native.vector_policies import ContinuousSizes
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, resolve_env

__all__ = ["TD3"]


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a TD3 or DDPG run, as `config` says, on replayed transitions."""
    algo = cast(DeterministicConfig, config.algo)

    def build_learner(
        env: VectorEnv, encoder_spec: EncoderSpec, selector: BackendSelector
    ) -> OffPolicyComponents:
        actions = env.actions.unit_codec(config.env.id, algo.name)
        size, shapes = actions.size, (algo.n_critics, *algo.hidden_widths, algo.activation)
        sizes = ContinuousSizes(encoder_spec.features, size, size, *shapes)
        args = config, context, env, encoder_spec, actions
        native = selector.make_native(sizes.max_width, lambda: native_td3.build_native(*args, sizes))
        if native is not None:
            return native
        from rlox.algorithms.td3.learner import build_torch

        return build_torch(*args)

    return build_off_policy_run(config, context, build_learner)


class TD3(Algorithm):
    """Twin delayed deep deterministic policy gradient, for Box actions with finite bounds.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : number of parallel environments; `None`: 1, or that of a given vectorised environment
    seed : seed of every random stream of the run
    logger : receives the rows of metrics
    callbacks : called during training; if `on_step` returns False, training stops
    **config_kwargs : any field of `TD3Config` (`policy_delay`, `target_noise`, `noise_clip`, ...), of its
        buffer (`buffer_size`, ...) or of `EnvConfig` (its `backend` as `env_backend`), or `device`;
        unknown names are errors
    """

    name = "td3"
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
        config = config_from_arguments("td3", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)

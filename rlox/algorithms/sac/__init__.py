"""SAC: soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), for continuous and discrete actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.off_policy import OffPolicyComponents, build_off_policy_run
from rlox.algorithms.sac import native as native_sac
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import RunConfig, SACConfig
from rlox.envs.base import VectorEnv
from rlox.envs.make import EnvLike
from rlox.errors import ConfigError
from rlox.native.vector_policies import ContinuousSizes
from rlox.parameters.engine import NativeUnsupportedError
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents
from rlox.training.native_fields import native_space_obstacle
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, resolve_env

__all__ = ["SAC"]


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of an SAC run on replayed transitions."""

    def build_learner(
        env: VectorEnv, encoder_spec: EncoderSpec, selector: BackendSelector
    ) -> OffPolicyComponents:
        build = _build_discrete if env.actions.is_discrete else _build_continuous
        return build(config, context, env, encoder_spec, selector)

    return build_off_policy_run(config, context, build_learner)


def _build_continuous(
    config: RunConfig,
    context: BuildContext,
    env: VectorEnv,
    encoder_spec: EncoderSpec,
    selector: BackendSelector,
) -> OffPolicyComponents:
    """Build the components for Box actions."""
    algo, actions = cast(SACConfig, config.algo), env.actions.unit_codec(config.env.id, "sac")
    sizes = ContinuousSizes(
        encoder_spec.features,
        actions.size,
        2 * actions.size,
        algo.n_critics,
        *algo.hidden_widths,
        algo.activation,
    )
    args = config, context, env, encoder_spec, actions
    native = selector.make_native(sizes.max_width, lambda: native_sac.build_native(*args, sizes))
    if native is not None:
        return native
    from rlox.algorithms.sac.learner import build_continuous

    return build_continuous(*args)


def _build_discrete(
    config: RunConfig,
    context: BuildContext,
    env: VectorEnv,
    encoder_spec: EncoderSpec,
    selector: BackendSelector,
) -> OffPolicyComponents:
    """Build the components for Discrete actions, which only torch supports."""
    algo = cast(SACConfig, config.algo)
    if algo.use_sde:
        raise ConfigError(
            f"algo.use_sde=true needs Box actions, {config.env.id} has {env.action_space}; leave "
            "algo.use_sde out"
        )

    def refuse_native() -> NoReturn:
        obstacle = native_space_obstacle(
            algo, env.actions, context.device_name, encoder_spec.make_encoder is not None
        )
        raise NativeUnsupportedError(obstacle)

    actor, critic = algo.hidden_widths
    sizes = encoder_spec.features, env.actions.size, *actor, *critic
    selector.make_native(lambda: max(sizes), refuse_native)
    from rlox.algorithms.sac.learner import build_discrete

    return build_discrete(config, context, env, encoder_spec)


class SAC(Algorithm):
    """Soft actor-critic for Box actions with finite bounds, and for Discrete ones.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : number of parallel environments; `None`: 1, or that of a given vectorised environment
    seed : seed of every random stream of the run
    logger : receives the rows of metrics
    callbacks : called during training; if `on_step` returns False, training stops
    **config_kwargs : any field of `SACConfig` (`ent_coef`, `tau`, `use_sde`, ...), of its buffer
        (`buffer_size`, ...) or of `EnvConfig` (its `backend` as `env_backend`), or `device`; unknown
        names are errors
    """

    name = "sac"
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
        config = config_from_arguments("sac", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)

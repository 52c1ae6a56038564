"""SAC: soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), for continuous and discrete actions."""

from __future__ import annotations

from typing import NoReturn, cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.off_policy import OffPolicyComponents, build_off_policy_run
from rlox.algorithms.sac import native as native_sac
from rlox.configs import RunConfig, SACConfig
from rlox.envs.base import VectorEnv
from rlox.errors import ConfigError
from rlox.native.vector_policies import ContinuousSizes
from rlox.parameters.engine import NativeUnsupportedError
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector, native_space_obstacle
from rlox.training.components import BuildContext, RunComponents

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
        obstacle = native_space_obstacle(algo, env.actions, context.device_name, encoder_spec.native_obstacle)
        raise NativeUnsupportedError(obstacle)

    actor, critic = algo.hidden_widths
    sizes = encoder_spec.features, env.actions.size, *actor, *critic
    selector.make_native(lambda: max(sizes), refuse_native)
    from rlox.algorithms.sac.learner import build_discrete

    return build_discrete(config, context, env, encoder_spec)


class SAC(Algorithm):
    """Soft actor-critic for Box actions with finite bounds, and for Discrete ones."""

    name = "sac"
    make = staticmethod(make)

"""TD3 (Fujimoto et al. 2018, arXiv:1802.09477), an extension of DDPG (Lillicrap et al. 2016)."""

from __future__ import annotations

from typing import cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.off_policy import OffPolicyComponents, build_off_policy_run
from rlox.algorithms.td3 import native as native_td3
from rlox.configs import RunConfig
from rlox.configs.td3 import DeterministicConfig
from rlox.envs.base import VectorEnv
from rlox.native.vector_policies import ContinuousSizes
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents

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
    """Twin delayed deep deterministic policy gradient, for Box actions with finite bounds."""

    name = "td3"
    make = staticmethod(make)

"""DQN: deep Q-learning (Mnih et al. 2015) with optional extensions (Hessel et al. 2018)."""

from __future__ import annotations

from typing import cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.off_policy import OffPolicyComponents, build_off_policy_run
from rlox.algorithms.dqn import native as native_dqn
from rlox.configs import DQNConfig, RunConfig
from rlox.envs.base import VectorEnv
from rlox.native.q_policy import QSizes
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents

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
    """Deep Q-learning for Discrete actions."""

    name = "dqn"
    make = staticmethod(make)

"""A2C: synchronous advantage actor-critic (Mnih et al. 2016), one gradient step per rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rlox.algorithms.a2c.native import NativeA2CLearner
from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.on_policy import NativeLearnerFactory, build_on_policy_run, get_collector
from rlox.configs import A2CConfig, RunConfig
from rlox.envs.base import VectorEnv
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents
from rlox.training.loop import Learner
from rlox.types import Rollout

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.base import ActorCritic

__all__ = ["A2C"]


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of an A2C run, which learns from rollouts."""
    algo = cast(A2CConfig, config.algo)
    selector = BackendSelector(algo.backend, config, context.saved_backend)

    def build_learner(policy: ActorCritic, env: VectorEnv, encoder_spec: EncoderSpec) -> Learner[Rollout]:
        from rlox.algorithms.a2c.learner import A2CLearner

        return A2CLearner(policy, algo)

    native_factory = NativeLearnerFactory(selector, lambda native: NativeA2CLearner(native, algo))
    return build_on_policy_run(config, context, build_learner, native_factory=native_factory)


class A2C(Algorithm):
    """Synchronous advantage actor-critic.

    Observation and action spaces come from the environment: `DiscretePolicy` for Discrete actions,
    `ContinuousPolicy` (or gSDE with `use_sde=True`) for Box.
    """

    name = "a2c"
    make = staticmethod(make)
    positional = ("env_id", "n_envs", "seed", "policy", "logger", "callbacks")
    collector = property(get_collector)

"""PPO: proximal policy optimisation with a clipped surrogate (Schulman et al. 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.on_policy import NativeLearnerFactory, build_on_policy_run, get_collector
from rlox.algorithms.ppo.native import NativePPOLearner
from rlox.configs import PPOConfig, RunConfig
from rlox.envs.base import VectorEnv
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents
from rlox.training.loop import Learner
from rlox.types import Rollout

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.base import ActorCritic

__all__ = ["PPO"]


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a PPO run, which learns from rollouts."""
    algo = cast(PPOConfig, config.algo)
    selector = BackendSelector(algo.backend, config, context.saved_backend)

    def build_learner(policy: ActorCritic, env: VectorEnv, encoder_spec: EncoderSpec) -> Learner[Rollout]:
        from rlox.algorithms.ppo.learner import PPOLearner

        return PPOLearner(policy, algo, context.streams)

    return build_on_policy_run(
        config,
        context,
        build_learner,
        minibatch_size=algo.batch_size,
        n_orders=0 if selector.is_torch_forced or context.device_name != "cpu" else algo.n_epochs,
        native_factory=NativeLearnerFactory(
            selector, lambda native: NativePPOLearner(native, algo, context.streams)
        ),
    )


class PPO(Algorithm):
    """Proximal policy optimisation.

    Observation and action spaces come from the environment: `DiscretePolicy` for Discrete actions,
    `ContinuousPolicy` (or gSDE with `use_sde=True`) for Box.
    """

    name = "ppo"
    make = staticmethod(make)
    positional = ("env_id", "n_envs", "seed", "policy", "logger", "callbacks")
    collector = property(get_collector)

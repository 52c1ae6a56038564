"""Hybrid PPO: PPO (Schulman et al. 2017) that collects rollouts in Rust and updates in torch."""

from __future__ import annotations

from typing import cast

from rlox.algorithms.assembly.on_policy import build_on_policy_run, get_collector
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.configs import HybridPPOConfig, RunConfig
from rlox.envs.make import require_native
from rlox.errors import ConfigError
from rlox.native.policy import NativePolicy
from rlox.policies import ActorCritic
from rlox.rng import Streams
from rlox.runs.algorithm import Algorithm
from rlox.training.components import BuildContext, RunComponents

__all__ = ["HybridPPO", "HybridPPOLearner"]


class HybridPPOLearner(PPOLearner):
    """PPO's update in torch; `native` acts in Rust and shares the parameters' memory."""

    def __init__(self, policy: ActorCritic, config: HybridPPOConfig, streams: Streams) -> None:
        super().__init__(policy, config, streams)
        self.native = NativePolicy(policy, self.optimizer.flat)


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a PPO run that collects rollouts in Rust and learns in torch."""
    algo = cast(HybridPPOConfig, config.algo)
    require_native(config.env, algo.name, context.env)
    if context.device_name != "cpu":
        raise ConfigError(
            f"device={config.device}: in hybrid_ppo Rust and torch share the parameters' memory, which has "
            "to be on the CPU; use device=cpu, or algo=ppo"
        )
    return build_on_policy_run(
        config,
        context,
        lambda policy, env, encoder_spec: HybridPPOLearner(policy, algo, context.streams),
        minibatch_size=algo.batch_size,
    )


class HybridPPO(Algorithm):
    """PPO that collects rollouts in Rust and updates in torch.

    One call into Rust collects a rollout: without the Python interpreter it acts, steps the environments,
    writes the rollout and computes the values. Collection and updates alternate, so every rollout uses the
    latest weights. It takes native environments only (`rlox.native_env_ids()`), with Discrete or Box actions.
    """

    name = "hybrid_ppo"
    make = staticmethod(make)
    positional = ("env_id", "n_envs", "seed", "hidden", "logger", "callbacks")
    collector = property(get_collector)

    def timing_summary(self) -> dict[str, float]:
        """Return the wall-clock time of training in seconds, by phase, since the run began.

        `collection_s` is the time of rollouts, `training_s` that of updates, and `total_s` their sum.
        `collection_fraction` is `collection_s / total_s` (0 before the first rollout).
        """
        collection, training = self.timings.collect, self.timings.update
        total = collection + training
        return {
            "collection_s": collection,
            "training_s": training,
            "total_s": total,
            "collection_fraction": collection / total if total else 0.0,
        }

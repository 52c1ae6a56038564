"""Hybrid PPO: PPO (Schulman et al. 2017) that collects rollouts in Rust and updates in torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rlox.algorithms.assembly.on_policy import build_on_policy_run, get_collector
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import HybridPPOConfig, RunConfig
from rlox.envs.make import EnvLike, require_native
from rlox.errors import ConfigError
from rlox.native.policy import NativePolicy
from rlox.policies import ActorCritic
from rlox.rng import Streams
from rlox.runs.algorithm import Algorithm
from rlox.training.components import BuildContext, RunComponents
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, resolve_env

__all__ = ["HybridPPO", "HybridPPOLearner"]

DEFAULT_HIDDEN = 64  # width of the two hidden layers


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
        lambda policy: HybridPPOLearner(policy, algo, context.streams),
        minibatch_size=algo.batch_size,
    )


class HybridPPO(Algorithm):
    """PPO that collects rollouts in Rust and updates in torch.

    One call into Rust collects a rollout: without the Python interpreter it acts, steps the environments,
    writes the rollout and computes the values. Collection and updates alternate, so every rollout uses the
    latest weights.

    Parameters
    ----------
    env_id : a native environment (`rlox.native_env_ids()`), with Discrete or Box actions
    n_envs : number of parallel environments
    seed : seed of every random stream of the run
    hidden : width of the two hidden layers in actor and critic; `net_arch` gives all widths instead
    logger : receives the rows of metrics
    callbacks : called during training; if `on_step` returns False, training stops
    **config_kwargs : any field of `HybridPPOConfig` (those of `PPOConfig`) or `EnvConfig` (its `backend`
        as `env_backend`), or `device`; unknown names are errors
    """

    name = "hybrid_ppo"
    make = staticmethod(make)
    collector = property(get_collector)

    def __init__(
        self,
        env_id: EnvLike = DEFAULT_ENV,
        n_envs: int = 16,
        seed: int = 42,
        hidden: int = DEFAULT_HIDDEN,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        **config_kwargs: Any,
    ) -> None:
        env_id = resolve_env(env_id, DEFAULT_ENV, config_kwargs)
        if "net_arch" not in config_kwargs:
            config_kwargs["net_arch"] = (hidden, hidden)
        elif hidden != DEFAULT_HIDDEN:
            raise ConfigError(
                f"hidden={hidden} and net_arch={config_kwargs['net_arch']} both set the layers' widths; "
                "give one of them"
            )
        config = config_from_arguments("hybrid_ppo", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)

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

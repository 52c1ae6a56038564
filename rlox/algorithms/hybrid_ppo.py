"""Hybrid PPO: PPO (Schulman et al. 2017) whose rollouts are collected in Rust and learned from in torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rlox.algorithms.on_policy import get_collector, on_policy_parts
from rlox.algorithms.torch_ppo import PPOLearner
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import HybridPPOConfig, RunConfig
from rlox.envs.make import EnvLike, require_native
from rlox.errors import ConfigError
from rlox.policies import ActorCritic
from rlox.policies.native import NativePolicy
from rlox.rng import Streams
from rlox.runs.algorithm import Algorithm
from rlox.training.components import BuildContext, RunComponents
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, resolve_env

__all__ = ["HybridPPO", "HybridPPOLearner"]

DEFAULT_HIDDEN = 64  # width of the two hidden layers


class HybridPPOLearner(PPOLearner):
    """PPO's update in torch; `native` acts in Rust on the same memory of the parameters."""

    def __init__(self, policy: ActorCritic, config: HybridPPOConfig, streams: Streams) -> None:
        super().__init__(policy, config, streams)
        self.native = NativePolicy(policy, self.optimizer.flat)


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """PPO's learner on rollouts that are collected in Rust."""
    algo = cast(HybridPPOConfig, config.algo)
    require_native(config.env, algo.name, context.env)
    if context.device_name != "cpu":
        raise ConfigError(
            f"device={config.device}: hybrid_ppo acts in Rust on the memory that torch learns in, which "
            "is the CPU's; use device=cpu, or algo=ppo"
        )
    return on_policy_parts(
        config,
        context,
        lambda policy: HybridPPOLearner(policy, algo, context.streams),
        minibatch=algo.batch_size,
    )


class HybridPPO(Algorithm):
    """PPO whose rollouts are collected in Rust; torch does the updates.

    A rollout is one call without the interpreter: acting, stepping, writing and valuing what was
    reached. Collecting and learning take turns, since the next rollout is of the weights that the
    update leaves: nothing is learned from older ones.

    Parameters
    ----------
    env_id : a native environment (`rlox.native_env_ids()`), with Discrete or Box actions
    n_envs : parallel environments
    seed : keys every random stream of the run
    hidden : width of the two hidden layers of actor and critic each; `net_arch` gives all widths
    logger : receives metrics rows
    callbacks : called during training; one that returns False from `on_step` stops it
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
                f"hidden={hidden} and net_arch={config_kwargs['net_arch']} are two ways to say the same; "
                "give one of them"
            )
        config = config_from_arguments("hybrid_ppo", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)

    def timing_summary(self) -> dict[str, float]:
        """Where the time of training went, in seconds of the clock since the run began.

        `collection_s` is that of rollouts, `training_s` that of updates, `total_s` both, and
        `collection_fraction` the part of it that rollouts took (0 before there was any).
        """
        collection, training = self.timings.collect, self.timings.update
        total = collection + training
        return {
            "collection_s": collection,
            "training_s": training,
            "total_s": total,
            "collection_fraction": collection / total if total else 0.0,
        }

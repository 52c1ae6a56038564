"""CQL(H) (Kumar et al. 2020, arXiv:2006.04779): penalises the values of actions outside the dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.offline import (
    NO_ENV,
    DatasetArgument,
    PolicyAndLearner,
    build_offline_run,
    offline_arguments,
)
from rlox.algorithms.cql import discrete, learner
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import CQLConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.make import EnvLike
from rlox.errors import ConfigError
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents

__all__ = ["CQL"]


# Fields that apply to continuous actions only.
CONTINUOUS_ONLY = (
    "actor_learning_rate",
    "n_random_actions",
    "ent_coef",
    "auto_entropy",
    "target_entropy",
    "critic_net_arch",
)


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a CQL run on a dataset, for continuous or discrete actions."""

    def build_learner(
        encoder_spec: EncoderSpec, actions: ActionCodec, _: BackendSelector
    ) -> PolicyAndLearner:
        if not actions.is_discrete:
            return learner.build_torch(config, context, encoder_spec, actions)
        _require_unset(cast(CQLConfig, config.algo))
        return discrete.build_torch(config, context, encoder_spec, actions)

    return build_offline_run(config, context, build_learner)


def _require_unset(algo: CQLConfig) -> None:
    for name in CONTINUOUS_ONLY:
        value = getattr(algo, name)
        if value != getattr(CQLConfig(), name):
            raise ConfigError(
                f"algo.{name}={value} applies to actions that are vectors, but these are choices; leave "
                f"algo.{name} out"
            )


class CQL(Algorithm):
    """Conservative Q-learning, CQL(H), for Box actions with finite bounds and Discrete ones.

    Parameters
    ----------
    dataset : an `OfflineDatasetBuffer`, or the folder of a dataset; actions are floating-point vectors, or
        choices from 0
    obs_dim, act_dim : size of an observation, and size of an action or number of Discrete actions; taken from
        the environment if there is one
    cql_alpha : weight of the penalty
    n_random_actions : for vectors, number of actions that the penalty samples from each of 3 distributions
    auto_alpha, cql_target_value : whether to learn that weight, and the penalty that it aims at
    hidden : width of the two hidden layers, unless `net_arch` gives all widths
    learning_rate : learning rate of the critics; for vectors the policy's is `actor_learning_rate`
    tau : weight of the online networks in each Polyak update of the target networks
    gamma : discount factor
    auto_entropy, target_entropy : for vectors, whether to learn the temperature, and its target entropy
    batch_size : number of transitions in an update
    callbacks : called during training; if `on_step` returns False, training stops
    logger : receives the rows of metrics
    env_id : environment to evaluate in: a Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    seed : seed of every random stream of the run
    **config_kwargs : any field of `CQLConfig` or `EnvConfig`, or `device`; unknown names are errors
    """

    name = "cql"
    make = staticmethod(make)

    def __init__(
        self,
        dataset: DatasetArgument = None,
        obs_dim: int | None = None,
        act_dim: int | None = None,
        cql_alpha: float = 5.0,
        n_random_actions: int = 10,
        auto_alpha: bool = False,
        cql_target_value: float = -1.0,
        hidden: int = 256,
        learning_rate: float = 3e-4,
        tau: float = 0.005,
        gamma: float = 0.99,
        batch_size: int = 256,
        auto_entropy: bool = True,
        target_entropy: float | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        logger: LoggerCallback | None = None,
        *,
        env_id: EnvLike = NO_ENV,
        n_envs: int = 1,
        seed: int = 42,
        **config_kwargs: Any,
    ) -> None:
        options = {
            "obs_dim": obs_dim,
            "act_dim": act_dim,
            "cql_alpha": cql_alpha,
            "n_random_actions": n_random_actions,
            "auto_alpha": auto_alpha,
            "cql_target_value": cql_target_value,
            "net_arch": (hidden, hidden),
            "learning_rate": learning_rate,
            "tau": tau,
            "gamma": gamma,
            "batch_size": batch_size,
            "auto_entropy": auto_entropy,
            "target_entropy": target_entropy,
            **config_kwargs,
        }
        config, env, dataset_object = offline_arguments("cql", dataset, env_id, n_envs, seed, options)
        super().__init__(config, env, None, logger, callbacks, dataset=dataset_object)

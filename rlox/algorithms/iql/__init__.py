"""IQL (Kostrikov et al. 2022, arXiv:2110.06169): learns values and a policy from a dataset's actions only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.offline import (
    NO_ENV,
    DatasetArgument,
    PolicyAndLearner,
    build_offline_run,
    network_sizes,
    offline_arguments,
)
from rlox.algorithms.iql.learner import build_torch
from rlox.algorithms.iql.native import build_native_iql
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import IQLConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.make import EnvLike
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents

__all__ = ["IQL"]


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of an IQL run, which learns a Gaussian policy from a dataset."""
    algo = cast(IQLConfig, config.algo)

    def build_learner(
        encoder_spec: EncoderSpec, actions: ActionCodec, selector: BackendSelector
    ) -> PolicyAndLearner:
        sizes = network_sizes(algo, encoder_spec, actions)
        native = partial(build_native_iql, config, context, encoder_spec, actions, sizes)
        return selector.make_native(sizes.max_width, native) or build_torch(
            config, context, encoder_spec, actions
        )

    return build_offline_run(config, context, build_learner)


class IQL(Algorithm):
    """Implicit Q-learning, for Box actions with finite bounds.

    Parameters
    ----------
    dataset : an `OfflineDatasetBuffer`, or the folder of a dataset; actions are floating-point vectors
    obs_dim, act_dim : sizes of an observation and an action; taken from the environment if there is one
    expectile : which expectile of the action values the state value estimates
    temperature : beta in the cloning weights exp(beta advantage)
    hidden : width of the two hidden layers, unless `net_arch` gives all widths
    learning_rate : learning rate of all networks; that of the policy has cosine decay
    tau : weight of the online networks in each Polyak update of the target networks
    gamma : discount factor
    batch_size : number of transitions in an update
    callbacks : called during training; if `on_step` returns False, training stops
    logger : receives the rows of metrics
    env_id : environment to evaluate in: a Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    seed : seed of every random stream of the run
    **config_kwargs : any field of `IQLConfig` or `EnvConfig`, or `device`; unknown names are errors
    """

    name = "iql"
    make = staticmethod(make)

    def __init__(
        self,
        dataset: DatasetArgument = None,
        obs_dim: int | None = None,
        act_dim: int | None = None,
        expectile: float = 0.7,
        temperature: float = 3.0,
        hidden: int = 256,
        learning_rate: float = 3e-4,
        tau: float = 0.005,
        gamma: float = 0.99,
        batch_size: int = 256,
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
            "expectile": expectile,
            "temperature": temperature,
            "net_arch": (hidden, hidden),
            "learning_rate": learning_rate,
            "tau": tau,
            "gamma": gamma,
            "batch_size": batch_size,
            **config_kwargs,
        }
        config, env, dataset_object = offline_arguments("iql", dataset, env_id, n_envs, seed, options)
        super().__init__(config, env, None, logger, callbacks, dataset=dataset_object)

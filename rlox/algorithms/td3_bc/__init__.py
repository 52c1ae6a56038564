"""TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860): TD3 on a dataset, with a behavioural cloning term."""

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
from rlox.algorithms.td3_bc.learner import build_torch
from rlox.algorithms.td3_bc.native import build_native_td3_bc
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import RunConfig, TD3BCConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.make import EnvLike
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents

__all__ = ["TD3BC"]


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a TD3+BC run, which learns a deterministic policy from a dataset."""
    algo = cast(TD3BCConfig, config.algo)

    def build_learner(
        encoder_spec: EncoderSpec, actions: ActionCodec, selector: BackendSelector
    ) -> PolicyAndLearner:
        sizes = network_sizes(algo, encoder_spec, actions)
        native = partial(build_native_td3_bc, config, context, encoder_spec, actions, sizes)
        return selector.make_native(sizes.max_width, native) or build_torch(
            config, context, encoder_spec, actions
        )

    return build_offline_run(config, context, build_learner)


class TD3BC(Algorithm):
    """TD3+BC, for Box actions with finite bounds.

    Parameters
    ----------
    dataset : an `OfflineDatasetBuffer`, or the folder of a dataset; actions are floating-point vectors
    obs_dim, act_dim : sizes of an observation and an action; taken from the environment if there is one
    alpha : weight of the critic's term relative to the squared error to the dataset's actions
    hidden : width of the two hidden layers, unless `net_arch` gives all widths
    learning_rate : learning rate of actor and critics
    tau : weight of the online networks in each Polyak update of the target networks
    gamma : discount factor
    policy_delay : number of critic updates per actor update
    target_noise, noise_clip : standard deviation and limit of the noise on the target action, in units of
        half the range of an action
    act_high : without an environment, bound of the actions: they are in [-act_high, act_high]; None: 1
    batch_size : number of transitions in an update
    callbacks : called during training; if `on_step` returns False, training stops
    logger : receives the rows of metrics
    env_id : environment to evaluate in: a Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    seed : seed of every random stream of the run
    **config_kwargs : any field of `TD3BCConfig` or `EnvConfig`, or `device`; unknown names are errors
    """

    name = "td3_bc"
    make = staticmethod(make)

    def __init__(
        self,
        dataset: DatasetArgument = None,
        obs_dim: int | None = None,
        act_dim: int | None = None,
        alpha: float = 2.5,
        hidden: int = 256,
        learning_rate: float = 3e-4,
        tau: float = 0.005,
        gamma: float = 0.99,
        policy_delay: int = 2,
        target_noise: float = 0.2,
        noise_clip: float = 0.5,
        act_high: float | None = None,
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
            "alpha": alpha,
            "net_arch": (hidden, hidden),
            "learning_rate": learning_rate,
            "tau": tau,
            "gamma": gamma,
            "policy_delay": policy_delay,
            "target_noise": target_noise,
            "noise_clip": noise_clip,
            "act_high": act_high,
            "batch_size": batch_size,
            **config_kwargs,
        }
        config, env, dataset_object = offline_arguments("td3_bc", dataset, env_id, n_envs, seed, options)
        super().__init__(config, env, None, logger, callbacks, dataset=dataset_object)

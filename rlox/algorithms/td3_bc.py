"""TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860): TD3 on a dataset, held to the dataset's actions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from rlox.algorithms.encoding import EncoderSpec
from rlox.algorithms.native_offline import build_native_td3_bc, network_sizes
from rlox.algorithms.offline import (
    NO_ENV,
    DatasetArgument,
    PolicyAndLearner,
    offline_arguments,
    offline_parts,
)
from rlox.algorithms.torch_td3_bc import build_torch
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import RunConfig, TD3BCConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.make import EnvLike
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents

__all__ = ["TD3BC"]


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """A deterministic policy's learner on a dataset."""
    algo = cast(TD3BCConfig, config.algo)

    def build_learner(
        encoder_spec: EncoderSpec, actions: ActionCodec, selector: BackendSelector
    ) -> PolicyAndLearner:
        sizes = network_sizes(algo, encoder_spec, actions)
        native = partial(build_native_td3_bc, config, context, encoder_spec, actions, sizes)
        return selector.make_native(sizes.max_width, native) or build_torch(
            config, context, encoder_spec, actions
        )

    return offline_parts(config, context, build_learner)


class TD3BC(Algorithm):
    """TD3+BC, for Box actions with finite bounds.

    Parameters
    ----------
    dataset : an `OfflineDatasetBuffer`, or the folder of a dataset; actions are floating-point vectors
    obs_dim, act_dim : numbers in an observation and in an action; those of the environment if there is one
    alpha : weight of the critic beside the squared error of the dataset's actions
    hidden : width of two hidden layers, unless `net_arch` gives all widths
    learning_rate : of actor and critics
    tau : how far the target networks follow at a time
    gamma : discount factor
    policy_delay : updates of the critics for each of the actor
    target_noise, noise_clip : deviation of the noise on the target's action and its limit, in units of
        half the range of an action
    act_high : without an environment: actions are in [-act_high, act_high]; None: 1
    batch_size : transitions of an update
    callbacks : called during training; one that returns False from `on_step` stops it
    logger : receives metrics rows
    env_id : where to evaluate: a Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    seed : keys every random stream of the run
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

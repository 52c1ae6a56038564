"""BC: behavioural cloning, which maximises the likelihood of a dataset's actions (Pomerleau 1991)."""

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
from rlox.algorithms.bc.learner import BCLearner, build_torch
from rlox.algorithms.bc.native import build_native_bc
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import BCConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.make import EnvLike
from rlox.errors import ConfigError
from rlox.parameters.layout import linear_shapes, max_width
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents

__all__ = ["BC", "BCLearner"]


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a BC run, which learns from a dataset."""
    algo = cast(BCConfig, config.algo)

    def build_learner(
        encoder_spec: EncoderSpec, actions: ActionCodec, selector: BackendSelector
    ) -> PolicyAndLearner:
        if actions.choices and algo.loss != "nll":
            raise ConfigError(
                f"algo.loss={algo.loss} needs actions that are vectors, but these are choices; set "
                "algo.loss=nll"
            )
        network_width = max_width(linear_shapes("", (encoder_spec.features, *algo.net_arch, actions.size)))
        args = config, context, encoder_spec, actions
        native = selector.make_native(lambda: network_width, lambda: build_native_bc(*args))
        return build_torch(*args) if native is None else native

    return build_offline_run(config, context, build_learner)


class BC(Algorithm):
    """Behavioural cloning.

    Parameters
    ----------
    dataset : an `OfflineDatasetBuffer`, or the folder of a dataset; choices are whole numbers from 0, vectors
        are floating-point numbers; in actions of several parts the choices come first in each row. With
        `normalize=True` the policy normalises its observations by the dataset's moments
    obs_dim, act_dim : size of an observation, and size of an action or number of Discrete actions; taken from
        the environment if there is one
    continuous : whether actions are vectors, not choices
    hidden : width of the two hidden layers, unless `net_arch` gives all widths
    learning_rate, batch_size : settings of each update
    callbacks : called during training; if `on_step` returns False, training stops
    logger : receives the rows of metrics
    env_id : environment to evaluate in: a Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    seed : seed of every random stream of the run
    **config_kwargs : any field of `BCConfig` or `EnvConfig`, or `device`; unknown names are errors
    """

    name = "bc"
    make = staticmethod(make)

    def __init__(
        self,
        dataset: DatasetArgument = None,
        obs_dim: int | None = None,
        act_dim: int | None = None,
        continuous: bool | None = None,
        hidden: int = 256,
        learning_rate: float = 3e-4,
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
            "continuous": continuous,
            "net_arch": (hidden, hidden),
            "learning_rate": learning_rate,
            "batch_size": batch_size,
            **config_kwargs,
        }
        config, env, dataset_object = offline_arguments("bc", dataset, env_id, n_envs, seed, options)
        super().__init__(config, env, None, logger, callbacks, dataset=dataset_object)

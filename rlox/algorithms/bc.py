"""BC: behavioural cloning, the likelihood of a dataset's actions (Pomerleau 1991)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rlox.algorithms.encoding import Encoding
from rlox.algorithms.native_offline import bc_composed
from rlox.algorithms.offline import NO_ENV, Composed, DatasetGiven, from_dataset, offline_parts
from rlox.algorithms.torch_bc import BCLearner, composed
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import BCConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.make import EnvSource
from rlox.errors import ConfigError
from rlox.parameters.layout import linear_layers, widest
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import Choice
from rlox.training.parts import Parts, Tools

__all__ = ["BC", "BCLearner"]


def make(config: RunConfig, tools: Tools) -> Parts:
    """BC's learner on a dataset."""
    algo = cast(BCConfig, config.algo)

    def compose(encoding: Encoding, actions: ActionCodec, choice: Choice) -> Composed:
        if actions.choices and algo.loss != "nll":
            raise ConfigError(
                f"algo.loss={algo.loss} is the error of vectors; these actions are choices: algo.loss=nll"
            )
        wide = widest(linear_layers("", (encoding.features, *algo.net_arch, actions.size)))
        given = config, tools, encoding, actions
        made = choice.native(lambda: wide, lambda: bc_composed(*given))
        return composed(*given) if made is None else made

    return offline_parts(config, tools, compose)


class BC(Algorithm):
    """Behavioural cloning.

    Parameters
    ----------
    dataset : an `OfflineDatasetBuffer`, or the folder of a dataset; choices are whole numbers from 0,
        vectors floating-point numbers; of actions of several parts rows have the choices first. With
        `normalize=True` the policy plays by its moments
    obs_dim, act_dim : numbers in an observation, and in an action or choices; those of the
        environment if there is one
    continuous : whether actions are vectors, not choices
    hidden : width of two hidden layers, unless `net_arch` gives all widths
    learning_rate, batch_size : of each update
    callbacks : called during training; one that returns False from `on_step` stops it
    logger : receives metrics rows
    env_id : where to evaluate: a Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    seed : keys every random stream of the run
    **config_kwargs : any field of `BCConfig` or `EnvConfig`, or `device`; unknown names are errors
    """

    name = "bc"
    make = staticmethod(make)

    def __init__(
        self,
        dataset: DatasetGiven = None,
        obs_dim: int | None = None,
        act_dim: int | None = None,
        continuous: bool | None = None,
        hidden: int = 256,
        learning_rate: float = 3e-4,
        batch_size: int = 256,
        callbacks: Callback | Sequence[Callback] | None = None,
        logger: LoggerCallback | None = None,
        *,
        env_id: EnvSource = NO_ENV,
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
        config, env, held = from_dataset("bc", dataset, env_id, n_envs, seed, options)
        super().__init__(config, env, None, logger, callbacks, dataset=held)

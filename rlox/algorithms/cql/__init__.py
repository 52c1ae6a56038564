"""CQL(H) (Kumar et al. 2020, arXiv:2006.04779): penalises the values of actions outside the dataset."""

from __future__ import annotations

from typing import cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.offline import OfflineAlgorithm, PolicyAndLearner, build_offline_run
from rlox.algorithms.cql import discrete, learner
from rlox.configs import CQLConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.errors import ConfigError
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


class CQL(OfflineAlgorithm):
    """Conservative Q-learning, CQL(H), for Box actions with finite bounds and Discrete ones."""

    name = "cql"
    make = staticmethod(make)
    positional = (
        "dataset",
        "obs_dim",
        "act_dim",
        "cql_alpha",
        "n_random_actions",
        "auto_alpha",
        "cql_target_value",
        "hidden",
        "learning_rate",
        "tau",
        "gamma",
        "batch_size",
        "auto_entropy",
        "target_entropy",
        "callbacks",
        "logger",
    )

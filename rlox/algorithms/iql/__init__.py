"""IQL (Kostrikov et al. 2022, arXiv:2110.06169): learns values and a policy from a dataset's actions only."""

from __future__ import annotations

from functools import partial
from typing import cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.offline import (
    OfflineAlgorithm,
    PolicyAndLearner,
    build_offline_run,
    network_sizes,
)
from rlox.algorithms.iql.learner import build_torch
from rlox.algorithms.iql.native import build_native_iql
from rlox.configs import IQLConfig, RunConfig
from rlox.envs.actions import ActionCodec
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


class IQL(OfflineAlgorithm):
    """Implicit Q-learning, for Box actions with finite bounds."""

    name = "iql"
    make = staticmethod(make)
    positional = (
        "dataset",
        "obs_dim",
        "act_dim",
        "expectile",
        "temperature",
        "hidden",
        "learning_rate",
        "tau",
        "gamma",
        "batch_size",
        "callbacks",
        "logger",
    )

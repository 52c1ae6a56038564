"""TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860): TD3 on a dataset, with a behavioural cloning term."""

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
from rlox.algorithms.td3_bc.learner import build_torch
from rlox.algorithms.td3_bc.native import build_native_td3_bc
from rlox.configs import RunConfig, TD3BCConfig
from rlox.envs.actions import ActionCodec
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


class TD3BC(OfflineAlgorithm):
    """TD3+BC, for Box actions with finite bounds."""

    name = "td3_bc"
    make = staticmethod(make)
    positional = (
        "dataset",
        "obs_dim",
        "act_dim",
        "alpha",
        "hidden",
        "learning_rate",
        "tau",
        "gamma",
        "policy_delay",
        "target_noise",
        "noise_clip",
        "act_high",
        "batch_size",
        "callbacks",
        "logger",
    )

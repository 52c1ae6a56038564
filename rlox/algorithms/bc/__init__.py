"""BC: behavioural cloning, which maximises the likelihood of a dataset's actions (Pomerleau 1991)."""

from __future__ import annotations

from typing import cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.offline import OfflineAlgorithm, PolicyAndLearner, build_offline_run
from rlox.algorithms.bc.learner import BCLearner, build_torch
from rlox.algorithms.bc.native import build_native_bc
from rlox.configs import BCConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.errors import ConfigError
from rlox.parameters.layout import linear_shapes, max_width
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


class BC(OfflineAlgorithm):
    """Behavioural cloning."""

    name = "bc"
    make = staticmethod(make)
    positional = (
        "dataset",
        "obs_dim",
        "act_dim",
        "continuous",
        "hidden",
        "learning_rate",
        "batch_size",
        "callbacks",
        "logger",
    )

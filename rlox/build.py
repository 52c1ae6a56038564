"""From a run configuration to a ready algorithm: the one place that assembles from config."""

from __future__ import annotations

from rlox.algorithms import ALGORITHMS
from rlox.configs import RunConfig
from rlox.loggers import check_loggers
from rlox.training.algorithm import Algorithm

__all__ = ["build"]


def build(config: RunConfig) -> Algorithm:
    """Check what the run needs and assemble it; nothing is written.

    Raises `ConfigError` (or a child naming the environment, space, or missing package).
    """
    check_loggers(config.logger)
    return ALGORITHMS[config.algo.name].from_config(config)

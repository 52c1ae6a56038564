"""From a run configuration to a ready algorithm: the one place that assembles from config."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

from rlox.algorithms import ALGORITHMS
from rlox.callbacks import as_callbacks
from rlox.configs import RunConfig
from rlox.configs.text import TextAlgorithmConfig
from rlox.errors import CheckpointError
from rlox.importing import made
from rlox.loggers import check_loggers
from rlox.runs.algorithm import Algorithm
from rlox.runs.checkpoint import Checkpoint, pass_over, whole_checkpoints
from rlox.training.device import saved_device

__all__ = ["build", "resume"]


def build(
    config: RunConfig, backend: str | None = None, saved: Checkpoint | None = None
) -> Algorithm:
    """Check what the run needs and assemble it; nothing is written.

    `backend` is the engine that `algo.backend=auto` took when the run began, `saved` what it goes on from.
    Raises `ConfigError` (or a child naming the environment, space, or missing package).
    """
    check_loggers(config.logger)
    callbacks = [
        as_callbacks(made(spec, f"callbacks[{i}]"))[0] for i, spec in enumerate(config.callbacks)
    ]
    objects = None
    if saved is not None and isinstance(config.algo, TextAlgorithmConfig):
        from rlox.algorithms.text import TextGiven  # late: it brings torch

        objects = TextGiven().remade(saved)
    kind = ALGORITHMS[config.algo.name]
    device = None if saved is None else saved_device(saved.state)
    return kind.of(config, None, objects, callbacks=callbacks, backend=backend, device=device)


def resume(
    run: Path,
    config: RunConfig,
    check: Callable[[Checkpoint | None], None] = lambda newest: None,
) -> tuple[Algorithm, Checkpoint | None]:
    """The algorithm of a run as its newest whole checkpoint left it, and that checkpoint.

    `config` is the run's own, perhaps with a larger `total_steps`. A run that was killed before its
    first checkpoint gives `None`: it starts again at step 0. `check` is given the newest whole checkpoint
    before anything is built.
    """
    # weights to begin with are in the checkpoints of a run that has begun
    checkpoints = whole_checkpoints(run)
    newest = next(checkpoints, None)
    check(newest[1] if newest else None)
    took = newest[1].backend if newest else None
    algorithm = build(replace(config, init_from=None), took, newest[1] if newest else None)
    algorithm.config = replace(algorithm.config, init_from=config.init_from)
    refused: CheckpointError | None = None
    without_rows: Checkpoint | None = None
    for folder, saved in chain([newest] if newest else [], checkpoints):
        if algorithm.source.stored_bytes and saved.replay is None:
            without_rows = without_rows or saved  # of a full disk; an older one goes on exactly
            continue
        try:
            algorithm.restore(saved)
        except CheckpointError as error:
            if saved.replay is None:
                raise
            refused = error  # rows that are damaged: an older save may not need them
            pass_over(folder, error)
        else:
            return algorithm, saved
    if refused is not None:
        raise refused
    if without_rows is not None:
        algorithm.restore(without_rows)
    elif config.init_from is not None:
        algorithm.begin_from(config.init_from)
    return algorithm, without_rows

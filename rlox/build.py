"""From a run configuration to a ready algorithm: the one place that assembles from config."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

from rlox.algorithms import ALGORITHMS
from rlox.callbacks import make_callbacks
from rlox.configs import RunConfig
from rlox.configs.text import TextAlgorithmConfig
from rlox.errors import CheckpointError
from rlox.importing import build_object
from rlox.loggers import check_loggers
from rlox.runs.algorithm import Algorithm
from rlox.runs.checkpoint import Checkpoint, intact_checkpoints, warn_skipped
from rlox.training.device import saved_device

__all__ = ["build", "resume"]


def build(config: RunConfig, backend: str | None = None, checkpoint: Checkpoint | None = None) -> Algorithm:
    """Check what the run needs and assemble it; nothing is written.

    `backend` is the engine that `algo.backend=auto` took when the run began, `checkpoint` what it goes on
    from. Raises `ConfigError` (or a child naming the environment, space, or missing package).
    """
    check_loggers(config.logger)
    callbacks = [
        make_callbacks(build_object(spec, f"callbacks[{i}]"))[0] for i, spec in enumerate(config.callbacks)
    ]
    objects = None
    if checkpoint is not None and isinstance(config.algo, TextAlgorithmConfig):
        from rlox.algorithms.text import TextRuntimeObjects  # late: it brings torch

        objects = TextRuntimeObjects().restored_from(checkpoint)
    kind = ALGORITHMS[config.algo.name]
    device = None if checkpoint is None else saved_device(checkpoint.state)
    return kind.from_config(config, None, objects, callbacks=callbacks, backend=backend, device=device)


def resume(
    run_dir: Path,
    config: RunConfig,
    check: Callable[[Checkpoint | None], None] = lambda newest: None,
) -> tuple[Algorithm, Checkpoint | None]:
    """The algorithm of a run as its newest whole checkpoint left it, and that checkpoint.

    `config` is the run's own, perhaps with a larger `total_steps`. A run that was killed before its
    first checkpoint gives `None`: it starts again at step 0. `check` is given the newest whole checkpoint
    before anything is built.
    """
    # weights to begin with are in the checkpoints of a run that has begun
    checkpoints = intact_checkpoints(run_dir)
    newest = next(checkpoints, None)
    check(newest[1] if newest else None)
    saved_backend = newest[1].backend if newest else None
    algorithm = build(replace(config, init_from=None), saved_backend, newest[1] if newest else None)
    algorithm.config = replace(algorithm.config, init_from=config.init_from)
    last_error: CheckpointError | None = None
    incomplete_checkpoint: Checkpoint | None = None
    for folder, checkpoint in chain([newest] if newest else [], checkpoints):
        if algorithm.source.stored_bytes and checkpoint.replay is None:
            incomplete_checkpoint = (
                incomplete_checkpoint or checkpoint
            )  # of a full disk; an older one goes on exactly
            continue
        try:
            algorithm.restore(checkpoint)
        except CheckpointError as error:
            if checkpoint.replay is None:
                raise
            last_error = error  # rows that are damaged: an older save may not need them
            warn_skipped(folder, error)
        else:
            return algorithm, checkpoint
    if last_error is not None:
        raise last_error
    if incomplete_checkpoint is not None:
        algorithm.restore(incomplete_checkpoint)
    elif config.init_from is not None:
        algorithm.load_initial_weights(config.init_from)
    return algorithm, incomplete_checkpoint

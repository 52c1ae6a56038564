"""Build an algorithm from a run configuration. Only this module assembles components from a configuration."""

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
    """Check the configuration and build the algorithm; write nothing.

    `backend` is the engine that `algo.backend=auto` selected when the run began. `checkpoint` is the one that
    the run continues from. Raises `ConfigError` (or a subclass that names the environment, space or missing
    package).
    """
    check_loggers(config.logger)
    callbacks = [
        make_callbacks(build_object(spec, f"callbacks[{i}]"))[0] for i, spec in enumerate(config.callbacks)
    ]
    runtime_objects = None
    if checkpoint is not None and isinstance(config.algo, TextAlgorithmConfig):
        from rlox.algorithms.text.objects import TextRuntimeObjects  # imported here because it imports torch

        runtime_objects = TextRuntimeObjects().restored_from(checkpoint)
    algorithm_class = ALGORITHMS[config.algo.name]
    device = None if checkpoint is None else saved_device(checkpoint.state)
    return algorithm_class.from_config(
        config, None, runtime_objects, callbacks=callbacks, backend=backend, device=device
    )


def resume(
    run_dir: Path,
    config: RunConfig,
    check: Callable[[Checkpoint | None], None] = lambda newest: None,
) -> tuple[Algorithm, Checkpoint | None]:
    """Return the algorithm of a run, restored from its newest whole checkpoint, and that checkpoint.

    `config` is the run's own, perhaps with a larger `total_steps`. For a run that was killed before its first
    checkpoint the checkpoint is `None`: the run starts again at step 0. `check` is called with the newest
    whole checkpoint, or `None`, before anything is built.
    """
    # a checkpoint already contains the initial weights, so `init_from` is not loaded again
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
            )  # written when the disk was full; an older checkpoint continues exactly
            continue
        try:
            algorithm.restore(checkpoint)
        except CheckpointError as error:
            if checkpoint.replay is None:
                raise
            last_error = error  # damaged rows; an older checkpoint may not need them
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

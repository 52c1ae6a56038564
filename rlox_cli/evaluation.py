"""An evaluation of a run: its policy is played, and every episode's return written."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

from rlox.configs import RunConfig, make_run
from rlox.errors import CheckpointError, ConfigError, StorageError
from rlox_cli import summary
from rlox_cli.commands.evaluate import EvaluateConfig
from rlox_cli.run_folder import nearest_runs, read_config, slug, write_json


def evaluate_run(config: EvaluateConfig) -> dict[str, Any]:
    """Play `config.episodes` episodes and write `eval/<checkpoint>.json` in the run folder."""
    run = Path(config.run)
    trained = trained_config(run)
    checkpoint = _checkpoint(run, config.checkpoint)
    from rlox.algorithms import ALGORITHMS

    name = slug(config.checkpoint)
    target = _folder(run / "eval") / f"{name}.json"
    video = _folder(run / "videos") / f"{name}.mp4" if config.video else None
    facade = ALGORITHMS[trained.algo.name]
    with closing(facade.from_checkpoint(checkpoint, replay=False)) as algorithm:
        played = algorithm.evaluate(episodes=config.episodes, seed=config.seed)
        if video:
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # frames, no window
            algorithm.evaluate(episodes=1, seed=config.seed, video=video)
    data = _document(config, trained, checkpoint, played, video)
    write_json(target, data)
    low, high = data["ci95"]
    print(
        f"{trained.algo.name} on {trained.env.id}, checkpoint {checkpoint.resolve().name}\n"
        f"  score   {data['mean']:.1f} mean of {config.episodes} episodes "
        f"(IQM {data['iqm']:.1f}, 95% CI {low:.1f} to {high:.1f})\n"
        f"  file    {target}" + (f"\n  video   {video}" if video else "")
    )
    return data


def trained_config(run: Path) -> RunConfig:
    """The frozen configuration of a run, read as plain data: nothing in it can name code."""
    path = run / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"run={run}: no run folder there ({path} is missing){nearest_runs(run)}")
    return make_run(read_config(run))


def _folder(path: Path) -> Path:
    """A folder that is there; `StorageError` before anything is played."""
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _checkpoint(run: Path, name: str) -> Path:
    from rlox.runs.checkpoint import resolve_checkpoint

    try:
        return resolve_checkpoint(run, name)
    except CheckpointError as error:
        raise ConfigError(f"checkpoint={name}: {error}") from error


def _document(
    config: EvaluateConfig, trained: RunConfig, checkpoint: Path, played: Any, video: Path | None
) -> dict[str, Any]:
    data = {
        "schema_version": summary.SCHEMA_VERSION,
        "algo": trained.algo.name,
        "env": trained.env.id,
        "checkpoint": checkpoint.resolve().name,
        "seed": config.seed,
        "mean": played.mean,
        "std": played.std,
        "iqm": played.iqm,
        "ci95": list(played.ci95),
        "episodes": list(played.returns),
        "lengths": list(played.lengths),
        "video": f"videos/{video.name}" if video else None,
    }
    finite: dict[str, Any] = summary.finite(data)
    return finite

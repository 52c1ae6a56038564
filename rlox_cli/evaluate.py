"""`rlox evaluate`: play a saved policy and write every episode's return."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from rlox.configs import RunConfig, make_run
from rlox.errors import CheckpointError, ConfigError
from rlox_cli import check, messages, summary
from rlox_cli.messages import OK
from rlox_cli.run_folder import nearest_runs, read_config, slug, write_json
from rlox_cli.schema import EvaluateConfig


class EvaluateTask:
    """What Hydra calls once per evaluation; it never raises an error."""

    def __init__(self, full_trace: bool = False) -> None:
        self.full_trace = full_trace
        self.code = OK

    def __call__(self, composed: DictConfig) -> dict[str, Any] | None:
        """Evaluate and return what was written."""
        try:
            return evaluate(check.evaluate_config(composed))
        except Exception as error:
            if self.full_trace:
                traceback.print_exception(error)
            print(messages.shorten(f"rlox evaluate: {messages.describe(error)}"), file=sys.stderr)
            self.code = messages.exit_code(error)
            return None


def evaluate(config: EvaluateConfig) -> dict[str, Any]:
    """Play `config.episodes` episodes and write `eval/<checkpoint>.json` in the run folder."""
    run = Path(config.run)
    trained = trained_config(run)
    checkpoint = _checkpoint(run, config.checkpoint)
    from rlox.algorithms import ALGORITHMS

    name = slug(config.checkpoint)
    video = run / "videos" / f"{name}.mp4" if config.video else None
    facade = ALGORITHMS[trained.algo.name]
    with closing(facade.from_checkpoint(checkpoint, replay=False)) as algorithm:
        played = algorithm.evaluate(episodes=config.episodes, seed=config.seed)
        if video:
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # frames, no window
            algorithm.evaluate(episodes=1, seed=config.seed, video=video)
    data = _document(config, trained, checkpoint, played, video)
    target = run / "eval" / f"{name}.json"
    target.parent.mkdir(exist_ok=True)
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

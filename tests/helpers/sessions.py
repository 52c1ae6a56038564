"""Small sessions of PPO on CartPole, and the rows that they leave."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlox.algorithms import PPO
from rlox.build import build, resume
from rlox.configs import make_run
from rlox.runs.checkpoint import newest_checkpoint, read_checkpoint
from rlox.runs.session import Session


def algorithm(total: int = 512, **options: Any) -> PPO:
    """Return PPO on CartPole with rollouts of 64 steps; options are top-level keys of the configuration."""
    config = {
        "algo": {"name": "ppo", "n_steps": 16, "n_epochs": 1, "batch_size": 64},
        "env": {"n_envs": 4},
        "total_steps": total,
        "log": {"every": 64},
        "eval": {"episodes": 2},
        **options,
    }
    return build(make_run(config))  # type: ignore[return-value]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_timings(metric_rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows without timings, which the equality of runs ignores."""
    return [{k: v for k, v in r.items() if k != "seconds" and not k.startswith("time/")} for r in metric_rows]


def resume_session(
    folder: Path, total_steps: int, prune: Callable[[int, float], bool] | None = None
) -> Session:
    """Return a session that continues from the newest checkpoint of `folder`."""
    newest = newest_checkpoint(folder)
    assert newest is not None
    config = make_run(read_checkpoint(newest).config | {"total_steps": total_steps})
    resumed_session, saved = resume(folder, config)
    return Session(resumed_session, folder, resume_checkpoint=saved, should_prune=prune)

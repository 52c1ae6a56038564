"""Folders that callbacks save into: one that holds another run's checkpoints is not written over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rlox.callbacks import Callback, CheckpointCallback, EvalCallback
from rlox.configs import RunConfig, leaves, plain
from rlox.errors import CheckpointError, ConfigError
from rlox.runs.checkpoint import read_manifest, steps_of

__all__ = ["require_own_folders"]

SHOWN = 3  # keys that differ, in a message


def require_own_folders(callbacks: Iterable[Callback], config: RunConfig, at: int) -> None:
    """`ConfigError` where a run at step 0 would save over checkpoints of a run with another configuration.

    One with the same settings but for the total makes the same checkpoints again. Of a folder of several the
    newest is looked at. A run that goes on from a later step `at` may save where it likes.
    """
    if at:
        return
    ours = _settings(json.loads(json.dumps(plain(config))))
    for key, folder in _folders(callbacks):
        theirs = _settings(_config_in(folder)) if folder else {}
        differ = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
        if theirs and differ:
            told = ", ".join(
                f"{name}={theirs.get(name)!r:.40} there and {ours.get(name)!r:.40} here"
                for name in differ[:SHOWN]
            )
            more = f" and {len(differ) - SHOWN} more" if len(differ) > SHOWN else ""
            raise ConfigError(
                f"{key}: {folder} is a checkpoint of another run ({told}{more}), which this one would "
                "replace; give each run a folder of its own, or delete that one"
            )


def _folders(callbacks: Iterable[Callback]) -> Iterator[tuple[str, Path | None]]:
    """What the callbacks would replace, and by which argument."""
    for callback in callbacks:
        name = type(callback).__name__
        if isinstance(callback, CheckpointCallback):
            yield f"{name}(path)", next(reversed(steps_of(callback.path)), None)
        elif isinstance(callback, EvalCallback) and callback.best_model_path is not None:
            yield f"{name}(best_model_path)", Path(callback.best_model_path)


def _config_in(folder: Path) -> Any:
    """The configuration of a checkpoint; none where there is no whole one."""
    try:
        read_manifest(folder)
        return json.loads((folder / "state.json").read_bytes())["config"]
    except (CheckpointError, LookupError, OSError, RecursionError, TypeError, ValueError):
        return {}


def _settings(config: Any) -> dict[str, Any]:
    return {name: value for name, value in leaves(config) if name != "total_steps"}

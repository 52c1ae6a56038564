"""Callbacks and checkpoints: the states of callbacks, and folders that belong to another run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlox.callbacks import Callback, CheckpointCallback, EvalCallback, name_errors
from rlox.configs import RunConfig, dotted_items, to_plain
from rlox.errors import CheckpointError, ConfigError
from rlox.runs.checkpoint import read_manifest, step_folders
from rlox.state_tree import from_state_tree, to_state_tree

__all__ = ["get_callback_states", "require_no_foreign_checkpoints", "restore_callbacks"]


def get_callback_states(callbacks: Iterable[Callback]) -> list[dict[str, Any]]:
    """Return copies of the callbacks' states, each with the name of its class; empty ones are left out.

    Raises `CheckpointError` for a value that could not be restored; the message names its place.
    """
    states = []
    for callback in callbacks:
        if not isinstance(callback, Callback):
            continue
        with name_errors(callback):
            state = callback.state()
        label = f"the callback {type(callback).__name__}:"
        if not isinstance(state, Mapping):
            raise CheckpointError(f"{label} state() returned a {type(state).__name__}, expected a dict")
        if state:
            states.append(
                {"name": _class_name(callback), "state": to_state_tree(state, f"{label} its state")}
            )
    return states


def restore_callbacks(callbacks: Iterable[Callback], states: Iterable[Mapping[str, Any]]) -> None:
    """Restore each callback from the next state of its class; a callback without a state starts anew."""
    remaining = list(states)
    for callback in callbacks:
        entry = next(
            (candidate for candidate in remaining if candidate["name"] == _class_name(callback)), None
        )
        if entry is not None:
            remaining.remove(entry)
            with name_errors(callback):
                callback.restore(from_state_tree(entry["state"]))


def _class_name(callback: Callback) -> str:
    return f"{type(callback).__module__}:{type(callback).__qualname__}"


MAX_NAMES_SHOWN = 3  # differing keys that a message names


def require_no_foreign_checkpoints(callbacks: Iterable[Callback], config: RunConfig, start_step: int) -> None:
    """Raise `ConfigError` if a new run would overwrite checkpoints of a run with another configuration.

    A run that differs only in the total may overwrite them, as it writes the same checkpoints again. If a
    folder has several checkpoints, the newest is compared. A resumed run (`start_step` > 0) may save
    anywhere.
    """
    if start_step:
        return
    settings = _flatten_settings(json.loads(json.dumps(to_plain(config))))
    for label, folder in _target_folders(callbacks):
        other_settings = _flatten_settings(_read_config(folder)) if folder else {}
        differing_names = [
            name for name in {**other_settings, **settings} if other_settings.get(name) != settings.get(name)
        ]
        if other_settings and differing_names:
            difference_text = ", ".join(
                f"{name}={other_settings.get(name)!r:.40} there and {settings.get(name)!r:.40} here"
                for name in differing_names[:MAX_NAMES_SHOWN]
            )
            suffix = (
                f" and {len(differing_names) - MAX_NAMES_SHOWN} more"
                if len(differing_names) > MAX_NAMES_SHOWN
                else ""
            )
            raise ConfigError(
                f"{label}: {folder} is a checkpoint of another run ({difference_text}{suffix}), and this run "
                "would replace it; give each run a folder of its own, or delete that checkpoint"
            )


def _target_folders(callbacks: Iterable[Callback]) -> Iterator[tuple[str, Path | None]]:
    """Yield the callback argument that names a folder, and the newest checkpoint there."""
    for callback in callbacks:
        name = type(callback).__name__
        if isinstance(callback, CheckpointCallback):
            yield f"{name}(path)", next(reversed(step_folders(callback.path)), None)
        elif isinstance(callback, EvalCallback) and callback.best_model_path is not None:
            yield f"{name}(best_model_path)", Path(callback.best_model_path)


def _read_config(folder: Path) -> Any:
    """Return the configuration in a checkpoint; empty if the checkpoint is missing or damaged."""
    try:
        read_manifest(folder)
        return json.loads((folder / "state.json").read_bytes())["config"]
    except (CheckpointError, LookupError, OSError, RecursionError, TypeError, ValueError):
        return {}


def _flatten_settings(config: Any) -> dict[str, Any]:
    return {name: value for name, value in dotted_items(config) if name != "total_steps"}

"""The message that finished jobs keep their loggers, so that added loggers apply to new jobs only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlox.configs import LoggerConfig, RunConfig
from rlox.configs.loggers import JsonlConfig, MlflowConfig, WandbConfig
from rlox_cli.runs.identity import saved_run

Loggers = dict[str, LoggerConfig]


def kept_loggers_message(
    outcomes: Sequence[Mapping[str, Any]], requested_configs: Mapping[str, RunConfig]
) -> str:
    """Return the message as one line; empty if the command adds no logger and redirects none.

    `requested_configs` maps a job's identity to its configuration.
    """
    count = 0
    previous_names: dict[str, None] = {}
    new_names: dict[str, None] = {}
    sync_arguments: dict[str, None] = {}
    for previous, requested in _finished_loggers(outcomes, requested_configs):
        added = [name for name in requested if name not in previous]
        arguments = [
            argument
            for name in requested
            if name in previous
            for argument in _sync_arguments(previous, requested, name)
        ]
        count += bool(added or arguments)
        previous_names |= dict.fromkeys(previous) if added or arguments else {}
        new_names |= dict.fromkeys(added)
        sync_arguments |= dict.fromkeys(arguments)
    if not count:
        return ""
    jobs = f"{count} finished jobs keep their" if count > 1 else "1 finished job keeps its"
    message_parts = [f"logger={','.join(new_names)} applies to new jobs only"] if new_names else []
    message_parts += [
        f"to send their rows to the new address too: rlox sync RUN {argument}" for argument in sync_arguments
    ]
    return f"{jobs} loggers ({', '.join(previous_names) or 'none'}); {'; '.join(message_parts)}"


def _finished_loggers(
    outcomes: Sequence[Mapping[str, Any]], requested_configs: Mapping[str, RunConfig]
) -> Iterator[tuple[Loggers, Loggers]]:
    """Yield, for each finished job, the loggers that it had and those requested now."""
    for outcome in outcomes:
        config = requested_configs.get(outcome["identity"])
        if outcome["status"] != "skipped" or outcome["message"] or config is None:
            continue  # not finished: another process runs it
        saved = saved_run(Path(outcome["folder"]))
        if saved is not None:
            yield _by_name(saved.logger.values()), _by_name(config.logger.values())


def _by_name(loggers: Iterable[LoggerConfig]) -> Loggers:
    return {logger.name: logger for logger in loggers if not isinstance(logger, JsonlConfig)}


def _sync_arguments(previous: Loggers, requested: Loggers, name: str) -> Iterator[str]:
    """Yield the arguments of `rlox sync` for a logger that is now to send to another place."""
    old, new = previous[name], requested[name]
    if isinstance(old, WandbConfig) and isinstance(new, WandbConfig):
        if (old.mode, new.mode) == ("offline", "online"):
            yield "wandb.mode=online"
    elif isinstance(old, MlflowConfig) and isinstance(new, MlflowConfig):
        previous_uri: object = old.tracking_uri
        if previous_uri is None and new.has_address:
            yield "mlflow.tracking_uri=ADDRESS"

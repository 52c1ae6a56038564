"""Jobs that were done before keep the loggers that they had: what a command asks for besides, in one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlox.configs import LoggerConfig, RunConfig
from rlox.configs.loggers import JsonlConfig, MlflowConfig, WandbConfig
from rlox_cli.identity import saved_run

Loggers = dict[str, LoggerConfig]


def kept_loggers(outcomes: Sequence[Mapping[str, Any]], asked: Mapping[str, RunConfig]) -> str:
    """The line, `asked` being the configurations by identity; empty where nothing more is asked for."""
    count = 0
    had: dict[str, None] = {}
    new: dict[str, None] = {}
    elsewhere: dict[str, None] = {}
    for before, wanted in _done_before(outcomes, asked):
        added = [name for name in wanted if name not in before]
        sent = [word for name in wanted if name in before for word in _sent(before, wanted, name)]
        count += bool(added or sent)
        had |= dict.fromkeys(before) if added or sent else {}
        new |= dict.fromkeys(added)
        elsewhere |= dict.fromkeys(sent)
    if not count:
        return ""
    jobs = f"{count} jobs done before keep" if count > 1 else "1 job done before keeps"
    told = [f"logger={','.join(new)} is for jobs that begin"] if new else []
    told += [f"to send their rows there too: rlox sync RUN {word}" for word in elsewhere]
    return f"{jobs} the loggers of then ({', '.join(had) or 'none'}); {'; '.join(told)}"


def _done_before(
    outcomes: Sequence[Mapping[str, Any]], asked: Mapping[str, RunConfig]
) -> Iterator[tuple[Loggers, Loggers]]:
    """The loggers that each such job had, and those that are asked for now."""
    for outcome in outcomes:
        config = asked.get(outcome["identity"])
        if outcome["status"] != "skipped" or outcome["message"] or config is None:
            continue  # what another process does is none of these
        saved = saved_run(Path(outcome["folder"]))
        if saved is not None:
            yield _named(saved.logger.values()), _named(config.logger.values())


def _named(loggers: Iterable[LoggerConfig]) -> Loggers:
    return {own.name: own for own in loggers if not isinstance(own, JsonlConfig)}


def _sent(before: Loggers, wanted: Loggers, name: str) -> Iterator[str]:
    """What `rlox sync` is told where a logger that the job had is to send elsewhere now."""
    old, own = before[name], wanted[name]
    if isinstance(old, WandbConfig) and isinstance(own, WandbConfig):
        if (old.mode, own.mode) == ("offline", "online"):
            yield "wandb.mode=online"
    elif isinstance(old, MlflowConfig) and isinstance(own, MlflowConfig):
        known: object = old.tracking_uri
        if known is None and own.given:
            yield "mlflow.tracking_uri=ADDRESS"

"""Send what the loggers of a run missed; the run folder is locked, and cannot set the addresses."""

from __future__ import annotations

import netrc
import os
import sys
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rlox.configs import RunConfig
from rlox.configs.loggers import MlflowConfig, WandbConfig
from rlox.configs.secrets import redact
from rlox.errors import ConfigError
from rlox.loggers import LOGGERS, METRICS, catch_up
from rlox_cli.commands.sync import SyncConfig
from rlox_cli.config import validate
from rlox_cli.runs.run_folder import RunFolder, is_locked, locked_message, nearest_runs_hint, read_config
from rlox_cli.runs.trust import require_no_links

WANDB = "https://api.wandb.ai"


def sync_run(config: SyncConfig) -> bool:
    """Let the loggers of one run catch up, print the result and return whether all rows were sent."""
    path = Path(config.run)
    if not (path / "config.yaml").is_file() or not (path / METRICS).is_file():
        missing = METRICS if (path / "config.yaml").is_file() else "config.yaml"
        raise ConfigError(f"run={path}: no run folder there ({missing} is missing){nearest_runs_hint(path)}")
    if is_locked(path):
        raise ConfigError(f"run={path}: {locked_message(path)}")
    run = validate.saved_config(read_config(path))
    require_no_links(path)
    target_config = replace(
        run, logger={key: _with_target(logger, config) for key, logger in run.logger.items()}
    )
    if not any(logger.name in LOGGERS for logger in target_config.logger.values()):
        print(f"{path}: no logger besides metrics.jsonl; nothing to send")
        return True
    with RunFolder.reopen(path), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # reported below
        return _catch_up(path, target_config, config.timeout)


def _catch_up(path: Path, run: RunConfig, timeout: float) -> bool:
    names = ", ".join(logger.name for logger in run.logger.values() if logger.name in LOGGERS)
    print(
        f"{path}: {names} catch up, in {timeout:g} s at most (timeout=)",
        file=sys.stderr,
        flush=True,
    )
    deliveries = catch_up(path, run, timeout)
    for name, delivery in deliveries.items():
        logger = next(logger for logger in run.logger.values() if logger.name == name)
        mode_text = f" ({logger.mode})" if isinstance(logger, WandbConfig) else ""
        if delivery.complete:
            delivery_text = f"has every row, {delivery.n_sent} sent now"
        else:
            delivery_text = f"{delivery}; {delivery.n_sent} sent now"
        print(f"{path}: {name}{mode_text} {redact(delivery_text)}")
    return all(delivery.complete for delivery in deliveries.values())


def _with_target(logger: Any, config: SyncConfig) -> Any:
    """Return the configuration of a logger with the target from the command line or the environment."""
    if isinstance(logger, MlflowConfig) and config.mlflow.tracking_uri is not None:
        return replace(logger, tracking_uri=config.mlflow.tracking_uri)
    if isinstance(logger, WandbConfig):
        if config.wandb.mode == "online" and not _has_key():
            raise ConfigError(
                "wandb.mode=online: no key for the server was found: export WANDB_API_KEY=..., or wandb login"
            )
        if config.wandb.mode != "auto":
            return replace(logger, mode=config.wandb.mode)
        if _has_key():
            return replace(logger, mode="online")
    return logger


def _has_key() -> bool:
    """Return whether the environment or the user's netrc has a key for the W&B server."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL") or WANDB).hostname or ""
    with suppress(OSError, netrc.NetrcParseError):
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    return False

"""Loggers that record a run besides `metrics.jsonl`, one frozen dataclass each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rlox.configs.params import param
from rlox.configs.secrets import EnvVarRef
from rlox.errors import ConfigError
from rlox.plugins import LoggerPlugin, PluginEntry, PluginRegistry

__all__ = [
    "LOGGER_CONFIGS",
    "TRACKING_URI",
    "CsvConfig",
    "JsonlConfig",
    "LoggerConfig",
    "MlflowConfig",
    "TensorboardConfig",
    "WandbConfig",
]

TRACKING_URI = "MLFLOW_TRACKING_URI"
STORE_SCHEMES = (
    "http",
    "https",
    "sqlite",
    "postgresql",
    "mysql",
    "mssql",
)  # the schemes of MLflow stores that rlox supports
TRACKING_URI_REFERENCE = f"${{oc.env:{TRACKING_URI}}}"  # files contain this instead of an address


@dataclass(frozen=True)
class CsvConfig:
    """`metrics.csv` beside `metrics.jsonl`, one column per metric."""

    name: str = param("csv", "the logger", choices=("csv",))


@dataclass(frozen=True)
class TensorboardConfig:
    """Event files under `tb/` for TensorBoard."""

    name: str = param("tensorboard", "the logger", choices=("tensorboard",))


@dataclass(frozen=True)
class JsonlConfig:
    """`metrics.jsonl`; always written, so naming it changes nothing."""

    name: str = param("jsonl", "the logger", choices=("jsonl",))


@dataclass(frozen=True)
class WandbConfig:
    """Weights & Biases: files under `wandb/`, or the server that the environment variables name."""

    name: str = param("wandb", "the logger", choices=("wandb",))
    mode: str = param(
        "offline",
        "offline: a file under wandb/, for rlox sync; online: the server of WANDB_BASE_URL, or W&B's own",
        choices=("offline", "online"),
    )
    project: str = param("rlox", "the project of the run")
    entity: str | None = param(None, "user or team; null: that of the API key")
    group: str | None = param(None, "the group of the run in the project")
    checkpoints: bool = param(False, "also send the newest and the best checkpoint, once at the end")


@dataclass(frozen=True)
class MlflowConfig:
    """MLflow: a store in the run folder under `mlruns/`, or the one at an address."""

    name: str = param("mlflow", "the logger", choices=("mlflow",))
    experiment: str = param("rlox", "the experiment that the run belongs to")
    tracking_uri: str | None = param(
        None,
        "address of a server or store; files of the run contain only a reference to MLFLOW_TRACKING_URI; "
        "null: a store in the run folder",
    )
    checkpoints: bool = param(False, "also send the newest and the best checkpoint, once at the end")

    def __post_init__(self) -> None:
        """Wrap a given address so that it is not written, shown or compared."""
        uri: object = self.tracking_uri
        if not isinstance(uri, str) or uri == TRACKING_URI_REFERENCE:
            return
        if "${" in uri:
            raise ConfigError(
                f"logger.mlflow.tracking_uri={uri}: expected an address, or {TRACKING_URI_REFERENCE}"
            )
        if urlsplit(uri).password and uri != os.environ.get(TRACKING_URI):
            raise ConfigError(
                "logger.mlflow.tracking_uri has a password, which would be in files of the run: "
                f"export {TRACKING_URI}=... and give '{TRACKING_URI_REFERENCE}'"
            )
        if urlsplit(uri).scheme.partition("+")[0] not in STORE_SCHEMES:
            raise ConfigError(
                "logger.mlflow.tracking_uri: expected the address of a server (http://..., https://...) or "
                f"of a database (sqlite:///...), not {urlsplit(uri).scheme or 'a path'}; null is a store "
                "in the run folder"
            )
        object.__setattr__(self, "tracking_uri", EnvVarRef(TRACKING_URI_REFERENCE, uri))

    @property
    def has_address(self) -> bool:
        """Whether the address is already known, and not only the variable that holds it."""
        uri: object = self.tracking_uri
        return isinstance(uri, EnvVarRef)

    @property
    def address(self) -> str | None:
        """The store's address; `None` for the store in the run folder; raises `ConfigError` if unknown."""
        uri: object = self.tracking_uri
        if isinstance(uri, EnvVarRef):
            return str(uri.value)
        if uri is None:
            return None
        if not (uri_from_env := os.environ.get(TRACKING_URI)):
            raise ConfigError(
                "logger=mlflow wrote to a store whose address is not in the run folder: "
                f"export {TRACKING_URI}=..."
            )
        return uri_from_env


LoggerConfig = CsvConfig | TensorboardConfig | JsonlConfig | WandbConfig | MlflowConfig
_LOGGER_CONFIGS: dict[str, type[LoggerConfig]] = {
    "jsonl": JsonlConfig,
    "csv": CsvConfig,
    "tensorboard": TensorboardConfig,
    "wandb": WandbConfig,
    "mlflow": MlflowConfig,
}


def _plugin_config(entry: PluginEntry, plugin: Any, setting: str) -> Any:
    """Return the configuration class of a logger plugin; raise `ConfigError` if it is invalid."""
    if not isinstance(plugin, LoggerPlugin):
        raise entry.kind_error(setting, "a rlox.plugins.LoggerPlugin")
    return entry.require_named_dataclass(plugin.config, setting)


LOGGER_CONFIGS = PluginRegistry(_LOGGER_CONFIGS, "logger", _plugin_config)

"""Checks for `--cfg`, which prints one composed configuration or one of its packages."""

from __future__ import annotations

from collections.abc import Iterable

from omegaconf import DictConfig, OmegaConf

from rlox.errors import ConfigError
from rlox_cli.config.overrides import has_several_values


def require_one_value(overrides: Iterable[str]) -> None:
    """Raise `ConfigError` if an override has several values.

    `--cfg` prints one configuration; only a sweep composes one for each value.
    """
    for override in overrides:
        if has_several_values(override):
            raise ConfigError(f"{override}: --cfg shows one configuration; give one value of the key")


def require_package(composed: DictConfig, cfg_choice: str, package: str | None) -> None:
    """Raise `ConfigError` if `package` selects nothing; the error lists the packages that exist."""
    if package in (None, "_global_"):
        return
    is_hydra = cfg_choice == "hydra"
    packages = [str(key) for key in composed if cfg_choice == "all" or (key == "hydra") == is_hydra]
    if package.split(".")[0] not in packages or OmegaConf.select(composed, package) is None:
        raise ConfigError(f"-p {package}: no such package, expected one of {', '.join(packages)}")

"""`--cfg`: one configuration is shown, or a package of it."""

from __future__ import annotations

from collections.abc import Iterable

from omegaconf import DictConfig, OmegaConf

from rlox.errors import ConfigError
from rlox_cli.overrides import has_several_values


def require_one_value(overrides: Iterable[str]) -> None:
    """`ConfigError` for a key with several values, of which only a sweep has a configuration each."""
    for override in overrides:
        if has_several_values(override):
            raise ConfigError(f"{override}: --cfg shows one configuration; give one value of the key")


def require_package(composed: DictConfig, cfg_choice: str, package: str | None) -> None:
    """`ConfigError` where nothing is there to show; it names the packages that there are."""
    if package in (None, "_global_"):
        return
    is_hydra = cfg_choice == "hydra"
    packages = [str(key) for key in composed if cfg_choice == "all" or (key == "hydra") == is_hydra]
    if package.split(".")[0] not in packages or OmegaConf.select(composed, package) is None:
        raise ConfigError(f"-p {package}: nothing there; there are {', '.join(packages)}")

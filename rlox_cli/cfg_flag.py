"""`--cfg`: one configuration is shown, or a package of it."""

from __future__ import annotations

from collections.abc import Iterable

from omegaconf import DictConfig, OmegaConf

from rlox.errors import ConfigError
from rlox_cli.overrides import is_several


def require_one_value(overrides: Iterable[str]) -> None:
    """`ConfigError` for a key with several values, of which only a sweep has a configuration each."""
    for override in overrides:
        if is_several(override):
            raise ConfigError(
                f"{override}: --cfg shows one configuration; give one value of the key"
            )


def require_package(composed: DictConfig, shown: str, package: str | None) -> None:
    """`ConfigError` where nothing is there to show; it names the packages that there are."""
    if package in (None, "_global_"):
        return
    hydras = shown == "hydra"
    there = [str(key) for key in composed if shown == "all" or (key == "hydra") == hydras]
    if package.split(".")[0] not in there or OmegaConf.select(composed, package) is None:
        raise ConfigError(f"-p {package}: nothing there; there are {', '.join(there)}")

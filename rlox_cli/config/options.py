"""Folders of configuration files, and their options for each group."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rlox import plugins
from rlox.configs import ALGO_CONFIGS, BUFFER_CONFIGS, LOGGER_CONFIGS
from rlox.errors import ConfigError
from rlox_cli.config import plain_yaml

CONF = Path(__file__).resolve().parents[1] / "conf"
# Options without files in conf/: rlox's own entries of the registries.
BUILTIN_OPTIONS = {
    registry.kind: registry.builtin_names for registry in (ALGO_CONFIGS, BUFFER_CONFIGS, LOGGER_CONFIGS)
}


def conf_folders(config_dir: str | None = None) -> list[Path]:
    """Return the conf folders in use; a file in a later folder replaces one of that name in an earlier one.

    The order: folders of plugins, rlox's own folder, folders in RLOX_CONF_PATH, `--config-dir`.
    """
    extra = [config_dir] if config_dir else []
    plugin_folders = [folder for _, folder in plugins.conf_folders()]
    return [*plugin_folders, CONF, *(Path(p).absolute() for p in [*user_conf_folders(), *extra])]


def config_dir_of(args: Sequence[str]) -> str | None:
    """Return the folder of `--config-dir` among the arguments of a command."""
    for arg, following in zip(args, [*args[1:], None], strict=False):
        if arg in ("--config-dir", "-cd"):
            return following
        if arg.startswith("--config-dir="):
            return arg.partition("=")[2]
    return None


def user_conf_folders() -> list[str]:
    """Return the folders in RLOX_CONF_PATH, as they are written there; the last one wins."""
    return [p for p in os.environ.get("RLOX_CONF_PATH", "").split(os.pathsep) if p]


def require_user_conf_folders() -> None:
    """Raise `ConfigError` for an entry of RLOX_CONF_PATH that is not a folder."""
    for path in map(Path, user_conf_folders()):
        if not path.is_dir():
            problem = "a file, expected a folder" if path.exists() else "no such folder"
            raise ConfigError(
                f"RLOX_CONF_PATH: {path}: {problem}; correct the variable (several folders are separated by "
                f"'{os.pathsep}') or unset it: unset RLOX_CONF_PATH"
            )


def group_options(group: str, folders: Iterable[Path]) -> list[str]:
    """Return the options of a config group: files in conf folders, plugins, and registered ids for env."""
    options = set(declared_options(group, folders))
    if group == "env":
        from rlox.envs.ids import env_ids  # imported here because it imports Gymnasium

        options.update(env_ids())
    return sorted(options)


def declared_options(group: str, folders: Iterable[Path]) -> list[str]:
    """Return the options from files in the conf folders, from registries, and from plugins.

    A name with a leading underscore is a base for other files, not an option.
    """
    paths = {
        path.relative_to(folder / group).with_suffix("")
        for folder in folders
        for path in (folder / group).rglob("*.yaml")
    }
    options = {p.as_posix() for p in paths if not any(part.startswith("_") for part in p.parts)}
    if group == "tuned":  # `none.yaml` exists because Hydra refuses null here; users write null
        options = {"null" if name == "none" else name for name in options}
    options.update(BUILTIN_OPTIONS.get(group, ()))
    if group in plugins.KINDS:
        options.update(plugins.plugin_names(group))
    return sorted(options)


def read_option_file(group: str, option: str, folders: Iterable[Path]) -> dict[str, Any]:
    """Return the content of an option's file, from the last folder that has it; else empty."""
    for folder in reversed(list(folders)):
        path = folder / group / f"{option}.yaml"
        if path.is_file():
            return read_config_file(path)
    return {}


def read_config_file(path: Path) -> dict[str, Any]:
    """Return a configuration file as plain data; empty if it is invalid, since Hydra reports the mistake."""
    try:
        return copy.deepcopy(_read_shipped(path)) if CONF in path.parents else plain_yaml.load(path)
    except (ConfigError, OSError):
        return {}


@functools.cache
def _read_shipped(path: Path) -> dict[str, Any]:
    """Read one of rlox's own files; cached, as it does not change and one command reads it many times."""
    return plain_yaml.load(path)

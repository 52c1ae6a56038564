"""Mistakes in the user's configuration files that Hydra reports without naming the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml  # type: ignore[import-untyped]  # PyYAML, through omegaconf

from rlox.errors import ConfigError
from rlox_cli.config.options import CONF
from rlox_cli.config.overrides import REQUIRED_GROUPS
from rlox_cli.config.run_schema import AUTO

_PACKAGE_PATTERN = re.compile(rb"^#\s*@package\s+\S", re.MULTILINE)
_MISSING_BASE_PATTERN = re.compile(rf"Could not (?:find|load) 'buffer/{AUTO}/([^']+)'")


def require_packages(overrides: Iterable[str], folders: Sequence[Path]) -> None:
    """Raise `ConfigError` for an experiment file that does not name the package of its keys."""
    for override in overrides:
        group, _, options = override.lstrip("+").partition("=")
        for option in options.split(",") if group.split("/")[0] == "exp" else ():
            path = _find_option_file(group, option, folders)
            if path is not None and not _has_package(path):
                raise ConfigError(
                    f"{path} has no line '# @package _global_', so its keys would be keys of {group}; "
                    "begin the file with that line"
                )


def explain_error(error: BaseException, folders: Sequence[Path]) -> ConfigError | None:
    """Return an error that names the file and the mistake, if Hydra's error does not."""
    if isinstance(error, UnicodeDecodeError):
        unreadable_path = next(filter(_is_not_utf8, _user_files(folders)), None)
        if unreadable_path is not None:
            return ConfigError(f"{unreadable_path} is not text in UTF-8 ({error}); save the file as UTF-8")
    if match := _MISSING_BASE_PATTERN.search(str(error)):
        path = _find_option_file("algo", match[1], folders)
        names = ", ".join(sorted(REQUIRED_GROUPS["algo"].registry))
        if path is not None:
            return ConfigError(
                f"{path} is built on no algorithm, so it has no buffer; begin it with a line such as\n"
                f"  defaults: [ppo, _self_]\n  with one of {names}"
            )
    return None


def _find_option_file(group: str, option: str, folders: Sequence[Path]) -> Path | None:
    """Return the file of an option in the user's folders; the last folder wins."""
    paths = [folder / group / f"{option}.yaml" for folder in reversed(folders) if folder != CONF]
    return next((path for path in paths if path.is_file()), None)


def _has_package(path: Path) -> bool:
    """Return whether a file names its package; true for invalid YAML, which is reported elsewhere."""
    data = path.read_bytes()
    try:
        yaml.compose(data.decode("utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError):
        return True
    return _PACKAGE_PATTERN.search(data) is not None


def _user_files(folders: Sequence[Path]) -> Iterable[Path]:
    return (path for folder in folders if folder != CONF for path in sorted(folder.rglob("*.yaml")))


def _is_not_utf8(path: Path) -> bool:
    try:
        path.read_text("utf-8")
    except UnicodeDecodeError:
        return True
    return False

"""Hydra composition: what the user typed -> one composed config per job."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol

import hydra
from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlox.errors import ConfigError, StorageError
from rlox_cli import check, messages, schema, sweep
from rlox_cli.source import GymnasiumSource, RloxSearchPath, conf_folders, group_options

CONF = "pkg://rlox_cli.conf"
NULL_OPTIONS = {"tuned": "none", "logger": "[]"}
Task = Callable[[DictConfig], Any]


class SweepTask(Protocol):
    """A task that is told the plan and keeps how each job ended."""

    plan: sweep.Plan | None
    outcomes: list[dict[str, Any]]

    def __call__(self, config: DictConfig) -> Any:
        """Do one job."""


def run(command: str, args: list[str], task: Task) -> None:
    """Compose `command` from the overrides in `args` and call `task` once per job.

    Every mistake in the overrides raises a `ConfigError`; Hydra's own flags (`--cfg`, `--info`,
    `-m`, `--config-dir`, ...) do what they do in any Hydra application.
    """
    parsed = parse_flags(args)
    _install()
    overrides = rewrite(command, parsed.overrides, conf_folders(parsed.config_dir))
    with _translated(command, parsed):
        if parsed.cfg in ("job", "all"):
            _check(command, overrides, parsed)
        _hydra(command, [*_flags(args, parsed.overrides), *overrides], task)


def run_sweep(command: str, args: list[str], task: SweepTask) -> int:
    """Check every job of a sweep, run them, write the summary; the exit code of the whole."""
    parsed = parse_flags(args)
    _install()
    overrides = rewrite(command, parsed.overrides, conf_folders(parsed.config_dir))
    if not any(o.startswith("hydra.sweep.dir=") for o in overrides):
        overrides.append(f"hydra.sweep.dir={sweep.new_folder()}")
    flags = _flags(args, parsed.overrides)
    with _translated(command, parsed):
        with _loader() as app:
            name = parsed.config_name or command
            plan = sweep.plan(app, name, [*overrides, *_search_path(parsed)])
        task.plan = plan
        with tempfile.TemporaryDirectory() as nowhere:
            # Hydra's sweeper makes its folder in any case; a dry run shall leave none.
            place = [f"hydra.sweep.dir={nowhere}"] if plan.dry else []
            try:
                _hydra(command, [*flags, *overrides, *place], task)
            finally:
                code = sweep.finish(plan, task.outcomes)
    return code


def parse_flags(args: list[str]) -> argparse.Namespace:
    """Hydra's command line, taken apart by Hydra's parser; mistakes are `ConfigError`s."""
    from hydra._internal.utils import get_args_parser

    def refuse(message: str) -> NoReturn:
        raise ConfigError(f"{message}; Hydra's flags: rlox train --hydra-help")

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign]
    parsed = parser.parse_intermixed_args(args)
    if parsed.experimental_rerun is not None:
        raise ConfigError(
            "--experimental-rerun loads a pickle, which can run any code: not supported"
        )
    if parsed.config_dir is not None and not Path(parsed.config_dir).is_dir():
        raise ConfigError(f"--config-dir {parsed.config_dir}: no such folder")
    return parsed


def rewrite(command: str, overrides: list[str], folders: list[Path]) -> list[str]:
    """Spellings that Hydra crashes on or refuses, in ones that it takes."""
    if command == "evaluate":
        return list(overrides)
    return [o for override in overrides for o in _rewrite_one(override, folders)]


def _rewrite_one(override: str, folders: list[Path]) -> Iterator[str]:
    key, equals, value = override.partition("=")
    if key.lstrip("+~") == "resume":
        if override == "resume=null":
            return
        raise ConfigError(f"{override}: to go on with a run: rlox train resume=RUN")
    if key.lstrip("~") in ("algo", "env", "buffer") and value in ("null", ""):
        raise ConfigError(f"{override}: a run needs one, e.g. algo=ppo env=CartPole-v1")
    if key == "exp" and value == "null":
        return
    if value == "null":
        value = NULL_OPTIONS.get(key, value)
    if key == "tuned":
        value = ",".join("none" if v == "null" else v for v in value.split(","))
        _require_tuned(value, folders)
    # `env.kwargs` is open: its keys belong to the environment, so struct mode must not judge them.
    if re.match(r"\+?env\.kwargs\.", key):
        key = "++" + key.removeprefix("+")
    yield f"{key}{equals}{value}"


def _require_tuned(value: str, folders: list[Path]) -> None:
    """Reject unknown presets: Hydra silently skips a missing option of an optional group."""
    found = group_options("tuned", folders)
    for name in value.split(","):
        if "$" not in name and name not in ("none", *found):
            raise messages.unknown_option("tuned", name, found)


def _check(command: str, overrides: list[str], parsed: argparse.Namespace) -> None:
    """Hydra prints a config without calling the task, so validate it first."""
    with _loader():
        config = hydra.compose(parsed.config_name or command, [*overrides, *_search_path(parsed)])
    if command != "evaluate":
        check.run_config(config)
    elif not OmegaConf.is_missing(config, "run"):
        check.evaluate_config(config)


def _search_path(parsed: argparse.Namespace) -> list[str]:
    """`--config-dir` for Hydra's compose API, which has no such option."""
    if parsed.config_dir is None:
        return []
    return [f"hydra.searchpath=[file://{Path(parsed.config_dir).absolute()}]"]


@contextmanager
def _loader() -> Iterator[Hydra]:
    with hydra.initialize_config_module("rlox_cli.conf", version_base="1.3"):
        app = GlobalHydra.instance().hydra
        assert app is not None
        yield app


def _hydra(command: str, argv: list[str], task: Task) -> None:
    with _hydra_environment(argv):
        try:
            hydra.main(version_base="1.3", config_path=CONF, config_name=command)(task)()
        except OSError as error:
            if isinstance(error, HydraException):  # "no such option" is one of both kinds
                raise
            # Tasks keep their errors to themselves: this is a folder that Hydra makes.
            raise StorageError(f"{error.filename} cannot be written: {error.strerror}") from error


def _install() -> None:
    schema.register()
    for plugin in (GymnasiumSource, RloxSearchPath):
        Plugins.instance().register(plugin)


def _flags(args: list[str], overrides: list[str]) -> list[str]:
    left, flags = list(overrides), []
    for arg in args:
        if arg in left:
            left.remove(arg)
        else:
            flags.append(arg)
    return flags


@contextmanager
def _hydra_environment(argv: list[str]) -> Iterator[None]:
    """Hydra reads sys.argv; with HYDRA_FULL_ERROR it raises instead of printing and exiting."""
    saved, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = [saved[0], *argv]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.argv = saved
        os.environ.pop("HYDRA_FULL_ERROR")
        if full is not None:
            os.environ["HYDRA_FULL_ERROR"] = full


@contextmanager
def _translated(command: str, parsed: argparse.Namespace) -> Iterator[None]:
    folders = conf_folders(parsed.config_dir)
    try:
        yield
    except ConfigError:
        raise
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        names = schema.key_names(command, schema.chosen_algos(parsed.overrides))
        raise messages.from_hydra(error, names, lambda g: group_options(g, folders)) from error

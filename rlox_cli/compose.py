"""Hydra composition: what the user typed -> one composed config per job."""

from __future__ import annotations

import argparse
import copy
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import hydra
from hydra import version
from hydra._internal.callbacks import Callbacks
from hydra._internal.core_plugins.basic_launcher import BasicLauncher
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, flag_override
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # PyYAML, through omegaconf

from rlox.errors import ConfigError, StorageError
from rlox_cli import cfg_flag, elsewhere, grid, messages, option_files, sweep, validate
from rlox_cli.command import Call, Command
from rlox_cli.options import conf_folders, group_options, require_own_folders
from rlox_cli.overrides import require_no_password, require_one_list
from rlox_cli.plugin_source import PluginSource
from rlox_cli.schema_source import SchemaSource
from rlox_cli.search import sweeper
from rlox_cli.source import GymnasiumSource, RloxSearchPath
from rlox_cli.variants import VariantSource
from rlox_cli.verbatim import quoted, verbatim_keys

CONF = "pkg://rlox_cli.conf"
Task = Callable[[DictConfig], Any]


class SweepTask(Protocol):
    """A task that is told the plan and keeps how each job ended."""

    outcomes: list[dict[str, Any]]

    def prepare(self, plan: sweep.SweepPlan) -> None:
        """Know what is planned."""

    def __call__(self, config: DictConfig) -> Any:
        """Do one job."""


def run(call: Call, task: Task) -> None:
    """Compose the command from its overrides and call `task` once per job.

    Every mistake in the overrides raises a `ConfigError`; Hydra's own flags (`--cfg`, `--info`,
    `-m`, `--config-dir`, ...) do what they do in any Hydra application. What the task raises comes
    after all jobs, the first of it.
    """
    line = Line.read(call.command, call.args)
    job = _Job(task)
    with line.translated():
        if line.needs_hydra_main:
            _hydra_main(line, line.overrides, job)
        elif line.parsed.cfg:
            _show(line)
        else:
            with _writable_folders(), _application(_require_one_run) as app:
                app.run(line.primary, job, line.overrides)
    if job.error is not None:
        raise job.error


def run_sweep(call: Call, args: list[str], task: SweepTask) -> int:
    """Check every job of a sweep, run them, write the summary; the exit code of the whole."""
    line = Line.read(call.command, args)
    if not any(o.startswith("hydra.sweep.dir=") for o in line.overrides):
        line.overrides.append(f"hydra.sweep.dir={sweep.new_folder()}")
    with line.translated():
        with _application() as app:
            plan = sweep.plan(app, line.primary, line.overrides)
        task.prepare(plan)
        with tempfile.TemporaryDirectory() as nowhere:
            # Hydra's sweeper makes its folder in any case; a dry run shall leave none.
            more = [f"hydra.sweep.dir={nowhere}"] if plan.dry else []
            more += grid.sweeper() if plan.jobs is not None else []
            more = [*line.overrides, *more]
            with _writable_folders():
                plan.begin(Path(nowhere) if plan.dry else plan.folder)
            try:
                if line.needs_hydra_main:
                    _hydra_main(line, more, task)
                else:
                    with _writable_folders(), _application() as app:
                        app.multirun(line.primary, task, [*more, "hydra.mode=MULTIRUN"])
            finally:
                code = plan.finish(task.outcomes, call.line)
    return code


@contextmanager
def sweep_job(
    call: Call, args: list[str], task: Task
) -> Iterator[Callable[[int, list[str]], None]]:
    """One job of the sweep that `args` are, by its number and overrides, as Hydra launches it."""
    line = Line.read(call.command, args)
    overrides = [*line.overrides, "hydra.mode=MULTIRUN"]
    with line.translated(), _application() as app:
        master = app.compose_config(
            line.primary, overrides, RunMode.MULTIRUN, with_log_configuration=False
        )
        context = HydraContext(config_loader=app.config_loader, callbacks=Callbacks(master))
        launcher = BasicLauncher()
        launcher.setup(hydra_context=context, task_function=task, config=master)

        def launch(number: int, job: list[str]) -> None:
            _ = launcher.launch([job], number)[0].return_value  # raises what the task raised

        yield launch


@dataclass(frozen=True)
class Line:
    """The arguments of a command, taken apart: Hydra's flags, and overrides as Hydra takes them."""

    command: Command
    parsed: argparse.Namespace
    flags: list[str]
    overrides: list[str]
    folders: list[Path]

    @classmethod
    def read(cls, command: Command, args: list[str]) -> Line:
        """Take them apart; `ConfigError` for what cannot be."""
        parsed = parse_flags(args, command)
        if parsed.multirun and not command.sweeps:
            raise ConfigError(
                f"-m: rlox {command.name} does one thing; call it once for each value"
            )
        SchemaSource.in_force = command.schema
        for plugin in (GymnasiumSource, VariantSource, PluginSource, SchemaSource, RloxSearchPath):
            Plugins.instance().register(plugin)
        require_own_folders()
        elsewhere.register()
        sweeper.register()
        folders = conf_folders(parsed.config_dir)
        _require_primary(parsed.config_name, folders)
        VariantSource.in_force = tuple(folders)
        RloxSearchPath.given = parsed.config_dir
        given: list[str] = parsed.overrides
        for override in given:
            require_no_password(override)
        keys = verbatim_keys(command.schema.keys(command.schema.chosen(given, folders)))
        for override in given:
            if override.partition("=")[0] not in keys:
                messages.require_readable(override)
        plain = list(quoted(given, keys, several=parsed.multirun))
        if command.sweeps:
            require_one_list(plain)
            option_files.require_packages(plain, folders)
        overrides = list(command.rewrite(plain, folders))
        return cls(command, parsed, _flags(args, given), overrides, folders)

    @property
    def primary(self) -> str:
        """The primary configuration."""
        return self.parsed.config_name or self.command.name

    @property
    def needs_hydra_main(self) -> bool:
        """Whether Hydra's own `main` has to handle the flags: help, completion, contradictions."""
        flags = self.parsed
        shown = (flags.help, flags.hydra_help, flags.shell_completion, flags.info is not None)
        several = bool(flags.run) + bool(flags.multirun) + (flags.cfg is not None) > 1
        return any(shown) or several or (flags.resolve and flags.cfg is None)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """What Hydra raises inside comes out as a `ConfigError` in the house's words."""
        try:
            yield
        except ConfigError:
            raise
        except RecursionError as error:
            raise ConfigError(
                "configuration files build on one another in a circle; look at the defaults of those that "
                f"are chosen: {' '.join(self.parsed.overrides)}"
            ) from error
        except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
            if (told := option_files.explained(error, self.folders)) is not None:
                raise told from error
            schema = self.command.schema
            parts = schema.chosen(self.parsed.overrides, self.folders)
            names = schema.names(parts)
            raise messages.from_hydra(
                error,
                names,
                lambda group: group_options(group, self.folders),
                schema.owners,
                "rlox sweep …" if self.command.sweeps else f"rlox {self.command.name} … once for",
                {key.name for key in schema.keys(parts) if isinstance(key.default, tuple)}
                | {group.name for group in schema.groups if group.many},
            ) from error


def _require_primary(name: str | None, folders: Sequence[Path]) -> None:
    """`ConfigError` for a primary configuration (`--config-name`) that no folder has."""
    file = f"{(name or '').removesuffix('.yaml')}.yaml"
    if name is not None and not any((folder / file).is_file() for folder in folders):
        raise ConfigError(
            f"--config-name {name}: no folder of configurations has a {file}; leave it out, or name its "
            "folder: --config-dir FOLDER"
        )


def taken_apart(args: list[str], command: Command) -> tuple[list[str], list[str]]:
    """Hydra's flags with their values, and everything else."""
    overrides: list[str] = parse_flags(args, command).overrides
    return _flags(args, overrides), overrides


def runs_named(args: list[str], command: Command) -> tuple[list[str], list[str]]:
    """The run folders that are named without `run=`, and everything else, Hydra's flags first.

    `ConfigError` where `run=` names one too.
    """
    flags, given = taken_apart(args, command)
    runs = [
        a
        for a in given
        # `Path` raises for a value that is longer than a file's name may be
        if os.path.isdir(a) or ("=" not in a and (a[:1] not in "~+" or a[:2] == "~/"))  # noqa: PTH112
    ]
    rest = [*flags, *(a for a in given if a not in runs)]
    if runs and any(argument.startswith("run=") for argument in rest):
        raise ConfigError(f"{runs[0]} and run= both name a run; name all of them without run=")
    return runs, rest


def parse_flags(args: list[str], command: Command) -> argparse.Namespace:
    """Hydra's command line, taken apart by Hydra's parser; mistakes are `ConfigError`s."""
    from hydra._internal.utils import get_args_parser

    def refuse(message: str) -> NoReturn:
        flags = message.removeprefix("unrecognized arguments: ").split()
        if flags == message.split():
            raise ConfigError(f"{message}; Hydra's flags: rlox train --hydra-help")
        flag, _, value = flags[0].partition("=")
        after = args[args.index(flags[0]) + 1 :]
        schema = command.schema
        names = schema.names(schema.chosen(args))
        typed = next((a for a in after[:1] if "=" not in a and not a.startswith("-")), None)
        raise messages.unknown_flag(flag, value or typed, names)

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


class _Job:
    """A task whose error waits until Hydra is done, and is not taken for one of composition."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.error: Exception | None = None

    def __call__(self, config: DictConfig) -> Any:
        try:
            return self.task(config)
        except Exception as error:
            self.error = self.error or error
            return None


def _show(line: Line) -> None:
    """Print the composed configuration (`--cfg`), once it is known to be valid.

    A required key may be missing in a configuration that is only printed.
    """
    cfg_flag.require_one_value(line.overrides)

    def check(composed: DictConfig) -> None:
        cfg_flag.require_package(composed, line.parsed.cfg, line.parsed.package)
        if line.parsed.cfg == "hydra":
            return
        HydraConfig.instance().set_config(composed)  # what ${hydra:...} is resolved from
        config = copy.deepcopy(composed)
        with flag_override(config, ["struct", "readonly"], [False, False]):
            del config["hydra"]
        if not validate.not_given(validate.plain_data(config), line.command.schema):
            line.command.check(config)

    flags = line.parsed
    with _application(check) as app:
        app.show_cfg(line.primary, line.overrides, flags.cfg, flags.package, flags.resolve)


def _require_one_run(composed: DictConfig) -> None:
    if composed.hydra.mode == RunMode.MULTIRUN:
        raise ConfigError(
            "hydra.mode=MULTIRUN asks for several jobs of a command that does one; "
            "for several trainings use rlox sweep"
        )
    if params := composed.hydra.sweeper.get("params"):
        values = " ".join(f"{key}={value}" for key, value in params.items())
        raise ConfigError(
            f"several jobs are asked for, by hydra.sweeper.params of a configuration file ({values})\n"
            "  to run them: rlox sweep, with the same arguments"
        )


class _Application(Hydra):
    """Hydra's application; `check` is called with what it composed, before that is used."""

    check: Callable[[DictConfig], None] | None = None

    def compose_config(self, *args: Any, **kwargs: Any) -> DictConfig:
        """Compose as Hydra does, and check the result."""
        composed = super().compose_config(*args, **kwargs)
        if self.check is not None:
            self.check(composed)
        return composed


@contextmanager
def _application(check: Callable[[DictConfig], None] | None = None) -> Iterator[Hydra]:
    version.setbase("1.3")
    app = _Application.create_main_hydra2("rlox", create_config_search_path(CONF))
    assert isinstance(app, _Application)
    app.check = check
    try:
        yield app
    finally:
        GlobalHydra.instance().clear()


def _hydra_main(line: Line, overrides: list[str], task: Task) -> None:
    """What Hydra's own `main` does with the flags: help, information, completion."""
    with _hydra_environment([*line.flags, *overrides]), _writable_folders():
        hydra.main(version_base="1.3", config_path=CONF, config_name=line.command.name)(task)()


@contextmanager
def _writable_folders() -> Iterator[None]:
    """A folder that Hydra cannot make is a `StorageError`; tasks keep their errors to themselves."""
    try:
        yield
    except OSError as error:
        if isinstance(error, HydraException):  # "no such option" is one of both kinds
            raise
        raise StorageError(f"{error.filename} cannot be written: {error.strerror}") from error


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

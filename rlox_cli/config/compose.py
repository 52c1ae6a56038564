"""Hydra composition: turn the typed arguments into one composed configuration per job."""

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
from rlox_cli.config import cfg_flag, option_files, validate
from rlox_cli.config.options import conf_folders, group_options, require_user_conf_folders
from rlox_cli.config.overrides import require_no_password, require_one_list
from rlox_cli.config.sources import GymnasiumSource, RegistrySource, RloxSearchPath, SchemaSource
from rlox_cli.config.variants import VariantSource
from rlox_cli.config.verbatim import quote_values, verbatim_keys
from rlox_cli.search import sweeper
from rlox_cli.shell import messages
from rlox_cli.shell.command import Call, Command
from rlox_cli.sweeps import external_launchers, grid, sweep

CONF = "pkg://rlox_cli.conf"
TaskFunction = Callable[[DictConfig], Any]


class SweepTask(Protocol):
    """A task that receives the plan of a sweep and records the outcome of each job."""

    outcomes: list[dict[str, Any]]

    def prepare(self, plan: sweep.SweepPlan) -> None:
        """Receive the plan, before the first job."""

    def __call__(self, config: DictConfig) -> Any:
        """Run one job."""


def run(call: Call, task: TaskFunction) -> None:
    """Compose the command from its overrides and call `task` once per job.

    Every mistake in the overrides raises a `ConfigError`. Hydra's own flags (`--cfg`, `--info`,
    `-m`, `--config-dir`, ...) work as in any Hydra application. The first exception of the task is
    raised after all jobs.
    """
    arguments = ParsedArguments.parse(call.command, call.args)
    recording_task = _ErrorKeepingTask(task)
    with arguments.translate_errors():
        if arguments.needs_hydra_main:
            _hydra_main(arguments, arguments.overrides, recording_task)
        elif arguments.namespace.cfg:
            _print_config(arguments)
        else:
            with _translate_os_errors(), _application(_require_one_run) as app:
                app.run(arguments.primary, recording_task, arguments.overrides)
    if recording_task.error is not None:
        raise recording_task.error


def run_sweep(call: Call, args: list[str], task: SweepTask) -> int:
    """Check every job of a sweep, run the jobs, write the summary and return the exit code of the sweep."""
    arguments = ParsedArguments.parse(call.command, args)
    if not any(o.startswith("hydra.sweep.dir=") for o in arguments.overrides):
        arguments.overrides.append(f"hydra.sweep.dir={sweep.new_folder()}")
    with arguments.translate_errors():
        with _application() as app:
            plan = sweep.plan_sweep(app, arguments.primary, arguments.overrides)
        task.prepare(plan)
        with tempfile.TemporaryDirectory() as scratch_dir:
            # Hydra's sweeper always creates its folder; a dry run must leave no folder.
            extra_overrides = [f"hydra.sweep.dir={scratch_dir}"] if plan.is_dry_run else []
            extra_overrides += grid.prechecked_sweeper_override() if plan.jobs is not None else []
            extra_overrides = [*arguments.overrides, *extra_overrides]
            with _translate_os_errors():
                plan.record_decisions(Path(scratch_dir) if plan.is_dry_run else plan.folder)
            try:
                if arguments.needs_hydra_main:
                    _hydra_main(arguments, extra_overrides, task)
                else:
                    with _translate_os_errors(), _application() as app:
                        app.multirun(arguments.primary, task, [*extra_overrides, "hydra.mode=MULTIRUN"])
            finally:
                code = plan.finish(task.outcomes, call.command_line)
    return code


@contextmanager
def job_launcher(
    call: Call, args: list[str], task: TaskFunction
) -> Iterator[Callable[[int, list[str]], None]]:
    """Yield a function that launches one job as Hydra does, from the job's number and overrides.

    `args` are the arguments of the sweep.
    """
    arguments = ParsedArguments.parse(call.command, args)
    overrides = [*arguments.overrides, "hydra.mode=MULTIRUN"]
    with arguments.translate_errors(), _application() as app:
        master = app.compose_config(
            arguments.primary, overrides, RunMode.MULTIRUN, with_log_configuration=False
        )
        context = HydraContext(config_loader=app.config_loader, callbacks=Callbacks(master))
        launcher = BasicLauncher()
        launcher.setup(hydra_context=context, task_function=task, config=master)

        def launch(number: int, job_overrides: list[str]) -> None:
            _ = launcher.launch([job_overrides], number)[0].return_value  # raises the error of the task

        yield launch


@dataclass(frozen=True)
class ParsedArguments:
    """The parsed arguments of a command: Hydra's flags, and the overrides in the form that Hydra takes."""

    command: Command
    namespace: argparse.Namespace
    flags: list[str]
    overrides: list[str]
    folders: list[Path]

    @classmethod
    def parse(cls, command: Command, args: list[str]) -> ParsedArguments:
        """Parse the arguments; raise `ConfigError` if they are invalid."""
        namespace = parse_flags(args, command)
        if namespace.multirun and not command.is_sweepable:
            raise ConfigError(f"-m: rlox {command.name} does one thing; call it once for each value")
        SchemaSource.current_schema = command.schema
        for plugin in (GymnasiumSource, VariantSource, RegistrySource, SchemaSource, RloxSearchPath):
            Plugins.instance().register(plugin)
        require_user_conf_folders()
        external_launchers.register()
        sweeper.register()
        folders = conf_folders(namespace.config_dir)
        _require_primary(namespace.config_name, folders)
        VariantSource.current_folders = tuple(folders)
        RloxSearchPath.config_dir = namespace.config_dir
        raw_overrides: list[str] = namespace.overrides
        for override in raw_overrides:
            require_no_password(override)
        keys = verbatim_keys(command.schema.keys(command.schema.chosen_options(raw_overrides, folders)))
        for override in raw_overrides:
            if override.partition("=")[0] not in keys:
                messages.require_readable(override)
        quoted_overrides = list(quote_values(raw_overrides, keys, allow_several=namespace.multirun))
        if command.is_sweepable:
            require_one_list(quoted_overrides)
            option_files.require_packages(quoted_overrides, folders)
        overrides = list(command.rewrite(quoted_overrides, folders))
        return cls(command, namespace, _flags(args, raw_overrides), overrides, folders)

    @property
    def primary(self) -> str:
        """The name of the primary configuration."""
        return self.namespace.config_name or self.command.name

    @property
    def needs_hydra_main(self) -> bool:
        """Whether Hydra's own `main` must handle the flags: help, information, completion, conflicts."""
        flags = self.namespace
        shows_information = (flags.help, flags.hydra_help, flags.shell_completion, flags.info is not None)
        has_conflicting_flags = bool(flags.run) + bool(flags.multirun) + (flags.cfg is not None) > 1
        return any(shows_information) or has_conflicting_flags or (flags.resolve and flags.cfg is None)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate Hydra's errors into `ConfigError`s with rlox's messages."""
        try:
            yield
        except ConfigError:
            raise
        except RecursionError as error:
            raise ConfigError(
                "configuration files include one another in a cycle; check the defaults lists of the chosen "
                f"options: {' '.join(self.namespace.overrides)}"
            ) from error
        except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
            if (explanation := option_files.explain_error(error, self.folders)) is not None:
                raise explanation from error
            schema = self.command.schema
            chosen_options = schema.chosen_options(self.namespace.overrides, self.folders)
            names = schema.names(schema.keys(chosen_options))
            raise messages.from_hydra(
                error,
                names,
                lambda group: group_options(group, self.folders),
                schema.owners,
                "rlox sweep …" if self.command.is_sweepable else f"rlox {self.command.name} … once for",
                {key.name for key in schema.keys(chosen_options) if isinstance(key.default, tuple)}
                | {group.name for group in schema.groups if group.is_multiple},
            ) from error


def _require_primary(name: str | None, folders: Sequence[Path]) -> None:
    """Raise `ConfigError` if no folder has the primary configuration (`--config-name`)."""
    file = f"{(name or '').removesuffix('.yaml')}.yaml"
    if name is not None and not any((folder / file).is_file() for folder in folders):
        raise ConfigError(
            f"--config-name {name}: no folder of configurations has a {file}; leave the flag out, or name "
            "the folder of the file: --config-dir FOLDER"
        )


def split_flags(args: list[str], command: Command) -> tuple[list[str], list[str]]:
    """Return Hydra's flags with their values, and all other arguments."""
    overrides: list[str] = parse_flags(args, command).overrides
    return _flags(args, overrides), overrides


def split_runs(args: list[str], command: Command) -> tuple[list[str], list[str]]:
    """Return the run folders given without `run=`, and all other arguments, Hydra's flags first.

    Raise `ConfigError` if `run=` names a run too.
    """
    flags, arguments = split_flags(args, command)
    runs = [
        a
        for a in arguments
        # `Path(a).is_dir()` raises if `a` is longer than a file name may be
        if os.path.isdir(a) or ("=" not in a and (a[:1] not in "~+" or a[:2] == "~/"))  # noqa: PTH112
    ]
    rest = [*flags, *(a for a in arguments if a not in runs)]
    if runs and any(argument.startswith("run=") for argument in rest):
        raise ConfigError(f"{runs[0]} and run= both name a run; name all of them without run=")
    return runs, rest


def parse_flags(args: list[str], command: Command) -> argparse.Namespace:
    """Parse the command line with Hydra's parser; a mistake raises `ConfigError`."""
    from hydra._internal.utils import get_args_parser

    def on_parser_error(message: str) -> NoReturn:
        flags = message.removeprefix("unrecognized arguments: ").split()
        if flags == message.split():
            raise ConfigError(f"{message}; Hydra's flags: rlox train --hydra-help")
        flag, _, value = flags[0].partition("=")
        following_args = args[args.index(flags[0]) + 1 :]
        schema = command.schema
        names = schema.names(schema.keys(schema.chosen_options(args)))
        following_value = next(
            (a for a in following_args[:1] if "=" not in a and not a.startswith("-")), None
        )
        raise messages.unknown_flag(flag, value or following_value, names)

    parser = get_args_parser()
    parser.error = on_parser_error  # type: ignore[method-assign]
    parsed = parser.parse_intermixed_args(args)
    if parsed.experimental_rerun is not None:
        raise ConfigError("--experimental-rerun loads a pickle, which can run any code: not supported")
    if parsed.config_dir is not None and not Path(parsed.config_dir).is_dir():
        raise ConfigError(f"--config-dir {parsed.config_dir}: no such folder")
    return parsed


class _ErrorKeepingTask:
    """A task that keeps its first error until Hydra is done, so that Hydra cannot handle it."""

    def __init__(self, task: TaskFunction) -> None:
        self.task = task
        self.error: Exception | None = None

    def __call__(self, config: DictConfig) -> Any:
        try:
            return self.task(config)
        except Exception as error:
            self.error = self.error or error
            return None


def _print_config(arguments: ParsedArguments) -> None:
    """Print the composed configuration (`--cfg`) after validation.

    A configuration that lacks a required key is printed without validation.
    """
    cfg_flag.require_one_value(arguments.overrides)

    def check(composed: DictConfig) -> None:
        cfg_flag.require_package(composed, arguments.namespace.cfg, arguments.namespace.package)
        if arguments.namespace.cfg == "hydra":
            return
        HydraConfig.instance().set_config(composed)  # ${hydra:...} is resolved from it
        config = copy.deepcopy(composed)
        with flag_override(config, ["struct", "readonly"], [False, False]):
            del config["hydra"]
        if not validate.missing_keys(validate.plain_data(config), arguments.command.schema):
            arguments.command.check(config)

    flags = arguments.namespace
    with _application(check) as app:
        app.show_cfg(arguments.primary, arguments.overrides, flags.cfg, flags.package, flags.resolve)


def _require_one_run(composed: DictConfig) -> None:
    if composed.hydra.mode == RunMode.MULTIRUN:
        raise ConfigError(
            "hydra.mode=MULTIRUN asks for several jobs of a command that does one; "
            "for several trainings use rlox sweep"
        )
    if params := composed.hydra.sweeper.get("params"):
        values = " ".join(f"{key}={value}" for key, value in params.items())
        raise ConfigError(
            f"hydra.sweeper.params in a configuration file asks for several jobs ({values})\n"
            "  to run them: rlox sweep, with the same arguments"
        )


class _Application(Hydra):
    """Hydra's application; it passes each composed configuration to `check` before using it."""

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


def _hydra_main(arguments: ParsedArguments, overrides: list[str], task: TaskFunction) -> None:
    """Let Hydra's own `main` handle the flags: help, information, completion."""
    with _hydra_environment([*arguments.flags, *overrides]), _translate_os_errors():
        hydra.main(version_base="1.3", config_path=CONF, config_name=arguments.command.name)(task)()


@contextmanager
def _translate_os_errors() -> Iterator[None]:
    """Raise `StorageError` if Hydra cannot create a folder; errors of tasks are kept elsewhere."""
    try:
        yield
    except OSError as error:
        if isinstance(error, HydraException):  # Hydra's "no such option" error is also an `OSError`
            raise
        raise StorageError(f"{error.filename} cannot be written: {error.strerror}") from error


def _flags(args: list[str], overrides: list[str]) -> list[str]:
    remaining, flags = list(overrides), []
    for arg in args:
        if arg in remaining:
            remaining.remove(arg)
        else:
            flags.append(arg)
    return flags


@contextmanager
def _hydra_environment(argv: list[str]) -> Iterator[None]:
    """Set sys.argv for Hydra, and HYDRA_FULL_ERROR so that it raises instead of printing and exiting."""
    saved_argv, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = [saved_argv[0], *argv]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.argv = saved_argv
        os.environ.pop("HYDRA_FULL_ERROR")
        if full_error is not None:
            os.environ["HYDRA_FULL_ERROR"] = full_error

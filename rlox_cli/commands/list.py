"""`rlox list`: list the options to choose from, and the runs."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from rlox.configs.params import param
from rlox.errors import ConfigError
from rlox_cli.config.options import BUILTIN_OPTIONS, CONF, conf_folders, config_dir_of
from rlox_cli.config.schema import Schema
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import FAILED, OK, SIGNALS, STORAGE, WRONG_USE

if TYPE_CHECKING:
    from omegaconf import DictConfig

_FOLDERS = {p.name for p in CONF.iterdir() if p.is_dir() and p.name[0] != "_" and p.name != "hydra"}
# The values of `what`: runs, plugins, and every group of options.
KINDS = ("runs", *sorted({*BUILTIN_OPTIONS, *_FOLDERS}), "plugins")
POSITIONAL_KEYS = ("what", "contains")
# `failed`: ended with an error; `killed`: stopped by a signal; `died`: the process recorded no end.
STATES = ("running", "done", "failed", "killed", "pruned", "died", "unreadable")


@dataclass(frozen=True)
class RunFilter:
    """Filter of the runs that `rlox list runs` shows."""

    state: str | None = param(None, "only runs in this state; short form: state=", choices=STATES)
    algo: str | None = param(None, "only runs of this algorithm; short form: algo=", verbatim=True)
    env: str | None = param(None, "only runs of this environment; short form: env=", verbatim=True)


FILTER_KEYS = tuple(f.name for f in fields(RunFilter))


@dataclass(frozen=True)
class ListConfig:
    """Arguments of `rlox list`."""

    what: str = param(doc="what to list, as what=WHAT or as a word alone", choices=KINDS)
    contains: str | None = param(
        None, "only entries with this text in their name, as contains=TEXT or as a word alone", verbatim=True
    )
    run_root: str = param("runs", "the folder that is searched for runs, at any depth", verbatim=True)
    only: RunFilter = param(doc="conditions that the listed runs must meet", default_factory=RunFilter)


SCHEMA = Schema("list", ListConfig, primary="list")


def check(composed: DictConfig) -> ListConfig:
    """Return the validated configuration of one listing."""
    from rlox.configs import make
    from rlox_cli.config import validate

    config = make(ListConfig, validate.checked_data(composed, SCHEMA))
    for name in FILTER_KEYS if config.what != "runs" else ():
        if (value := getattr(config.only, name)) is not None:
            raise ConfigError(f"{name}={value} applies only to runs; leave it out, or use rlox list runs")
    return config


def _run(call: Call) -> int:
    from rlox_cli.config import compose
    from rlox_cli.shell.listing import format_listing

    flags, arguments = compose.split_flags(call.args, call.command)
    positional_keys, args = list(POSITIONAL_KEYS), [*flags]
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if equals and name in FILTER_KEYS:  # plain algo= and env= would choose an option of Hydra's groups
            args.append(f"only.{argument}")
        elif positional_keys and not equals and argument[:1] not in "~+":
            args.append(f"{positional_keys.pop(0)}={argument}")
        else:
            args.append(argument)
    folders = conf_folders(config_dir_of(call.args))
    compose.run(
        replace(call, args=args), lambda composed: print("\n".join(format_listing(check(composed), folders)))
    )
    return OK


COMMAND = Command(
    name="list",
    summary="list the options to choose from, and the runs",
    description=(
        "Lists environments, algorithms, buffers, loggers, presets and plugins, one line each.\n"
        "`rlox list runs` shows the start, state, progress and score of each run, the newest run last."
    ),
    examples=(
        "rlox list runs",
        "rlox list runs state=failed algo=ppo env=CartPole-v1",
        "rlox list env Pole",
        "rlox list algo",
    ),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, STORAGE, *SIGNALS),
    check=check,
    run=_run,
    usage_arguments="WHAT [TEXT]",
    is_print_only=lambda args: True,
)

"""The definition of an `rlox` command; each file in `rlox_cli/commands` has one as `COMMAND`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox_cli.config.schema import Schema
from rlox_cli.shell.exit_codes import FAILED, MEANINGS
from rlox_cli.sweeps.job_reporter import JobReporter

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from rlox_cli.runs.signals import Signals


def keep_overrides(overrides: Sequence[str], folders: Sequence[Path]) -> Iterable[str]:
    """Return the overrides unchanged; `folders` are the folders of configuration files."""
    return overrides


def never_print_only(args: Sequence[str]) -> bool:
    """Return False: the command does more than print."""
    return False


@dataclass(frozen=True)
class Alias:
    """Another name for one use of a command: `rlox resume RUN` is `rlox train resume=RUN`."""

    name: str
    summary: str
    expand: Callable[[list[str]], list[str]]  # returns the command's own arguments; raises ConfigError
    usage_arguments: str  # positional arguments in the usage line


@dataclass(frozen=True)
class Command:
    """One command: its description, its keys and its function.

    `conf/<name>.yaml` is its primary configuration. The command's module imports neither Hydra nor torch;
    its functions import them.
    """

    name: str
    summary: str  # its line in `rlox --help`
    description: str  # the first paragraph of its help
    examples: tuple[str, ...]
    schema: Schema
    codes: tuple[int, ...]  # its possible exit codes
    check: Callable[[DictConfig], Any]  # validates a composed configuration; raises ConfigError
    run: Callable[[Call], int]  # runs the command and returns the exit code
    # rewrites the overrides for Hydra; its second argument is the folders of configuration files
    rewrite: Callable[[Sequence[str], Sequence[Path]], Iterable[str]] = keep_overrides
    failure_meaning: str = MEANINGS[FAILED]  # the meaning of exit code FAILED for this command
    is_sweepable: bool = False  # whether several values of a key make several jobs
    epilog: str = ""  # the text after the keys in its help
    usage_arguments: str = ""  # positional arguments in the usage line
    # whether the command only prints for these arguments
    is_print_only: Callable[[Sequence[str]], bool] = never_print_only
    alias: Alias | None = None  # another name for one use of the command
    # keys that its jobs do not have, such as `sweep.*`
    extra_options: Mapping[str, type[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """One invocation of a command."""

    command: Command
    args: list[str]  # the arguments after the command's name
    signals: Signals
    full_trace: bool = False  # HYDRA_FULL_ERROR=1
    reporter: JobReporter = field(default_factory=JobReporter)  # the call's jobs report their state to it
    alias: str = ""  # the name as typed, the command's or its alias's; empty: the command's

    @property
    def name(self) -> str:
        """The name of the command as typed, for messages."""
        return self.alias or self.command.name

    @property
    def command_line(self) -> list[str]:
        """The command line; an alias is replaced by its command."""
        return ["rlox", self.command.name, *self.args]

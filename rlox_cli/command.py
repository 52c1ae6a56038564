"""What a command of `rlox` is: a file in `rlox_cli/commands` has one as `COMMAND`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox_cli.exit_codes import FAILED, MEANINGS
from rlox_cli.job_reporter import JobReporter
from rlox_cli.schema import Schema

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from rlox_cli.signals import Signals


def keep_overrides(overrides: Sequence[str], folders: Sequence[Path]) -> Iterable[str]:
    """Overrides as they were written."""
    return overrides


def never_print_only(args: Sequence[str]) -> bool:
    """False: the command does more than what it prints."""
    return False


@dataclass(frozen=True)
class Alias:
    """Another name for one use of a command: `rlox resume RUN` is `rlox train resume=RUN`."""

    name: str
    summary: str
    expand: Callable[[list[str]], list[str]]  # the command's own arguments; else ConfigError
    usage_arguments: str  # arguments without a key, in its usage


@dataclass(frozen=True)
class Command:
    """One command: how it is described, which keys it takes, and what it does.

    `conf/<name>.yaml` is its primary configuration. Importing the file brings neither Hydra nor torch:
    the functions import what they need.
    """

    name: str
    summary: str  # its line in `rlox --help`
    description: str  # what its own help begins with
    examples: tuple[str, ...]
    schema: Schema
    codes: tuple[int, ...]  # the exit codes it may end with
    check: Callable[[DictConfig], Any]  # a composed configuration, validated; else ConfigError
    run: Callable[[Call], int]  # does it; the exit code
    # overrides as Hydra takes them
    rewrite: Callable[[Sequence[str], Sequence[Path]], Iterable[str]] = keep_overrides
    failure_meaning: str = MEANINGS[FAILED]  # what that exit code says of it
    is_sweepable: bool = False  # whether several values of a key are several jobs
    epilog: str = ""  # what its help says after the keys
    usage_arguments: str = ""  # arguments without a key, in its usage
    # whether what it prints for these arguments is all that it does
    is_print_only: Callable[[Sequence[str]], bool] = never_print_only
    alias: Alias | None = None  # a name of its own for a part of what it does
    # keys that its jobs do not have, `sweep.*` for one
    extra_options: Mapping[str, type[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """One use of a command."""

    command: Command
    args: list[str]  # what follows the command's name
    signals: Signals
    full_trace: bool = False  # HYDRA_FULL_ERROR=1
    reporter: JobReporter = field(default_factory=JobReporter)  # how its jobs say how they are doing
    alias: str = ""  # the name that was typed, where it is not the command's own

    @property
    def name(self) -> str:
        """The command as it was typed, for messages."""
        return self.alias or self.command.name

    @property
    def command_line(self) -> list[str]:
        """The command line, as it was typed."""
        return ["rlox", self.command.name, *self.args]

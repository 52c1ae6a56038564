"""`rlox train`: train one agent, from a configuration or from where a run stopped."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlox.errors import ConfigError
from rlox_cli.config.changeable_keys import CHANGEABLE_KEYS_TEXT
from rlox_cli.config.run_schema import RUN
from rlox_cli.search.settings import SEARCH, SearchOptions
from rlox_cli.shell import exit_codes
from rlox_cli.shell.command import Alias, Call, Command
from rlox_cli.sweeps import options as sweep_options
from rlox_cli.sweeps.options import SweepOptions

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from rlox.configs import RunConfig

RESUME_HELP = """\
resume (rlox train resume=RUN [key=value ...], or rlox resume RUN [key=value ...])
  resume=RUN                            goes on with the run in folder RUN, in the same folder, from
                                        the newest whole checkpoint, if the run was stopped or
                                        killed or has failed; a run that is done needs a larger
                                        total_steps
"""
RESUME_HELP += textwrap.fill(
    f"may change: {CHANGEABLE_KEYS_TEXT}; the rest is frozen in RUN/config.yaml, read as plain data",
    100,
    initial_indent=" " * 40,
    subsequent_indent=" " * 40,
)


def rewrite(overrides: Sequence[str], folders: Sequence[Path]) -> Iterable[str]:
    """Return a run's overrides for Hydra, and overrides that reset the keys that conflict with them."""
    from rlox_cli.config.overrides import rewrite_overrides

    return rewrite_overrides(overrides, folders)


def check(composed: DictConfig) -> RunConfig:
    """Return the validated configuration of one job."""
    from rlox_cli.config import validate

    return validate.run_config(composed)


def _run(call: Call) -> int:
    from rlox_cli.runs import distributed_run

    if distributed_run.is_follower():
        return distributed_run.run_follower(call)
    code = _train_or_resume(call)
    if code == exit_codes.OK:  # after a failure torchrun stops the other processes
        distributed_run.RANK_ZERO.release()
    return code


def _train_or_resume(call: Call) -> int:
    from rlox_cli.config import changes

    if changes.is_resume(call.args):
        from rlox_cli.runs.resume import resume_run

        return resume_run(call)
    from rlox_cli.runs.training import MULTIRUN_FLAGS, train
    from rlox_cli.search import options

    if not set(MULTIRUN_FLAGS) & set(call.args):
        options.refuse_search_options(call.args)
        sweep_options.refuse_sweep_options(call.args)
    return train(call)


def resume_arguments(args: list[str]) -> list[str]:
    """Rewrite `RUN key=value ...` to `resume=RUN key=value ...`; the first argument is always the run."""
    if not args or args[0].startswith("-"):
        prefix = f"{args[0]} is not taken by resume; " if args else ""
        raise ConfigError(f"{prefix}name the run folder: rlox resume RUN [key=value ...]")
    name = args[0].removeprefix("run=")
    # here null is a folder; only in rlox train `resume=null` means no run
    return [f"resume={'./null' if name == 'null' else name}", *args[1:]]


COMMAND = Command(
    name="train",
    summary="train one agent, or go on with one: resume=RUN",
    description="Trains one agent. Several values (seed=0,1,2) need rlox sweep or -m.",
    examples=(
        "rlox train algo=ppo env=CartPole-v1",
        "rlox train env=Pendulum-v1 total_steps=2e5 seed=1 logger=[csv,tensorboard]",
        "rlox resume runs/CartPole-v1/ppo/NAME total_steps=2e6",
    ),
    schema=RUN,
    codes=tuple(exit_codes.MEANINGS),
    failure_meaning="failed; with -m: some job failed",
    check=check,
    run=_run,
    rewrite=rewrite,
    is_sweepable=True,
    extra_options={"sweep": SweepOptions, SEARCH: SearchOptions},
    epilog=RESUME_HELP,
    alias=Alias("resume", "go on with a run: the same as train resume=RUN", resume_arguments, "RUN"),
)

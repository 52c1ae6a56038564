"""`rlox train`: one agent, from a configuration or on from where a run stopped."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlox.errors import ConfigError
from rlox_cli import exit_codes, sweep_options
from rlox_cli.command import Alias, Call, Command
from rlox_cli.frozen import FREE_TEXT
from rlox_cli.run_schema import RUN
from rlox_cli.search.settings import SEARCH, SearchOptions
from rlox_cli.sweep_options import SweepOptions

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from rlox.configs import RunConfig

RESUME = """\
resume (rlox train resume=RUN [key=value ...], or rlox resume RUN [key=value ...])
  resume=RUN                            goes on with the run in folder RUN, in the same folder: one
                                        that was stopped, killed or failed goes on at its newest
                                        whole checkpoint, one that is done with a larger
                                        total_steps
"""
RESUME += textwrap.fill(
    f"may change: {FREE_TEXT}; the rest is frozen in RUN/config.yaml, read as plain data",
    100,
    initial_indent=" " * 40,
    subsequent_indent=" " * 40,
)


def rewrite(overrides: Sequence[str], folders: Sequence[Path]) -> Iterable[str]:
    """A run's overrides in spellings that Hydra takes, with what they displace."""
    from rlox_cli.overrides import run_overrides

    return run_overrides(overrides, folders)


def check(composed: DictConfig) -> RunConfig:
    """The validated configuration of one job."""
    from rlox_cli import validate

    return validate.run_config(composed)


def _run(call: Call) -> int:
    from rlox_cli import together

    if together.follows():
        return together.follow(call)
    code = _first(call)
    if code == exit_codes.OK:  # of a process that fails torchrun tells the others
        together.LEAD.release()
    return code


def _first(call: Call) -> int:
    from rlox_cli import changes

    if changes.requested(call.args):
        from rlox_cli.resume import resume_run

        return resume_run(call)
    from rlox_cli.search import options
    from rlox_cli.training import MULTIRUN, train_one

    if not set(MULTIRUN) & set(call.args):
        options.refuse(call.args)
        sweep_options.refuse(call.args)
    return train_one(call)


def resuming(args: list[str]) -> list[str]:
    """`RUN key=value ...` as `resume=RUN key=value ...`; the first argument is the run, whatever it is."""
    if not args or args[0].startswith("-"):
        refused = f"{args[0]} is not taken by resume; " if args else ""
        raise ConfigError(f"{refused}name the run folder: rlox resume RUN [key=value ...]")
    name = args[0].removeprefix("run=")
    # a folder: only rlox train has a `resume=null`, which is none
    return [f"resume={'./null' if name == 'null' else name}", *args[1:]]


COMMAND = Command(
    name="train",
    summary="train one agent, or go on with one: resume=RUN",
    notes="Trains one agent. Several values (seed=0,1,2) need rlox sweep or -m.",
    examples=(
        "rlox train algo=ppo env=CartPole-v1",
        "rlox train env=Pendulum-v1 total_steps=2e5 seed=1 logger=[csv,tensorboard]",
        "rlox resume runs/CartPole-v1/ppo/NAME total_steps=2e6",
    ),
    schema=RUN,
    codes=tuple(exit_codes.MEANINGS),
    failed="failed; with -m: some job failed",
    check=check,
    run=_run,
    rewrite=rewrite,
    sweeps=True,
    beside={"sweep": SweepOptions, SEARCH: SearchOptions},
    more=RESUME,
    alias=Alias("resume", "go on with a run: the same as train resume=RUN", resuming, "RUN"),
)

"""One run in several processes, as torchrun starts them: the first one has the folder, others learn along."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from rlox.configs import RunConfig
from rlox.configs.text import TextAlgorithmConfig
from rlox.distributed.group import join, processes
from rlox.errors import ConfigError, GroupError
from rlox_cli.exit_codes import FAILED, OK

if TYPE_CHECKING:
    from rlox.runs.algorithm import Algorithm
    from rlox_cli.command import Call

__all__ = ["follow", "follows", "lead", "require_one_run", "require_shared"]


def follows() -> bool:
    """Whether another process than the first one of a group."""
    return processes() > 1 and os.environ["RANK"] != "0"


def require_shared(config: RunConfig) -> None:
    """`ConfigError` where several processes were started for what one does."""
    if processes() > 1 and not isinstance(config.algo, TextAlgorithmConfig):
        raise ConfigError(
            f"{processes()} processes (WORLD_SIZE) were started together, and {config.algo.name} learns in "
            "one: start it without torchrun. Algorithms on text share their batches"
        )


def require_one_run() -> None:
    """`ConfigError` for a sweep of several processes."""
    if processes() > 1:
        raise ConfigError(
            f"a sweep in {processes()} processes (WORLD_SIZE) at once: run rlox sweep without torchrun, or "
            "a single run with it"
        )


def lead(algorithm: Algorithm, config: RunConfig) -> None:
    """Tell the others what the run is and how far, before it goes on."""
    if processes() > 1:
        # what is logged and called back is the first one's
        theirs = replace(config, logger={}, callbacks=(), init_from=None)
        join().told((theirs, algorithm.checkpoint()))


def follow(call: Call) -> int:
    """Learn from this process's shares of what the first one learns, until that says that it is over."""
    from rlox.build import build

    try:
        config, saved = join().told()
        with closing(build(config, saved.backend)) as algorithm, call.signals.stopping(_go_on):
            algorithm.restore(saved)
            algorithm.fit(config.total_steps)
    except GroupError as error:
        print(f"rlox {call.command.name}, process {os.environ['RANK']}: {error}", file=sys.stderr)
        return FAILED
    return OK


def _go_on() -> None:
    """A signal is the first process's to answer, which tells the others when it is over."""

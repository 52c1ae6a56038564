"""One run in several processes (torchrun): rank 0 writes the run folder; the other ranks only learn."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlox.configs import RunConfig
from rlox.configs.text import TextAlgorithmConfig
from rlox.distributed.group import ProcessGroup, join, process_count
from rlox.errors import ConfigError, GroupError
from rlox_cli.shell.exit_codes import FAILED, OK

if TYPE_CHECKING:
    from rlox.runs.algorithm import Algorithm
    from rlox_cli.shell.command import Call

__all__ = ["RANK_ZERO", "is_follower", "reject_sweep", "require_shareable", "run_follower"]


def is_follower() -> bool:
    """Return whether this process is a rank other than 0 of a group."""
    return process_count() > 1 and os.environ["RANK"] != "0"


def require_shareable(config: RunConfig) -> None:
    """Raise `ConfigError` if several processes cannot share the run or divide its batches."""
    if process_count() == 1:
        return
    algo = config.algo
    if not isinstance(algo, TextAlgorithmConfig):
        raise ConfigError(
            f"{process_count()} processes (WORLD_SIZE) were started together, but {algo.name} learns in "
            "one: start it without torchrun. Only algorithms on text divide their batches among processes"
        )
    counts, parts = algo.batch_layout(config.total_steps)
    for count in counts:
        ProcessGroup(0, process_count()).rows(count, parts)


def reject_sweep() -> None:
    """Raise `ConfigError` for a sweep in several processes."""
    if process_count() > 1:
        raise ConfigError(
            f"a sweep was started in {process_count()} processes (WORLD_SIZE): run rlox sweep without "
            "torchrun, or a single run with it"
        )


class RankZero:
    """Rank 0's messages to the other ranks: the run's configuration and state, and its end."""

    def __init__(self) -> None:
        self._has_broadcast = self._is_finished = self._has_agreed = False

    def broadcast(self, algorithm: Algorithm, config: RunConfig) -> None:
        """Send the configuration and the state of the run before training goes on."""
        if process_count() == 1:
            return
        # only rank 0 logs and calls callbacks
        follower_config = replace(config, logger={}, callbacks=(), init_from=None)
        group = join()
        saved = algorithm.checkpoint()
        cpu_state = {name: on_cpu(getattr(saved, name)) for name in ("weights", "optimizer", "state")}
        group.broadcast((follower_config, replace(saved, **cpu_state)))
        self._has_broadcast = True

        def agree(is_done: bool) -> bool:
            self._has_agreed = True
            self._is_finished = group.broadcast_done(is_done)
            return self._is_finished

        algorithm.components = replace(algorithm.components, broadcast_done=agree)

    def release(self) -> None:
        """End the wait of the other ranks if they got no run, or a run that has nothing left to learn."""
        if process_count() == 1 or self._is_finished or self._has_agreed:
            return
        message = True if self._has_broadcast else None
        self._has_broadcast = False
        with suppress(GroupError):
            join().broadcast(message)


RANK_ZERO = RankZero()  # used only in the process of rank 0


def run_follower(call: Call) -> int:
    """Learn from this rank's share of each batch until rank 0 ends the run; return the exit code."""
    from rlox.build import build

    group = join()
    try:
        if (received := group.broadcast()) is None:
            return OK
        config, saved = received
        algorithm = build(config, saved.backend, saved)
        with closing(algorithm), call.signals.call_on_signal(_ignore_signal):
            algorithm.restore(saved)
            del received, saved
            if algorithm.clock.now < config.rounded_steps:
                algorithm.fit(config.total_steps)
            else:
                group.broadcast()
    except GroupError as error:
        print(f"rlox {call.command.name}, process {os.environ['RANK']}: {error}", file=sys.stderr)
        return FAILED
    return OK


def on_cpu(tree: Any) -> Any:
    """Return `tree` with its tensors on the CPU; otherwise receivers would place them on rank 0's GPU."""
    if isinstance(tree, Mapping):
        return {name: on_cpu(part) for name, part in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(on_cpu(part) for part in tree)
    return tree.cpu() if callable(getattr(tree, "cpu", None)) else tree


def _ignore_signal() -> None:
    """Do nothing: rank 0 handles the signal and tells the other ranks when the run is over."""

"""One run in several processes, as torchrun starts them: the first one has the folder, others learn along."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlox.configs import RunConfig
from rlox.configs.text import TextAlgorithmConfig
from rlox.distributed.group import Group, join, processes
from rlox.errors import ConfigError, GroupError
from rlox_cli.exit_codes import FAILED, OK

if TYPE_CHECKING:
    from rlox.runs.algorithm import Algorithm
    from rlox_cli.command import Call

__all__ = ["LEAD", "follow", "follows", "require_one_run", "require_shared"]


def follows() -> bool:
    """Whether another process than the first one of a group."""
    return processes() > 1 and os.environ["RANK"] != "0"


def require_shared(config: RunConfig) -> None:
    """`ConfigError` where several processes were started for what one does, or what they cannot share."""
    if processes() == 1:
        return
    algo = config.algo
    if not isinstance(algo, TextAlgorithmConfig):
        raise ConfigError(
            f"{processes()} processes (WORLD_SIZE) were started together, and {algo.name} learns in "
            "one: start it without torchrun. Algorithms on text share their batches"
        )
    counts, parts = algo.steps(config.total_steps)
    for count in counts:
        Group(0, processes()).rows(count, parts)


def require_one_run() -> None:
    """`ConfigError` for a sweep of several processes."""
    if processes() > 1:
        raise ConfigError(
            f"a sweep in {processes()} processes (WORLD_SIZE) at once: run rlox sweep without torchrun, or "
            "a single run with it"
        )


class Lead:
    """What the first process tells the others: what the run is, and when it is over."""

    def __init__(self) -> None:
        self._told = self._over = self._asked = False

    def tell(self, algorithm: Algorithm, config: RunConfig) -> None:
        """What the run is and how far, before it goes on."""
        if processes() == 1:
            return
        # what is logged and called back is the first one's
        theirs = replace(config, logger={}, callbacks=(), init_from=None)
        group = join()
        saved = algorithm.checkpoint()
        parts = {name: on_cpu(getattr(saved, name)) for name in ("weights", "optimizer", "state")}
        group.told((theirs, replace(saved, **parts)))
        self._told = True

        def agreed(done: bool) -> bool:
            self._asked = True
            self._over = group.agreed(done)
            return self._over

        algorithm.parts = replace(algorithm.parts, agreed=agreed)

    def release(self) -> None:
        """Let the others go, who may have been told nothing, or wait for a run that had nothing to learn."""
        if processes() == 1 or self._over or self._asked:
            return
        over = True if self._told else None
        self._told = False
        with suppress(GroupError):
            join().told(over)


LEAD = Lead()  # of this process, if it is the first one


def follow(call: Call) -> int:
    """Learn from this process's shares of what the first one learns, until that says that it is over."""
    from rlox.build import build

    group = join()
    try:
        if (said := group.told()) is None:
            return OK
        config, saved = said
        algorithm = build(config, saved.backend, saved)
        with closing(algorithm), call.signals.stopping(_go_on):
            algorithm.restore(saved)
            del said, saved
            if algorithm.clock.now < config.rounded_steps:
                algorithm.fit(config.total_steps)
            else:
                group.told()
    except GroupError as error:
        print(f"rlox {call.command.name}, process {os.environ['RANK']}: {error}", file=sys.stderr)
        return FAILED
    return OK


def on_cpu(tree: Any) -> Any:
    """The same with its tensors on the CPU: they would come out on the first process's GPU."""
    if isinstance(tree, Mapping):
        return {name: on_cpu(part) for name, part in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(on_cpu(part) for part in tree)
    return tree.cpu() if callable(getattr(tree, "cpu", None)) else tree


def _go_on() -> None:
    """A signal is the first process's to answer, which tells the others when it is over."""

"""Messages between a pool and its workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.vector.utils import CloudpickleWrapper

from rlox import errors
from rlox.errors import EnvError

__all__ = ["CloudPickled", "Failure", "StartReply", "StepReply", "WorkerSetup", "raise_first"]

# Pickles its content, `fn`, including functions and classes defined in a script; typed Any, because Gymnasium
# annotates it for one use only.
CloudPickled: Any = CloudpickleWrapper


@dataclass(frozen=True)
class WorkerSetup:
    """The settings with which every worker of a pool starts."""

    name: str  # name of the environment, in messages
    factories: Any  # a `CloudPickled` sequence of callables, one per environment
    n_envs: int
    worker_envs: int  # environments per worker: worker k has those from k * worker_envs on
    keep_infos: bool
    specs: Any  # a `CloudPickled` list of the specs that the run's process has registered with Gymnasium

    def factory(self, i: int) -> Callable[[], gym.Env[Any, Any]]:
        """Return the factory of environment `i`."""
        factory: Callable[[], gym.Env[Any, Any]] = self.factories.fn[i]
        return factory

    def envs_of(self, worker: int) -> range:
        """Return the environments of a worker."""
        first = worker * self.worker_envs
        return range(first, min(first + self.worker_envs, self.n_envs))


class Failure(NamedTuple):
    """A failure, and the environments whose episodes are lost because of it."""

    envs: tuple[int, ...]
    detail: str
    trace: str = ""
    kind: str = "EnvError"  # name of the error's class if it is one of rlox's own


class StartReply(NamedTuple):
    """The result of making a worker's environments; some may have failed."""

    spaces: tuple[gym.Space[Any], gym.Space[Any]] | None  # of observations and actions
    is_exact: bool  # whether all of the worker's environments can be saved
    n_frames: int  # stacked in their observations
    failures: list[Failure]
    warnings: Sequence[str] = ()  # of the simulator, not logged yet


def raise_first(failures: Iterable[Failure]) -> None:
    """Raise the error of the first failure, if any; an `EnvError` includes the subprocess's traceback."""
    for failure in failures:
        error_class: type[Exception] = getattr(errors, failure.kind)
        trace = f"\n{failure.trace}" if error_class is EnvError else ""
        raise error_class(f"{failure.detail}{trace}")


@dataclass
class StepReply:
    """The results of a step or of resets that are not in shared memory."""

    final_infos: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)  # (environment, last info)
    failures: list[Failure] = field(default_factory=list)
    infos: Sequence[Mapping[str, Any]] = ()  # of all environments of the worker, if they are kept
    warnings: Sequence[str] = ()  # of the simulator, not logged yet

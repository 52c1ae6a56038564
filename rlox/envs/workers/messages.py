"""What a pool and its workers tell each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.vector.utils import CloudpickleWrapper

from rlox import errors
from rlox.errors import EnvError

__all__ = ["CloudPickled", "Failure", "StartReply", "StepReply", "WorkerSetup", "raise_first"]

# Pickles what it holds, `fn`, with the functions and classes of a script in it; typed for one use of it.
CloudPickled: Any = CloudpickleWrapper


@dataclass(frozen=True)
class WorkerSetup:
    """What every worker of a pool is started with."""

    name: str  # of the environment, in messages
    factories: Any  # a `CloudPickled` of a sequence of callables, one for each environment
    n_envs: int
    worker_envs: int  # environments of a worker: worker k has those from k * worker_envs on
    keep_infos: bool
    specs: Any  # a `CloudPickled` of what the run's process has registered with Gymnasium

    def factory(self, i: int) -> Callable[[], gym.Env[Any, Any]]:
        """What makes environment `i`."""
        factory: Callable[[], gym.Env[Any, Any]] = self.factories.fn[i]
        return factory

    def envs_of(self, worker: int) -> range:
        """The environments of a worker."""
        first = worker * self.worker_envs
        return range(first, min(first + self.worker_envs, self.n_envs))


class Failure(NamedTuple):
    """What went wrong, and whose episodes went with it."""

    envs: tuple[int, ...]
    detail: str
    trace: str = ""
    kind: str = "EnvError"  # the class of the error where it is one of rlox's own


class StartReply(NamedTuple):
    """Environments of a worker were made, or some of them were not."""

    spaces: tuple[gym.Space[Any], gym.Space[Any]] | None  # of observations and actions
    is_exact: bool  # all of the worker's can be saved
    n_frames: int  # that their observations are stacks of
    failures: list[Failure]
    warnings: Sequence[str] = ()  # of the simulator, that the log has not had yet


def raise_first(failures: Iterable[Failure]) -> None:
    """Raise the first failure, with the subprocess's traceback where rlox has no words for it."""
    for failure in failures:
        error_class: type[Exception] = getattr(errors, failure.kind)
        trace = f"\n{failure.trace}" if error_class is EnvError else ""
        raise error_class(f"{failure.detail}{trace}")


@dataclass
class StepReply:
    """What came of a step or of resets besides numbers."""

    final_infos: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)  # with its last info
    failures: list[Failure] = field(default_factory=list)
    infos: Sequence[Mapping[str, Any]] = ()  # of all environments of the worker, where they are kept
    warnings: Sequence[str] = ()  # of the simulator, that the log has not had yet

"""`SupervisedEvalEnvs`: episodes of an evaluation in subprocesses; lost episodes are replayed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlox.envs.eval_envs import EvalStep
from rlox.envs.gym_vec import EnvFactory
from rlox.envs.ids import registered_specs
from rlox.envs.spaces import ObservationCodec
from rlox.envs.workers.messages import CloudPickled, Failure, StepReply, WorkerSetup, raise_first
from rlox.envs.workers.shared_memory import SharedArrays, codecs_of
from rlox.envs.workers.worker_pool import EnvWorkerPool
from rlox.errors import EnvError

__all__ = ["SupervisedEvalEnvs"]

log = logging.getLogger("rlox.envs")


class SupervisedEvalEnvs:
    """Slots for evaluation episodes; each is an environment in a worker process, which may have several.

    If an environment raises, dies or does not answer within `step_timeout` seconds, its episode restarts from
    its seed, in another process if its own is dead. An episode that is lost more than `max_restarts` times
    raises an error.
    """

    def __init__(
        self,
        factories: Sequence[EnvFactory],
        seed: int,
        name: str,
        observations: ObservationCodec,
        step_timeout: float,
        max_restarts: int,
        worker_envs: int,
    ) -> None:
        self.max_restarts = max_restarts
        self._seeds: dict[int, int] = {}  # of the current episode in each slot in use
        self._loss_counts: Counter[int] = Counter()  # how often that episode was lost
        specs, count = CloudPickled(registered_specs()), len(factories)
        # False: the workers keep no infos
        setup = WorkerSetup(
            name, CloudPickled(tuple(factories)), count, min(worker_envs, count), False, specs
        )
        self._workers = EnvWorkerPool(setup, seed, step_timeout)
        try:
            raise_first(failure for report in self._workers.start() for failure in report.failures)
            assert self._workers.spaces is not None
            codec, actions = codecs_of(*self._workers.spaces, name)
            if codec.space != observations.space:
                raise EnvError(
                    f"{name} has observations {codec.space} in the evaluation, expected those of the "
                    f"training, {observations.space}"
                )
            self._arrays = SharedArrays(self._workers.memory_fd, count, codec, actions)
        except BaseException:
            self.close()
            raise
        self.obs = self._arrays.obs

    def reset(self, seeds: Mapping[int, int]) -> set[int]:
        """Begin episodes from their seeds; returns the slots whose episodes had to restart."""
        self._seeds.update(seeds)
        for slot in seeds:
            self._loss_counts.pop(slot, None)
        return self._replay_lost(_all_failures(self._workers.reset(seeds)))

    def step(self, actions: Mapping[int, Any]) -> EvalStep:
        """Step each slot in `actions`."""
        self._seeds = {slot: self._seeds[slot] for slot in actions}
        replies = self._workers.step_some(actions)
        step_replies = [reply for reply in replies.values() if isinstance(reply, StepReply)]
        ended_slots = {slot for reply in step_replies for slot, _ in reply.final_infos}
        # an episode that ended in this step is not lost, even if its environment was lost afterwards
        return EvalStep(
            self._arrays.rewards, ended_slots, self._replay_lost(_all_failures(replies)) - ended_slots
        )

    def close(self) -> None:
        """Close the environments and end their processes, even if they hang."""
        self._workers.close()

    def _replay_lost(self, failures: Sequence[Failure]) -> set[int]:
        """Restart the episodes that failures have cost; returns their slots."""
        replayed_slots: set[int] = set()
        while failures:
            self._count_losses(failures)
            lost_slots = {i for failure in failures for i in failure.envs} & self._seeds.keys()
            replayed_slots |= lost_slots
            make_failures, replies = self._workers.recreate({i: self._seeds[i] for i in sorted(lost_slots)})
            failures = [*make_failures, *_all_failures(replies)]
        return replayed_slots

    def _count_losses(self, failures: Iterable[Failure]) -> None:
        """Count failures; `EnvError` if an episode is lost too often.

        If a process dies, only the episode of the environment that was being called counts as lost, not those
        in the same process.
        """
        busy = self._arrays.is_busy
        for failure in failures:
            lost_slots = [slot for slot in failure.envs if slot in self._seeds]
            blamed_slots = [slot for slot in lost_slots if busy[slot]] or lost_slots
            busy[list(failure.envs)] = False
            self._loss_counts.update(blamed_slots)
            for slot in blamed_slots:
                if self._loss_counts[slot] > self.max_restarts:
                    raise self._lost_too_often_error(slot, failure)
            seeds = ", ".join(str(self._seeds[slot]) for slot in lost_slots)
            log.warning("in an evaluation %s; playing again the episodes of seeds %s", failure.detail, seeds)

    def _lost_too_often_error(self, slot: int, failure: Failure) -> EnvError:
        self.close()
        return EnvError(
            f"in an evaluation {failure.detail}; the episode of seed {self._seeds[slot]} was lost "
            f"{self._loss_counts[slot]} times, expected at most env.max_restarts={self.max_restarts}\n"
            f"{failure.trace}"
        )


def _all_failures(replies: Mapping[int, StepReply | Failure]) -> list[Failure]:
    """Return all failures in the replies."""
    failures: list[Failure] = []
    for reply in replies.values():
        failures += [reply] if isinstance(reply, Failure) else reply.failures
    return failures

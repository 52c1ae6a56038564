"""`SupervisedStage`: episodes of an evaluation in subprocesses, of which a lost one is played again."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlox.envs.gym_vec import EnvFactory
from rlox.envs.spaces import ObservationCodec
from rlox.envs.stages import Stepped
from rlox.envs.workers.crew import Crew
from rlox.envs.workers.job import ByValue, Failure, Job, Told, required
from rlox.envs.workers.memory import Rows, codecs_of
from rlox.envs.workers.registered import registered
from rlox.errors import EnvError

__all__ = ["SupervisedStage"]

log = logging.getLogger("rlox.envs")


class SupervisedStage:
    """Places to play in, each an environment in a worker process, several in each.

    An episode whose environment raises, dies or does not answer within `step_timeout` seconds is begun
    again from its seed, in another process where its own is dead. One that is lost more than
    `max_restarts` times is an error.
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
        self._seeds: dict[int, int] = {}  # of the episode in each place that is in use
        self._lost: Counter[int] = Counter()  # how often that episode was
        specs, count = ByValue(registered()), len(factories)
        job = Job(name, ByValue(tuple(factories)), count, min(worker_envs, count), False, specs)
        self._crew = Crew(job, seed, step_timeout)
        try:
            required(failure for report in self._crew.start() for failure in report.failures)
            assert self._crew.spaces is not None
            codec, actions = codecs_of(*self._crew.spaces, name)
            if codec.space != observations.space:
                raise EnvError(
                    f"{name} has observations {codec.space} in the evaluation, expected those of the "
                    f"training, {observations.space}"
                )
            self._rows = Rows(self._crew.memory, count, codec, actions)
        except BaseException:
            self.close()
            raise
        self.rows = self._rows.obs

    def begin(self, seeds: Mapping[int, int]) -> set[int]:
        """Begin episodes, by their seeds; the places whose episodes had to begin again."""
        self._seeds.update(seeds)
        for place in seeds:
            self._lost.pop(place, None)
        return self._again(_failures(self._crew.begin(seeds)))

    def step(self, actions: Mapping[int, Any]) -> Stepped:
        """A step in each place that an action is for."""
        self._seeds = {place: self._seeds[place] for place in actions}
        answers = self._crew.play(actions)
        told = [answer for answer in answers.values() if isinstance(answer, Told)]
        ended = {place for answer in told for place, _ in answer.ended}
        return Stepped(self._rows.rewards, ended, self._again(_failures(answers)) - ended)

    def close(self) -> None:
        """Close the environments and end their processes, whatever they are doing."""
        self._crew.close()

    def _again(self, failures: Sequence[Failure]) -> set[int]:
        """Begin the episodes again that failures have cost; in which places."""
        again: set[int] = set()
        while failures:
            self._count(failures)
            lost = {i for failure in failures for i in failure.envs} & self._seeds.keys()
            again |= lost
            unmade, answers = self._crew.begin_anew({i: self._seeds[i] for i in sorted(lost)})
            failures = [*unmade, *_failures(answers)]
        return again

    def _count(self, failures: Iterable[Failure]) -> None:
        """Take note of failures; `EnvError` for the one that is too many.

        Where a process dies, the episode counts as lost whose environment was called, not those beside it.
        """
        busy = self._rows.busy
        for failure in failures:
            lost = [place for place in failure.envs if place in self._seeds]
            guilty = [place for place in lost if busy[place]] or lost
            busy[list(failure.envs)] = False
            self._lost.update(guilty)
            for place in guilty:
                if self._lost[place] > self.max_restarts:
                    raise self._too_often(place, failure)
            seeds = ", ".join(str(self._seeds[place]) for place in lost)
            log.warning("in an evaluation %s; played again: seed %s", failure.said, seeds)

    def _too_often(self, place: int, failure: Failure) -> EnvError:
        self.close()
        return EnvError(
            f"in an evaluation {failure.said}; the episode of seed {self._seeds[place]} was lost "
            f"{self._lost[place]} times, expected at most env.max_restarts={self.max_restarts}\n"
            f"{failure.trace}"
        )


def _failures(answers: Mapping[int, Told | Failure]) -> list[Failure]:
    """Everything that failed."""
    found: list[Failure] = []
    for answer in answers.values():
        found += [answer] if isinstance(answer, Failure) else answer.failures
    return found

"""`SupervisedVecEnv`: environments in subprocesses, of which one that dies, hangs or lies is replaced."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.envs.base import GOES_ON, Finals
from rlox.envs.columns import apart, joined
from rlox.envs.gym_vec import EnvFactory
from rlox.envs.seeding import KEYED, Seeding
from rlox.envs.workers.crew import Crew, share
from rlox.envs.workers.job import ByValue, Failure, Job, Told, required
from rlox.envs.workers.memory import Rows, codecs_of
from rlox.envs.workers.registered import registered
from rlox.errors import EnvError, ShapeError

__all__ = ["SupervisedVecEnv"]

log = logging.getLogger("rlox.envs")


class SupervisedVecEnv:
    """Gymnasium environments in worker processes, several in each.

    An environment that raises or gives what is no observation, and all those of a worker that dies or
    does not answer within `step_timeout` seconds, begin anew: they are made again, in another process
    where theirs is dead. The step they were in has come to nothing, and their episodes with it
    (`Finals.lost`). What fails in its constructor or its first reset is an error, and so is an
    environment that fails more than `max_restarts` times without finishing an episode in between.

    Environments are seeded by the rule `seeding` (`rlox.envs.seeding`), one that begins anew too, so that
    nothing repeats itself. No seed depends on how many a worker has. Where the environments can be
    saved (`rlox.envs.snapshot`) a resumed run goes on in mid-episode.
    """

    infos: Sequence[Mapping[str, Any]] = ()

    def __init__(
        self,
        factories: Sequence[EnvFactory],
        seed: int,
        name: str,
        step_timeout: float,
        keep_infos: bool = False,
        max_restarts: int = 5,
        worker_envs: int | None = None,
        seeding: str = KEYED,
    ) -> None:
        self.name, self.n_envs = name, len(factories)
        self.seeding = Seeding(seed, self.n_envs, seeding)
        self.max_restarts = max_restarts
        self.starts = 0
        self.restarts = np.zeros(self.n_envs, np.int64)  # of each environment, in the whole run
        self.in_a_row = np.zeros(self.n_envs, np.int64)  # since it last finished an episode
        # begun anew while the run was saved, and by how many failures: the next step tells of them
        self._untold: set[int] = set()
        self._untold_restarts = 0
        many = min(worker_envs or share(self.n_envs), self.n_envs)
        specs = ByValue(registered())
        job = Job(name, ByValue(tuple(factories)), self.n_envs, many, keep_infos, specs)
        self._crew = Crew(job, seed, step_timeout)
        reports = self._crew.start()
        self._require(failure for report in reports for failure in report.failures)
        assert self._crew.spaces is not None
        self.observation_space, self.action_space = self._crew.spaces
        exact = all(report.exact for report in reports)
        self.resume_grade = "exact" if exact else "episode_start"
        try:
            codec, self.actions = codecs_of(*self._crew.spaces, name)
            self.observations = replace(codec, frames=reports[0].frames)
            self.rows = Rows(self._crew.memory, self.n_envs, self.observations, self.actions)
        except BaseException:
            self.close()
            raise
        if keep_infos:
            self.infos = [{} for _ in factories]

    def reset_into(self, obs: NDArray[Any]) -> None:
        """Start every environment's first episode; writes `[n_envs, obs_dim]`."""
        failures = self.restarts.tolist()
        seeds = {
            i: self.seeding.start_seed(i, self.starts, failures[i]) for i in range(self.n_envs)
        }
        self.starts += 1
        self._require(self._begun(self._crew.begin(seeds)))
        obs[:] = self.rows.obs

    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> Finals | None:
        """Step every environment at once, and begin those anew whose step came to nothing."""
        rows = self.rows
        if np.shape(actions) != rows.actions.shape:
            raise ShapeError(
                f"actions have shape {np.shape(actions)}, expected {rows.actions.shape}"
            )
        rows.actions[:] = actions
        told = self._crew.step()
        finals = self._come_to(told) if told or self._untold else None
        obs[:], rewards[:] = rows.obs, rows.rewards
        terminated[:], truncated[:] = rows.terminated, rows.truncated
        return finals

    def state(self) -> dict[str, Any]:
        """How often all and each were started, and their own state where it can be saved.

        What turns out to be dead begins anew, and is told of as lost by the next step.
        """
        exact = self.resume_grade == "exact" and self.starts > 0
        envs = joined(self._saved()) if exact else []
        state: dict[str, Any] = {
            "starts": self.starts,
            "restarts": self.restarts.copy(),
            "in_a_row": self.in_a_row.copy(),
            "envs": envs,
            **self.seeding.state(),
        }
        if self._untold:
            state["untold"] = [self._untold_restarts, *sorted(self._untold)]
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on in mid-episode, or from the start of new ones than the run began with."""
        self.starts = int(state["starts"])
        self.seeding.restore(state)
        self.restarts[:], self.in_a_row[:] = state["restarts"], state["in_a_row"]
        self._untold_restarts, *untold = state.get("untold", [0])
        self._untold = set(untold)
        if state["envs"]:
            self._crew.restore(apart(state["envs"], self.n_envs))

    def close(self) -> None:
        """Close the environments and end their processes, whatever they are doing."""
        self._crew.close()

    def _saved(self) -> list[Any]:
        """The states of all environments, other ones in the place of those that are dead."""
        states, failures = self._crew.saved()
        while failures:
            begun, restarts = self._begin_anew(failures)
            self._untold |= begun
            self._untold_restarts += restarts
            states, failures = self._crew.saved()
        return states

    def _come_to(self, told: Mapping[int, Told | Failure]) -> Finals | None:
        """What a step has besides numbers, once every environment has an observation to go on from."""
        rows, failures = self.rows, [each for each in told.values() if isinstance(each, Failure)]
        ended: dict[int, Mapping[str, Any]] = {}
        for worker, answer in told.items():
            if isinstance(answer, Told):
                ended.update(answer.ended)
                failures += answer.failures
                self._keep(worker, answer)
        for i in self._untold & ended.keys():  # an episode that nobody has seen the start of
            del ended[i]
        self.in_a_row[list(ended)] = 0
        begun, restarts = self._begin_anew(failures)
        if self._untold:
            begun, restarts = self._tell(begun, restarts)
        # a game that was to go on behind a lost life, and nobody knows how, has come to nothing as a whole
        for i in [i for i in begun & ended.keys() if ended[i].get(GOES_ON)]:
            del ended[i]
        index = np.array(sorted(ended), np.int64)
        last, infos = rows.finals[index], [ended[i] for i in sorted(ended)]
        # where the step ended an episode, only the next one has come to nothing
        lost = np.array(sorted(begun - ended.keys()), np.int64)
        rows.rewards[lost], rows.terminated[lost], rows.truncated[lost] = 0.0, False, True
        return Finals(index, last, infos, lost, restarts) if ended or begun else None

    def _tell(self, begun: set[int], restarts: int) -> tuple[set[int], int]:
        """With what began anew while the run was saved, which is put back to its first observation."""
        early, restarts = self._untold - begun, restarts + self._untold_restarts
        self._untold, self._untold_restarts = set(), 0
        failures = self._begun(self._crew.begin({i: self._key(i) for i in early}))
        more, times = self._begin_anew(failures)
        return begun | early | more, restarts + times

    def _begin_anew(self, failures: Sequence[Failure]) -> tuple[set[int], int]:
        """Other environments in the place of those that failed; which, and after how many failures."""
        begun: set[int] = set()
        count = 0
        while failures:
            self._count(failures)
            count += len(failures)
            wanted = sorted({i for failure in failures for i in failure.envs})
            begun.update(wanted)
            unmade, answers = self._crew.begin_anew({i: self._key(i) for i in wanted})
            failures = [*unmade, *self._begun(answers)]
        return begun, count

    def _key(self, i: int) -> int:
        """What an environment that began anew is seeded with."""
        return self.seeding.restart_seed(i, self.starts, int(self.restarts[i]))

    def _count(self, failures: Iterable[Failure]) -> None:
        """Take note of failures; `EnvError` for the one that is too many."""
        for failure in failures:
            envs = list(failure.envs)
            self.restarts[envs] += 1
            self.in_a_row[envs] += 1
            times = int(self.in_a_row[envs].max())
            if times > self.max_restarts:
                self.close()
                raise EnvError(
                    f"{failure.said}; failed {times} times without a finished episode in between, "
                    f"expected at most env.max_restarts={self.max_restarts}\n{failure.trace}"
                )
            log.warning("%s; begins anew", failure.said)

    def _begun(self, answers: Mapping[int, Told | Failure]) -> list[Failure]:
        """What went wrong where episodes were to begin; the infos of the others are kept."""
        failures = []
        for worker, answer in answers.items():
            if isinstance(answer, Failure):
                failures.append(answer)
            else:
                failures += answer.failures
                self._keep(worker, answer)
        return failures

    def _require(self, failures: Iterable[Failure]) -> None:
        """Raise the first failure, and end what is left."""
        try:
            required(failures)
        except Exception:
            self.close()
            raise

    def _keep(self, worker: int, told: Told) -> None:
        """The infos of a worker's environments, if it sent them."""
        if told.infos and isinstance(self.infos, list):
            envs = self._crew.job.envs_of(worker)
            self.infos[envs.start : envs.stop] = told.infos

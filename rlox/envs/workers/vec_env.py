"""`SupervisedVecEnv`: environments in subprocesses; replaces those that die, hang or return bad values."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.envs.base import LIFE_LOST, EpisodeEnds
from rlox.envs.gym_vec import EnvFactory
from rlox.envs.ids import registered_specs
from rlox.envs.seeding import KEYED, Seeding
from rlox.envs.state_columns import stack_states, unstack_states
from rlox.envs.workers.messages import CloudPickled, Failure, StepReply, WorkerSetup, raise_first
from rlox.envs.workers.shared_memory import SharedArrays, codecs_of
from rlox.envs.workers.worker_pool import EnvWorkerPool, envs_per_worker
from rlox.errors import EnvError, ShapeError

__all__ = ["SupervisedVecEnv"]

log = logging.getLogger("rlox.envs")


class SupervisedVecEnv:
    """Gymnasium environments in worker processes, several per process.

    If an environment raises or returns an invalid observation, or its worker dies or does not answer within
    `step_timeout` seconds, the environment is made again, in another process if its own is dead. A dead or
    late worker affects all of its environments. Their step and their current episodes are lost
    (`EpisodeEnds.lost_envs`). The run ends with an error after a failure in a constructor or the first
    reset, and after more than `max_restarts` failures of an environment without a finished episode in
    between.

    Environments are seeded by the rule `seeding` (`rlox.envs.seeding`); a restarted one gets a new seed, so
    that no episode repeats. Seeds do not depend on the number of environments per worker. If the environments
    can be saved (`rlox.envs.snapshot`), a resumed run continues in mid-episode.
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
        self.n_starts = 0
        self.restarts = np.zeros(self.n_envs, np.int64)  # of each environment, in the whole run
        self.consecutive_failures = np.zeros(self.n_envs, np.int64)  # since it last finished an episode
        # environments that restarted while the run was saved, and the number of failures that caused this;
        # the next step reports both
        self._unreported_envs: set[int] = set()
        self._unreported_restarts = 0
        per_worker = min(worker_envs or envs_per_worker(self.n_envs), self.n_envs)
        specs = CloudPickled(registered_specs())
        setup = WorkerSetup(name, CloudPickled(tuple(factories)), self.n_envs, per_worker, keep_infos, specs)
        self._workers = EnvWorkerPool(setup, seed, step_timeout)
        reports = self._workers.start()
        self._raise_first(failure for report in reports for failure in report.failures)
        assert self._workers.spaces is not None
        self.observation_space, self.action_space = self._workers.spaces
        is_exact = all(report.is_exact for report in reports)
        self.resume_grade = "exact" if is_exact else "episode_start"
        try:
            codec, self.actions = codecs_of(*self._workers.spaces, name)
            self.observations = replace(codec, n_frames=reports[0].n_frames)
            self.arrays = SharedArrays(self._workers.memory_fd, self.n_envs, self.observations, self.actions)
        except BaseException:
            self.close()
            raise
        if keep_infos:
            self.infos = [{} for _ in factories]

    def reset_into(self, obs: NDArray[Any]) -> None:
        """Start every environment's first episode; writes `[n_envs, obs_dim]`."""
        failures = self.restarts.tolist()
        seeds = {i: self.seeding.start_seed(i, self.n_starts, failures[i]) for i in range(self.n_envs)}
        self.n_starts += 1
        self._raise_first(self._process_resets(self._workers.reset(seeds)))
        obs[:] = self.arrays.obs

    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> EpisodeEnds | None:
        """Step every environment at once, and restart those whose step was lost."""
        arrays = self.arrays
        if np.shape(actions) != arrays.actions.shape:
            raise ShapeError(f"actions have shape {np.shape(actions)}, expected {arrays.actions.shape}")
        arrays.actions[:] = actions
        replies = self._workers.step()
        ends = self._process_replies(replies) if replies or self._unreported_envs else None
        obs[:], rewards[:] = arrays.obs, arrays.rewards
        terminated[:], truncated[:] = arrays.terminated, arrays.truncated
        return ends

    def state(self) -> dict[str, Any]:
        """Return the counts of starts and restarts, and the environments' states if they can be saved.

        Environments that turn out to be dead restart, and the next step reports them as lost.
        """
        is_exact = self.resume_grade == "exact" and self.n_starts > 0
        envs = stack_states(self._env_states()) if is_exact else []
        state: dict[str, Any] = {
            "starts": self.n_starts,
            "restarts": self.restarts.copy(),
            "in_a_row": self.consecutive_failures.copy(),
            "envs": envs,
            **self.seeding.state(),
        }
        if self._unreported_envs:
            state["untold"] = [self._unreported_restarts, *sorted(self._unreported_envs)]
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue in mid-episode, or let new episodes begin that differ from the run's first ones."""
        self.n_starts = int(state["starts"])
        self.seeding.restore(state)
        self.restarts[:], self.consecutive_failures[:] = state["restarts"], state["in_a_row"]
        self._unreported_restarts, *unreported_envs = state.get("untold", [0])
        self._unreported_envs = set(unreported_envs)
        if state["envs"]:
            self._workers.restore(unstack_states(state["envs"], self.n_envs))

    def close(self) -> None:
        """Close the environments and end their processes, even if they hang."""
        self._workers.close()

    def _env_states(self) -> list[Any]:
        """Return the states of all environments; dead ones are replaced first."""
        states, failures = self._workers.save()
        while failures:
            restarted_envs, restarts = self._recreate(failures)
            self._unreported_envs |= restarted_envs
            self._unreported_restarts += restarts
            states, failures = self._workers.save()
        return states

    def _process_replies(self, replies: Mapping[int, StepReply | Failure]) -> EpisodeEnds | None:
        """Process the replies of a step, until every environment has an observation to continue from."""
        arrays, failures = self.arrays, [each for each in replies.values() if isinstance(each, Failure)]
        final_infos: dict[int, Mapping[str, Any]] = {}
        for worker, reply in replies.items():
            if isinstance(reply, StepReply):
                final_infos.update(reply.final_infos)
                failures += reply.failures
                self._store_infos(worker, reply)
        for i in self._unreported_envs & final_infos.keys():  # the start of this episode was never reported
            del final_infos[i]
        self.consecutive_failures[list(final_infos)] = 0
        restarted_envs, restarts = self._recreate(failures)
        if self._unreported_envs:
            restarted_envs, restarts = self._include_unreported(restarted_envs, restarts)
        # the rest of a game that continued after a lost life is lost, so the whole game counts as lost
        for i in [i for i in restarted_envs & final_infos.keys() if final_infos[i].get(LIFE_LOST)]:
            del final_infos[i]
        ended_envs = np.array(sorted(final_infos), np.int64)
        final_obs, infos = arrays.final_obs[ended_envs], [final_infos[i] for i in sorted(final_infos)]
        # if the step ended an episode, only the next one is lost
        lost_envs = np.array(sorted(restarted_envs - final_infos.keys()), np.int64)
        arrays.rewards[lost_envs], arrays.terminated[lost_envs], arrays.truncated[lost_envs] = (
            0.0,
            False,
            True,
        )
        return (
            EpisodeEnds(ended_envs, final_obs, infos, lost_envs, restarts)
            if final_infos or restarted_envs
            else None
        )

    def _include_unreported(self, restarted_envs: set[int], restarts: int) -> tuple[set[int], int]:
        """Reset the environments that restarted while the run was saved, and add them to `restarted_envs`."""
        earlier_envs, restarts = self._unreported_envs - restarted_envs, restarts + self._unreported_restarts
        self._unreported_envs, self._unreported_restarts = set(), 0
        failures = self._process_resets(self._workers.reset({i: self._restart_seed(i) for i in earlier_envs}))
        also_restarted, new_restarts = self._recreate(failures)
        return restarted_envs | earlier_envs | also_restarted, restarts + new_restarts

    def _recreate(self, failures: Sequence[Failure]) -> tuple[set[int], int]:
        """Replace failed environments; returns which restarted, and the count of failures."""
        restarted_envs: set[int] = set()
        count = 0
        while failures:
            self._count_failures(failures)
            count += len(failures)
            failed_envs = sorted({i for failure in failures for i in failure.envs})
            restarted_envs.update(failed_envs)
            make_failures, replies = self._workers.recreate({i: self._restart_seed(i) for i in failed_envs})
            failures = [*make_failures, *self._process_resets(replies)]
        return restarted_envs, count

    def _restart_seed(self, i: int) -> int:
        """Return the seed of an environment that restarts."""
        return self.seeding.restart_seed(i, self.n_starts, int(self.restarts[i]))

    def _count_failures(self, failures: Iterable[Failure]) -> None:
        """Count failures; `EnvError` if there are too many."""
        for failure in failures:
            envs = list(failure.envs)
            self.restarts[envs] += 1
            self.consecutive_failures[envs] += 1
            n_failures = int(self.consecutive_failures[envs].max())
            if n_failures > self.max_restarts:
                self.close()
                raise EnvError(
                    f"{failure.detail}; failed {n_failures} times without a finished episode in between, "
                    f"expected at most env.max_restarts={self.max_restarts}\n{failure.trace}"
                )
            log.warning("%s; restarting", failure.detail)

    def _process_resets(self, replies: Mapping[int, StepReply | Failure]) -> list[Failure]:
        """Return the failures of resets, and store the infos of the others."""
        failures = []
        for worker, reply in replies.items():
            if isinstance(reply, Failure):
                failures.append(reply)
            else:
                failures += reply.failures
                self._store_infos(worker, reply)
        return failures

    def _raise_first(self, failures: Iterable[Failure]) -> None:
        """Raise the first failure, and end the other workers."""
        try:
            raise_first(failures)
        except Exception:
            self.close()
            raise

    def _store_infos(self, worker: int, reply: StepReply) -> None:
        """Store the infos of a worker's environments, if it sent them."""
        if reply.infos and isinstance(self.infos, list):
            envs = self._workers.setup.envs_of(worker)
            self.infos[envs.start : envs.stop] = reply.infos

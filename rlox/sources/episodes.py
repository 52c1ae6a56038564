"""True episode returns: raw environment rewards, summed from reset to end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.envs.base import LIFE_LOST, TRUE_RETURN, WrongTypeError, to_flag
from rlox.errors import EnvError
from rlox.types import Episode, Progress

__all__ = ["EpisodeTracker", "RecentEpisodes"]


class EpisodeTracker:
    """Sums raw rewards and steps of the running episode of each environment."""

    def __init__(self, n_envs: int) -> None:
        self.returns = np.zeros(n_envs, np.float64)
        self.lengths = np.zeros(n_envs, np.int64)
        self._n_lost = self._n_restarts = 0  # since the last `progress()`

    def add(self, rewards: NDArray[np.float64]) -> None:
        """Add one step of every environment, rewards `[n_envs]`."""
        self.returns += rewards
        self.lengths += 1

    def finish(
        self, index: NDArray[np.int64], env_steps: int, infos: Sequence[Mapping[str, Any]] = ()
    ) -> list[Episode]:
        """Finish the episodes of the environments `index`, which ended at `env_steps` with `infos`.

        An episode that ended only for learning, because a life was lost, continues to be counted. `EnvError`
        if `is_success` of an info is not a flag.
        """
        if any(info.get(LIFE_LOST) for info in infos):
            finished_indices = [k for k, info in enumerate(infos) if not info.get(LIFE_LOST)]
            index, infos = index[finished_indices], [infos[k] for k in finished_indices]
        episodes = [self._make_episode(int(i), env_steps, info) for i, info in zip_longest(index, infos)]
        self.returns[index] = 0.0
        self.lengths[index] = 0
        return episodes

    def drop_episodes(self, index: NDArray[np.int64], restarts: int) -> None:
        """Drop the lost episodes of the environments `index`, after `restarts` failures."""
        self.returns[index] = 0.0
        self.lengths[index] = 0
        self._n_lost += len(index)
        self._n_restarts += restarts

    def reset(self) -> None:
        """Drop all running episodes without counting them as lost."""
        self.returns[:] = 0.0
        self.lengths[:] = 0

    def undo_step(self, index: NDArray[np.int64]) -> None:
        """Do not count the last step of the environments `index`, which was an autoreset."""
        self.lengths[index] -= 1

    def progress(self, env_steps: int, episodes: Iterable[Episode]) -> Progress:
        """Return the progress with these steps and episodes, and with the failures since the last call."""
        progress = Progress(env_steps, tuple(episodes), self._n_lost, self._n_restarts)
        self._n_lost = self._n_restarts = 0
        return progress

    def _make_episode(self, i: int, env_steps: int, info: Mapping[str, Any] | None) -> Episode:
        """Make an episode, with the environment's own return where wrappers changed its rewards."""
        last_info = info or {}
        if last_info.get("is_success") is not None:
            try:
                to_flag("is_success", last_info["is_success"])
            except WrongTypeError as error:
                raise EnvError(
                    f"environment {i} (env_steps {env_steps}): the info of an episode's last step has {error}"
                ) from error
        total = last_info.get(TRUE_RETURN, self.returns[i])
        return Episode(env_steps, i, float(total), int(self.lengths[i]), info)

    def state(self) -> dict[str, Any]:
        """Return the running sums."""
        state: dict[str, Any] = {"returns": self.returns.copy(), "lengths": self.lengths.copy()}
        if self._n_restarts:  # counted, but not yet reported by `progress()`
            state["untold"] = [self._n_lost, self._n_restarts]
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.returns[:] = state["returns"]
        self.lengths[:] = state["lengths"]
        self._n_lost, self._n_restarts = map(int, state.get("untold", (0, 0)))


class RecentEpisodes:
    """Returns and lengths of the last 100 finished training episodes, and the count of all.

    It also has the success rate of the last 100 episodes that report `is_success`, and the counts of lost
    episodes and environment failures of the run.
    """

    def __init__(self, window: int = 100) -> None:
        self._returns: deque[float] = deque(maxlen=window)
        self._lengths: deque[int] = deque(maxlen=window)
        self._successes: deque[bool] = deque(maxlen=window)
        self.count = self.n_lost = self.restarts = 0

    def add(self, progress: Progress) -> None:
        """Add the episodes and failures of a batch's progress."""
        self.extend(progress.episodes)
        self.n_lost += progress.lost_episodes
        self.restarts += progress.restarts

    def extend(self, episodes: Iterable[Episode]) -> None:
        """Add finished episodes, oldest first."""
        for episode in episodes:
            self._returns.append(episode.total_reward)
            self._lengths.append(episode.length)
            if episode.is_success is not None:
                self._successes.append(episode.is_success)
            self.count += 1

    @property
    def mean_return(self) -> float | None:
        """Mean undiscounted return of the window; `None` before the first episode ends."""
        with np.errstate(over="ignore", invalid="ignore"):  # for non-finite or very large returns
            return float(np.mean(self._returns)) if self._returns else None

    @property
    def mean_length(self) -> float | None:
        """Mean length of the window; `None` before the first episode ends."""
        return float(np.mean(self._lengths)) if self._lengths else None

    @property
    def success_rate(self) -> float | None:
        """Success rate of the window; `None` before the first episode that reports success or failure."""
        return float(np.mean(self._successes)) if self._successes else None

    @property
    def failure_metrics(self) -> dict[str, int]:
        """Metrics of failures and lost episodes; empty if no environment has failed."""
        return {"env/restarts": self.restarts, "env/lost_episodes": self.n_lost} if self.restarts else {}

    def state(self) -> dict[str, Any]:
        """Return the window and the counts."""
        return {
            "returns": list(self._returns),
            "lengths": list(self._lengths),
            "successes": list(self._successes),
            "count": self.count,
            **self.failure_metrics,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        window = self._returns.maxlen
        self._returns = deque(map(float, state["returns"]), window)
        self._lengths = deque(map(int, state["lengths"]), window)
        self._successes = deque(map(bool, state.get("successes", ())), window)  # absent in earlier versions
        self.count = int(state["count"])
        self.restarts, self.n_lost = (
            int(state.get(name, 0)) for name in ("env/restarts", "env/lost_episodes")
        )

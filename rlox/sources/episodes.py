"""True episode returns: what the environment paid, from reset to end, per episode."""

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
    """Adds up raw rewards and steps of the running episode of each environment."""

    def __init__(self, n_envs: int) -> None:
        self.returns = np.zeros(n_envs, np.float64)
        self.lengths = np.zeros(n_envs, np.int64)
        self._n_lost = self._n_restarts = 0  # since they were last told

    def add(self, rewards: NDArray[np.float64]) -> None:
        """One step of every environment, rewards `[n_envs]`."""
        self.returns += rewards
        self.lengths += 1

    def finish(
        self, index: NDArray[np.int64], env_steps: int, infos: Sequence[Mapping[str, Any]] = ()
    ) -> list[Episode]:
        """Close the episodes of the environments `index`, which ended at `env_steps` with `infos`.

        One that ended for learning only, at the loss of a life, goes on to be counted. `EnvError` where
        `is_success` of an info is no flag.
        """
        if any(info.get(LIFE_LOST) for info in infos):
            finished_indices = [k for k, info in enumerate(infos) if not info.get(LIFE_LOST)]
            index, infos = index[finished_indices], [infos[k] for k in finished_indices]
        episodes = [self._make_episode(int(i), env_steps, info) for i, info in zip_longest(index, infos)]
        self.returns[index] = 0.0
        self.lengths[index] = 0
        return episodes

    def drop_episodes(self, index: NDArray[np.int64], restarts: int) -> None:
        """Forget the episodes of the environments `index`: nobody knows how they went on."""
        self.returns[index] = 0.0
        self.lengths[index] = 0
        self._n_lost += len(index)
        self._n_restarts += restarts

    def reset(self) -> None:
        """The episodes under way came to nothing."""
        self.returns[:] = 0.0
        self.lengths[:] = 0

    def undo_step(self, index: NDArray[np.int64]) -> None:
        """The last step of the environments `index` was none."""
        self.lengths[index] -= 1

    def progress(self, env_steps: int, episodes: Iterable[Episode]) -> Progress:
        """That many steps and these episodes, with what was lost since the last call."""
        progress = Progress(env_steps, tuple(episodes), self._n_lost, self._n_restarts)
        self._n_lost = self._n_restarts = 0
        return progress

    def _make_episode(self, i: int, env_steps: int, info: Mapping[str, Any] | None) -> Episode:
        """With the return of the environment itself where wrappers changed its rewards."""
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
        """The running sums."""
        state: dict[str, Any] = {"returns": self.returns.copy(), "lengths": self.lengths.copy()}
        if self._n_restarts:  # in the middle of a training of several ticks
            state["untold"] = [self._n_lost, self._n_restarts]
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.returns[:] = state["returns"]
        self.lengths[:] = state["lengths"]
        self._n_lost, self._n_restarts = map(int, state.get("untold", (0, 0)))


class RecentEpisodes:
    """Returns and lengths of the last 100 finished training episodes, and how many there were.

    Also how many of the last 100 that said so (`Episode.is_success`) reached their goal, and how many were
    lost in the run, by how many failures of their environments.
    """

    def __init__(self, window: int = 100) -> None:
        self._returns: deque[float] = deque(maxlen=window)
        self._lengths: deque[int] = deque(maxlen=window)
        self._successes: deque[bool] = deque(maxlen=window)
        self.count = self.n_lost = self.restarts = 0

    def add(self, progress: Progress) -> None:
        """Take in what a batch brought."""
        self.extend(progress.episodes)
        self.n_lost += progress.lost_episodes
        self.restarts += progress.restarts

    def extend(self, episodes: Iterable[Episode]) -> None:
        """Take in finished episodes, oldest first."""
        for episode in episodes:
            self._returns.append(episode.total_reward)
            self._lengths.append(episode.length)
            if episode.is_success is not None:
                self._successes.append(episode.is_success)
            self.count += 1

    @property
    def mean_return(self) -> float | None:
        """Mean undiscounted return of the window; `None` before the first episode ends."""
        with np.errstate(over="ignore", invalid="ignore"):  # of returns that are not finite, or so large
            return float(np.mean(self._returns)) if self._returns else None

    @property
    def mean_length(self) -> float | None:
        """Mean length of the window; `None` before the first episode ends."""
        return float(np.mean(self._lengths)) if self._lengths else None

    @property
    def success_rate(self) -> float | None:
        """Part of the window that reached its goal; `None` before the first episode that says so."""
        return float(np.mean(self._successes)) if self._successes else None

    @property
    def failure_metrics(self) -> dict[str, int]:
        """As rows of metrics have them; empty where no environment has failed."""
        return {"env/restarts": self.restarts, "env/lost_episodes": self.n_lost} if self.restarts else {}

    def state(self) -> dict[str, Any]:
        """The window and the counts."""
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
        self._successes = deque(map(bool, state.get("successes", ())), window)  # none of before
        self.count = int(state["count"])
        self.restarts, self.n_lost = (
            int(state.get(name, 0)) for name in ("env/restarts", "env/lost_episodes")
        )

"""Environments that allow only some actions and give their mask in three ways."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from rlox.envs.base import EpisodeEnds, VectorEnv


class ForbiddenAction(Exception):
    """The agent took a forbidden action."""


class Masked(gym.Env[Any, Any]):
    """A way of `length` places through doors; at each place two of `n_actions` doors are open.

    The open doors depend on the place and on a number that is drawn for each episode, so the mask of an
    earlier step, of another copy or of another episode is wrong. The lower open door leads on for a reward of
    1; the other one stays and costs 0.1. The end is a termination, where no door is open. After `limit` steps
    comes a truncation. With `strict` a closed door raises; else it ends the episode.

    Observations are the one-hot place, the number and the steps. `mask_source` is `info`, `method`,
    `observation`, or `none`.
    """

    def __init__(
        self,
        mask_source: str = "info",
        length: int = 3,
        n_actions: int = 6,
        limit: int = 6,
        strict: bool = True,
        start: int = 0,
    ) -> None:
        obs_space = spaces.Box(-np.inf, np.inf, (length + 3,), np.float32)
        self.mask_source, self.length, self.n, self.limit = mask_source, length, n_actions, limit
        self.strict = strict
        self.observation_space: gym.Space[Any] = obs_space
        if mask_source == "observation":
            self.observation_space = spaces.Dict(
                {"action_mask": spaces.Box(0, 1, (n_actions,), np.int8), "observation": obs_space}
            )
        self.action_space = spaces.Discrete(n_actions, start=start)
        self.place = self.t = self.number = 0
        self.actions_taken: list[int] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.t = 0, 0
        self.number = int(self.np_random.integers(self.n))
        return self.observe(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        choice = int(action) - int(self.action_space.start)  # type: ignore[attr-defined]
        self.actions_taken.append(choice)
        if not self.open()[choice]:
            if self.strict:
                raise ForbiddenAction(f"door {choice} is closed at {self.place}, number {self.number}")
            return self.observe(), 0.0, True, False, self._info()
        on = choice == int(self.open().argmax())
        self.place, self.t = self.place + on, self.t + 1
        ended = self.place == self.length
        cut = self.t == self.limit and not ended
        return self.observe(), 1.0 if on else -0.1, ended, cut, self._info()

    def open(self) -> NDArray[np.int8]:
        doors = np.zeros(self.n, np.int8)
        if self.place < self.length:
            first = (2 * self.place + self.number) % self.n
            doors[[first, (first + self.n // 2) % self.n]] = 1
        return doors

    def save_state(self) -> dict[str, Any]:
        return {"place": self.place, "t": self.t, "number": self.number}

    def load_state(self, state: dict[str, Any]) -> None:
        self.place, self.t, self.number = state["place"], state["t"], state["number"]

    def observe(self) -> Any:
        obs = np.zeros(self.length + 3, np.float32)
        obs[self.place] = 1.0
        obs[-2:] = self.number, self.t
        return {"action_mask": self.open(), "observation": obs} if self.mask_source == "observation" else obs

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.open()} if self.mask_source == "info" else {}


class MaskedByMethod(Masked):
    """The same, with the mask method of sb3-contrib."""

    def __init__(self, **options: Any) -> None:
        super().__init__("method", **options)

    def action_masks(self) -> NDArray[np.bool_]:
        return self.open().astype(bool)


def make_masked(source: str, **options: Any) -> Masked:
    """Return an environment that gives its mask in this way."""
    return MaskedByMethod(**options) if source == "method" else Masked(source, **options)


class RolloutRecorder:
    """Steps a vector and keeps the results; the first copy follows the way, the others mostly do not."""

    def __init__(self, vec: VectorEnv, n_steps: int) -> None:
        n, dim = vec.n_envs, vec.observations.dim
        rows = np.zeros((n, dim), np.float32)
        rewards, ended = np.zeros(n), np.zeros((2, n), bool)
        vec.reset_into(rows)
        self.rows, self.ends = [rows.copy()], []
        self.finals: list[tuple[int, EpisodeEnds]] = []
        for t in range(n_steps):
            masks = rows[:, vec.observations.input_dim :]
            last = masks.shape[1] - 1 - masks[:, ::-1].argmax(1)
            actions = masks.argmax(1)
            actions[1:] = np.where(t % 3, last, actions)[1:]  # so they do not reach the end in time
            finals = vec.step_into(actions.astype(np.int64), rows, rewards, *ended)
            self.rows.append(rows.copy())
            self.ends.append(ended.copy())
            if finals is not None:
                self.finals.append((t, finals))


def open_doors(obs: NDArray[np.float32], length: int = 3, n: int = 6) -> list[float]:
    """Return the mask of an observation, computed from the rule in `Masked`."""
    place, number = int(obs[: length + 1].argmax()), int(obs[-2])
    first = (2 * place + number) % n
    return [float(door in (first, (first + n // 2) % n)) for door in range(n)]


def make_doors(
    num_envs: int,
    mask_source: str = "info",
    mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    **options: Any,
) -> SyncVectorEnv:
    """Return such environments as a Gymnasium engine; `env=helpers.masked_envs:make_doors` names it."""
    return SyncVectorEnv([partial(make_masked, mask_source, **options)] * num_envs, autoreset_mode=mode)


BY_INFO, BY_METHOD, BY_OBSERVATION = "Doors-v0", "DoorsByMethod-v0", "DoorsByObservation-v0"
gym.register(BY_INFO, Masked)
gym.register(BY_METHOD, MaskedByMethod)
gym.register(BY_OBSERVATION, Masked, kwargs={"mask_source": "observation"})

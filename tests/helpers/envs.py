"""Small environments whose every number is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.envs.actions import ActionCodec
from rlox.envs.base import EpisodeEnds
from rlox.envs.parts_codec import codec_of

Array = NDArray[Any]
TAXI_ID = next(name for name in ("Taxi-v4", "Taxi-v3") if name in gym.registry)
"""The id with the version of the installed Gymnasium, also of the lowest supported one."""


class ScriptedVecEnv:
    """A `VectorEnv` that plays a script and ignores actions: obs `[T+1, N, d]`, the rest `[T, N]`.

    At the end of an episode `obs[t + 1]` is the first observation of the next episode and `finals[t]` the
    last of the ended one. If `lost[t]` is true an environment failed, and `obs[t + 1]` begins another
    episode.
    """

    resume_grade = "exact"
    infos: Sequence[Mapping[str, Any]] = ()

    def __init__(
        self,
        obs: Array,
        finals: Array,
        rewards: Array,
        terminated: Array,
        truncated: Array,
        action_space: gym.Space[Any] | None = None,
        lost: Array | None = None,
    ) -> None:
        self.lost = np.zeros(rewards.shape, np.bool_) if lost is None else lost
        self.script = (obs, finals, rewards, terminated, truncated)
        self.n_envs = obs.shape[1]
        self.observation_space: gym.Space[Any] = spaces.Box(-np.inf, np.inf, (obs.shape[2],))
        self.action_space: gym.Space[Any] = action_space or spaces.Discrete(2)
        self.observations = codec_of(self.observation_space)
        self.actions = ActionCodec.of(self.action_space)
        self.t = 0

    def reset_into(self, obs: NDArray[np.float32]) -> None:
        obs[:] = self.script[0][0]

    def step_into(
        self,
        actions: Array,
        obs: NDArray[np.float32],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> EpisodeEnds | None:
        all_obs, finals, all_rewards, term, trunc = self.script
        t = self.t
        obs[:], rewards[:] = all_obs[t + 1], all_rewards[t]
        terminated[:], truncated[:] = term[t], trunc[t]
        self.t += 1
        lost = np.flatnonzero(self.lost[t])
        rewards[lost], terminated[lost], truncated[lost] = 0.0, False, True
        ended_envs = np.flatnonzero((term[t] | trunc[t]) & ~self.lost[t])
        if not len(ended_envs) and not len(lost):
            return None
        last = finals[t, ended_envs].astype(np.float32)
        return EpisodeEnds(ended_envs, last, lost_envs=lost, restarts=len(lost))

    def state(self) -> dict[str, Any]:
        return {"t": self.t}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.t = int(state["t"])

    def close(self) -> None:
        pass


def random_script(
    rng: np.random.Generator, n_steps: int, n_envs: int, obs_dim: int = 2
) -> tuple[Array, Array, Array, Array, Array]:
    """Return random observations, finals, rewards and masks; some environments end rarely, some often."""
    rate = rng.choice([0.0, 0.1, 0.3, 0.7], n_envs)
    return (
        rng.normal(0, 3, (n_steps + 1, n_envs, obs_dim)).astype(np.float32),
        rng.normal(0, 3, (n_steps, n_envs, obs_dim)).astype(np.float32),
        rng.normal(0, 1, (n_steps, n_envs)).astype(np.float32).astype(np.float64),
        rng.random((n_steps, n_envs)) < rate,
        rng.random((n_steps, n_envs)) < rate,
    )


class Countdown(gym.Env[Any, Any]):
    """Episode k of a copy has `lengths[k % len]` steps; obs is [seed, episode, t]; reward t + 0.25.

    Odd episodes are truncated, even ones terminated.
    """

    def __init__(self, lengths: Sequence[int] = (2, 3, 1)) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.lengths = tuple(lengths)
        self.episode, self.t, self.start = -1, 0, 0
        self.seeds: list[int | None] = []
        self.actions_taken: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        if seed is not None:
            self.start, self.episode = seed, -1
        self.episode, self.t = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.actions_taken.append(action)
        self.t += 1
        is_end = self.t == self.lengths[self.episode % len(self.lengths)]
        is_odd = self.episode % 2 == 1
        return self._obs(), self.t + 0.25, is_end and not is_odd, is_end and is_odd, {}

    def _obs(self) -> Array:
        return np.array([self.start, self.episode, self.t], np.float32)


class AlwaysTruncates(gym.Env[Any, Any]):
    """Three steps of reward 1, then a truncation."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return np.zeros(1, np.float32), 1.0, False, self.t == 3, {}


class OddRewards(gym.Env[Any, Any]):
    """Rewards that depend on state, action and time, some of them huge, negative or tiny."""

    def __init__(self, scale: float = 1.0) -> None:
        self.observation_space = spaces.Box(-10, 10, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.scale = scale
        self.t = self.length = 0
        self.x = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.length = 0, int(self.np_random.integers(3, 12))
        self.x = float(self.np_random.normal())
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.t += 1
        self.x = 0.7 * self.x + 0.5 * (int(action) - 1) + float(self.np_random.normal()) * 0.1
        reward = self.scale * (-3.7 * self.x + (1000.0 if self.t % 5 == 0 else 1e-3))
        is_end = self.t >= self.length
        return (
            self._obs(),
            reward,
            is_end and self.length % 2 == 0,
            is_end and self.length % 2 == 1,
            {},
        )

    def _obs(self) -> Array:
        return np.array([self.x, self.t], np.float32)


class FailingAssert(Countdown):
    """Fails with an assertion without a message; in a test file pytest would rewrite the assertion."""

    def step(self, action: Any) -> Any:
        assert action > 7
        return super().step(action)


class MixedBounds(gym.Env[Any, Any]):
    """Two action dimensions: one within 0.1, one without bounds; records its actions."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Box(
            np.array([-0.1, -np.inf], np.float32), np.array([0.1, np.inf], np.float32)
        )
        self.actions_received: list[Array] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        return np.array([0.5, -0.5], np.float32), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.actions_received.append(np.array(action))
        return np.array([0.5, -0.5], np.float32), 0.0, False, False, {}


class RandomSpacesEnv(gym.Env[Any, Any]):
    """An environment with any two spaces; observations are samples, an episode has five steps."""

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.t = 0
        self.actions_taken: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.actions_taken.append(action)
        self.t += 1
        return self.observation_space.sample(), 1.0, self.t == 5, False, {}


class WrongShape(gym.Env[Any, Any]):
    """Declares three numbers and returns `value`."""

    def __init__(self, value: Any) -> None:
        self.observation_space = spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.value = value

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.value, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.value, 0.0, False, False, {}


class FixedOutputs(gym.Env[Any, Any]):
    """Returns the given observation, and always the same reward and end flags."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: gym.Space[Any], obs: Any, reward: Any, *flags: Any) -> None:
        self.observation_space, self.obs, self.reward = space, obs, reward
        self.flags = flags or (False, False)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.obs, {}

    def step(self, action: Any) -> Any:
        return self.obs, self.reward, *self.flags, {}


class EpisodeRecorder(gym.Wrapper[Any, Any, Any, Any]):
    """Records (reset seed, sum of rewards, length) of every finished episode."""

    def __init__(self, env: gym.Env[Any, Any], episodes: list[tuple[int | None, float, int]]) -> None:
        super().__init__(env)
        self.episodes = episodes
        self.total, self.length = 0.0, 0
        self.seed: int | None = None

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.total, self.length, self.seed = 0.0, 0, options.get("seed")
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.total += float(reward)
        self.length += 1
        if terminated or truncated:
            self.episodes.append((self.seed, self.total, self.length))
        return obs, reward, terminated, truncated, info

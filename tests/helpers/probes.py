"""Environments that isolate one thing that an algorithm must get right, with known answers.

After A. Jones, "Debugging RL, without the agonizing pain" (2021). All rewards are discounted by `GAMMA`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

GAMMA = 0.9
Obs = NDArray[np.float32]


class Probe(gym.Env[Obs, Any]):
    """Plays `rule(obs, action, t) -> (next obs, reward, terminated, truncated)` from `start(rng)`."""

    def __init__(
        self,
        rule: Callable[[float, Any, int], tuple[float, float, bool, bool]],
        start: Callable[[np.random.Generator], float] = lambda rng: 0.0,
        actions: gym.Space[Any] | None = None,
    ) -> None:
        self.observation_space = spaces.Box(-2.0, 2.0, (1,), np.float32)
        self.action_space = actions or spaces.Discrete(2)
        self.rule, self.first = rule, start

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Obs, dict[str, Any]]:
        super().reset(seed=seed)
        self.obs, self.t = float(self.first(self.np_random)), 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        self.obs, reward, terminated, truncated = self.rule(self.obs, action, self.t)
        self.t += 1
        return self._obs(), reward, terminated, truncated, {}

    def _obs(self) -> Obs:
        return np.array([self.obs], np.float32)


def sign(rng: np.random.Generator) -> float:
    return float(rng.choice([-1.0, 1.0]))


def constant() -> Probe:
    """One step, reward 1: V(0) = 1."""
    return Probe(lambda at, action, t: (0.0, 1.0, True, False))


def observed_reward() -> Probe:
    """One step, the reward equals the observation: V(x) = x."""
    return Probe(lambda at, action, t: (at, at, True, False), sign)


def delayed() -> Probe:
    """Three steps, reward 2 after the third: V(0) = 2 GAMMA^2, V(1) = 2 GAMMA, V(2) = 2."""
    return Probe(lambda at, action, t: (min(t + 1.0, 2.0), 2.0 * (t == 2), t == 2, False))


def endless() -> Probe:
    """Reward 1 a step for ever, truncated after 5 steps, which no observation shows:

    V(0) = 1 / (1 - GAMMA).
    """
    return Probe(lambda at, action, t: (0.0, 1.0, False, t == 4))


def choice() -> Probe:
    """One step: action 1 is worth 1, action 0 is worth -1."""
    return Probe(lambda at, action, t: (0.0, 1.0 if action == 1 else -1.0, True, False))


def other_choice() -> Probe:
    """One step: action 0 is worth 1.

    A policy that learns nothing takes the same action here and in `choice`.
    """
    return Probe(lambda at, action, t: (0.0, 1.0 if action == 0 else -1.0, True, False))


def matching() -> Probe:
    """One step: the right action is 1 at observation 1 and 0 at observation -1."""
    return Probe(lambda at, action, t: (at, 1.0 if (action == 1) == (at > 0) else -1.0, True, False), sign)


def with_vectors(make: Callable[[], Probe]) -> Callable[[], Probe]:
    """Return a maker of the probe with vector actions that have no effect, for algorithms with vectors."""

    def make_probe() -> Probe:
        probe = make()
        probe.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        return probe

    return make_probe


def vector() -> Probe:
    """One step: the reward grows as the action approaches half of the observation."""
    return Probe(
        lambda at, action, t: (at, -float((action[0] - at / 2) ** 2), True, False),
        sign,
        spaces.Box(-1.0, 1.0, (1,), np.float32),
    )


class Recall(gym.Env[Obs, Any]):
    """Shows a sign in the first of `steps` observations only, and asks for it in the last step.

    The reward is 1 for the right sign and -1 for the other. All later observations are 0, so a policy can
    recognise the last step only by counting. Without a memory every policy has mean return 0.
    """

    def __init__(self, steps: int = 5) -> None:
        self.observation_space = spaces.Box(-2.0, 2.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.steps = steps

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Obs, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.sign = 0, sign(self.np_random)
        return np.array([self.sign], np.float32), {}

    def step(self, action: Any) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        self.t += 1
        last = self.t == self.steps
        is_right = (action == 1) == (self.sign > 0)
        reward = (1.0 if is_right else -1.0) if last else 0.0
        return np.zeros(1, np.float32), reward, last, False, {}


# The value of each state under the best policy, and the tolerance of a learned value. Without a discount
# `delayed` is wrong by 0.38; if the truncation counts as an end, `endless` is wrong by 5.9. On an Intel Xeon
# with AVX-512 the worst error of 20 native seeds (6 of `delayed`) was half of the tolerance (TD3 on
# `endless`), with the other algorithms 0.14 of it. The worst error of 6 seeds of rainbow, recurrent_ppo and
# sac, which torch learns, was 0.4 of it.
VALUES: dict[str, tuple[Callable[[], Probe], dict[float, float], float]] = {
    "constant": (constant, {0.0: 1.0}, 0.2),
    "seen": (observed_reward, {-1.0: -1.0, 1.0: 1.0}, 0.2),
    "delayed": (delayed, {0.0: 2 * GAMMA**2, 1.0: 2 * GAMMA, 2.0: 2.0}, 0.3),
    "endless": (endless, {0.0: 1.0 / (1.0 - GAMMA)}, 2.0),
}
# States where no episode begins: a recurrent policy never visits them with an empty memory.
LATER: dict[str, tuple[float, ...]] = {"delayed": (1.0, 2.0)}
# The right action in each state.
ACTIONS: dict[str, tuple[Callable[[], Probe], dict[float, float]]] = {
    "choice": (choice, {0.0: 1.0}),
    "other choice": (other_choice, {0.0: 0.0}),
    "matching": (matching, {-1.0: 0.0, 1.0: 1.0}),
}
VECTORS: dict[str, tuple[Callable[[], Probe], dict[float, float]]] = {
    "vector": (vector, {-1.0: -0.5, 1.0: 0.5}),
}

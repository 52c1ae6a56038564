"""Code as a user would write it; configurations name it `helpers.user_code:Name`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from torch import nn

from rlox.callbacks import Callback
from rlox.policies import DiscretePolicy

RECORDED_CALLS: list[
    tuple[int, int]
] = []  # the records of `CountingCallback`: the step, and the number of earlier calls


class TenthReward(gym.RewardWrapper[Any, Any]):
    """Multiplies the reward by a tenth, or by another factor."""

    def __init__(self, env: gym.Env[Any, Any], part: float = 0.1) -> None:
        super().__init__(env)
        self.part = part

    def reward(self, reward: Any) -> float:
        return self.part * float(reward)

    def save_state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        assert state == {}


class StatelessWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Does nothing; rlox cannot know whether it has a state."""


class CountingCallback(Callback):
    """Counts updates; stops after `max_calls`."""

    def __init__(self, max_calls: int = 1_000_000) -> None:
        self.max_calls = max_calls
        self.calls = 0

    def on_step(self, **kwargs: Any) -> bool:
        self.calls += 1
        RECORDED_CALLS.append((kwargs["step"], self.calls))
        return self.calls < self.max_calls

    def state(self) -> dict[str, Any]:
        return {"calls": self.calls}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.calls = int(state["calls"])


def small_net(
    observation_space: gym.spaces.Box, action_space: gym.spaces.Discrete, hidden: int = 8
) -> nn.Module:
    """Return a policy for the spaces."""
    return DiscretePolicy(observation_space.shape[0], int(action_space.n), hidden=hidden)


def no_env(env: gym.Env[Any, Any]) -> int:
    """A function that is not a wrapper."""
    return 7


def no_policy(observation_space: Any, action_space: Any) -> int:
    """A function that is not a policy."""
    return 7


def wide_net(observation_space: gym.spaces.Box, action_space: gym.spaces.Discrete) -> nn.Module:
    """Return PPO's default policy."""
    return DiscretePolicy(observation_space.shape[0], int(action_space.n))


class OpaqueWrapper(gym.ObservationWrapper[Any, Any, Any]):
    """Leaves observations unchanged, which rlox cannot know."""

    def observation(self, observation: Any) -> Any:
        return observation


class ExitsProcess(gym.Wrapper[Any, Any, Any, Any]):
    """Tries to end the process."""

    def step(self, action: Any) -> Any:
        raise SystemExit(7)


class Endless(gym.Wrapper[Any, Any, Any, Any]):
    """Episodes without an end."""

    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = self.env.step(action)
        return obs, reward, False, False, info


class LogitsForMode(nn.Module):
    """A policy whose `mode` is not an action."""

    def __init__(self, observation_space: gym.spaces.Box, action_space: gym.spaces.Discrete) -> None:
        super().__init__()
        self.inner = wide_net(observation_space, action_space)

    def __getattr__(self, name: str) -> Any:
        if name in ("get_action_and_logprob", "get_value", "get_logprob_and_entropy"):
            return getattr(self.inner, name)
        return super().__getattr__(name)

    def mode(self, obs: Any) -> Any:
        return self.inner.actor(obs)

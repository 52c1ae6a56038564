"""Whose environments a saved state is of, and whether they go on in mid-episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from rlox.envs.base import VectorEnv
from rlox.envs.normalize import RewardNormalizer
from rlox.sources.episodes import EpisodeTracker

__all__ = ["engine_of", "go_on", "interruption"]


def engine_of(env: VectorEnv) -> list[str]:
    """Whose state is saved, and how much of it: another engine cannot use it."""
    return [type(env).__name__, env.resume_grade]


def interruption(env: VectorEnv, state: Mapping[str, Any]) -> str:
    """Why the episodes under way in `state` do not go on in `env`; empty if they do."""
    if state["engine"] != engine_of(env):
        return "environments start new episodes: they were saved by another backend"
    if env.resume_grade != "exact":
        return "environments start new episodes: they cannot be saved"
    return ""


def go_on(
    env: VectorEnv,
    state: Mapping[str, Any],
    obs: NDArray[Any],
    tracker: EpisodeTracker,
    rewards: RewardNormalizer | None,
) -> bool:
    """Put `env` where `state` has it, with the observations and the episodes so far; whether they go on.

    Where they do not, new episodes begin: `obs` and `tracker` are left alone, running returns end.
    """
    if state["engine"] == engine_of(env):
        env.restore(state["env"])
    if interruption(env, state):
        if rewards:
            rewards.returns[:] = 0.0
        return False
    obs[:] = state["obs"]
    tracker.restore(state["episodes"])
    return True

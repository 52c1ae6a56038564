"""Whose environments a saved state is of, and whether they go on in mid-episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from rlox.envs.base import VectorEnv
from rlox.envs.normalize import RewardNormalizer
from rlox.sources.episodes import EpisodeTracker

__all__ = ["env_identity", "restore_envs", "resume_warning"]


def env_identity(env: VectorEnv) -> list[str]:
    """Whose state is saved, and how much of it: another engine cannot use it."""
    return [type(env).__name__, env.resume_grade]


def resume_warning(env: VectorEnv, state: Mapping[str, Any]) -> str:
    """Why the episodes under way in `state` do not go on in `env`; empty if they do."""
    if state["engine"] != env_identity(env):
        return "environments start new episodes: they were saved by another backend"
    if env.resume_grade != "exact":
        return "environments start new episodes: they cannot be saved"
    return ""


def restore_envs(
    env: VectorEnv,
    state: Mapping[str, Any],
    obs: NDArray[Any],
    tracker: EpisodeTracker,
    reward_normalizer: RewardNormalizer | None,
) -> bool:
    """Put `env` where `state` has it, with the observations and the episodes so far; whether they go on.

    Where they do not, new episodes begin: `obs` and `tracker` are left alone, running returns end.
    """
    if state["engine"] == env_identity(env):
        env.restore(state["env"])
    if resume_warning(env, state):
        if reward_normalizer:
            reward_normalizer.returns[:] = 0.0
        return False
    obs[:] = state["obs"]
    tracker.restore(state["episodes"])
    return True

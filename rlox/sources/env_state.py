"""Restoring of environments, if the same backend saved their state; otherwise new episodes begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from rlox.envs.base import VectorEnv
from rlox.envs.normalize import RewardNormalizer
from rlox.sources.episodes import EpisodeTracker

__all__ = ["env_identity", "restore_envs", "resume_warning"]


def env_identity(env: VectorEnv) -> list[str]:
    """Return the class and the resume grade of `env`; a state can be restored only if both are equal."""
    return [type(env).__name__, env.resume_grade]


def resume_warning(env: VectorEnv, state: Mapping[str, Any]) -> str:
    """Say why the unfinished episodes in `state` do not continue in `env`; empty if they do."""
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
    """Restore `env`, its observations and its episode sums from `state`; return whether episodes continue.

    If they do not, new episodes begin: `obs` and `tracker` stay unchanged, running returns become zero.
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

"""Whose environments a saved state is of, and whether they go on in mid-episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlox.envs.base import VectorEnv

__all__ = ["engine_of", "interruption"]


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

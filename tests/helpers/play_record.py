"""Records an environment's outputs during play, and its state as a checkpoint keeps it."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np

from rlox.state_tree import pack, unpack

__all__ = ["play", "through_json"]


def through_json(tree: Any) -> Any:
    """Return a state after a checkpoint's round trip: JSON for the structure, arrays beside it."""
    arrays: dict[str, Any] = {}
    text = json.dumps(pack(tree, arrays))
    return unpack(json.loads(text), arrays)


def play(env: gym.Env[Any, Any], steps: int, seed: int) -> list[Any]:
    """Return all outputs for random actions, across resets."""
    env.action_space.seed(seed)
    record: list[Any] = []
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        record.append((_bytes(obs), float(reward), terminated, truncated))
        if terminated or truncated:
            record.append(_bytes(env.reset()[0]))
    return record


def _bytes(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {name: _bytes(part) for name, part in obs.items()}
    return obs if isinstance(obs, str) else np.asarray(obs).tobytes()

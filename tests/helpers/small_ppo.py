"""A small PPO for tests that are not about learning."""

from __future__ import annotations

from typing import Any

SMALL_PPO: dict[str, Any] = {"n_steps": 16, "n_epochs": 1, "batch_size": 16, "net_arch": [8]}


def small_ppo(**changes: Any) -> dict[str, Any]:
    """Return its settings as the `algo` group of a configuration."""
    return {"name": "ppo", **SMALL_PPO, **changes}

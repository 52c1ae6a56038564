"""Which algorithms of rlox take the spaces of an environment."""

from __future__ import annotations

from typing import Any

from rlox.configs import ALGO_CONFIGS
from rlox.envs.actions import ActionCodec
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError

__all__ = ["fits"]


def fits(name: str, observation_space: Any, action_space: Any) -> dict[str, str]:
    """Of each algorithm why it does not fit; empty text where it does."""
    kind, unseen = "", ""
    try:
        ObservationCodec.of(observation_space, name)
        kind = ActionCodec.of(action_space, name).kind
    except ConfigError as error:
        unseen = str(error)
    return {
        algo: unseen or ("" if kind in config.actions else f"needs {' or '.join(config.actions)}")
        for algo, config in ALGO_CONFIGS.items()
    }

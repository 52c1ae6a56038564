"""The spaces in which a checkpoint's policy learned, and the check that they are the same now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlox.configs import RunConfig
from rlox.configs.offline import NO_ENV, OfflineAlgorithmConfig
from rlox.envs.space_description import describe_space
from rlox.errors import CheckpointError, RloxError
from rlox.training.actor import BaseActor

__all__ = ["describe_spaces", "require_same_spaces"]

MAX_TEXT_LENGTH = 120  # characters of a space in a message


def describe_spaces(config: RunConfig, actor: Any) -> dict[str, str]:
    """Describe the spaces of `actor`; empty for a text model, and if sizes are given in place of spaces."""
    algo = config.algo
    has_sizes = isinstance(algo, OfflineAlgorithmConfig) and algo.has_sizes
    if not isinstance(actor, BaseActor) or (has_sizes and config.env.id == NO_ENV):
        return {}
    return {
        "observations": describe_space(actor.observations.space),
        "actions": describe_space(actor.actions.space, with_bounds=True),
    }


def require_same_spaces(
    state: Mapping[str, Any],
    config: RunConfig,
    actor: Any,
    error_class: type[RloxError] = CheckpointError,
) -> None:
    """Raise `error_class` if the spaces of `actor` differ from those in a checkpoint's `state`.

    Checkpoints of earlier versions have no spaces and are not checked.
    """
    saved_spaces = state.get("spaces", {})
    for name, current_space in describe_spaces(config, actor).items():
        if name in saved_spaces and saved_spaces[name] != current_space:
            raise error_class(
                f"its policy learned with {name} {_truncate(saved_spaces[name])}, but {name} here are "
                f"{_truncate(current_space)}; use an environment with the policy's spaces, or wrap this one "
                "so that it has them"
            )


def _truncate(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_TEXT_LENGTH else text[: MAX_TEXT_LENGTH - 3] + "..."

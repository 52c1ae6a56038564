"""The spaces in which a checkpoint's policy learned, as text, and the check that they are the same now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.configs import RunConfig
from rlox.configs.offline import NO_ENV, OfflineAlgorithmConfig
from rlox.envs.masks import OBSERVATION, MaskedSpace
from rlox.envs.spaces import BYTE, format_space
from rlox.errors import CheckpointError, RloxError
from rlox.training.actor import BaseActor

__all__ = ["describe_space", "describe_spaces", "require_same_spaces"]


def describe_space(space: gym.Space[Any], with_bounds: bool = False) -> str:
    """Describe a space as text; two spaces that a policy cannot tell apart have the same text.

    The bounds of a Box and whether it holds integers are included only with `with_bounds`: actions are
    clipped to their bounds or scaled over them, observations are not. Axes of length 1 are ignored, except
    for uint8 Boxes, which may be images. An action mask next to the observations is ignored: weights can be
    transferred between policies with and without masks.
    """
    if isinstance(space, MaskedSpace):
        return describe_space(space[OBSERVATION], with_bounds)
    if isinstance(space, spaces.Dict):
        part_texts = (f"{key}: {describe_space(part, with_bounds)}" for key, part in space.spaces.items())
        return f"Dict({', '.join(part_texts)})"
    if isinstance(space, spaces.Tuple):
        return f"Tuple({', '.join(describe_space(part, with_bounds) for part in space.spaces)})"
    if isinstance(space, spaces.Discrete):
        return f"Discrete({int(space.n)}{_start_text(space.start)})"
    if isinstance(space, spaces.MultiDiscrete):
        return f"MultiDiscrete({space.nvec.tolist()}{_start_text(space.start)})"
    if isinstance(space, spaces.MultiBinary):
        return f"MultiBinary({_shape_text(space.shape)})"
    if isinstance(space, spaces.Box):
        shape = space.shape if space.dtype == BYTE else [n for n in space.shape if n != 1]
        return f"Box({_shape_text(shape)}{_bounds_text(space) if with_bounds else ''})"
    return format_space(space)


def _start_text(start: Any) -> str:
    """Format the lowest values of choices; empty if all are 0."""
    return f", start={np.asarray(start).tolist()}" if np.any(start) else ""


def _shape_text(shape: Any) -> str:
    return "x".join(map(str, shape)) or "1"


def _bounds_text(box: spaces.Box) -> str:
    dtype_text = "" if box.dtype.kind == "f" else ", whole numbers"
    return f", from {_bound_text(box.low)} to {_bound_text(box.high)}{dtype_text}"


def _bound_text(bound: NDArray[Any]) -> str:
    """Format bounds with six digits, which float32 rounding does not change; one number if all are equal."""
    value_texts = [f"{value:g}" for value in bound.reshape(-1).astype(np.float32).tolist()]
    return value_texts[0] if len({*value_texts}) == 1 else f"[{', '.join(value_texts)}]"


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

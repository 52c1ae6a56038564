"""Which algorithms of rlox accept the spaces of an environment."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rlox.configs import ALGO_CONFIGS
from rlox.configs.base import AlgorithmConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.parts_codec import codec_of
from rlox.envs.spaces import Image
from rlox.errors import ConfigError

__all__ = ["algorithm_obstacles"]


def algorithm_obstacles(
    name: str, observation_space: Any, action_space: Any, n_frames: int = 1, native: bool = False
) -> dict[str, str]:
    """Return for each algorithm, with its defaults, why it does not fit; empty text if it does.

    `n_frames` is the number of frames stacked in an observation; `native` environments are stepped in Rust.
    """
    try:
        images = codec_of(observation_space, name).images
        actions = ActionCodec.of(action_space, name)
    except ConfigError as error:
        return dict.fromkeys(ALGO_CONFIGS, str(error))
    ambiguous_image = next((image for image in images if image.channels_first(n_frames) is None), None)
    return {
        algo: _action_obstacle(algo, config, actions, name, native)
        or _image_obstacle(config, ambiguous_image)
        for algo, config in ALGO_CONFIGS.items()
    }


def _action_obstacle(
    algo: str, config: type[AlgorithmConfig], actions: ActionCodec, name: str, native: bool
) -> str:
    """Return why an algorithm does not support these actions."""
    if actions.kind not in config.action_kinds:
        return f"needs {' or '.join(config.action_kinds)}"
    if config.is_native_only and not native:
        return "needs an environment that runs in Rust"
    if config.needs_bounds and actions.kind == "Box":
        try:
            actions.unit_codec(name, algo)
        except ConfigError as error:
            return str(error)
    return ""


def _image_obstacle(config: type[AlgorithmConfig], image: Image | None) -> str:
    """Return why an algorithm that uses rlox's encoders cannot read an image."""
    if image is None or "image_channels" not in {field.name for field in fields(config)}:
        return ""
    part = f" in part {image.name!r}" if image.name else ""
    return (
        f"needs to know which dimension of images of shape {image.shape}{part} are the channels; set "
        "algo.image_channels=first or last"
    )

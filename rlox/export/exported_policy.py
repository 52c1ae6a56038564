"""An exported policy: normaliser, network and action bounds, with its outputs for golden observations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from rlox._core import Stream
from rlox.envs.action_parts import BoxPart, DiscretePart
from rlox.envs.actions import ActionCodec, UnitCodec
from rlox.envs.normalize import (
    CLIP,
    FixedNormalizer,
    Normalizer,
    ObservationNormalizer,
)
from rlox.envs.spaces import BinaryCodec, ObservationCodec, format_space
from rlox.export.networks import Network, extract_network, unsupported_export
from rlox.export.numpy_policy import ActionBounds, Moments, forward, relative_difference, to_actions
from rlox.runs.algorithm import Algorithm
from rlox.training.actor import StatelessActor, require_actor

__all__ = ["FORMAT_VERSION", "TOLERANCE", "ExportedPolicy", "GoldenSamples", "build_exported_policy"]

FORMAT_VERSION = 1
N_GOLDEN = 32
TOLERANCE = 1e-5  # relative to the norm of the expected array
UNBOUNDED_FROM = 1e3  # larger bounds count as no bounds


@dataclass(frozen=True)
class GoldenSamples:
    """Raw observations `[n, dim]`, network outputs `[n, outputs]` and the environment's actions.

    Actions are int64 `[n]`, or float32 `[n, size]`.
    """

    obs: NDArray[np.float32]
    outputs: NDArray[np.float32]
    actions: NDArray[Any]


@dataclass(frozen=True)
class ExportedPolicy:
    """A policy without torch.

    Attributes
    ----------
    metadata : origin of the policy: algorithm, env and further entries of the caller
    shape : shape of one observation; the network gets its numbers in row-major order
    first_choice : the environment's number of the first choice
    bounds : bounds of vector actions; `None`: actions are discrete
    """

    metadata: Mapping[str, Any]
    network: Network
    shape: tuple[int, ...]
    moments: Moments | None
    first_choice: int
    bounds: ActionBounds | None
    golden: GoldenSamples

    def description(self) -> dict[str, Any]:
        """Return everything except the arrays, as JSON data."""
        network, bounds = self.network, self.bounds
        if bounds is None:
            action = {"kind": "discrete", "n": network.sizes[-1], "start": self.first_choice}
        else:
            action = {"kind": "box", "shape": list(bounds.shape)}
        return {
            "format": FORMAT_VERSION,
            **self.metadata,
            "observation": {"shape": list(self.shape)},
            "normalizer": None if self.moments is None else {"clip": self.moments.clip},
            "network": {
                "head": network.head,
                "sizes": list(network.sizes),
                "activation": network.activation,
                "dueling": network.is_dueling,
                "mean_limit": network.mean_limit,
            },
            "action": action,
            "golden": len(self.golden.obs),
        }

    def run(self, obs: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return outputs and actions for raw observations `[n, dim]`.

        This NumPy computation in float64 defines the meaning of the file.
        """
        outputs = forward(self.network, obs, self.moments)
        return outputs, to_actions(self.network, outputs, self.first_choice, self.bounds)


def build_exported_policy(
    algorithm: Algorithm, extra_metadata: Mapping[str, str] | None = None
) -> ExportedPolicy:
    """Export the deterministic policy of an algorithm, as its evaluation uses it.

    `extra_metadata` adds entries to the description, such as the checkpoint and the version of rlox.

    Raises ConfigError, with the reason, for a policy that a file of arrays cannot express: images and
    encoders, memory, overridden methods, noisy layers and value distributions, action masks, observations and
    actions of several parts, discrete observations, and integer Boxes.
    """
    actor = require_actor(algorithm.components.actor, algorithm.name)
    if not isinstance(actor, StatelessActor):
        raise unsupported_export("a memory")
    _require_flat_numbers(actor.observations)
    first_choice, bounds = _first_choice_and_bounds(actor.actions)
    network = extract_network(actor.module)
    moments = _moments(actor.normalizer)
    obs = _golden_observations(actor.observations.space, actor.observations.dim, moments)
    with torch.inference_mode(), actor.inference_mode():
        outputs = network.torch_forward(actor.policy_input(obs)).cpu().numpy()
        actions = actor.act(obs)
    golden = GoldenSamples(obs, outputs, actions.reshape(len(obs), -1) if bounds else actions)
    metadata = {"algorithm": algorithm.name, "env": algorithm.env_id, **(extra_metadata or {})}
    shape = tuple(actor.observations.space.shape or ())
    policy = ExportedPolicy(metadata, network, shape, moments, first_choice, bounds, golden)
    _require_same_outputs(policy)
    return policy


def _require_flat_numbers(codec: ObservationCodec) -> None:
    """Raise ConfigError unless observations are a flattened Box or MultiBinary."""
    if codec.mask_dim:
        raise unsupported_export("masks of actions")
    if codec.images:
        raise unsupported_export("observations with images")
    if type(codec) not in (ObservationCodec, BinaryCodec) or isinstance(
        codec.space, spaces.Dict | spaces.Tuple
    ):
        raise unsupported_export(f"observations that are encoded: {format_space(codec.space)}")


def _first_choice_and_bounds(codec: ActionCodec) -> tuple[int, ActionBounds | None]:
    """Return the first choice's number and a vector's bounds; raise ConfigError for other spaces."""
    space = codec.space
    part = codec.parts[0]
    if isinstance(space, spaces.Discrete) and isinstance(part, DiscretePart):
        return int(part.start[0]), None
    if not isinstance(space, spaces.Box) or not isinstance(part, BoxPart):
        raise unsupported_export(f"actions of several parts: {format_space(space)}")
    if part.low.dtype.kind != "f":
        raise unsupported_export(f"actions of whole numbers: {format_space(space)}")
    is_unit = isinstance(codec, UnitCodec)
    low, high = (codec.low, codec.high) if isinstance(codec, UnitCodec) else (part.low, part.high)
    float32_info = np.finfo(np.float32)
    low, high = (
        np.clip(low, float32_info.min, float32_info.max),
        np.clip(high, float32_info.min, float32_info.max),
    )
    # The nearest float32 may lie outside the float64 bounds.
    float_bounds = low.astype(np.float32), high.astype(np.float32)
    low_up, high_down = (
        np.nextafter(float_bounds[0], float32_info.max),
        np.nextafter(float_bounds[1], float32_info.min),
    )
    bounds = ActionBounds(
        np.where(float_bounds[0] < low, low_up, float_bounds[0]),
        np.where(float_bounds[1] > high, high_down, float_bounds[1]),
        tuple(space.shape),
    )
    with np.errstate(over="ignore"):
        is_finite_width = np.isfinite(bounds.high - bounds.low).all()
    if is_unit and not is_finite_width:
        raise unsupported_export(f"actions whose bounds are too far apart for float32: {format_space(space)}")
    return 0, bounds


def _moments(normalizer: Normalizer | None) -> Moments | None:
    """Return the moments that standardise observations; None without normalisation."""
    if normalizer is None:
        return None
    if type(normalizer) is ObservationNormalizer:
        moments = normalizer.moments
        clip = CLIP if normalizer.clips else None
        return Moments(moments.mean, moments.std, clip)
    if type(normalizer) is FixedNormalizer:
        if normalizer.moments is None:
            return None
        mean, _ = normalizer.moments
        return Moments(mean, normalizer.divisors, None)
    raise unsupported_export(f"a {type(normalizer).__name__}")


def _golden_observations(space: Any, dim: int, moments: Moments | None) -> NDArray[np.float32]:
    """Draw observations `[n, dim]` similar to those of training, from a fixed seed.

    With moments, they are drawn around the mean. Otherwise they are uniform within the bounds, or normal
    around 0 where the bounds are far away.
    """
    stream = Stream(0, "golden observations")
    normal = stream.normal(N_GOLDEN * dim).reshape(N_GOLDEN, dim)
    uniform = stream.uniform(N_GOLDEN * dim).reshape(N_GOLDEN, dim)
    is_box = isinstance(space, spaces.Box)
    low = np.ravel(space.low).astype(np.float64) if is_box else np.zeros(dim)
    high = np.ravel(space.high).astype(np.float64) if is_box else np.ones(dim)
    if moments is not None:
        values = moments.mean + moments.std * normal
    else:
        is_bounded = (np.abs(low) <= UNBOUNDED_FROM) & (np.abs(high) <= UNBOUNDED_FROM)
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.where(is_bounded, low + uniform * (high - low), normal)
    float_info = np.finfo(np.float32)
    clipped = np.clip(np.clip(values, low, high), float_info.min, float_info.max)
    return cast(NDArray[np.float32], np.ascontiguousarray(clipped, np.float32))


def _require_same_outputs(policy: ExportedPolicy) -> None:
    """Raise ConfigError unless the exported policy reproduces the golden outputs and actions.

    Hooks, and methods set on the instance, change outputs or actions without being part of the layers.
    """
    golden = policy.golden
    outputs, actions = policy.run(golden.obs)
    if relative_difference(outputs, golden.outputs) > TOLERANCE:
        raise unsupported_export(
            "hooks, or layers that do more: its outputs differ from those of its linear layers"
        )
    is_close = actions.shape == golden.actions.shape and (
        relative_difference(actions, golden.actions) <= TOLERANCE
        if policy.bounds is not None
        else bool(_are_same_choices(outputs, actions, golden.actions, policy.first_choice))
    )
    if not is_close:
        raise unsupported_export("methods of its own: its actions differ from those of its network")


def _are_same_choices(
    outputs: NDArray[Any], actual: NDArray[Any], expected: NDArray[Any], first_choice: int
) -> bool:
    """Return whether choices `[n]` are equal, or tie within tolerance by `outputs` `[n, choices]`."""
    if ((expected < first_choice) | (expected >= first_choice + outputs.shape[1])).any():
        return False
    rows = np.arange(len(outputs))
    differences = np.abs(outputs[rows, actual - first_choice] - outputs[rows, expected - first_choice])
    return bool((differences <= TOLERANCE * np.abs(outputs).max()).all())

"""A policy with all that stands before and behind its network, and what it says of golden observations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from rlox._core import Stream
from rlox.envs.action_parts import Choices, Numbers
from rlox.envs.actions import ActionCodec, UnitCodec
from rlox.envs.normalize import (
    CLIP,
    FixedNormalizer,
    Normalizer,
    ObservationNormalizer,
)
from rlox.envs.spaces import BinaryCodec, ObservationCodec, short
from rlox.export.arithmetic import Bounds, Moments, acted, difference, said
from rlox.export.networks import Network, network_of, refused
from rlox.runs.algorithm import Algorithm
from rlox.training.actor import Forgetful, player_of

__all__ = ["FORMAT", "TOLERANCE", "Exported", "Golden", "exported"]

FORMAT = 1
GOLDEN = 32
TOLERANCE = 1e-5  # of the norm of what is compared
WIDE = 1e3  # bounds as far away are taken for none


@dataclass(frozen=True)
class Golden:
    """Raw observations `[n, dim]`, what the network says `[n, outputs]`, and the environment's actions.

    Actions are int64 `[n]`, or float32 `[n, size]`.
    """

    obs: NDArray[np.float32]
    outputs: NDArray[np.float32]
    actions: NDArray[Any]


@dataclass(frozen=True)
class Exported:
    """A policy without torch.

    Attributes
    ----------
    about : where it is from: algorithm, env, and whatever else is to be told
    shape : of one observation, whose numbers the network sees in row-major order
    start : the environment's number for the first choice
    bounds : of vectors; `None`: an action is a choice
    """

    about: Mapping[str, Any]
    network: Network
    shape: tuple[int, ...]
    moments: Moments | None
    start: int
    bounds: Bounds | None
    golden: Golden

    def description(self) -> dict[str, Any]:
        """All but its numbers, as JSON has it."""
        network, bounds = self.network, self.bounds
        if bounds is None:
            action = {"kind": "discrete", "n": network.sizes[-1], "start": self.start}
        else:
            action = {"kind": "box", "shape": list(bounds.shape)}
        return {
            "format": FORMAT,
            **self.about,
            "observation": {"shape": list(self.shape)},
            "normalizer": None if self.moments is None else {"clip": self.moments.clip},
            "network": {
                "head": network.head,
                "sizes": list(network.sizes),
                "activation": network.activation,
                "dueling": network.dueling,
                "mean_limit": network.mean_limit,
            },
            "action": action,
            "golden": len(self.golden.obs),
        }

    def play(self, obs: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Outputs and actions for raw observations `[n, dim]`, by NumPy in float64: what the file means."""
        outputs = said(self.network, obs, self.moments)
        return outputs, acted(self.network, outputs, self.start, self.bounds)


def exported(algorithm: Algorithm, told: Mapping[str, str] | None = None) -> Exported:
    """The deterministic policy of an algorithm, as its evaluation plays it.

    `told` is what else its description says, such as the checkpoint and the version of rlox.

    Raises ConfigError, naming it, for what a file of numbers cannot express: images and encoders, memories,
    policies with methods of their own, noisy layers and distributions, masks, observations and actions of
    several parts, choices among observations, and Boxes of whole numbers.
    """
    actor = player_of(algorithm.parts.actor, algorithm.name)
    if not isinstance(actor, Forgetful):
        raise refused("a memory")
    _require_numbers(actor.observations)
    start, bounds = _action(actor.actions)
    network = network_of(actor.module)
    moments = _moments(actor.normalizer)
    obs = _golden_observations(actor.observations.space, actor.observations.dim, moments)
    with torch.inference_mode(), actor.ready():
        outputs = network.says(actor.seen(obs)).cpu().numpy()
        actions = actor.act(obs)
    golden = Golden(obs, outputs, actions.reshape(len(obs), -1) if bounds else actions)
    about = {"algorithm": algorithm.name, "env": algorithm.env_id, **(told or {})}
    shape = tuple(actor.observations.space.shape or ())
    found = Exported(about, network, shape, moments, start, bounds, golden)
    _require_same(found)
    return found


def _require_numbers(codec: ObservationCodec) -> None:
    """Observations have to be a Box or bits, flattened."""
    if codec.masked:
        raise refused("masks of actions")
    if codec.images:
        raise refused("observations with images")
    if type(codec) not in (ObservationCodec, BinaryCodec) or isinstance(
        codec.space, spaces.Dict | spaces.Tuple
    ):
        raise refused(f"observations that are encoded: {short(codec.space)}")


def _action(codec: ActionCodec) -> tuple[int, Bounds | None]:
    """The first choice, or the bounds of a vector; ConfigError for anything else."""
    space = codec.space
    part = codec.parts[0]
    if isinstance(space, spaces.Discrete) and isinstance(part, Choices):
        return int(part.start[0]), None
    if not isinstance(space, spaces.Box) or not isinstance(part, Numbers):
        raise refused(f"actions of several parts: {short(space)}")
    if part.low.dtype.kind != "f":
        raise refused(f"actions of whole numbers: {short(space)}")
    unit = isinstance(codec, UnitCodec)
    low, high = (codec.low, codec.high) if isinstance(codec, UnitCodec) else (part.low, part.high)
    limit = np.finfo(np.float32)
    low, high = np.clip(low, limit.min, limit.max), np.clip(high, limit.min, limit.max)
    # The nearest float32 may lie outside bounds of float64.
    inside = low.astype(np.float32), high.astype(np.float32)
    up, down = np.nextafter(inside[0], limit.max), np.nextafter(inside[1], limit.min)
    bounds = Bounds(
        np.where(inside[0] < low, up, inside[0]),
        np.where(inside[1] > high, down, inside[1]),
        tuple(space.shape),
    )
    with np.errstate(over="ignore"):
        narrow = np.isfinite(bounds.high - bounds.low).all()
    if unit and not narrow:
        raise refused(f"actions whose bounds are too far apart for float32: {short(space)}")
    return 0, bounds


def _moments(normalizer: Normalizer | None) -> Moments | None:
    """How observations are standardised, if they are."""
    if normalizer is None:
        return None
    if type(normalizer) is ObservationNormalizer:
        moments = normalizer.moments
        clip = CLIP if normalizer.clips else None
        return Moments(moments.mean, moments.deviation, clip)
    if type(normalizer) is FixedNormalizer:
        if normalizer.moments is None:
            return None
        mean, _ = normalizer.moments
        return Moments(mean, normalizer.scale, None)
    raise refused(f"a {type(normalizer).__name__}")


def _golden_observations(space: Any, dim: int, moments: Moments | None) -> NDArray[np.float32]:
    """Observations `[n, dim]` such as the policy has seen, always the same.

    Around the mean where there is one; else anywhere within the bounds, or around 0 where these are far away.
    """
    stream = Stream(0, "golden observations")
    normal = stream.normal(GOLDEN * dim).reshape(GOLDEN, dim)
    uniform = stream.uniform(GOLDEN * dim).reshape(GOLDEN, dim)
    box = isinstance(space, spaces.Box)
    low = np.ravel(space.low).astype(np.float64) if box else np.zeros(dim)
    high = np.ravel(space.high).astype(np.float64) if box else np.ones(dim)
    if moments is not None:
        drawn = moments.mean + moments.deviation * normal
    else:
        narrow = (np.abs(low) <= WIDE) & (np.abs(high) <= WIDE)
        with np.errstate(invalid="ignore", over="ignore"):
            drawn = np.where(narrow, low + uniform * (high - low), normal)
    limit = np.finfo(np.float32)
    within = np.clip(np.clip(drawn, low, high), limit.min, limit.max)
    return cast(NDArray[np.float32], np.ascontiguousarray(within, np.float32))


def _require_same(found: Exported) -> None:
    """What is exported has to be what acts: a hook, or a method of this very object, is not in its layers."""
    golden = found.golden
    outputs, actions = found.play(golden.obs)
    if difference(outputs, golden.outputs) > TOLERANCE:
        raise refused("hooks, or layers that do more than they say: it does not say what they give")
    close = actions.shape == golden.actions.shape and (
        difference(actions, golden.actions) <= TOLERANCE
        if found.bounds is not None
        else bool(_same_choices(outputs, actions, golden.actions, found.start))
    )
    if not close:
        raise refused("methods of its own: it does not do what its network says")


def _same_choices(
    outputs: NDArray[Any], ours: NDArray[Any], theirs: NDArray[Any], start: int
) -> bool:
    """Whether choices `[n]` are the same, or as good as each other by `outputs` `[n, choices]`."""
    if ((theirs < start) | (theirs >= start + outputs.shape[1])).any():
        return False
    rows = np.arange(len(outputs))
    apart = np.abs(outputs[rows, ours - start] - outputs[rows, theirs - start])
    return bool((apart <= TOLERANCE * np.abs(outputs).max()).all())

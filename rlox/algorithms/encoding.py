"""How the networks of an algorithm see observations with images: which encoder, and how it reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from rlox.envs.spaces import Image, ObservationCodec
from rlox.errors import ConfigError
from rlox.networks import (
    CONVOLUTIONS,
    EncodedEnsemble,
    Encoder,
    EnsembleMLP,
    Picture,
    behind,
    cost_of,
    orthogonal_encoder,
)
from rlox.networks.encoders import Cost
from rlox.policies.base import ActorCritic
from rlox.policies.encoded import SharedEncoder

__all__ = ["NO_COST", "Encoding", "encoding_of"]

NO_COST = Cost(0, 0, 0)

GRID = 16  # the longest side of an image that `auto` takes for a grid of cells


class Wishes(Protocol):
    """What a configuration says of encoders."""

    @property
    def encoder(self) -> str:
        """The kind."""

    @property
    def encoder_features(self) -> int | None:
        """Numbers that an image becomes."""

    @property
    def image_channels(self) -> str:
        """Which dimension they are."""


@dataclass(frozen=True)
class Encoding:
    """What stands before the networks of an environment; nothing where there are no images."""

    features: int  # numbers of an observation that come to the networks
    make: Callable[[], Encoder] | None = None
    cost: Cost = NO_COST
    said: tuple[str, ...] = ()  # of each image what is made of it

    def before(self, net: Any) -> Any:
        """A network of features behind an encoder of its own."""
        return behind(None if self.make is None else self.make(), net)

    def ensemble(self, critics: EnsembleMLP) -> EnsembleMLP:
        """Critics of features behind one encoder of their own."""
        return critics if self.make is None else EncodedEnsemble(self.make(), critics)

    def around(self, policy: Any, masked: int, shared: bool, orthogonal: bool) -> ActorCritic:
        """An actor and a critic of features behind a `shared` encoder, or each behind its own."""
        if self.make is None:
            return policy  # type: ignore[no-any-return]
        actor, critic = self.pair(shared, orthogonal)
        if shared:
            return SharedEncoder(actor, policy, masked)
        policy.actor, policy.critic = behind(actor, policy.actor), behind(critic, policy.critic)
        return policy  # type: ignore[no-any-return]

    def pair(self, shared: bool, orthogonal: bool) -> tuple[Encoder, Encoder]:
        """Encoders of an actor and a critic, where there are images; the same one if it is `shared`."""
        assert self.make is not None
        actor = self.make()
        critic = actor if shared else self.make()
        if orthogonal:
            orthogonal_encoder(actor)
            if not shared:
                orthogonal_encoder(critic)
        return actor, critic


def encoding_of(
    algo: Wishes,
    codec: ObservationCodec,
    name: str = "the environment",
    shared: bool = True,
) -> Encoding:
    """What `algo` makes of the observations of the environment `name`.

    `ConfigError` where they have no image that its keys could be of, for an image that is too small for
    the network that is asked for, for one whose channels could be either of its dimensions, and for features
    that no network makes. `shared` is whether actor and critic have one encoder, where they may.
    """
    if not codec.images:
        _require_unsaid(algo, codec, name, shared)
        return Encoding(codec.seen)
    pictures = [_picture(algo, image, name, codec.frames) for image in codec.images]
    kinds = [_kind(algo, *pair, name) for pair in zip(codec.images, pictures, strict=True)]
    if algo.encoder_features and set(kinds) == {"mlp"}:
        raise ConfigError(
            f"algo.encoder_features={algo.encoder_features}: of the images of {name} the pixels are seen in "
            "a row (encoder mlp), without a layer of features; leave it out, or set algo.encoder=impala"
        )

    def make() -> Encoder:
        return Encoder(codec.numbers, pictures, kinds, algo.encoder_features)

    said = map(_said, codec.images, pictures, kinds)
    cost = cost_of(codec.numbers, pictures, kinds, algo.encoder_features)
    return Encoding(cost.features, make, cost, tuple(said))


def _require_unsaid(algo: Wishes, codec: ObservationCodec, name: str, shared: bool) -> None:
    given = {
        "encoder": "" if algo.encoder in ("auto", "mlp") else algo.encoder,
        "encoder_features": algo.encoder_features or "",
        "image_channels": "" if algo.image_channels == "auto" else algo.image_channels,
        "share_encoder": "" if shared else "false",
    }
    for key, value in given.items():
        if value:
            raise ConfigError(
                f"algo.{key}={value}: {name} has no image in its observations, of shape {codec.shape}; an "
                f"image is a Box of uint8 with 2 to 4 dimensions. Leave algo.{key} out"
            )


def _picture(algo: Wishes, image: Image, name: str, frames: int) -> Picture:
    """With the channels where they are asked for, or where they must be."""
    first = image.channels_first(frames)
    if algo.image_channels != "auto":
        first = algo.image_channels == "first"
    if first is None and algo.encoder != "mlp":  # which sees pixels in a row, in any order
        raise ConfigError(
            f"{name} has images of shape {image.shape}{_where(image)}, whose channels could be the first "
            "dimension of a frame or the last; say which: algo.image_channels=first or last"
        )
    return Picture(image.shape, bool(first), image.high)


def _kind(algo: Wishes, image: Image, picture: Picture, name: str) -> str:
    """The network that is asked for, if it takes such images; else the one for their size."""
    _, height, width = picture.planes
    side = min(height, width)
    if algo.encoder == "auto":
        if side < CONVOLUTIONS["small"].least:
            return "mlp"
        if side >= CONVOLUTIONS["nature"].least:
            return "nature"
        return "small" if max(height, width) <= GRID else "impala"
    if algo.encoder != "mlp" and side < (least := CONVOLUTIONS[algo.encoder].least):
        fitting = [kind for kind, made in CONVOLUTIONS.items() if side >= made.least]
        raise ConfigError(
            f"algo.encoder={algo.encoder} takes images from {least}x{least} on, {name} has {height}x{width}"
            f"{_where(image)}; set algo.encoder=auto, {', '.join(fitting)} or mlp"
        )
    return algo.encoder


def _said(image: Image, picture: Picture, kind: str) -> str:
    channels, height, width = picture.planes
    order = "first" if picture.channels_first else "last"
    where = f"channels {order}" if len(image.shape) > 2 else "without channels"
    named = f"{image.name}: " if image.name else ""
    return (
        f"{named}{height}x{width}, {channels} {'channel' if channels == 1 else 'channels'} (shape "
        f"{image.shape}, {where}), divided by {picture.high:g}, encoder {kind}"
    )


def _where(image: Image) -> str:
    return f" in part {image.name!r}" if image.name else ""

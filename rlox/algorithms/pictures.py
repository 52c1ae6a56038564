"""Encoders of images: which one, and how it reads them."""

from __future__ import annotations

from rlox.algorithms.encoding import Encoding, Wishes
from rlox.envs.spaces import Image, ObservationCodec
from rlox.errors import ConfigError
from rlox.networks import CONVOLUTIONS, Encoder, Picture, cost_of

__all__ = ["encoding_of_images"]

GRID = 16  # the longest side of an image that `auto` takes for a grid of cells


def encoding_of_images(algo: Wishes, codec: ObservationCodec, name: str) -> Encoding:
    """What `algo` makes of observations with images, as `encoding_of` says."""
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

"""Choice of image encoders and of the channel dimension."""

from __future__ import annotations

from rlox.algorithms.assembly.encoding import EncoderOptions, EncoderSpec
from rlox.envs.spaces import Image, ObservationCodec
from rlox.errors import ConfigError
from rlox.networks import CONVOLUTIONS, Encoder, ImageSpec, encoder_cost

__all__ = ["make_image_encoder_spec"]

MAX_GRID_SIZE = 16  # `auto` treats images up to this side length as grids of cells


def make_image_encoder_spec(algo: EncoderOptions, codec: ObservationCodec, name: str) -> EncoderSpec:
    """Choose the encoder for observations with images; see `make_encoder_spec`."""
    image_specs = [_make_image_spec(algo, image, name, codec.n_frames) for image in codec.images]
    kinds = [
        _choose_kind(algo, *image_and_spec, name)
        for image_and_spec in zip(codec.images, image_specs, strict=True)
    ]
    if algo.encoder_features and set(kinds) == {"mlp"}:
        raise ConfigError(
            f"algo.encoder_features={algo.encoder_features}: the images of {name} are flattened (encoder "
            "mlp), without a layer of features; leave encoder_features out, or set algo.encoder=impala"
        )

    def make_encoder() -> Encoder:
        return Encoder(codec.numeric_dim, image_specs, kinds, algo.encoder_features)

    descriptions = map(_describe, codec.images, image_specs, kinds)
    cost = encoder_cost(codec.numeric_dim, image_specs, kinds, algo.encoder_features)
    return EncoderSpec(cost.features, make_encoder, cost, tuple(descriptions))


def _make_image_spec(algo: EncoderOptions, image: Image, name: str, frames: int) -> ImageSpec:
    """Describe an image, with the channel dimension configured or inferred from its shape."""
    channels_first = image.channels_first(frames)
    if algo.image_channels != "auto":
        channels_first = algo.image_channels == "first"
    if channels_first is None and algo.encoder != "mlp":  # an MLP reads the pixels in any order
        raise ConfigError(
            f"{name} has images of shape {image.shape}{_image_name_text(image)}, whose channels could be the "
            "first dimension of a frame or the last; set algo.image_channels=first or last"
        )
    return ImageSpec(image.shape, bool(channels_first), image.high)


def _choose_kind(algo: EncoderOptions, image: Image, image_spec: ImageSpec, name: str) -> str:
    """Return the configured network if it accepts such images; for `auto`, choose one by the image's size."""
    _, height, width = image_spec.planes
    min_side = min(height, width)
    if algo.encoder == "auto":
        if min_side < CONVOLUTIONS["small"].min_size:
            return "mlp"
        if min_side >= CONVOLUTIONS["nature"].min_size:
            return "nature"
        return "small" if max(height, width) <= MAX_GRID_SIZE else "impala"
    if algo.encoder != "mlp" and min_side < (min_size := CONVOLUTIONS[algo.encoder].min_size):
        kinds = [kind for kind, cnn in CONVOLUTIONS.items() if min_side >= cnn.min_size]
        raise ConfigError(
            f"algo.encoder={algo.encoder} needs images of at least {min_size}x{min_size}, {name} has "
            f"{height}x{width}{_image_name_text(image)}; set algo.encoder=auto, {', '.join(kinds)} or mlp"
        )
    return algo.encoder


def _describe(image: Image, image_spec: ImageSpec, kind: str) -> str:
    channels, height, width = image_spec.planes
    order = "first" if image_spec.channels_first else "last"
    channel_text = f"channels {order}" if len(image.shape) > 2 else "without channels"
    prefix = f"{image.name}: " if image.name else ""
    return (
        f"{prefix}{height}x{width}, {channels} {'channel' if channels == 1 else 'channels'} (shape "
        f"{image.shape}, {channel_text}), divided by {image_spec.max_value:g}, encoder {kind}"
    )


def _image_name_text(image: Image) -> str:
    return f" in part {image.name!r}" if image.name else ""

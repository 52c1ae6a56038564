"""Choice and construction of the image encoders in front of an algorithm's networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rlox.configs import ALGO_CONFIGS, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.spaces import Image, ObservationCodec, format_space
from rlox.errors import ConfigError, UnsupportedSpaceError
from rlox.parameters.encoder_cost import NO_COST, EncoderCost
from rlox.training.backend import native_input_obstacle

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.networks import Encoder, EnsembleMLP, ImageSpec
    from rlox.policies import ActorCritic

__all__ = ["NO_COST", "EncoderOptions", "EncoderSpec", "make_encoder_spec", "require_actions"]

MAX_GRID_SIZE = 16  # `auto` treats images up to this side length as grids of cells


class EncoderOptions(Protocol):
    """The encoder fields of an algorithm's configuration."""

    @property
    def encoder(self) -> str:
        """Kind of encoder."""

    @property
    def encoder_features(self) -> int | None:
        """Number of features per image."""

    @property
    def image_channels(self) -> str:
        """Dimension of the channels: `first`, `last` or `auto`."""


@dataclass(frozen=True)
class EncoderSpec:
    """The encoder in front of an algorithm's networks; without images there is none."""

    features: int  # input size of the networks
    make_encoder: Callable[[], Encoder] | None = None
    cost: EncoderCost = NO_COST
    descriptions: tuple[str, ...] = ()  # one text per image: how it is encoded
    actor_columns: tuple[int, ...] | None = None  # of the features, that the actor sees; None: all

    @property
    def actor_features(self) -> int:
        """Input size of the actor, which may see less than its critic (`env.critic_obs`)."""
        return self.features if self.actor_columns is None else len(self.actor_columns)

    @property
    def native_obstacle(self) -> str:
        """Say why the native engine cannot learn from these observations; empty if it can."""
        return native_input_obstacle(self.make_encoder is not None, self.actor_columns is not None)

    def wrap_actor(self, net: Any) -> Any:
        """Put a new encoder, and the choice of what the actor sees, in front of a network."""
        return self.wrap_network(self._select_actor_columns(net))

    def _select_actor_columns(self, net: Any) -> Any:
        if self.actor_columns is None:
            return net
        from rlox.networks import SelectColumns, add_encoder

        return add_encoder(SelectColumns(self.actor_columns), net)

    def require_used(self, policy: Any, algo: str) -> None:
        """Raise `ConfigError` if the actor of a plugin's `policy` sees the parts of `env.critic_obs`."""
        if self.actor_columns is None:
            return
        from rlox.networks import SelectColumns

        if not any(isinstance(module, SelectColumns) for module in policy.modules()):
            raise ConfigError(
                f"env.critic_obs: {algo} builds networks of its own, without `EncoderSpec.wrap_actor`, so "
                "its actor would see these parts; leave it out"
            )

    def wrap_network(self, net: Any) -> Any:
        """Put a new encoder in front of a network that takes features."""
        if self.make_encoder is None:
            return net
        from rlox.networks import add_encoder

        return add_encoder(self.make_encoder(), net)

    def wrap_ensemble(self, critics: EnsembleMLP) -> EnsembleMLP:
        """Put one new encoder in front of critics that take features.

        `critics` of another class than `EnsembleMLP` have its methods `with_actions` or `forward`.
        """
        if self.make_encoder is None:
            return critics
        from rlox.networks import EncodedCritics, EncodedEnsemble, EnsembleMLP

        encode = EncodedEnsemble if type(critics) is EnsembleMLP else EncodedCritics
        return encode(self.make_encoder(), critics)

    def wrap_policy(self, policy: Any, mask_dim: int, is_shared: bool, is_orthogonal: bool) -> ActorCritic:
        """Put encoders in front of actor and critic: a shared one (`is_shared`), or one for each."""
        policy.actor = self._select_actor_columns(policy.actor)
        if self.make_encoder is None:
            return policy  # type: ignore[no-any-return]
        from rlox.networks import add_encoder
        from rlox.policies.shared_encoder import SharedEncoderPolicy

        actor, critic = self.make_pair(is_shared, is_orthogonal)
        if is_shared:
            return SharedEncoderPolicy(actor, policy, mask_dim)
        policy.actor, policy.critic = add_encoder(actor, policy.actor), add_encoder(critic, policy.critic)
        return policy  # type: ignore[no-any-return]

    def make_pair(self, is_shared: bool, is_orthogonal: bool) -> tuple[Encoder, Encoder]:
        """Make the image encoders of actor and critic; with `is_shared` both are the same object."""
        assert self.make_encoder is not None
        from rlox.networks import init_orthogonal_encoder

        actor = self.make_encoder()
        critic = actor if is_shared else self.make_encoder()
        if is_orthogonal:
            init_orthogonal_encoder(actor)
            if not is_shared:
                init_orthogonal_encoder(critic)
        return actor, critic


def make_encoder_spec(
    algo: EncoderOptions,
    codec: ObservationCodec,
    name: str = "the environment",
    is_shared: bool = True,
) -> EncoderSpec:
    """Choose the encoder that `algo` needs for the observations of the environment `name`.

    `is_shared` is the setting whether actor and critic share one encoder. Raises `ConfigError` if encoder
    options are set and there is no image, if an image is too small for the configured network, if its
    channels could be the first dimension or the last, and if `encoder_features` is set for a network without
    that layer.
    """
    if not codec.images:
        _require_no_encoder_options(algo, codec, name, is_shared)
        numbers = codec.actor_numbers
        return EncoderSpec(codec.input_dim, actor_columns=None if numbers is None else tuple(numbers))
    return _make_image_encoder_spec(algo, codec, name)


def require_actions(config: RunConfig, actions: ActionCodec) -> None:
    """Raise `UnsupportedSpaceError` for unsupported actions, naming the algorithms that support them."""
    algo, kind = config.algo, actions.kind
    if kind in algo.action_kinds:
        return
    *names, last_name = (
        name
        for name, algo_config in ALGO_CONFIGS.items()
        if kind in algo_config.action_kinds
        and algo_config.unit == algo.unit
        and not algo_config.is_native_only
    )
    raise UnsupportedSpaceError(
        f"{algo.name} needs {' or '.join(algo.action_kinds)} actions, {config.env.id} has "
        f"{format_space(actions.space)}; use algo={', '.join(names)}{' or ' if names else ''}{last_name}"
    )


def _require_no_encoder_options(
    algo: EncoderOptions, codec: ObservationCodec, name: str, is_shared: bool
) -> None:
    options = {
        "encoder": "" if algo.encoder in ("auto", "mlp") else algo.encoder,
        "encoder_features": algo.encoder_features or "",
        "image_channels": "" if algo.image_channels == "auto" else algo.image_channels,
        "share_encoder": "" if is_shared else "false",
    }
    for key, value in options.items():
        if value:
            raise ConfigError(
                f"algo.{key}={value}: {name} has no image in its observations, of shape {codec.shape}; an "
                f"image is a Box of uint8 with 2 to 4 dimensions. Leave algo.{key} out"
            )


def _make_image_encoder_spec(algo: EncoderOptions, codec: ObservationCodec, name: str) -> EncoderSpec:
    """Choose the encoder for observations with images; see `make_encoder_spec`."""
    from rlox.networks import Encoder, encoder_cost

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
    numbers = codec.actor_numbers  # the features begin with the numbers
    image_features = range(codec.numeric_dim, cost.features)
    actor_columns = None if numbers is None else (*numbers, *image_features)
    return EncoderSpec(cost.features, make_encoder, cost, tuple(descriptions), actor_columns)


def _make_image_spec(algo: EncoderOptions, image: Image, name: str, frames: int) -> ImageSpec:
    """Describe an image, with the channel dimension configured or inferred from its shape."""
    from rlox.networks import ImageSpec

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
    from rlox.networks import CONVOLUTIONS

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

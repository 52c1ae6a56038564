"""Choice and construction of the image encoders in front of an algorithm's networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rlox.configs import ALGO_CONFIGS, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.spaces import ObservationCodec, format_space
from rlox.errors import ConfigError, UnsupportedSpaceError
from rlox.parameters.encoder_cost import NO_COST, EncoderCost

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.networks import Encoder, EnsembleMLP
    from rlox.policies import ActorCritic

__all__ = ["NO_COST", "EncoderOptions", "EncoderSpec", "make_encoder_spec", "require_actions"]


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

    def wrap_network(self, net: Any) -> Any:
        """Put a new encoder in front of a network that takes features."""
        if self.make_encoder is None:
            return net
        from rlox.networks import add_encoder

        return add_encoder(self.make_encoder(), net)

    def wrap_ensemble(self, critics: EnsembleMLP) -> EnsembleMLP:
        """Put one new encoder in front of an ensemble of critics that take features."""
        if self.make_encoder is None:
            return critics
        from rlox.networks import EncodedEnsemble

        return EncodedEnsemble(self.make_encoder(), critics)

    def wrap_policy(self, policy: Any, mask_dim: int, is_shared: bool, is_orthogonal: bool) -> ActorCritic:
        """Put encoders in front of actor and critic: a shared one (`is_shared`), or one for each."""
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
        return EncoderSpec(codec.input_dim)
    from rlox.algorithms.assembly.image_encoding import make_image_encoder_spec

    return make_image_encoder_spec(algo, codec, name)


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

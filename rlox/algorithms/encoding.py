"""How the networks of an algorithm see observations with images: which encoder, and how it reads them."""

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
class EncoderSpec:
    """What stands before the networks of an environment; nothing where there are no images."""

    features: int  # numbers of an observation that come to the networks
    make_encoder: Callable[[], Encoder] | None = None
    cost: EncoderCost = NO_COST
    descriptions: tuple[str, ...] = ()  # of each image what is made of it

    def wrap_network(self, net: Any) -> Any:
        """A network of features behind an encoder of its own."""
        if self.make_encoder is None:
            return net
        from rlox.networks import add_encoder

        return add_encoder(self.make_encoder(), net)

    def wrap_ensemble(self, critics: EnsembleMLP) -> EnsembleMLP:
        """Critics of features behind one encoder of their own."""
        if self.make_encoder is None:
            return critics
        from rlox.networks import EncodedEnsemble

        return EncodedEnsemble(self.make_encoder(), critics)

    def wrap_policy(self, policy: Any, mask_dim: int, is_shared: bool, is_orthogonal: bool) -> ActorCritic:
        """An actor and a critic of features behind a shared encoder (`is_shared`), or each behind its own."""
        if self.make_encoder is None:
            return policy  # type: ignore[no-any-return]
        from rlox.networks import add_encoder
        from rlox.policies.shared_encoder import SharedEncoder

        actor, critic = self.make_pair(is_shared, is_orthogonal)
        if is_shared:
            return SharedEncoder(actor, policy, mask_dim)
        policy.actor, policy.critic = add_encoder(actor, policy.actor), add_encoder(critic, policy.critic)
        return policy  # type: ignore[no-any-return]

    def make_pair(self, is_shared: bool, is_orthogonal: bool) -> tuple[Encoder, Encoder]:
        """Encoders of an actor and a critic, where there are images; the same one with `is_shared`."""
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
    """What `algo` makes of the observations of the environment `name`.

    `ConfigError` where they have no image that its keys could be of, for an image that is too small for
    the network that is asked for, for one whose channels could be either of its dimensions, and for features
    that no network makes. `is_shared` is whether actor and critic have one encoder, where they may.
    """
    if not codec.images:
        _require_no_encoder_options(algo, codec, name, is_shared)
        return EncoderSpec(codec.input_dim)
    from rlox.algorithms.image_encoding import make_image_encoder_spec

    return make_image_encoder_spec(algo, codec, name)


def require_actions(config: RunConfig, actions: ActionCodec) -> None:
    """`UnsupportedSpaceError` for actions of a kind that the algorithm does not know, with which do."""
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

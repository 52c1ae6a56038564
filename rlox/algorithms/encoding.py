"""How the networks of an algorithm see observations with images: which encoder, and how it reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rlox.configs import ALGO_CONFIGS, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.spaces import ObservationCodec, short
from rlox.errors import ConfigError, UnsupportedSpaceError
from rlox.parameters.cost import NO_COST, Cost

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.networks import Encoder, EnsembleMLP
    from rlox.policies import ActorCritic

__all__ = ["NO_COST", "Encoding", "Wishes", "encoding_of", "require_actions"]


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
        if self.make is None:
            return net
        from rlox.networks import behind

        return behind(self.make(), net)

    def ensemble(self, critics: EnsembleMLP) -> EnsembleMLP:
        """Critics of features behind one encoder of their own."""
        if self.make is None:
            return critics
        from rlox.networks import EncodedEnsemble

        return EncodedEnsemble(self.make(), critics)

    def around(self, policy: Any, masked: int, shared: bool, orthogonal: bool) -> ActorCritic:
        """An actor and a critic of features behind a `shared` encoder, or each behind its own."""
        if self.make is None:
            return policy  # type: ignore[no-any-return]
        from rlox.networks import behind
        from rlox.policies.encoded import SharedEncoder

        actor, critic = self.pair(shared, orthogonal)
        if shared:
            return SharedEncoder(actor, policy, masked)
        policy.actor, policy.critic = behind(actor, policy.actor), behind(critic, policy.critic)
        return policy  # type: ignore[no-any-return]

    def pair(self, shared: bool, orthogonal: bool) -> tuple[Encoder, Encoder]:
        """Encoders of an actor and a critic, where there are images; the same one if it is `shared`."""
        assert self.make is not None
        from rlox.networks import orthogonal_encoder

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
    from rlox.algorithms.pictures import encoding_of_images

    return encoding_of_images(algo, codec, name)


def require_actions(config: RunConfig, actions: ActionCodec) -> None:
    """`UnsupportedSpaceError` for actions of a kind that the algorithm does not know, with which do."""
    algo, kind = config.algo, actions.kind
    if kind in algo.actions:
        return
    *others, last = (
        name
        for name, other in ALGO_CONFIGS.items()
        if kind in other.actions and other.unit == algo.unit and not other.native_only
    )
    raise UnsupportedSpaceError(
        f"{algo.name} needs {' or '.join(algo.actions)} actions, {config.env.id} has "
        f"{short(actions.space)}; use algo={', '.join(others)}{' or ' if others else ''}{last}"
    )


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

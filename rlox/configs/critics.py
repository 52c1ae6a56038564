"""Fields that algorithms with an actor and Q(s, a) critics share, online or offline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.base import AlgorithmConfig
from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.off_policy import OffPolicyConfig
from rlox.configs.params import CONVOLUTIONS, param
from rlox.errors import ConfigError

CRITICS_NATIVE_FIELDS = frozenset({"tau", "n_critics", "critic_net_arch", "max_grad_norm"})


@dataclass(frozen=True)
class CriticsConfig(AlgorithmConfig):
    """A mixin for a family of algorithms; it comes first among the bases."""

    n_encoders: ClassVar[int] = 2
    needs_bounds: ClassVar[bool] = True

    tau: float = param(
        0.005,
        "step of the target networks towards the trained ones (Polyak averaging)",
        within="(0, 1]",
        source="SB3",
    )
    n_critics: int = param(
        2,
        "number of critics; targets use the lowest",
        within="[1, 64]",
        source="Fujimoto et al. 2018",
    )
    net_arch: tuple[int, ...] = param(
        (256, 256),
        "hidden layer widths, actor and critics",
        within="[1, 65536]",
        source="SB3",
        hint="those of the critics alone are algo.critic_net_arch",
    )
    critic_net_arch: tuple[int, ...] | None = param(
        None, "hidden layer widths of the critics; null: as net_arch", within="[1, 65536]"
    )
    max_grad_norm: float | None = param(
        None, "gradient-norm limit, separately for actor and critics; null: no limit", within="(0, inf)"
    )

    @property
    def hidden_widths(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Hidden widths of the actor and of each critic."""
        critic = self.critic_net_arch
        return self.net_arch, self.net_arch if critic is None else critic

    def layer_widths(self, obs_dim: int, actions: int, discrete: bool = False) -> list[tuple[int, ...]]:
        """Return the widths of the actor, and of each critic, which takes an observation and an action."""
        actor, critic = self.hidden_widths
        return [(obs_dim, *actor, actions), *[(obs_dim + actions, *critic, 1)] * self.n_critics]

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for networks without a hidden layer."""
        super().check(env, buffer)
        encoder = getattr(self, "encoder", "")
        for name, widths in zip(("net_arch", "critic_net_arch"), self.hidden_widths, strict=True):
            may_be_empty = encoder in CONVOLUTIONS and not getattr(self, "use_sde", False)
            if not widths and not may_be_empty:
                raise ConfigError(
                    f"algo.{name} is empty, expected at least one hidden width, e.g. [256,256]; it may be "
                    "empty only after an image encoder that algo.encoder names, if gSDE is not used"
                )


@dataclass(frozen=True)
class ActorCriticConfig(CriticsConfig, OffPolicyConfig):
    """Defaults follow Stable-Baselines3; an algorithm overrides those that differ."""

    native_fields: ClassVar[frozenset[str]] = OffPolicyConfig.native_fields | CRITICS_NATIVE_FIELDS

    def activation_count(self, actions: int) -> int:
        """Return the number of activations in the hidden layers of the actor and all critics."""
        actor, critic = self.hidden_widths
        return 2 * (sum(actor) + self.n_critics * sum(critic)) + 4 * max(*actor, *critic, 1)

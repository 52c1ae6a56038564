"""TD3 (Fujimoto et al. 2018, arXiv:1802.09477) and DDPG (Lillicrap et al. 2016, arXiv:1509.02971)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rlox.configs.base import AlgorithmConfig
from rlox.configs.off_policy import ActorCriticConfig
from rlox.configs.params import param
from rlox.configs.schedules import Schedule, schedule


class TD3Settings(NamedTuple):
    """The settings that TD3 adds to the deterministic policy gradient, besides the second critic."""

    policy_delay: int = 1
    target_noise: float = 0.0
    noise_clip: float = 0.0


@dataclass(frozen=True)
class DeterministicConfig(ActorCriticConfig):
    """Noise is in units of half the action range, as policies act in [-1, 1]."""

    action_kinds: ClassVar[tuple[str, ...]] = ("Box",)
    native_fields: ClassVar[frozenset[str]] = ActorCriticConfig.native_fields | {"exploration_noise"}

    learning_rate: Schedule = schedule(
        1e-3, "Adam step size of actor and critics", within="(0, inf)", source="SB3"
    )
    net_arch: tuple[int, ...] = param(
        (400, 300),
        "hidden layer widths, actor and critics",
        within="[1, 65536]",
        source="SB3; Lillicrap et al. 2016",
        hint="those of the critics alone are algo.critic_net_arch",
    )
    exploration_noise: float = param(
        0.1,
        "standard deviation of the noise on actions taken",
        within="[0, inf)",
        source="Fujimoto et al. 2018",
    )

    @property
    def td3_settings(self) -> TD3Settings:
        """The actor's update interval, and the noise on the target's action with its limit."""
        return TD3Settings()


TD3_NATIVE_FIELDS = frozenset({"policy_delay", "target_noise", "noise_clip"})


@dataclass(frozen=True)
class TD3FieldsConfig(AlgorithmConfig):
    """The fields of `TD3Settings`; a mixin that comes first among the bases."""

    policy_delay: int = param(
        2,
        "critic updates for each update of the actor and the target networks",
        within="[1, inf)",
        source="Fujimoto et al. 2018",
    )
    target_noise: float = param(
        0.2,
        "standard deviation of the noise on the target's action",
        within="[0, inf)",
        source="Fujimoto et al. 2018",
    )
    noise_clip: float = param(
        0.5,
        "limit of the noise on the target's action",
        within="[0, inf)",
        source="Fujimoto et al. 2018",
    )

    @property
    def td3_settings(self) -> TD3Settings:
        """The configured settings."""
        return TD3Settings(self.policy_delay, self.target_noise, self.noise_clip)


@dataclass(frozen=True)
class TD3Config(TD3FieldsConfig, DeterministicConfig):
    """TD3, twin delayed deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477).

    Defaults follow Stable-Baselines3, plus the paper's exploration noise, which SB3 does not have.
    """

    native_fields: ClassVar[frozenset[str]] = DeterministicConfig.native_fields | TD3_NATIVE_FIELDS

    name: str = param("td3", "the algorithm", choices=("td3",))


@dataclass(frozen=True)
class DDPGConfig(DeterministicConfig):
    """DDPG (Lillicrap et al. 2016, arXiv:1509.02971): TD3 with one critic, no delay and no target noise."""

    name: str = param("ddpg", "the algorithm", choices=("ddpg",))
    n_critics: int = param(
        1,
        "number of critics; targets use the lowest",
        within="[1, 64]",
        source="Lillicrap et al. 2016",
    )

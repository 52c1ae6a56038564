"""Configuration that offline algorithms with critics share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.buffers import BufferConfig
from rlox.configs.critics import CriticsConfig
from rlox.configs.env import EnvConfig
from rlox.configs.offline import OfflineNetworksConfig
from rlox.configs.params import param
from rlox.errors import ConfigError

BY_RETURNS = "returns"


@dataclass(frozen=True)
class OfflineCriticsConfig(CriticsConfig, OfflineNetworksConfig):
    """Policies act in [-1, 1], which is scaled to the bounds of the action space."""

    action_kinds: ClassVar[tuple[str, ...]] = ("Box",)

    gamma: float = param(0.99, "discount factor", within="[0, 1]")
    scale_rewards: str = param(
        "1",
        "factor of rewards: a number, or returns: 1000 / (highest - lowest return)",
        source="Kostrikov et al. 2022, for returns",
    )
    act_high: float | None = param(
        None,
        "without an environment: actions are in [-act_high, act_high]; null: 1",
        within="(0, inf)",
    )

    @property
    def reward_factor(self) -> float | None:
        """The factor of rewards; `None` if the dataset's returns determine it."""
        return None if self.scale_rewards == BY_RETURNS else float(self.scale_rewards)

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` unless rewards are scaled by a positive number or by returns."""
        super().check(env, buffer)
        try:
            factor = self.reward_factor
        except ValueError:
            factor = -1.0
        if factor is not None and not 0.0 < factor < float("inf"):
            raise ConfigError(
                f"algo.scale_rewards={self.scale_rewards}: expected {BY_RETURNS} or a positive number"
            )

"""DQN (Mnih et al. 2015, doi:10.1038/nature14236), with the parts of Rainbow that need no other loss."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.off_policy import OffPolicyConfig
from rlox.configs.params import param
from rlox.configs.schedules import Schedule, schedule
from rlox.errors import ConfigError

THREE = ("exploration_initial_eps", "exploration_final_eps", "exploration_fraction")


@dataclass(frozen=True)
class DQNConfig(OffPolicyConfig):
    """Defaults follow Stable-Baselines3, whose recipe is Atari's; small tasks want their preset."""

    masks: ClassVar[bool] = True

    name: str = param("dqn", "the algorithm", choices=("dqn",))
    learning_rate: Schedule = schedule(1e-4, "Adam step size", within="(0, inf)", source="SB3")
    batch_size: int = param(
        32, "transitions in a batch", within="[1, inf)", source="Mnih et al. 2015"
    )
    train_freq: int = param(
        4, "environment steps between trainings", within="[1, inf)", source="Mnih et al. 2015"
    )
    target_update_interval: int = param(
        10_000,
        "environment steps between copies to the target network",
        within="[1, inf)",
        source="Mnih et al. 2015",
    )
    tau: float = param(
        1.0,
        "how far a copy moves the target network; 1: all the way",
        within="(0, 1]",
        source="SB3",
    )
    exploration_fraction: float = param(
        0.1, "part of total_steps over which epsilon falls", within="(0, 1]", source="SB3"
    )
    exploration_initial_eps: float = param(
        1.0, "epsilon at the start", within="[0, 1]", source="Mnih et al. 2015"
    )
    exploration_final_eps: float = param(0.05, "epsilon at the end", within="[0, 1]", source="SB3")
    exploration_eps: Schedule | None = schedule(
        None,
        "in place of these three: epsilon as a schedule, e.g. [[0,1],[0.1,0.1],[1,0.01]]",
        within="[0, 1]",
        instead_of=THREE,
    )
    double_dqn: bool = param(
        False, "the online network chooses the target's action", source="van Hasselt et al. 2016"
    )
    dueling: bool = param(
        False, "separate streams for value and advantage", source="Wang et al. 2016"
    )
    loss: str = param(
        "huber",
        "of the temporal-difference error; huber turns linear at 1",
        choices=("huber", "mse"),
    )
    max_grad_norm: float = param(
        10.0, "global gradient-norm limit", within="(0, inf)", source="SB3"
    )
    net_arch: tuple[int, ...] = param(
        (64, 64), "hidden layer widths", within="[1, 65536]", source="SB3"
    )

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Epsilon is said once."""
        super().check(env, buffer)
        defaults = {f.name: f.default for f in fields(self)}
        given = [name for name in THREE if getattr(self, name) != defaults[name]]
        if self.exploration_eps is not None and given:
            raise ConfigError(
                f"algo.exploration_eps and algo.{given[0]}={getattr(self, given[0])}: give one of them"
            )

    @property
    def scheduled(self) -> bool:
        """Epsilon too."""
        if self.exploration_eps is not None:
            return super().scheduled
        return super().scheduled or self.exploration_initial_eps != self.exploration_final_eps

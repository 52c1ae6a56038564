"""Rainbow (Hessel et al. 2018, arXiv:1710.02298): DQN with all of its extensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rlox.configs.dqn import DQNConfig
from rlox.configs.params import param
from rlox.configs.schedules import Schedule, schedule


@dataclass(frozen=True)
class RainbowConfig(DQNConfig):
    """Defaults of Hessel et al. 2018, table 1; all components but prioritized replay can be switched off.

    The paper counts Atari frames, four for each environment step. The hidden layers, which follow
    convolutions in the paper, and the gradient-norm limit are DQN's.
    """

    buffers: ClassVar[tuple[str, ...]] = ("prioritized",)
    drops: ClassVar[Mapping[str, str]] = {"policy": "builds its own network, of noisy and dueling layers"}
    default_overrides: ClassVar[dict[str, Any]] = {"env.n_envs": 1, "buffer.alpha": 0.5}  # omega of table 1

    name: str = param("rainbow", "the algorithm", choices=("rainbow",))
    learning_rate: Schedule = schedule(
        6.25e-5, "Adam step size", within="(0, inf)", source="Hessel et al. 2018, table 1"
    )
    backend: str = param("torch", "library that computes the updates", choices=("torch",))
    adam_eps: float = param(1.5e-4, "Adam's epsilon", within="(0, inf)", source="Hessel et al. 2018, table 1")
    learning_starts: int = param(
        20_000,
        "environment steps of random actions before learning",
        within="[0, inf)",
        source="Hessel et al. 2018, table 1: 80,000 frames",
    )
    target_update_interval: int = param(
        8_000,
        "environment steps between copies to the target network",
        within="[1, inf)",
        source="Hessel et al. 2018, table 1: 32,000 frames",
    )
    n_step: int = param(
        3,
        "number of rewards summed before bootstrapping, fewer where an episode ends",
        within="[1, 1024]",
        source="Hessel et al. 2018, table 1",
    )
    double_dqn: bool = param(
        True,
        "double Q-learning: the online network chooses the target's action",
        source="van Hasselt et al. 2016",
    )
    dueling: bool = param(
        True, "dueling network: separate outputs for value and advantages", source="Wang et al. 2016"
    )
    noisy: bool = param(
        True,
        "all linear layers have learned noise, which explores in place of epsilon",
        instead_of=DQNConfig.__dataclass_fields__["noisy"].metadata["instead_of"],
        source="Hessel et al. 2018, table 1: no epsilon, sigma 0.5",
    )
    distribution: str = param(
        "categorical",
        "what the network learns about returns: their mean, probabilities of atoms (C51), quantiles (QR-DQN)",
        choices=("none", "categorical", "quantile"),
        source="Hessel et al. 2018, table 1: 51 atoms from -10 to 10",
    )

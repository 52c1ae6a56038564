"""VPG: vanilla policy gradient with a value function as baseline (Sutton et al. 2000)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rlox.configs import param
from rlox.configs.on_policy import OnPolicyConfig
from rlox.plugins import AlgorithmPlugin


@dataclass(frozen=True)
class VPGConfig(OnPolicyConfig):
    """VPG takes one step of Adam on each rollout."""

    # inherited fields that VPG does not use
    drops: ClassVar[Mapping[str, str]] = {
        "ent_coef": "has no entropy bonus",
        "normalize_advantages": "always standardises advantages",
    }

    name: str = param("vpg", "the algorithm", choices=("vpg",))
    n_steps: int = param(64, "rollout length per environment", within="[1, inf)")


VPG_PLUGIN = AlgorithmPlugin(VPGConfig, facade="rlox_example.vpg:VPG")

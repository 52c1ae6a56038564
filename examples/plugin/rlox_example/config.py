"""VPG: the vanilla policy gradient with a value function for a baseline (Sutton et al. 2000)."""

from dataclasses import dataclass

from rlox.configs import param
from rlox.configs.on_policy import OnPolicyConfig
from rlox.plugins import AlgorithmPlugin


@dataclass(frozen=True)
class VPGConfig(OnPolicyConfig):
    """One step of Adam on each rollout."""

    name: str = param("vpg", "the algorithm", choices=("vpg",))
    n_steps: int = param(64, "rollout length per environment", within="[1, inf)")


VPG_PLUGIN = AlgorithmPlugin(VPGConfig, facade="rlox_example.vpg:VPG")

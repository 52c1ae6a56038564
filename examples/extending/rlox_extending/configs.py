"""The configurations of the examples; without torch, so that help and checks are fast."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rlox.configs import PPOConfig, SACConfig, Schedule, param, schedule
from rlox.plugins import AlgorithmPlugin


@dataclass(frozen=True)
class SACSmallActionsConfig(SACConfig):
    """SAC with a penalty on large actions."""

    action_kinds: ClassVar[tuple[str, ...]] = ("Box",)

    name: str = param("sac_small_actions", "the algorithm", choices=("sac_small_actions",))
    action_cost: float = param(0.0, "weight of the mean squared action in the loss", within="[0, inf)")


@dataclass(frozen=True)
class PPOKLConfig(PPOConfig):
    """PPO with a penalty on the KL divergence in place of clipping (Schulman et al. 2017, section 4)."""

    # inherited fields that this algorithm does not use
    drops: ClassVar[Mapping[str, str]] = {
        "clip_eps": "has a penalty in place of clipping",
        "anneal_clip": "has a penalty in place of clipping",
        "clip_vloss": "has a penalty in place of clipping",
    }

    name: str = param("ppo_kl", "the algorithm", choices=("ppo_kl",))
    kl_coef: float = param(1.0, "initial weight of the KL divergence", within="(0, inf)")
    kl_target: float = param(0.01, "KL divergence of an update that the weight aims at", within="(0, inf)")


@dataclass(frozen=True)
class PPORNDConfig(PPOConfig):
    """PPO with the bonus of random network distillation (Burda et al. 2018, arXiv:1810.12894)."""

    name: str = param("ppo_rnd", "the algorithm", choices=("ppo_rnd",))
    bonus_coef: float = param(0.5, "weight of the bonus in the reward", within="[0, inf)")
    bonus_learning_rate: float = param(1e-3, "Adam step size of the predictor", within="(0, inf)")


@dataclass(frozen=True)
class CrossQConfig(SACConfig):
    """CrossQ: SAC with batch normalisation and without target networks (Bhatt et al. 2024)."""

    action_kinds: ClassVar[tuple[str, ...]] = ("Box",)
    # inherited fields that this algorithm does not use
    drops: ClassVar[Mapping[str, str]] = {
        "tau": "has no target networks",
        "target_update_interval": "has no target networks",
        "use_sde": "explores without gSDE",
        "sde_sample_freq": "explores without gSDE",
        "log_std_init": "explores without gSDE",
        "policy": "builds its own networks",
    }

    name: str = param("crossq", "the algorithm", choices=("crossq",))
    learning_rate: Schedule = schedule(
        1e-3, "Adam step size", within="(0, inf)", source="Bhatt et al. 2024, table 4"
    )
    batch_size: int = param(256, "transitions per update", within="[2, inf)")
    policy_delay: int = param(3, "updates of the critics for each of the actor", within="[1, inf)")
    bn_momentum: float = param(0.01, "weight of a batch in the running mean and variance", within="(0, 1]")


@dataclass(frozen=True)
class TwoPPOConfig(PPOConfig):
    """PPO for two agents, with a loss for each of them."""

    name: str = param("two_ppo", "the algorithm", choices=("two_ppo",))


SAC_SMALL_ACTIONS = AlgorithmPlugin(
    SACSmallActionsConfig, facade="rlox_extending.sac_small_actions:SACSmallActions"
)
PPO_KL = AlgorithmPlugin(PPOKLConfig, facade="rlox_extending.ppo_kl:PPOKL")
PPO_RND = AlgorithmPlugin(PPORNDConfig, facade="rlox_extending.ppo_rnd:PPORND")
CROSSQ = AlgorithmPlugin(CrossQConfig, facade="rlox_extending.crossq:CrossQ")
TWO_PPO = AlgorithmPlugin(TwoPPOConfig, facade="rlox_extending.two_ppo:TwoPPO")

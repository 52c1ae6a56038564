"""rlox's own algorithms: one entry for each, of the type of plugins. Lists and exports follow from it."""

from __future__ import annotations

from rlox.configs.a2c import A2CConfig
from rlox.configs.bc import BCConfig
from rlox.configs.cql import CQLConfig
from rlox.configs.decision_transformer import DecisionTransformerConfig
from rlox.configs.dpo import DPOConfig, OnlineDPOConfig
from rlox.configs.dqn import DQNConfig
from rlox.configs.grpo import GRPOConfig
from rlox.configs.hybrid_ppo import HybridPPOConfig
from rlox.configs.iql import IQLConfig
from rlox.configs.ppo import PPOConfig
from rlox.configs.pqn import PQNConfig
from rlox.configs.rainbow import RainbowConfig
from rlox.configs.recurrent_ppo import RecurrentPPOConfig
from rlox.configs.rloo import RLOOConfig
from rlox.configs.sac import SACConfig
from rlox.configs.sft import SFTConfig
from rlox.configs.td3 import DDPGConfig, TD3Config
from rlox.configs.td3_bc import TD3BCConfig
from rlox.configs.tqc import TQCConfig
from rlox.plugins import AlgorithmPlugin

__all__ = ["BUILTIN_ALGORITHMS"]

BUILTIN_ALGORITHMS = {
    plugin.config.name: plugin
    for plugin in (
        AlgorithmPlugin(PPOConfig, "rlox.algorithms.ppo:PPO"),
        AlgorithmPlugin(RecurrentPPOConfig, "rlox.algorithms.recurrent_ppo:RecurrentPPO"),
        AlgorithmPlugin(A2CConfig, "rlox.algorithms.a2c:A2C"),
        AlgorithmPlugin(PQNConfig, "rlox.algorithms.pqn:PQN"),
        AlgorithmPlugin(DQNConfig, "rlox.algorithms.dqn:DQN"),
        AlgorithmPlugin(RainbowConfig, "rlox.algorithms.rainbow:Rainbow"),
        AlgorithmPlugin(SACConfig, "rlox.algorithms.sac:SAC"),
        AlgorithmPlugin(TQCConfig, "rlox.algorithms.tqc:TQC"),
        AlgorithmPlugin(TD3Config, "rlox.algorithms.td3:TD3"),
        AlgorithmPlugin(DDPGConfig, "rlox.algorithms.ddpg:DDPG"),
        AlgorithmPlugin(HybridPPOConfig, "rlox.algorithms.hybrid_ppo:HybridPPO"),
        AlgorithmPlugin(BCConfig, "rlox.algorithms.bc:BC"),
        AlgorithmPlugin(TD3BCConfig, "rlox.algorithms.td3_bc:TD3BC"),
        AlgorithmPlugin(IQLConfig, "rlox.algorithms.iql:IQL"),
        AlgorithmPlugin(CQLConfig, "rlox.algorithms.cql:CQL"),
        AlgorithmPlugin(
            DecisionTransformerConfig, "rlox.algorithms.decision_transformer:DecisionTransformer"
        ),
        AlgorithmPlugin(SFTConfig, "rlox.algorithms.sft:SFT"),
        AlgorithmPlugin(GRPOConfig, "rlox.algorithms.grpo:GRPO"),
        AlgorithmPlugin(RLOOConfig, "rlox.algorithms.rloo:RLOO"),
        AlgorithmPlugin(DPOConfig, "rlox.algorithms.dpo:DPO"),
        AlgorithmPlugin(OnlineDPOConfig, "rlox.algorithms.online_dpo:OnlineDPO"),
    )
}

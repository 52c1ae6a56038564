"""Frozen, torch-free dataclasses for algorithms, environments, buffers and loggers: the only defaults."""

from rlox.configs.a2c import A2CConfig
from rlox.configs.bc import BCConfig
from rlox.configs.buffers import (
    BUFFER_CONFIGS,
    AutoBufferConfig,
    BufferConfig,
    OfflineConfig,
    PrioritizedConfig,
    ReplayConfig,
    RolloutBufferConfig,
    UniformConfig,
)
from rlox.configs.check import dotted_items, make, make_run, require_device, to_plain, upgrade_saved_config
from rlox.configs.cql import CQLConfig
from rlox.configs.decision_transformer import DecisionTransformerConfig
from rlox.configs.dpo import DPOConfig, OnlineDPOConfig
from rlox.configs.dqn import DQNConfig
from rlox.configs.env import EnvConfig
from rlox.configs.grpo import GRPOConfig
from rlox.configs.hybrid_ppo import HybridPPOConfig
from rlox.configs.iql import IQLConfig
from rlox.configs.loggers import LOGGER_CONFIGS, LoggerConfig
from rlox.configs.name_suggestions import nearest
from rlox.configs.params import param
from rlox.configs.ppo import PPOConfig
from rlox.configs.rainbow import RainbowConfig
from rlox.configs.recurrent_ppo import RecurrentPPOConfig
from rlox.configs.rloo import RLOOConfig
from rlox.configs.run import (
    ALGO_CONFIGS,
    AlgoConfig,
    CheckpointConfig,
    EvalConfig,
    LogConfig,
    RunConfig,
    StopConfig,
)
from rlox.configs.sac import SACConfig
from rlox.configs.sft import SFTConfig
from rlox.configs.td3 import DDPGConfig, TD3Config
from rlox.configs.td3_bc import TD3BCConfig

__all__ = [
    "ALGO_CONFIGS",
    "BUFFER_CONFIGS",
    "LOGGER_CONFIGS",
    "A2CConfig",
    "AlgoConfig",
    "AutoBufferConfig",
    "BCConfig",
    "BufferConfig",
    "CQLConfig",
    "CheckpointConfig",
    "DDPGConfig",
    "DPOConfig",
    "DQNConfig",
    "DecisionTransformerConfig",
    "EnvConfig",
    "EvalConfig",
    "GRPOConfig",
    "HybridPPOConfig",
    "IQLConfig",
    "LogConfig",
    "LoggerConfig",
    "OfflineConfig",
    "OnlineDPOConfig",
    "PPOConfig",
    "PrioritizedConfig",
    "RLOOConfig",
    "RainbowConfig",
    "RecurrentPPOConfig",
    "ReplayConfig",
    "RolloutBufferConfig",
    "RunConfig",
    "SACConfig",
    "SFTConfig",
    "StopConfig",
    "TD3BCConfig",
    "TD3Config",
    "UniformConfig",
    "dotted_items",
    "make",
    "make_run",
    "nearest",
    "param",
    "require_device",
    "to_plain",
    "upgrade_saved_config",
]

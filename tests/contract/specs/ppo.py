"""PPO: rollouts, epochs of shuffled minibatches, two schedules."""

from __future__ import annotations

from helpers import factored_actions, masked_envs  # registers the environments
from helpers.observation_probes import EYE

from rlox.algorithms import PPO

from . import AlgorithmSpec

MASKED = {"env_id": masked_envs.BY_INFO, "action_mask": "info"}
IMAGE = {"env_id": EYE, "net_arch": (8,), "encoder_features": 8}
NORMALISED = {"normalize_obs": True, "normalize_reward": True}

SPEC = AlgorithmSpec(
    facade=PPO,
    small={
        "n_envs": 4,
        "seed": 2,
        "n_steps": 50,
        "n_epochs": 2,
        "anneal_lr": True,
        "backend": "torch",
    },
    cases={
        "discrete": {"env_id": "CartPole-v1"},
        "discrete normalised": {"env_id": "CartPole-v1", **NORMALISED},
        "box normalised": {"env_id": "Pendulum-v1", **NORMALISED},
        "gsde": {"env_id": "Pendulum-v1", "use_sde": True, "sde_sample_freq": 4},
        "masked, normalised": {**MASKED, **NORMALISED},
        "factored, masked": {"env_id": factored_actions.MASKED_MATCH, "action_mask": "info"},
        "an image and a vector": IMAGE,
        "native, normalised": {"env_id": "CartPole-v1", "backend": "native", **NORMALISED},
        "native, whole rollouts": {"env_id": "Acrobot-v1", "backend": "native"},
        "native, masked": {**MASKED, "backend": "native"},
        "native, gsde": {"env_id": "Pendulum-v1", "use_sde": True, "backend": "native"},
    },
    total=1600,
    factored=True,
    probe={"n_envs": 4, "n_steps": 32, "learning_rate": 5e-3, "net_arch": (16,)},
    probe_total=2_500,
    steady={"anneal_lr": False},
    tiny={"n_envs": 2, "n_steps": 30, "net_arch": (4,), "n_epochs": 1, "batch_size": 30},
    without_effect={
        "native, normalised: state/source/env/elapsed": "counts towards the 500-step limit, which "
        "is out of reach here",
        "discrete normalised: state/source/env/elapsed": "counts towards the 500-step limit, which "
        "is out of reach here",
    },
)

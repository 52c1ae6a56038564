"""One task each that recurrent and masked PPO, masked DQN, discrete SAC, DDPG, noisy DQN, C51, QR-DQN and
Rainbow solve: the runs, table and figure of experiments/one_task_each.

    pip install '.[peers]' && python benchmarks/learning/one_task_each.py
"""

from __future__ import annotations

from typing import Any

from classic_control import Campaign, Leg, System, main

Group = dict[str, Any]

# rl-zoo3, hyperparams/ppo_lstm.yml, CartPoleNoVel-v1: the settings that PPO without a memory has too.
MEMORYLESS: Group = {
    "n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8, "ent_coef": 0.0,
    "learning_rate": 1e-3, "anneal_lr": True, "clip_eps": 0.2, "anneal_clip": True,
    "activation": "relu", "ortho_init": False, "net_arch": [64],
}  # fmt: skip
RECURRENT = MEMORYLESS | {"lstm_hidden_size": 64, "enable_critic_lstm": True}
ONE_ENV: Group = {"n_envs": 1}
EIGHT_ENVS: Group = {"n_envs": 8}
MASKS: Group = {"action_mask": "info"}
MASKED = EIGHT_ENVS | MASKS
NO_VELOCITIES = EIGHT_ENVS | {
    "wrappers": ["hide_velocities"],
    "normalize_obs": True,
    "normalize_reward": True,
}

# Our own settings, as in tests/learning/test_masks_learn.py: nobody publishes settings for the lock.
LOCK_PPO: Group = {
    "n_steps": 64, "batch_size": 128, "learning_rate": 2e-3, "ent_coef": 0.02, "net_arch": [32],
}  # fmt: skip
LOCK_DQN: Group = {
    "learning_rate": 2e-3, "batch_size": 64, "learning_starts": 500, "train_freq": 8, "gradient_steps": 4,
    "target_update_interval": 200, "exploration_fraction": 0.5, "gamma": 0.95, "net_arch": [64],
}  # fmt: skip
# Our own settings, tried with seed 100: with masks it played optimally.
TAXI: Group = {
    "n_steps": 128, "batch_size": 256, "n_epochs": 10, "learning_rate": 3e-3, "anneal_lr": True,
    "ent_coef": 0.05, "net_arch": [64],
}  # fmt: skip
# rl-zoo3, hyperparams/ddpg.yml, Pendulum: as many updates as steps; here one update after each step.
DDPG: Group = {
    "learning_rate": 1e-3, "gamma": 0.98, "learning_starts": 10_000, "train_freq": 1, "gradient_steps": 1,
    "exploration_noise": 0.1, "net_arch": [400, 300],
}  # fmt: skip

DQN: dict[str, Group] = {"env": ONE_ENV, "buffer": {"capacity": 100_000}}
# rl-zoo3, hyperparams/dqn.yml, CartPole-v1, without epsilon.
NOISY: Group = {
    "learning_rate": 2.3e-3, "batch_size": 64, "learning_starts": 1000, "gamma": 0.99,
    "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "net_arch": [256, 256],
}  # fmt: skip
# Our own settings, tried with seed 100: the update schedule of DQN, with smoother target updates.
DISCRETE_SAC: Group = {
    "learning_rate": 1e-3, "anneal_lr": True, "batch_size": 64, "learning_starts": 1000, "tau": 0.05,
    "train_freq": 256, "gradient_steps": 128, "ent_coef": "0.05", "net_arch": [256, 256],
}  # fmt: skip
# CleanRL, c51.py with the settings of its model card for CartPole-v1 (481.2 ± 20.5 after 500,000 steps).
CATEGORICAL: Group = {
    "learning_rate": 2.5e-4, "adam_eps": 0.01 / 128, "max_grad_norm": None, "batch_size": 128,
    "learning_starts": 10_000, "gamma": 0.99, "target_update_interval": 500, "train_freq": 10,
    "gradient_steps": 1, "exploration_fraction": 0.5, "exploration_final_eps": 0.05, "net_arch": [120, 84],
    "distribution": "categorical", "n_atoms": 101, "v_min": -100, "v_max": 100,
}  # fmt: skip
# The same with quantiles instead of atoms.
QUANTILE = {key: value for key, value in CATEGORICAL.items() if key not in ("n_atoms", "v_min", "v_max")} | {
    "distribution": "quantile",
    "n_quantiles": 50,
}
SMALL_BUFFER = {"env": ONE_ENV, "buffer": {"capacity": 10_000}}


RLOX, SB3_CONTRIB = "rlox", "sb3"

CAMPAIGN = Campaign(
    "one_task_each",
    "ppo",
    (
        Leg(
            "CartPole-v1", 100_000, seeds=5, label="recurrent_PPO", solved=475,
            task="CartPole-v1 without velocities", systems=(
                System("recurrent PPO", RLOX, "recurrent_ppo", {"env": NO_VELOCITIES, "algo": RECURRENT}),
                System("PPO", RLOX, "ppo", {"env": NO_VELOCITIES, "algo": MEMORYLESS}),
                System(
                    "sb3-contrib RecurrentPPO", SB3_CONTRIB, "recurrent_ppo",
                    {"env": NO_VELOCITIES, "algo": RECURRENT},
                ),
            ),
        ),
        Leg(
            "lock:Lock-v0", 16_384, seeds=5, label="masked_PPO", solved=1, task="Lock",
            systems=(
                System("masked PPO", RLOX, "ppo", {"env": MASKED, "algo": LOCK_PPO}),
                System("PPO", RLOX, "ppo", {"env": EIGHT_ENVS, "algo": LOCK_PPO}),
                System("sb3-contrib MaskablePPO", SB3_CONTRIB, "ppo", {"env": MASKED, "algo": LOCK_PPO}),
            ),
        ),
        Leg(
            "lock:Lock-v0", 8_000, seeds=5, label="masked_DQN", solved=1, task="Lock",
            systems=(
                System("masked DQN", RLOX, "dqn", {"env": {**ONE_ENV, **MASKS}, "algo": LOCK_DQN}),
                System("DQN", RLOX, "dqn", {"env": ONE_ENV, "algo": LOCK_DQN}),
            ),
        ),
        Leg(
            "Taxi-v4", 200_000, seeds=5, label="masked_PPO_Taxi", solved=7.5, task="Taxi-v4",
            systems=(
                System("masked PPO", RLOX, "ppo", {"env": MASKED, "algo": TAXI}),
                System("PPO", RLOX, "ppo", {"env": EIGHT_ENVS, "algo": TAXI}),
                System("sb3-contrib MaskablePPO", SB3_CONTRIB, "ppo", {"env": MASKED, "algo": TAXI}),
            ),
        ),
        Leg(
            "CartPole-v1", 50_000, seeds=5, label="discrete_SAC", solved=475, task="CartPole-v1",
            systems=(System("discrete SAC", RLOX, "sac", {"env": ONE_ENV, "algo": DISCRETE_SAC}),),
        ),
        Leg(
            "Pendulum-v1", 20_000, seeds=5, label="DDPG", solved=-200, task="Pendulum-v1",
            systems=(
                System(
                    "DDPG", RLOX, "ddpg",
                    {"env": ONE_ENV, "buffer": {"capacity": 200_000}, "algo": DDPG},
                ),
            ),
        ),
        Leg(
            "CartPole-v1", 50_000, seeds=5, label="noisy_DQN", solved=475, task="CartPole-v1",
            systems=(System("noisy DQN", RLOX, "dqn", {**DQN, "algo": NOISY}),),
        ),
        Leg(
            "CartPole-v1", 500_000, seeds=5, label="C51", solved=475, task="CartPole-v1",
            systems=(System("C51", RLOX, "dqn", {**SMALL_BUFFER, "algo": CATEGORICAL}),),
        ),
        Leg(
            "CartPole-v1", 500_000, seeds=5, label="QR_DQN", solved=475, task="CartPole-v1",
            systems=(
                System("QR-DQN", RLOX, "dqn", {**SMALL_BUFFER, "algo": QUANTILE}),
                System("sb3-contrib QRDQN", SB3_CONTRIB, "dqn", {**SMALL_BUFFER, "algo": QUANTILE}),
            ),
        ),
        Leg(
            "CartPole-v1", 40_000, seeds=5, label="Rainbow", solved=475, task="CartPole-v1",
            systems=(System("Rainbow", RLOX, "rainbow"),),
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    main(CAMPAIGN, __doc__)

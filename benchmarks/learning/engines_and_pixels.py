"""PPO, SAC and DQN on MiniGrid and MuJoCo, from vectors and from pixels, beside Stable-Baselines3: the runs,
table and figure of experiments/engines_and_pixels.

    pip install '.[peers,minigrid,mujoco]' && python benchmarks/learning/engines_and_pixels.py
"""

from __future__ import annotations

from classic_control import Campaign, Leg, Settings, System, main

EMPTY_ROOM_ENV = "MiniGrid-Empty-Random-5x5-v0"
IMAGE_WRAPPER = {"wrappers": ["minigrid_image"]}  # 7 x 7 cells of 3 numbers, as pixels
NETWORK = {"encoder": "small", "net_arch": [64]}
# Our own settings, found with seeds from 100 on so that Stable-Baselines3 solves the task.
PPO_PIXELS: Settings = {
    "env": {"n_envs": 8, **IMAGE_WRAPPER},
    "algo": {
        **NETWORK, "n_steps": 128, "batch_size": 64, "n_epochs": 4, "learning_rate": "lin_1e-3",
        "ent_coef": 0.01,
    },
}  # fmt: skip
DQN_PIXELS: Settings = {
    "env": {"n_envs": 1, **IMAGE_WRAPPER},
    "buffer": {"capacity": 50_000},
    "algo": {
        **NETWORK, "gamma": 0.95, "learning_rate": 5e-4, "batch_size": 64, "learning_starts": 1_000,
        "train_freq": 4, "gradient_steps": 1, "target_update_interval": 500,
        "exploration_fraction": 0.5, "exploration_final_eps": 0.05,
    },
}  # fmt: skip


def pixels(algo: str, steps: int, settings: Settings) -> Leg:
    """Return a leg in which both systems have the same settings."""
    systems = tuple(System(*names, settings=settings) for names in (("rlox",), ("sb3", "sb3")))
    name = algo.upper()
    task = f"{name}, {EMPTY_ROOM_ENV}, pixels"
    return Leg(EMPTY_ROOM_ENV, steps, 5, f"{name}_pixels", algo, systems, task)


def tuned(algo: str, env: str, steps: int, seeds: int) -> Leg:
    """Return a leg in which both systems use conf/tuned."""
    name = algo.upper()
    return Leg(env, steps, seeds, f"{name}_{env}", algo, task=f"{name}, {env}")


CAMPAIGN = Campaign(
    "engines_and_pixels",
    "",
    (
        tuned("ppo", "MiniGrid-DoorKey-5x5-v0", 100_000, 5),
        pixels("ppo", 50_000, PPO_PIXELS),
        pixels("dqn", 30_000, DQN_PIXELS),
        tuned("ppo", "HalfCheetah-v5", 300_000, 3),
        tuned("sac", "Hopper-v5", 100_000, 3),
    ),
)

if __name__ == "__main__":
    main(CAMPAIGN, __doc__)

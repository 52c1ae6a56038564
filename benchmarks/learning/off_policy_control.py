"""SAC and TD3 on continuous control beside Stable-Baselines3: the runs, table and figure of
experiments/off_policy_control.

    pip install '.[peers,mujoco]' && python benchmarks/learning/off_policy_control.py
"""

from __future__ import annotations

from classic_control import Campaign, Leg, main

CAMPAIGN = Campaign(
    "off_policy_control",
    "sac",
    (
        Leg("Pendulum-v1", 20_000, 10, label="Pendulum-v1_SAC", task="SAC, Pendulum-v1"),
        Leg("Pendulum-v1", 20_000, 10, label="Pendulum-v1_TD3", algo="td3", task="TD3, Pendulum-v1"),
        Leg(
            "MountainCarContinuous-v0", 50_000, 5, label="MountainCarContinuous-v0_SAC",
            task="SAC, MountainCarContinuous-v0",
        ),
        Leg(
            "HalfCheetah-v5", 100_000, 3, label="HalfCheetah-v5_SAC", task="SAC, HalfCheetah-v5"
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    main(CAMPAIGN, __doc__)

"""PPO on classic control beside Stable-Baselines3: the runs, table and figure of
experiments/ppo_classic_control.

    pip install '.[peers]' && python benchmarks/learning/ppo_classic_control.py
"""

from __future__ import annotations

from classic_control import Campaign, Leg, main

CAMPAIGN = Campaign(
    "ppo_classic_control",
    "ppo",
    (
        Leg("CartPole-v1", 100_000, seeds=10),
        Leg("Acrobot-v1", 200_000, seeds=5),
        Leg("Pendulum-v1", 100_000, seeds=5),
    ),
)

if __name__ == "__main__":
    main(CAMPAIGN, __doc__)

"""A2C on classic control beside Stable-Baselines3: the runs, table and figure of
experiments/a2c_classic_control.

    pip install '.[peers]' && python benchmarks/learning/a2c_classic_control.py
"""

from __future__ import annotations

from classic_control import Campaign, Leg, main

CAMPAIGN = Campaign(
    "a2c_classic_control",
    "a2c",
    (
        Leg("CartPole-v1", 100_000, seeds=10, label="CartPole-v1_100k"),
        Leg("CartPole-v1", 500_000, seeds=10, label="CartPole-v1_500k"),
        Leg("Acrobot-v1", 500_000, seeds=5),
    ),
)

if __name__ == "__main__":
    main(CAMPAIGN, __doc__)

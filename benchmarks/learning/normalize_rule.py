"""Compare PPO with observations and rewards normalised by either `env.normalize_rule`: the missing runs,
table and figure of experiments/normalize_rule.

    pip install '.[mujoco]' && python benchmarks/learning/normalize_rule.py
"""

from __future__ import annotations

from classic_control import Campaign, Leg, System, main

RULE_SYSTEMS = tuple(
    System(rule, options=("algo.backend=native", f"env.normalize_rule={rule}"))
    for rule in ("sb3", "relative")
)
# Staying upright gives 1 a step for 1,000 steps; running at 1 m/s gives as much again.
SOLVED_RETURN = 1000.0


def leg(env: str) -> Leg:
    """Return a leg with PPO's preset under both rules."""
    return Leg(env, 300_000, 5, f"PPO_{env}", "ppo", RULE_SYSTEMS, f"PPO, {env}", SOLVED_RETURN)


CAMPAIGN = Campaign("normalize_rule", "ppo", (leg("Hopper-v5"), leg("HalfCheetah-v5")))

if __name__ == "__main__":
    main(CAMPAIGN, __doc__)

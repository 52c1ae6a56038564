"""rlox beside Stable-Baselines3 on the classic tasks: the missing runs, tables and figures of
experiments/sb3_comparison.

rlox's runs are those of experiments/classic_control_suite. Stable-Baselines3's are taken from
experiments/off_policy_control where it ran the same hyperparameters, steps and seeds; what is missing is
run. The speeds are those of benchmarks/results/training.json.

    pip install '.[peers]' && python benchmarks/learning/sb3_comparison.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import classic_control_suite
import comparison_report
import off_policy_control
from classic_control import PAIR, Campaign, Leg, main

SUITE = classic_control_suite.CAMPAIGN
EARLIER_CAMPAIGNS = (off_policy_control.CAMPAIGN,)


@dataclass(frozen=True)
class Comparison(Campaign):
    """A campaign whose runs lie in several experiments."""

    def path(self, leg: Leg, system: str, seed: int) -> Path:
        """Where one run's result is."""
        if system == "rlox":
            return SUITE.path(leg, system, seed)
        earlier_paths = (
            campaign.path(matching_leg, system, seed) for campaign, matching_leg in self.earlier_legs(leg)
        )
        return next((path for path in earlier_paths if path.exists()), super().path(leg, system, seed))

    def earlier_legs(self, leg: Leg) -> Iterator[tuple[Campaign, Leg]]:
        """Legs of earlier campaigns that differ in nothing but their seeds."""
        leg_key = (leg.algo, leg.env, leg.steps)
        for campaign in EARLIER_CAMPAIGNS:
            for other_leg in campaign.legs:
                if (other_leg.algo or campaign.algo, other_leg.env, other_leg.steps) == leg_key:
                    yield campaign, other_leg


CAMPAIGN = Comparison("sb3_comparison", "", tuple(replace(leg, systems=PAIR) for leg in SUITE.legs))

if __name__ == "__main__":
    main(CAMPAIGN, __doc__, comparison_report.write)

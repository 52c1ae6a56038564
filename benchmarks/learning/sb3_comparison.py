"""rlox beside Stable-Baselines3 on the classic tasks: the missing runs, tables and figures of
experiments/sb3_comparison.

The runs of rlox are those of experiments/classic_control_suite. The runs of Stable-Baselines3 come from
experiments/off_policy_control if they have the same hyperparameters, steps and seeds; the missing ones are
made. The speeds are those of benchmarks/results/training.json.

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
    """A campaign whose runs are in several experiments."""

    def path(self, leg: Leg, system: str, seed: int) -> Path:
        """Return the path of a run's result."""
        if system == "rlox":
            return SUITE.path(leg, system, seed)
        earlier_paths = (
            campaign.path(matching_leg, system, seed) for campaign, matching_leg in self.earlier_legs(leg)
        )
        return next((path for path in earlier_paths if path.exists()), super().path(leg, system, seed))

    def earlier_legs(self, leg: Leg) -> Iterator[tuple[Campaign, Leg]]:
        """Yield the legs of earlier campaigns that differ only in their seeds."""
        leg_key = (leg.algo, leg.env, leg.steps)
        for campaign in EARLIER_CAMPAIGNS:
            for other_leg in campaign.legs:
                if (other_leg.algo or campaign.algo, other_leg.env, other_leg.steps) == leg_key:
                    yield campaign, other_leg


CAMPAIGN = Comparison("sb3_comparison", "", tuple(replace(leg, systems=PAIR) for leg in SUITE.legs))

if __name__ == "__main__":
    main(CAMPAIGN, __doc__, comparison_report.write)

"""What scores of several runs say: estimates, intervals, profiles, comparisons, curves.

The conventions are those of Agarwal et al. 2021 (arXiv:2108.13264): a run is the unit that is
resampled, within its task, and every random draw comes from a generator that the caller gives.
docs/statistics.md says what each means and how far an interval of few runs can be trusted.
"""

from rlox.statistics.bootstrap import Interval, bootstrap_ci, difference, stratified_bootstrap
from rlox.statistics.comparison import Verdict, compare
from rlox.statistics.curves import Curve, sample_efficiency
from rlox.statistics.estimators import iqm, mean, median, optimality_gap
from rlox.statistics.improvement import holm, improvement, probability_of_improvement
from rlox.statistics.profiles import Profile, performance_profile
from rlox.statistics.scores import Scores, normalize

__all__ = [
    "Curve",
    "Interval",
    "Profile",
    "Scores",
    "Verdict",
    "bootstrap_ci",
    "compare",
    "difference",
    "holm",
    "improvement",
    "iqm",
    "mean",
    "median",
    "normalize",
    "optimality_gap",
    "performance_profile",
    "probability_of_improvement",
    "sample_efficiency",
    "stratified_bootstrap",
]

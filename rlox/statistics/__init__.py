"""Statistics over the scores of several runs: estimates, intervals, profiles, comparisons, curves.

The conventions are those of Agarwal et al. 2021 (arXiv:2108.13264): runs are resampled within their task,
and the caller passes the random generator. docs/statistics.md explains each statistic, and how far an
interval from few runs can be trusted.
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

"""The keys `search.*`: how values are chosen; jobs do not have these keys."""

from __future__ import annotations

from dataclasses import dataclass

from rlox.configs.params import param

SEARCH = "search"  # the group of presets with the keys that vary, and the prefix of the options here
STUDY_FILE, BEST_FILE, LOCK_FILE = "study.db", "best.yaml", ".search"
SEARCH_FILES = (
    STUDY_FILE,
    BEST_FILE,
    LOCK_FILE,
)  # files that a search leaves in its folder and a plain sweep does not


@dataclass(frozen=True)
class SearchOptions:
    """How values are chosen, and how many."""

    n_trials: int = param(30, "trials in all, including pruned and failed ones", within="[1, 1000000]")
    n_jobs: int | None = param(None, "trials at a time; null: sweep.workers", within="[1, 1024]")
    sampler: str = param("tpe", "the sampler, which chooses the values of a trial", choices=("tpe", "random"))
    pruner: str = param(
        "median",
        "median: a trial ends at an evaluation (eval.every) at which the best of its evaluations is "
        "below the median of others",
        choices=("median", "none"),
    )
    n_startup_trials: int = param(
        10,
        "random trials before the sampler learns; no trial is pruned before this many are complete",
        within="[0, inf)",
    )
    warmup: float = param(0.33, "fraction of total_steps before which nothing is pruned", within="[0, 1]")
    seed: int = param(0, "seed of the sampler", within="[0, 4294967295]")
    study_name: str | None = param(None, "name of the study; null: that of the sweep's folder")
    storage: str | None = param(
        None, "URL of Optuna's storage; null: study.db in the sweep's folder", verbatim=True
    )

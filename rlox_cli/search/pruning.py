"""Pruning of a trial while its run trains: report evaluations to the study and ask the pruner."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox.configs import RunConfig
from rlox.loggers import read_rows
from rlox_cli.search.options import TARGET, options_from_node
from rlox_cli.search.settings import SearchOptions

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.trial import Trial

JOBS_ATTRIBUTE = "jobs"  # attribute of a trial: the identities of its runs; only the first is ever pruned

log = logging.getLogger("rlox.cli")


def make_pruner(config: RunConfig) -> Callable[[int, float], bool] | None:
    """Make the pruner that `Session` calls at each evaluation; `None` unless a search can prune the run."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    if not HydraConfig.initialized():
        return None
    hydra = HydraConfig.get()
    node = hydra.sweeper
    is_search = hydra.mode == RunMode.MULTIRUN and node.get("_target_") == TARGET
    if not is_search or not config.eval.every:
        return None
    options = options_from_node(dict(node))
    if options.pruner == "none":
        return None
    return _make_trial_pruner(options, config, Path(str(hydra.sweep.dir)))


def evaluations_of_rows(rows: Iterable[dict[str, Any]], config: RunConfig) -> list[tuple[int, float]]:
    """Return steps and mean returns as the study has them, without those that were not finite (null)."""
    unit = config.algo.unit
    means = [(row[unit], row.get("eval/return_mean")) for row in rows if unit in row]
    return [(due_step(int(step), config), float(mean)) for step, mean in means if mean is not None]


def evaluations_in(folder: Path, config: RunConfig) -> list[tuple[int, float]]:
    """Return the evaluations of a run folder."""
    path = folder / "metrics.jsonl"
    return evaluations_of_rows(read_rows(path), config) if path.exists() and config.eval.every else []


def due_step(step: int, config: RunConfig) -> int:
    """Return the multiple of `eval.every` for which the evaluation at `step` was due.

    Evaluations wait for the end of a rollout, which differs between trials; pruning compares equal steps.
    """
    every = config.eval.every
    return step // every * every


def _make_trial_pruner(options: SearchOptions, config: RunConfig, folder: Path) -> TrialPruner | None:
    from rlox_cli.runs.identity import identity
    from rlox_cli.search.optimizer import open_study

    study = open_study(options, folder)
    study.pruner = _pruner(options, config)
    trial = _find_running_trial(study, identity(config))
    return None if trial is None else TrialPruner(study, trial, config)


class TrialPruner:
    """Reports the evaluations of one trial; a call returns whether to prune it."""

    def __init__(self, study: Study, trial: Trial, config: RunConfig) -> None:
        self.study, self.trial, self.config = study, trial, config

    def __call__(self, step: int, mean: float) -> bool:
        """Report an evaluation; return whether to prune, which is false if the storage fails."""
        from rlox_cli.search.optimizer import report_evaluations

        try:
            report_evaluations(self.study, self.trial, [(due_step(step, self.config), mean)])
            return self.trial.should_prune()
        except Exception as error:
            log.warning("the study did not answer; nothing is pruned: %s", error)
            return False


def _pruner(options: SearchOptions, config: RunConfig) -> BasePruner:
    from optuna.pruners import MedianPruner

    return MedianPruner(options.n_startup_trials, int(options.warmup * config.total_steps))


def _find_running_trial(study: Study, job: str) -> Trial | None:
    """Return the running trial whose first run has this identity; `None` if there is none."""
    from optuna.trial import Trial, TrialState

    from rlox_cli.search.optimizer import suppress_warnings

    for frozen_trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if frozen_trial.user_attrs.get(JOBS_ATTRIBUTE, [None])[0] == job:
            with suppress_warnings():
                return Trial(study, frozen_trial._trial_id)
    return None

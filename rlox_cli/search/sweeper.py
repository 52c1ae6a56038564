"""Hydra's sweeper `rlox_optuna`: asks for trials, launches their runs, tells the study their results."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from rlox.configs import RunConfig, make_run, upgrade_saved_config
from rlox.disk import lock_file
from rlox.errors import ConfigError, StorageError
from rlox_cli.config import validate
from rlox_cli.config.schema import keys_of
from rlox_cli.runs import summary
from rlox_cli.runs.identity import identity, require_same_normalize_rule, result_config, saved_run
from rlox_cli.runs.jobs import BUSY_MESSAGE, Job, find_busy_dir
from rlox_cli.runs.run_folder import (
    DONE,
    KILLED,
    PRUNED,
    read_result_or_none,
    read_state,
    record_death,
    translate_os_errors,
)
from rlox_cli.runs.signals import SignalInterrupt
from rlox_cli.search.optimizer import Optimizer, best_trial, counted_trials, open_study
from rlox_cli.search.options import SWEEPER_NAME, TARGET
from rlox_cli.search.plan import SearchPlan
from rlox_cli.search.pruning import JOBS_ATTRIBUTE, evaluations_in
from rlox_cli.search.settings import LOCK_FILE, SearchOptions
from rlox_cli.shell.exit_codes import FAILED, OK
from rlox_cli.sweeps import backend as sweep_backend
from rlox_cli.sweeps.job_titles import trial_override

if TYPE_CHECKING:
    from optuna.trial import Trial

    from rlox_cli.runs.training import TrainTask

JobOutcome = dict[str, Any]
SEARCH_ATTRIBUTE = "rlox"  # attribute of a study: the space, the seeds and the base
NORMALIZE_KEYS = frozenset({"env.normalize_obs", "env.normalize_reward"})
WAIT_SECONDS = 0.2


@dataclass
class PlannedTrial:
    """A trial of the study: its runs, one for each seed, and their outcomes."""

    trial: Trial
    position: int
    jobs: list[list[str]]
    identities: list[str]
    outcomes: list[JobOutcome] = field(default_factory=list)

    @property
    def has_remaining_runs(self) -> bool:
        """Whether the runs of the other seeds are needed: only if the first run is done."""
        return bool(self.outcomes) and _final_status(self.outcomes[0]) == DONE


class OptunaSweeper(Sweeper):
    """Maximises the score over values that Optuna chooses."""

    def __init__(self, **node: Any) -> None:
        self.node = node  # `search_plan` has read and checked it

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store the configuration and the task, and make the launcher."""
        self._config, self._loader = config, hydra_context.config_loader
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        self.task = cast("TrainTask", task_function)
        assert isinstance(self.task.plan, SearchPlan)
        self.plan = self.task.plan
        self.folder = Path(str(config.hydra.sweep.dir))

    def sweep(self, arguments: list[str]) -> Any:
        """Search until there are `search.n_trials` trials."""
        if self.plan.is_dry_run:
            sweep_backend.record_backends(self.folder, self.plan.backends)
            values = {d.name: d.extreme_values[0] for d in self.plan.space.dimensions}
            self._launcher.launch([self.plan.space.job_overrides(values, self.plan.space.seeds[0])], 0)
            return
        if self.plan.options.storage is not None:  # an unavailable storage leaves no folder behind
            open_study(self.plan.options, self.folder, create=True)
        with translate_os_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with _lock_folder(self.folder):
            self.study = open_study(self.plan.options, self.folder, create=True)
            require_same_search(self.study, self.plan)
            sweep_backend.record_backends(self.folder, self.plan.backends)
            self.backend_names = sweep_backend.read_backends(self.folder)
            self.optimizer = Optimizer(self.study, self.plan.options, self.folder)
            self.optimizer.fail_abandoned()
            self.plan.state.has_started = True
            with translate_os_errors(self.folder / "multirun.yaml"):
                OmegaConf.save(self._config, self.folder / "multirun.yaml")
            self.task.total = self.plan.options.n_trials * len(self.plan.space.seeds)
            self._warn_if_never_pruned()
            try:
                while positions := self.optimizer.next_positions(self.plan.n_jobs):
                    self._run_batch(positions)
            except BaseException:
                with suppress(Exception):  # if this fails, the next start does it
                    self.optimizer.fail_abandoned()
                raise

    def _run_batch(self, positions: Sequence[int]) -> None:
        """Ask for trials; run the first seed of each, and the others if that is done; tell the results."""
        with self._defer_signals():
            trials = [self._ask(position) for position in positions]
        seeds = len(self.plan.space.seeds)
        first_number = positions[0] * seeds
        first_runs = [(planned_trial, 0) for planned_trial in trials if planned_trial.identities]
        self._launch(first_runs, first_number)
        other_runs = [(p, n) for p in trials if p.has_remaining_runs for n in range(1, seeds)]
        self._launch(other_runs, first_number + len(trials))
        with self._defer_signals():
            for planned_trial in trials:
                self._tell(planned_trial)

    def _ask(self, position: int) -> PlannedTrial:
        space = self.plan.space
        distributions = {d.name: d.to_distribution() for d in space.dimensions}
        trial = self.optimizer.ask(position, distributions, constant_liar=self.plan.n_jobs > 1)
        trial_name = trial_override(position + 1)
        jobs = [[*space.job_overrides(trial.params, seed), trial_name] for seed in space.seeds]
        identities: list[str] = []
        outcomes: list[JobOutcome] = []
        for job in jobs:
            try:
                composed = self._loader.load_sweep_config(self._config, job)
                config = sweep_backend.apply_backend(validate.run_config(composed), self.backend_names)
                identities.append(identity(config))
            except ConfigError as error:  # each value is valid, but the combination is not
                outcomes.append(_failed_outcome(str(error)))
        trial.set_user_attr(JOBS_ATTRIBUTE, identities)
        trial.set_user_attr("seeds", list(space.seeds))
        return PlannedTrial(trial, position, jobs, [] if outcomes else identities, outcomes[:1])

    def _launch(self, runs: Sequence[tuple[PlannedTrial, int]], first_number: int) -> None:
        """Launch runs, and again those that another process still has, until each has an outcome."""
        remaining = {planned_trial.identities[n]: planned_trial.jobs[n] for planned_trial, n in runs}
        outcomes: dict[str, JobOutcome] = {}
        while remaining:
            outcomes |= self._launch_once(list(remaining.items()), first_number)
            remaining = {
                job: remaining[job] for job in remaining if outcomes[job].get("message") == BUSY_MESSAGE
            }
            if remaining:  # workers of a killed search are still saving
                self._wait(remaining)
        for planned_trial, n in runs:
            planned_trial.outcomes.append(outcomes[planned_trial.identities[n]])
        self._raise_pending_signal()

    def _launch_once(
        self, distinct_jobs: list[tuple[str, list[str]]], first_number: int
    ) -> dict[str, JobOutcome]:
        """Launch each job once; return the outcomes by identity."""
        results = self._launcher.launch([job for _, job in distinct_jobs], first_number)
        outcomes: dict[str, JobOutcome] = {}
        for number, ((job, overrides), result) in enumerate(zip(distinct_jobs, results, strict=True)):
            try:
                outcomes[job] = dict(result.return_value)
            except Exception as error:  # the launcher's: the task records its own errors
                outcomes[job] = _failed_outcome(f"{type(error).__name__}: {error}")
            if outcomes[job]["status"] == KILLED:  # a worker died and did not report its run
                dead_job = Job(overrides, self.folder, first_number + number, None, identity=job)
                for run in dead_job.run_dirs():
                    outcomes[job]["folder"] = str(run)
                    record_death(run, str(outcomes[job]["message"]))
        return outcomes

    def _wait(self, runs: Mapping[str, list[str]]) -> None:
        """Wait until no other process works on any of the runs."""
        print("waiting for runs of this search that another process is ending", flush=True)
        busy_jobs = [Job(job, self.folder, 0, None, identity=name) for name, job in runs.items()]
        time.sleep(WAIT_SECONDS)
        while any(find_busy_dir(job) is not None for job in busy_jobs):
            time.sleep(WAIT_SECONDS)
        self._raise_pending_signal()

    def _tell(self, planned_trial: PlannedTrial) -> None:
        """Tell the study the result of a trial, read from its run folders."""
        trial, outcomes = planned_trial.trial, planned_trial.outcomes
        runs = [Path(o["folder"]) for o in outcomes if o.get("folder")]
        trial.set_user_attr("runs", [os.path.relpath(run, self.folder) for run in runs])
        statuses = [_final_status(outcome) for outcome in outcomes]
        config = saved_run(runs[0]) if runs else None
        evaluations = evaluations_in(runs[0], config) if config else []
        if statuses[0] == PRUNED:
            self.optimizer.tell(trial, "PRUNED", None, evaluations)
        elif reasons := [_reason(o) for o, end in zip(outcomes, statuses, strict=True) if end != DONE]:
            trial.set_user_attr("reason", reasons[0])
            self.optimizer.tell(trial, "FAIL", None, evaluations)
        else:
            scores = [float((read_result_or_none(run) or {})["score"]) for run in runs]
            trial.set_user_attr("scores", scores)
            value = math.fsum(scores) / len(scores)
            self.optimizer.tell(trial, "COMPLETE", value, evaluations)
        print(self._closing_line(planned_trial.position), flush=True)

    def _closing_line(self, position: int) -> str:
        """Return a line on the trial at a position, and on the best one."""
        trials_by_position = {int(t.user_attrs["position"]): t for t in counted_trials(self.study)}
        trial, name = trials_by_position[position], f"trial {position + 1} of {self.plan.options.n_trials}"
        if trial.state.name == "FAIL":
            return f"{name}: failed: {trial.user_attrs['reason'].splitlines()[0]}"
        if trial.state.name == "PRUNED":
            return f"{name}: pruned at step {trial.last_step:,}, return {summary.format_number(trial.value)}"
        best = best_trial(trials_by_position.values())
        assert best is not None
        best_position = int(best.user_attrs["position"])
        best_text = f"best {summary.format_number(best.value)} of trial {best_position + 1}"
        comparison = "the best so far" if best_position == position else best_text
        return f"{name}: score {summary.format_number(trial.value)} ({comparison})"

    def _warn_if_never_pruned(self) -> None:
        if self.plan.options.pruner != "none" and not self.plan.base.eval.every:
            print(
                "no trial will be pruned: that needs evaluations during training, eval.every=N",
                flush=True,
            )

    @contextmanager
    def _defer_signals(self) -> Iterator[None]:
        """Hold back signals until the study is up to date."""
        with self.task.call.signals.call_on_signal(lambda: None):
            yield
        self._raise_pending_signal()

    def _raise_pending_signal(self) -> None:
        if (signum := self.task.call.signals.received_signal) is not None:
            raise SignalInterrupt(signum)


def register() -> None:
    """Register the sweeper as `hydra/sweeper=rlox_optuna`."""
    Plugins.instance().class_name_to_class[TARGET] = OptunaSweeper
    settings = {key.name: key.default for key in keys_of(SearchOptions, "")}
    node = {"_target_": TARGET, "params": {}, **settings}
    ConfigStore.instance().store(group="hydra/sweeper", name=SWEEPER_NAME, node=node, provider="rlox")


def require_same_search(study: Any, plan: SearchPlan) -> None:
    """Refuse a study of another search, whose values cannot be compared; record the search in a new study."""
    require_same_normalize_rule(plan.folder, {plan.base.env.normalize_rule})
    space = {d.name: d.signature() for d in plan.space.dimensions}
    expected = {"space": space, "seeds": list(plan.space.seeds), "base": result_config(plan.base)}
    saved_search: Mapping[str, Any] | None = study.user_attrs.get(SEARCH_ATTRIBUTE)
    if saved_search is None:
        study.set_user_attr(SEARCH_ATTRIBUTE, plain_json(expected))
        return
    differing_keys = [
        k for k in sorted({*saved_search["space"], *space}) if saved_search["space"].get(k) != space.get(k)
    ]
    if saved_search["seeds"] != expected["seeds"]:
        differing_keys.append("seed")
    tree = upgrade_saved_config(saved_search["base"])
    if NORMALIZE_KEYS & saved_search["space"].keys():  # its trials normalised, by the old rule
        tree["env"] = {"normalize_rule": "sb3", **tree["env"]}
    base = make_run(tree)
    if identity(base) != identity(plan.base):
        differing_keys += _differing_keys(base, plan.base)
    if differing_keys:
        raise ConfigError(
            f"the study '{study.study_name}' is of another search: {', '.join(differing_keys[:4])} "
            f"{'differs' if len(differing_keys) == 1 else 'differ'}\n  give the earlier values, or another "
            "folder: hydra.sweep.dir=FOLDER"
        )


def plain_json(data: Any) -> Any:
    """Return the data as JSON would load it."""
    import json

    return json.loads(json.dumps(data, default=str))


def _differing_keys(one: RunConfig, other: RunConfig) -> list[str]:
    from rlox_cli.config.changes import differences

    return [c.key for c in differences(result_config(one), result_config(other))]


def _failed_outcome(message: str) -> JobOutcome:
    return {"status": "failed", "code": FAILED, "message": message, "folder": None}


def _final_status(outcome: JobOutcome) -> str:
    """Return how a run ended, also one that was skipped; it is done only with a score."""
    status, folder = str(outcome["status"]), outcome.get("folder")
    if outcome["code"] != OK:
        return KILLED if status == KILLED else "failed"
    if not folder:
        return "failed"
    status, result = read_state(Path(folder)), read_result_or_none(Path(folder)) or {}
    return "failed" if status == DONE and result.get("score") is None else status


def _reason(outcome: JobOutcome) -> str:
    if outcome.get("message"):
        return f"exit code {outcome['code']}: {outcome['message']}"
    return "its run has no score" if outcome["code"] == OK else f"exit code {outcome['code']}"


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, so that no other process searches in it."""
    path = folder / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
    try:
        lock_file(descriptor)
        yield
    except BlockingIOError as error:
        raise ConfigError(
            f"{folder} is being searched by another process; wait for it, or name another folder: "
            "hydra.sweep.dir=FOLDER"
        ) from error
    finally:
        os.close(descriptor)

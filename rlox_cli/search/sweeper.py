"""Hydra's sweeper `rlox_optuna`: asks for trials, launches their runs, tells what came of them."""

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

from rlox.configs import RunConfig, make_run, upgrade_saved
from rlox.disk import lock
from rlox.errors import ConfigError, StorageError
from rlox_cli import summary, sweep_backend, validate
from rlox_cli.exit_codes import FAILED, OK
from rlox_cli.identity import identity, require_rule_of_before, saved_run, what
from rlox_cli.job_titles import of_trial
from rlox_cli.jobs import BUSY, Job, busy_folder
from rlox_cli.run_folder import (
    DONE,
    KILLED,
    PRUNED,
    note_death,
    state_of,
    whole_result,
    writing,
)
from rlox_cli.schema import keys_of
from rlox_cli.search.optimizer import Optimizer, best_of, counted, open_study
from rlox_cli.search.options import NAME, TARGET
from rlox_cli.search.plan import SearchPlan
from rlox_cli.search.settings import LOCK, SearchOptions
from rlox_cli.search.watch import JOBS, evaluations_in
from rlox_cli.signals import Interrupted

if TYPE_CHECKING:
    from optuna.trial import Trial

    from rlox_cli.training import TrainTask

Outcome = dict[str, Any]
SAME = "rlox"  # of a study: what is searched, and on what base
NORMALIZES = frozenset({"env.normalize_obs", "env.normalize_reward"})
WAIT_SECONDS = 0.2


@dataclass
class Planned:
    """A trial that is asked: its runs, one for each seed, and how each of them ended."""

    trial: Trial
    position: int
    jobs: list[list[str]]
    identities: list[str]
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def goes_on(self) -> bool:
        """Whether its first run leaves the others something to do."""
        return bool(self.outcomes) and _ended(self.outcomes[0]) == DONE


class OptunaSweeper(Sweeper):
    """Maximises the score by what Optuna asks."""

    def __init__(self, **node: Any) -> None:
        self.node = node  # read and checked by `search_plan` before

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Know what to launch, and by what."""
        self._config, self._loader = config, hydra_context.config_loader
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        self.task = cast("TrainTask", task_function)
        assert isinstance(self.task.plan, SearchPlan)
        self.plan = self.task.plan
        self.folder = Path(str(config.hydra.sweep.dir))

    def sweep(self, arguments: list[str]) -> Any:
        """Search until there are as many trials as were asked for."""
        if self.plan.dry:
            sweep_backend.record(self.folder, self.plan.backends)
            values = {d.name: d.ends[0] for d in self.plan.space.dimensions}
            self._launcher.launch([self.plan.space.job(values, self.plan.space.seeds[0])], 0)
            return
        if self.plan.options.storage is not None:  # one that is not there leaves no folder behind
            open_study(self.plan.options, self.folder, create=True)
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with _alone(self.folder):
            self.study = open_study(self.plan.options, self.folder, create=True)
            require_same(self.study, self.plan)
            sweep_backend.record(self.folder, self.plan.backends)
            self.names = sweep_backend.recorded(self.folder)
            self.optimizer = Optimizer(self.study, self.plan.options, self.folder)
            self.optimizer.release()
            self.plan.state.begun = True
            with writing(self.folder / "multirun.yaml"):
                OmegaConf.save(self._config, self.folder / "multirun.yaml")
            self.task.total = self.plan.options.n_trials * len(self.plan.space.seeds)
            self._say_what_is_not_pruned()
            try:
                while positions := self.optimizer.due(self.plan.n_jobs):
                    self._batch(positions)
            except BaseException:
                with suppress(Exception):  # else the next start does it
                    self.optimizer.release()
                raise

    def _batch(self, positions: Sequence[int]) -> None:
        """Ask, run the first seed of each trial, then the others of those that go on, and tell."""
        with self._undisturbed():
            trials = [self._ask(position) for position in positions]
        seeds = len(self.plan.space.seeds)
        begin = positions[0] * seeds
        first = [(planned, 0) for planned in trials if planned.identities]
        self._launch(first, begin)
        rest = [(p, n) for p in trials if p.goes_on for n in range(1, seeds)]
        self._launch(rest, begin + len(trials))
        with self._undisturbed():
            for planned in trials:
                self._tell(planned)

    def _ask(self, position: int) -> Planned:
        space = self.plan.space
        distributions = {d.name: d.distribution() for d in space.dimensions}
        trial = self.optimizer.ask(position, distributions, lying=self.plan.n_jobs > 1)
        number = of_trial(position + 1)
        jobs = [[*space.job(trial.params, seed), number] for seed in space.seeds]
        found: list[str] = []
        outcomes: list[Outcome] = []
        for job in jobs:
            try:
                composed = self._loader.load_sweep_config(self._config, job)
                config = sweep_backend.applied(validate.run_config(composed), self.names)
                found.append(identity(config))
            except ConfigError as error:  # values that fit one by one and not together
                outcomes.append(_failed(str(error)))
        trial.set_user_attr(JOBS, found)
        trial.set_user_attr("seeds", list(space.seeds))
        return Planned(trial, position, jobs, [] if outcomes else found, outcomes[:1])

    def _launch(self, runs: Sequence[tuple[Planned, int]], begin: int) -> None:
        """Do runs, each once, in whatever way the launcher has."""
        left = {planned.identities[n]: planned.jobs[n] for planned, n in runs}
        ended: dict[str, Outcome] = {}
        while left:
            ended |= self._launched(list(left.items()), begin)
            left = {job: left[job] for job in left if ended[job].get("message") == BUSY}
            if left:  # the workers of a search that was killed save what they have
                self._wait(left)
        for planned, n in runs:
            planned.outcomes.append(ended[planned.identities[n]])
        self._settle()

    def _launched(self, distinct: list[tuple[str, list[str]]], begin: int) -> dict[str, Outcome]:
        """How each run ended, by its identity."""
        returned = self._launcher.launch([job for _, job in distinct], begin)
        ended: dict[str, Outcome] = {}
        for number, ((job, overrides), back) in enumerate(zip(distinct, returned, strict=True)):
            try:
                ended[job] = dict(back.return_value)
            except Exception as error:  # of a launcher: the task keeps its errors
                ended[job] = _failed(f"{type(error).__name__}: {error}")
            if ended[job]["status"] == KILLED:  # a worker died, and did not know whose run it had
                gone = Job(overrides, self.folder, begin + number, None, identity=job)
                for run in gone.runs():
                    ended[job]["folder"] = str(run)
                    note_death(run, str(ended[job]["message"]))
        return ended

    def _wait(self, runs: Mapping[str, list[str]]) -> None:
        """Until no other process is at work on any of the runs."""
        print("waiting for runs of this search that another process is ending", flush=True)
        waiting = [Job(job, self.folder, 0, None, identity=name) for name, job in runs.items()]
        time.sleep(WAIT_SECONDS)
        while any(busy_folder(job) is not None for job in waiting):
            time.sleep(WAIT_SECONDS)
        self._settle()

    def _tell(self, planned: Planned) -> None:
        """What came of a trial, from what its runs left."""
        trial, outcomes = planned.trial, planned.outcomes
        runs = [Path(o["folder"]) for o in outcomes if o.get("folder")]
        trial.set_user_attr("runs", [os.path.relpath(run, self.folder) for run in runs])
        ends = [_ended(outcome) for outcome in outcomes]
        config = saved_run(runs[0]) if runs else None
        evaluated = evaluations_in(runs[0], config) if config else []
        if ends[0] == PRUNED:
            self.optimizer.tell(trial, "PRUNED", None, evaluated)
        elif reasons := [_reason(o) for o, end in zip(outcomes, ends, strict=True) if end != DONE]:
            trial.set_user_attr("reason", reasons[0])
            self.optimizer.tell(trial, "FAIL", None, evaluated)
        else:
            scores = [float((whole_result(run) or {})["score"]) for run in runs]
            trial.set_user_attr("scores", scores)
            value = math.fsum(scores) / len(scores)
            self.optimizer.tell(trial, "COMPLETE", value, evaluated)
        print(self._closing(planned.position), flush=True)

    def _closing(self, position: int) -> str:
        """A line on the trial that was told last, and on the best."""
        told = {int(t.user_attrs["position"]): t for t in counted(self.study)}
        trial, name = told[position], f"trial {position + 1} of {self.plan.options.n_trials}"
        if trial.state.name == "FAIL":
            return f"{name}: failed: {trial.user_attrs['reason'].splitlines()[0]}"
        if trial.state.name == "PRUNED":
            return (
                f"{name}: pruned at step {trial.last_step:,}, return {summary.number(trial.value)}"
            )
        best = best_of(told.values())
        assert best is not None
        at = int(best.user_attrs["position"])
        of = f"best {summary.number(best.value)} of trial {at + 1}"
        place = "the best so far" if at == position else of
        return f"{name}: score {summary.number(trial.value)} ({place})"

    def _say_what_is_not_pruned(self) -> None:
        if self.plan.options.pruner != "none" and not self.plan.base.eval.every:
            print(
                "no trial will be pruned: that needs evaluations on the way, eval.every=N",
                flush=True,
            )

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """A signal waits until the study knows what it has to."""
        with self.task.call.signals.stopping(lambda: None):
            yield
        self._settle()

    def _settle(self) -> None:
        if (received := self.task.call.signals.received) is not None:
            raise Interrupted(received)


def register() -> None:
    """Let `hydra/sweeper=rlox_optuna` choose it."""
    Plugins.instance().class_name_to_class[TARGET] = OptunaSweeper
    settings = {key.name: key.default for key in keys_of(SearchOptions, "")}
    node = {"_target_": TARGET, "params": {}, **settings}
    ConfigStore.instance().store(group="hydra/sweeper", name=NAME, node=node, provider="rlox")


def require_same(study: Any, plan: SearchPlan) -> None:
    """Refuse a study of another search: its values would say nothing about this one."""
    require_rule_of_before(plan.folder, {plan.base.env.normalize_rule})
    space = {d.name: d.described() for d in plan.space.dimensions}
    mine = {"space": space, "seeds": list(plan.space.seeds), "base": what(plan.base)}
    saved: Mapping[str, Any] | None = study.user_attrs.get(SAME)
    if saved is None:
        study.set_user_attr(SAME, plain_json(mine))
        return
    differing = [
        k for k in sorted({*saved["space"], *space}) if saved["space"].get(k) != space.get(k)
    ]
    if saved["seeds"] != mine["seeds"]:
        differing.append("seed")
    tree = upgrade_saved(saved["base"])
    if NORMALIZES & saved["space"].keys():  # its trials did, by the rule of before there was a key
        tree["env"] = {"normalize_rule": "sb3", **tree["env"]}
    base = make_run(tree)
    if identity(base) != identity(plan.base):
        differing += _differences(base, plan.base)
    if differing:
        raise ConfigError(
            f"the study '{study.study_name}' is of another search: {', '.join(differing[:4])} "
            f"{'differs' if len(differing) == 1 else 'differ'}\n  give it as it was, or another folder: "
            "hydra.sweep.dir=FOLDER"
        )


def plain_json(data: Any) -> Any:
    """The data as JSON gives it back."""
    import json

    return json.loads(json.dumps(data, default=str))


def _differences(one: RunConfig, other: RunConfig) -> list[str]:
    from rlox_cli.changes import differences

    return [c.key for c in differences(what(one), what(other))]


def _failed(message: str) -> Outcome:
    return {"status": "failed", "code": FAILED, "message": message, "folder": None}


def _ended(outcome: Outcome) -> str:
    """How a run ended, one that was skipped as it did then; done only with a score."""
    status, folder = str(outcome["status"]), outcome.get("folder")
    if outcome["code"] != OK:
        return KILLED if status == KILLED else "failed"
    if not folder:
        return "failed"
    status, result = state_of(Path(folder)), whole_result(Path(folder)) or {}
    return "failed" if status == DONE and result.get("score") is None else status


def _reason(outcome: Outcome) -> str:
    if outcome.get("message"):
        return f"exit code {outcome['code']}: {outcome['message']}"
    return "its run has no score" if outcome["code"] == OK else f"exit code {outcome['code']}"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While active, no other process searches in the folder."""
    path = folder / LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
    try:
        lock(descriptor)
        yield
    except BlockingIOError as error:
        raise ConfigError(
            f"{folder} is being searched by another process; wait for it, or name another folder: "
            "hydra.sweep.dir=FOLDER"
        ) from error
    finally:
        os.close(descriptor)

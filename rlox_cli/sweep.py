"""`rlox sweep`: many runs in one folder; what is done is skipped, what fails is named."""

from __future__ import annotations

import math
import secrets
import shlex
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hydra._internal.hydra import Hydra
from hydra.types import RunMode
from omegaconf import OmegaConf

from rlox.configs import RunConfig, plain
from rlox.errors import ConfigError, EnvError
from rlox.runs.progress import word
from rlox_cli import elsewhere, grid, sweep_backend, sweep_summary, validate
from rlox_cli.exit_codes import FAILED, OK
from rlox_cli.identity import (
    identity,
    is_run,
    job_folders,
    job_slug,
    require_rule_of_before,
    saved_identity,
)
from rlox_cli.kept_loggers import kept_loggers
from rlox_cli.run_folder import DONE, KILLED, RUNNING, UNREADABLE, state_of, whole_result
from rlox_cli.search.settings import FILES
from rlox_cli.trust import require_no_links

if TYPE_CHECKING:  # what shows help and versions chooses no engine
    from rlox.training.backend import Backend


NEAR = 1.01  # times as long as another: what a job may learn without a word


class PlannedJob(NamedTuple):
    """A combination of values, checked."""

    overrides: list[str]
    config: RunConfig


@dataclass(frozen=True)
class SweepPlan:
    """A checked sweep; `jobs` is unknown for sweepers that choose as they go."""

    folder: Path
    jobs: list[PlannedJob] | None
    dry: bool
    # what was decided for jobs that leave the engine open, and before that, by algorithm
    backends: dict[str, Backend] = field(default_factory=dict, kw_only=True)
    kept_backends: dict[str, str] = field(default_factory=dict, kw_only=True)

    def begin(self, folder: Path) -> None:
        """Say and keep what was decided, and which jobs there are, in the folder of the jobs."""
        self.tell([config for _, config in self.jobs or ()])
        sweep_backend.record(folder, self.backends)
        if self.jobs:  # a kill -9 leaves no time for it
            folder.mkdir(parents=True, exist_ok=True)
            sweep_summary.write(folder, (), self.without_run(job_states(folder)))

    def tell(self, configs: Sequence[RunConfig]) -> None:
        """Print which engines learn in the jobs, which are configured so, and that some learn longer."""
        for line in sweep_backend.lines(self.backends, self.kept_backends):
            print(line, flush=True)
        for line in lengths(configs):
            print(line, flush=True)

    @property
    def common(self) -> frozenset[str]:
        """The overrides that all jobs share."""
        grid = [job.overrides for job in self.jobs or ()]
        return frozenset(grid[0]).intersection(*grid) if len(grid) > 1 else frozenset()

    def without_run(self, known: Container[str]) -> dict[str, RunConfig]:
        """The jobs whose identities are not among the known ones, by the names that summaries give them."""
        return {
            f"{number}_{job_slug(overrides, self.common)}": config
            for number, (overrides, config) in enumerate(self.jobs or ())
            if identity(config) not in known
        }

    def finish(self, outcomes: Sequence[dict[str, Any]], line: Sequence[str]) -> int:
        """Write and print what came of it; the exit code."""
        return finish(self, outcomes, line)


def plan(app: Hydra, name: str, overrides: list[str]) -> SweepPlan:
    """Compose and validate every job before the first one starts."""
    master = app.compose_config(
        name, [*overrides, "hydra.mode=MULTIRUN"], RunMode.MULTIRUN, with_log_configuration=False
    )
    folder = Path(str(master.hydra.sweep.dir))
    require_no_links(folder)
    _require_no_run(folder)
    elsewhere.require(master.hydra.launcher)
    from rlox_cli.search.plan import search_plan, searches  # late: it is built on this

    _require_own_kind(folder, searches(master))
    if searches(master):
        return search_plan(app, master, folder)
    before = sweep_backend.recorded(folder)
    if not str(OmegaConf.select(master, grid.SWEEPER)).endswith(".BasicSweeper"):
        chosen = sweep_backend.decide_unknown(folder, before)
        return SweepPlan(folder, None, False, backends=chosen, kept_backends=before)
    asked: list[sweep_backend.Asked] = []
    planned: list[PlannedJob] = []
    compose, look = grid.Composer(app, master), sweep_backend.Looks()
    for job in grid.combinations(app, master):
        try:
            config = validate.run_config(compose(job))
            planned.append(PlannedJob(job, config))
            with suppress(EnvError):  # code of the user's that fails: the job will say so
                asked.append(sweep_backend.Asked(job, config, look(config)))
        except ConfigError as error:
            raise ConfigError(f"{error}\n  in the job: {' '.join(job)}") from error
    chosen = sweep_backend.decide(folder, before, asked)
    names = before | {algo: backend.name for algo, backend in chosen.items()}
    jobs = [PlannedJob(job, sweep_backend.applied(config, names)) for job, config in planned]
    _require_distinct(jobs)
    validate.require_rule_used([config for _, config in jobs], overrides)
    rules = {config.env.normalize_rule for _, config in jobs if config.env.normalizes}
    if rules:
        require_rule_of_before(folder, rules)
    dry = all(config.dry_run for _, config in jobs)
    return SweepPlan(folder, jobs, dry, backends=chosen, kept_backends=before)


def lengths(configs: Iterable[RunConfig]) -> Iterator[str]:
    """Lines on jobs that are asked for the same total, and of which some learn longer than others.

    Totals are rounded up to whole batches, so that sizes of batches decide.
    """
    quanta: dict[tuple[str, int], set[int]] = {}
    for config in configs:
        quanta.setdefault((config.algo.unit, config.total_steps), set()).add(config.quantum)
    for (unit, total), sizes in quanta.items():
        taken = {-(-total // size) * size for size in sizes}
        if max(taken) <= NEAR * min(taken):
            continue
        common = math.lcm(*sizes)
        equal = -(-total // common) * common
        hint = f"; total_steps={equal} is the same for all" if equal <= 2 * total else ""
        yield (
            f"total_steps={total} is {min(taken):,} to {max(taken):,} {word(unit)}, as the sizes of batches "
            f"differ and totals are rounded up to whole ones{hint}"
        )


def _require_no_run(folder: Path) -> None:
    """A run has its folder to itself: who reads runs does not look for others in it."""
    if is_run(folder):
        raise ConfigError(
            f"hydra.sweep.dir={folder} is the folder of a run; name another folder: "
            f"hydra.sweep.dir=FOLDER\n  to go on with the run: rlox resume {shlex.quote(str(folder))}"
        )


def _require_own_kind(folder: Path, searching: bool) -> None:
    """A folder is a sweep's or a search's: their summaries and their ways of going on do not fit together."""
    left = [name for name in FILES if (folder / name).exists()]
    runs = len(job_folders(folder))
    if searching == bool(left) or not (left or runs):
        return
    there, wanted = ("search", "sweep") if left else ("sweep", "search")
    found = ", ".join([*left, f"{runs} run{'s' * (runs != 1)}"])
    go_on = "as it was given, with search=" if left else "without search="
    raise ConfigError(
        f"{folder} is the folder of a {there} ({found}); a {wanted} needs one of its own: "
        f"hydra.sweep.dir=FOLDER\n  to go on with the {there}: the same command {go_on}"
    )


def _require_distinct(jobs: Sequence[PlannedJob]) -> None:
    """A sweep has jobs, and no job twice: what differs in nothing that changes a result is the same."""
    if not jobs:
        raise ConfigError("the sweep has no jobs: a range or list of values is empty")
    seen: dict[str, PlannedJob] = {}
    for job in jobs:
        other = seen.setdefault(identity(job.config), job)
        if other is not job:
            why = "names, tags, loggers and threads change no result"
            if "algo.backend=auto" in (*other.overrides, *job.overrides):
                why = f"algo.backend=auto is {plain(job.config.algo)['backend']} in this sweep"
            raise ConfigError(
                f"two jobs of the sweep are the same: {why}:\n"
                f"  {' '.join(other.overrides)}\n  {' '.join(job.overrides)}"
            )


def finish(planned: SweepPlan, outcomes: Sequence[dict[str, Any]], line: Sequence[str] = ()) -> int:
    """Write and print the summary; the exit code of the sweep. `line` is the command that was typed.

    A job counts as done when its folder says so: a launcher may have run it in another process, and
    may not have run it at all.
    """
    failed = any(outcome["code"] != OK for outcome in outcomes)
    if planned.dry or not planned.folder.is_dir():
        return FAILED if failed or not (planned.dry or outcomes) else OK
    states = job_states(planned.folder)
    told = {outcome["identity"] for outcome in outcomes}
    missing = planned.without_run({*states, *told})
    asked = {identity(config): config for _, config in planned.jobs or ()}
    left = [states.get(job, sweep_summary.NOT_STARTED) for job in asked if job not in told]
    if planned.jobs is None and not outcomes:
        left = list(states.values()) or [sweep_summary.NOT_STARTED]
    if kept := kept_loggers(outcomes, asked):
        print(kept)
    print(sweep_summary.write(planned.folder, outcomes, missing), flush=True)
    ends = [*left, *(outcome["status"] for outcome in outcomes)]
    if line and not {KILLED, RUNNING, sweep_summary.NOT_STARTED}.isdisjoint(ends):
        print(f"to go on: {again(line, planned.folder)}", flush=True)
    failed = failed or UNREADABLE in states.values()
    return FAILED if failed or not {DONE, sweep_summary.PRUNED}.issuperset(left) else OK


def new_folder() -> str:
    """A folder name that no other sweep has, as a Hydra interpolation on the job's run_root."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return f"${{run_root}}/sweeps/{stamp}_{secrets.token_hex(2)}"


def again(line: Sequence[str], folder: Path) -> str:
    """What to type to go on with a sweep."""
    kept = [word for word in line if not word.startswith("hydra.sweep.dir=")]
    return shlex.join([*kept, f"hydra.sweep.dir={folder}"])


def job_states(folder: Path) -> dict[str, str]:
    """How each job in a folder stands, by its identity; `UNREADABLE` where a file that says it is damaged."""
    runs = {path: saved_identity(path) for path in job_folders(folder)}
    states = {
        job: state_of(path)
        for path, job in runs.items()
        if job is not None and (path / "status.json").exists()
    }
    lost = [job for path, job in runs.items() if job in states and _is_lost(path, states[job])]
    return states | dict.fromkeys(lost, UNREADABLE)


def _is_lost(run: Path, state: str) -> bool:
    """Whether what is known of a job that is done cannot be read."""
    return state == DONE and (run / "result.json").exists() and whole_result(run) is None

"""`rlox sweep`: many runs in one folder; finished jobs are skipped, and failed jobs are named."""

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

from rlox.configs import RunConfig, to_plain
from rlox.errors import ConfigError, EnvError
from rlox.runs.progress import unit_label
from rlox_cli.config import validate
from rlox_cli.runs.identity import (
    identity,
    is_run,
    job_folders,
    job_slug,
    require_same_normalize_rule,
    saved_identity,
)
from rlox_cli.runs.run_folder import DONE, KILLED, RUNNING, UNREADABLE, read_result_or_none, read_state
from rlox_cli.runs.trust import require_no_links
from rlox_cli.search.settings import SEARCH_FILES
from rlox_cli.shell.exit_codes import FAILED, OK
from rlox_cli.sweeps import backend as sweep_backend
from rlox_cli.sweeps import external_launchers, grid
from rlox_cli.sweeps import summary as sweep_summary
from rlox_cli.sweeps.kept_loggers import kept_loggers_message

if TYPE_CHECKING:  # help and versions need no backend
    from rlox.training.backend import Backend


SIMILAR_LENGTH_RATIO = 1.01  # a job may train longer than another by this factor without a warning


class PlannedJob(NamedTuple):
    """A checked combination of values."""

    overrides: list[str]
    config: RunConfig


@dataclass(frozen=True)
class SweepPlan:
    """A checked sweep; `jobs` is `None` for sweepers that choose jobs as they go."""

    folder: Path
    jobs: list[PlannedJob] | None
    is_dry_run: bool
    # for jobs with algo.backend=auto, by algorithm: the backends decided now, and those recorded earlier
    backends: dict[str, Backend] = field(default_factory=dict, kw_only=True)
    recorded_backends: dict[str, str] = field(default_factory=dict, kw_only=True)

    def record_decisions(self, folder: Path) -> None:
        """Print the decisions; save them and the list of jobs in `folder`."""
        self.print_decisions([config for _, config in self.jobs or ()])
        sweep_backend.record_backends(folder, self.backends)
        if self.jobs:  # now, because a kill -9 leaves no time for it
            folder.mkdir(parents=True, exist_ok=True)
            sweep_summary.write_summary(folder, (), self.jobs_without_run(job_states(folder)))

    def print_decisions(self, configs: Sequence[RunConfig]) -> None:
        """Print the backends of the jobs in `configs`, and a warning if some train longer than others."""
        for line in sweep_backend.backend_messages(self.backends, self.recorded_backends):
            print(line, flush=True)
        for line in length_warnings(configs):
            print(line, flush=True)

    @property
    def common_overrides(self) -> frozenset[str]:
        """The overrides that all jobs share."""
        grid = [job.overrides for job in self.jobs or ()]
        return frozenset(grid[0]).intersection(*grid) if len(grid) > 1 else frozenset()

    def jobs_without_run(self, known_identities: Container[str]) -> dict[str, RunConfig]:
        """Return the jobs whose identities are not known, by their names in summaries."""
        return {
            f"{number}_{job_slug(overrides, self.common_overrides)}": config
            for number, (overrides, config) in enumerate(self.jobs or ())
            if identity(config) not in known_identities
        }

    def finish(self, outcomes: Sequence[dict[str, Any]], command_line: Sequence[str]) -> int:
        """Write and print the summary; return the exit code."""
        return finish_sweep(self, outcomes, command_line)


def plan_sweep(app: Hydra, name: str, overrides: list[str]) -> SweepPlan:
    """Compose and validate every job before the first one starts."""
    master = app.compose_config(
        name, [*overrides, "hydra.mode=MULTIRUN"], RunMode.MULTIRUN, with_log_configuration=False
    )
    folder = Path(str(master.hydra.sweep.dir))
    require_no_links(folder)
    _require_no_run(folder)
    external_launchers.require_launchable(master.hydra.launcher)
    from rlox_cli.search.plan import is_search, search_plan  # imported here because it imports this module

    _require_same_kind(folder, is_search(master))
    if is_search(master):
        return search_plan(app, master, folder)
    recorded_backends = sweep_backend.read_backends(folder)
    if not str(OmegaConf.select(master, grid.SWEEPER)).endswith(".BasicSweeper"):
        backends = sweep_backend.decide_unknown_backends(folder, recorded_backends)
        return SweepPlan(folder, None, False, backends=backends, recorded_backends=recorded_backends)
    requests: list[sweep_backend.BackendRequest] = []
    checked_jobs: list[PlannedJob] = []
    compose, spaces_of = grid.Composer(app, master), sweep_backend.SpacesCache()
    for job_overrides in grid.combinations(app, master):
        try:
            config = validate.run_config(compose(job_overrides))
            checked_jobs.append(PlannedJob(job_overrides, config))
            with suppress(EnvError):  # failing code of the user: the job will report it
                requests.append(sweep_backend.BackendRequest(job_overrides, config, spaces_of(config)))
        except ConfigError as error:
            raise ConfigError(f"{error}\n  in the job: {' '.join(job_overrides)}") from error
    backends = sweep_backend.decide_backends(folder, recorded_backends, requests)
    names = recorded_backends | {algo: backend.name for algo, backend in backends.items()}
    jobs = [
        PlannedJob(job_overrides, sweep_backend.apply_backend(config, names))
        for job_overrides, config in checked_jobs
    ]
    _require_distinct(jobs)
    validate.require_normalize_rule_used([config for _, config in jobs], overrides)
    rules = {config.env.normalize_rule for _, config in jobs if config.env.has_normalization}
    if rules:
        require_same_normalize_rule(folder, rules)
    is_dry_run = all(config.dry_run for _, config in jobs)
    return SweepPlan(folder, jobs, is_dry_run, backends=backends, recorded_backends=recorded_backends)


def length_warnings(configs: Iterable[RunConfig]) -> Iterator[str]:
    """Yield lines on jobs with the same total_steps of which some train longer than others.

    Totals are rounded up to whole batches, so the batch sizes decide.
    """
    batch_sizes: dict[tuple[str, int], set[int]] = {}
    for config in configs:
        batch_sizes.setdefault((config.algo.unit, config.total_steps), set()).add(config.batch_steps)
    for (unit, total), sizes in batch_sizes.items():
        step_counts = {-(-total // size) * size for size in sizes}
        if max(step_counts) <= SIMILAR_LENGTH_RATIO * min(step_counts):
            continue
        common_multiple = math.lcm(*sizes)
        common_total = -(-total // common_multiple) * common_multiple
        hint = (
            f"; total_steps={common_total} gives all jobs the same length"
            if common_total <= 2 * total
            else ""
        )
        yield (
            f"total_steps={total} is {min(step_counts):,} to {max(step_counts):,} {unit_label(unit)}, "
            f"because batch sizes differ and totals are rounded up to whole batches{hint}"
        )


def _require_no_run(folder: Path) -> None:
    """Raise `ConfigError` if the folder is a run's: readers of a run do not look for other runs in it."""
    if is_run(folder):
        raise ConfigError(
            f"hydra.sweep.dir={folder} is the folder of a run; name another folder: "
            f"hydra.sweep.dir=FOLDER\n  to go on with the run: rlox resume {shlex.quote(str(folder))}"
        )


def _require_same_kind(folder: Path, is_search_requested: bool) -> None:
    """Raise `ConfigError` for a sweep in the folder of a search, or a search in that of a sweep."""
    search_files = [name for name in SEARCH_FILES if (folder / name).exists()]
    runs = len(job_folders(folder))
    if is_search_requested == bool(search_files) or not (search_files or runs):
        return
    existing_kind, requested_kind = ("search", "sweep") if search_files else ("sweep", "search")
    contents = ", ".join([*search_files, f"{runs} run{'s' * (runs != 1)}"])
    hint = "as it was given, with search=" if search_files else "without search="
    raise ConfigError(
        f"{folder} is the folder of a {existing_kind} ({contents}); a {requested_kind} needs one of its own: "
        f"hydra.sweep.dir=FOLDER\n  to go on with the {existing_kind}: the same command {hint}"
    )


def _require_distinct(jobs: Sequence[PlannedJob]) -> None:
    """Raise `ConfigError` for a sweep without jobs, or with two jobs that must give the same result."""
    if not jobs:
        raise ConfigError("the sweep has no jobs: a range or list of values is empty")
    jobs_by_identity: dict[str, PlannedJob] = {}
    for job in jobs:
        other = jobs_by_identity.setdefault(identity(job.config), job)
        if other is not job:
            reason = "names, tags, loggers and threads change no result"
            if "algo.backend=auto" in (*other.overrides, *job.overrides):
                reason = f"algo.backend=auto is {to_plain(job.config.algo)['backend']} in this sweep"
            raise ConfigError(
                f"two jobs of the sweep are the same: {reason}:\n"
                f"  {' '.join(other.overrides)}\n  {' '.join(job.overrides)}"
            )


def finish_sweep(
    plan: SweepPlan, outcomes: Sequence[dict[str, Any]], command_line: Sequence[str] = ()
) -> int:
    """Write and print the summary; return the exit code of the sweep.

    `command_line` is the typed command. A job counts as done if its folder says so: a launcher may have run
    it in another process, or not at all.
    """
    failed = any(outcome["code"] != OK for outcome in outcomes)
    if plan.is_dry_run or not plan.folder.is_dir():
        return FAILED if failed or not (plan.is_dry_run or outcomes) else OK
    states = job_states(plan.folder)
    reported = {outcome["identity"] for outcome in outcomes}
    missing = plan.jobs_without_run({*states, *reported})
    configs = {identity(config): config for _, config in plan.jobs or ()}
    unfinished_states = [states.get(job, sweep_summary.NOT_STARTED) for job in configs if job not in reported]
    if plan.jobs is None and not outcomes:
        unfinished_states = list(states.values()) or [sweep_summary.NOT_STARTED]
    if message := kept_loggers_message(outcomes, configs):
        print(message)
    print(sweep_summary.write_summary(plan.folder, outcomes, missing), flush=True)
    all_states = [*unfinished_states, *(outcome["status"] for outcome in outcomes)]
    if command_line and not {KILLED, RUNNING, sweep_summary.NOT_STARTED}.isdisjoint(all_states):
        print(f"to go on: {continue_command(command_line, plan.folder)}", flush=True)
    failed = failed or UNREADABLE in states.values()
    return FAILED if failed or not {DONE, sweep_summary.PRUNED}.issuperset(unfinished_states) else OK


def new_folder() -> str:
    """Return a unique folder name, as a Hydra interpolation on the job's run_root."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return f"${{run_root}}/sweeps/{stamp}_{secrets.token_hex(2)}"


def continue_command(command_line: Sequence[str], folder: Path) -> str:
    """Return the command that continues a sweep."""
    arguments = [argument for argument in command_line if not argument.startswith("hydra.sweep.dir=")]
    return shlex.join([*arguments, f"hydra.sweep.dir={folder}"])


def job_states(folder: Path) -> dict[str, str]:
    """Return the state of each job in a folder by identity; `UNREADABLE` if status or result is damaged."""
    runs = {path: saved_identity(path) for path in job_folders(folder)}
    states = {
        job: read_state(path)
        for path, job in runs.items()
        if job is not None and (path / "status.json").exists()
    }
    unreadable_jobs = [
        job for path, job in runs.items() if job in states and _has_unreadable_result(path, states[job])
    ]
    return states | dict.fromkeys(unreadable_jobs, UNREADABLE)


def _has_unreadable_result(run: Path, state: str) -> bool:
    """Return whether the result of a finished job cannot be read."""
    return state == DONE and (run / "result.json").exists() and read_result_or_none(run) is None

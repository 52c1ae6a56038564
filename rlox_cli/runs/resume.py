"""`rlox train resume=RUN`: continue a run in its own folder from its newest whole checkpoint.

Nothing in the folder is composed or executed, and nothing is changed before all checks have passed.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox.configs import RunConfig, dotted_items, to_plain, upgrade_saved_config
from rlox.errors import CheckpointError, ConfigError, StorageError
from rlox.loggers import check_loggers
from rlox.runs.progress import unit_label
from rlox_cli.config import changes, plain_yaml, validate
from rlox_cli.config.verbatim import expand_path
from rlox_cli.runs import distributed_run, provenance, summary
from rlox_cli.runs.identity import BOOKKEEPING_KEYS, identity
from rlox_cli.runs.run_folder import (
    DONE,
    RunFolder,
    is_locked,
    locked_message,
    nearest_runs_hint,
    read_config,
    read_json,
    read_result,
    read_result_or_none,
    read_status,
    translate_os_errors,
    write_config,
    write_json,
    write_text,
)
from rlox_cli.runs.run_training import print_warnings, report_failure, run_title, run_training
from rlox_cli.runs.trust import resolve_trusted, split_trust, trust_arguments
from rlox_cli.shell.command import Call
from rlox_cli.shell.exit_codes import OK
from rlox_cli.shell.help import value_text

if TYPE_CHECKING:
    from rlox.runs.algorithm import Algorithm
    from rlox.runs.checkpoint import Checkpoint

log = logging.getLogger("rlox.cli")
LOG_FILES = ("metrics.jsonl", "episodes.jsonl", "samples.jsonl", "log.txt")


@dataclass(frozen=True)
class ResumePlan:
    """A run folder and the configuration to continue it with."""

    path: Path
    overrides: list[str]
    saved_config: RunConfig
    config: RunConfig
    status: dict[str, Any]

    @classmethod
    def read(cls, path: Path, overrides: Sequence[str], is_trusted: bool = False) -> ResumePlan:
        """Read and check everything but the checkpoints.

        `is_trusted`: the user typed the configuration of the folder.
        """
        trust, plain_overrides = split_trust(overrides)
        _require_regular_files(path)
        try:
            saved_config = validate.saved_config(read_config(path))
        except ConfigError as error:
            source = str(path / "config.yaml")
            prefix = "" if str(error).startswith(source) else f"{source}: "
            raise ConfigError(f"{prefix}{error}") from error
        config = resolve_trusted(
            changes.apply_overrides(saved_config, plain_overrides),
            trust or is_trusted,
            plain_overrides,
            path / "config.yaml",
            f"rlox resume {summary.quote_path(path)}",
        )
        return cls(path, plain_overrides, saved_config, config, _status(path))

    @property
    def changes(self) -> list[changes.Change]:
        """The differences from the frozen configuration."""
        return changes.differences(to_plain(self.saved_config), to_plain(self.config))

    def is_finished(self) -> bool:
        """Return whether the run is done and no requested change would take it further."""
        if self.status.get("status") != DONE or self.is_missing_evaluation:
            return False
        self.require_not_behind(int(self.status.get("step", 0)))
        if self.status.get("reason") == "total_steps":
            return self.config.rounded_steps <= int(self.status.get("step", 0))
        return not any(c.key == "total_steps" or c.key.startswith("stop.") for c in self.changes)

    @property
    def is_missing_evaluation(self) -> bool:
        """Whether only the final evaluation is missing: it exceeded `stop.minutes`, or its result is lost."""
        result = read_result_or_none(self.path)
        if result is None:
            return self.status.get("reason") == "total_steps"
        return result.get("score") is None and "within" in (result.get("unscored") or "")

    def require_not_behind(self, step: int) -> None:
        """Raise `ConfigError` for a total_steps before `step`: a run cannot go back."""
        has_new_total = any(change.key == "total_steps" for change in self.changes)
        if has_new_total and self.config.rounded_steps < step:
            raise ConfigError(
                f"total_steps={self.config.total_steps}: the run is at step {step:,} already; "
                "give at least that"
            )


def resume_run(call: Call) -> int:
    """Continue one run and return the exit code."""
    name, overrides = changes.split_resume(call.args)
    path = find_run(name)
    plan = ResumePlan.read(path, overrides)
    if plan.is_finished():
        return _print_done(plan)
    distributed_run.require_shareable(plan.config)
    validate.require_environment(plan.config)
    check_loggers(plan.config.logger)
    validate.try_environment(plan.config)
    print_warnings(plan.config, call.name)
    folder = RunFolder.reopen(path)
    try:
        with folder:
            plan = ResumePlan.read(path, overrides)  # again: only now the folder is locked
            if plan.is_finished():
                return _print_done(plan)
            return int(_resume(plan, folder, call)["code"])
    except Exception as error:
        return report_failure(error, path if folder.has_started else None, call)[0]


def resume_job(folder: RunFolder, call: Call, config: RunConfig) -> dict[str, Any]:
    """Continue the run of a job, unless another process has finished it; return status and exit code.

    Code that the run names is trusted, as the job's command names the same code. Settings that do not define
    the job apply to new runs only: this run keeps its loggers, name and tags.
    """
    if identity(validate.saved_config(read_config(folder.path))) != identity(config):
        raise ConfigError(f"{folder.path}/config.yaml belongs to another job: the file has just been changed")
    plan = ResumePlan.read(folder.path, [], is_trusted=True)
    if plan.is_finished():
        return {"status": "skipped"}
    check_loggers(plan.config.logger)
    if plan.config.logger != config.logger:
        names = ", ".join(plan.config.logger) or "none"
        call.reporter.message("resumed", f"  keeps the loggers that it began with: {names}")
    return _resume(plan, folder, call)


def find_run(name: str) -> Path:
    """Return the named run folder; a `ConfigError` says what is missing and which runs there are."""
    path = expand_path(name)
    if not path.is_dir():
        problem = "a file, not a run folder" if path.exists() else "no such folder"
        raise ConfigError(f"resume={name}: {problem}{nearest_runs_hint(path)}")
    if (path / "manifest.json").exists():
        raise ConfigError(f"resume={name}: a checkpoint; name the run folder it is in")
    _require_regular_files(path)
    has_started = any((path / file).exists() for file in (".lock", "status.json")) or bool(
        _saved_checkpoints(path)
    )
    if has_started and is_locked(path):
        raise ConfigError(f"resume={name}: {locked_message(path)}")
    if (path / "config.yaml").is_file() and has_started:
        return path
    if has_started:
        raise ConfigError(f"resume={name}: config.yaml is missing, {_missing_config_message(path)}")
    missing = "status.json" if (path / "config.yaml").is_file() else "config.yaml"
    raise ConfigError(f"resume={name}: not a run folder: {missing} is missing{nearest_runs_hint(path)}")


def _missing_config_message(path: Path) -> str:
    """Describe a run without its configuration, and what to do."""
    checkpoints, logs = _saved_checkpoints(path), [name for name in LOG_FILES[:-1] if _file_size(path / name)]
    if not (checkpoints or logs or _file_size(path / "result.json")):
        return (
            "the run was killed while its folder was created\n"
            "  nothing was trained: delete the folder and start the run again with rlox train"
        )
    step, n = _status(path).get("step"), len(checkpoints)
    step_text = "" if step is None else f" at step {step:,}"
    checkpoints_text = f"{n} checkpoint{'s' * (n != 1)}" if n else "no checkpoint"
    hint = f"\n  its values are in {checkpoints[-1]}/state.json, under config" if n else ""
    return f"and the run{step_text} has {checkpoints_text}: put config.yaml back{hint}"


def _resume(plan: ResumePlan, folder: RunFolder, call: Call) -> dict[str, Any]:
    from rlox import build  # imported here because it imports torch: wrong use is reported before

    with _show_warnings(call.name):
        algorithm, checkpoint = build.resume(
            plan.path, plan.config, lambda s: _require_matching_checkpoints(plan, s)
        )
    with closing(algorithm):
        step = algorithm.clock.now
        plan.require_not_behind(step)
        _require_same_origin(plan, algorithm)
        _require_logs(plan.path, checkpoint)
        interruption_reason = (
            "" if checkpoint is None else algorithm.source.resume_warning(checkpoint.state["source"])
        )
        grade = "episode_start" if interruption_reason else "exact"
        folder.restart(step)
        new_provenance = provenance.collect(plan.config, call.command_line)
        backend = asdict(algorithm.components.backend)
        _warn_if_damaged(plan.path, call.name)
        resume_metadata = {"resumed_at": step, "resume_grade": grade, "backend": backend}
        _save_previous(plan, {**new_provenance, **resume_metadata})
        _move_damaged_aside(plan.path, step)
        start_message = f"{run_title(plan.config)}\n  folder  {plan.path}"
        start_message += algorithm.components.backend.message + algorithm.device.message
        call.reporter.message("begun", start_message)
        for change in plan.changes:
            call.reporter.message("begun", f"  changed {changes.describe(change, plan.config)}")
        resume_message = _resume_message(algorithm, checkpoint, interruption_reason)
        log.info("%s", resume_message)
        call.reporter.message("resumed", f"  {resume_message}")
        return run_training(algorithm, plan.config, folder, call, checkpoint)


def _require_regular_files(run: Path) -> None:
    """Raise `ConfigError` for a pipe or device in place of a file: opening it might block for ever."""
    for name in ("config.yaml", "status.json", "result.json", "provenance.json", *LOG_FILES):
        file = run / name
        if file.exists() and not file.is_file():
            raise ConfigError(f"{file} is not a regular file; expected the file that the run wrote")


def _warn_if_damaged(run: Path, command: str) -> None:
    """Warn of a damaged old result: the run goes on without it and writes a new one."""
    try:
        read_result(run)
    except (OSError, ConfigError) as error:
        print(f"rlox {command}: warning: {error}; the run goes on without it", file=sys.stderr)


def _require_logs(run: Path, checkpoint: Checkpoint | None) -> None:
    """Raise `CheckpointError`, before anything is changed, if a log lacks rows that the checkpoint needs."""
    for name, size in (checkpoint.logs if checkpoint else {}).items():
        file = run / name
        if _file_size(file) < size:
            problem = f"has {_file_size(file)} bytes" if file.exists() else "is missing"
            raise CheckpointError(
                f"{file} {problem}, but had {size} bytes when the checkpoint was saved: put the file back, "
                "or start a new run"
            )


def _file_size(file: Path) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    return file.stat().st_size if file.exists() else 0


def _require_same_origin(plan: ResumePlan, algorithm: Algorithm) -> None:
    """Require the same initial weights for a run that restarts because it has no checkpoint yet."""
    if algorithm.origin is None:
        return
    provenance_file = plan.path / "provenance.json"
    saved_provenance: Any = read_json(provenance_file) if provenance_file.exists() else {}
    saved_origin = saved_provenance.get("init_from") or algorithm.origin
    if saved_origin["weights_sha256"] != algorithm.origin["weights_sha256"]:
        raise ConfigError(
            f"init_from={plan.config.init_from}: the run began with its {saved_origin['checkpoint']}, which "
            "is not its newest checkpoint any more; start a new run"
        )


def _resume_message(algorithm: Algorithm, checkpoint: Checkpoint | None, interruption_reason: str) -> str:
    position = f"resumed at step {algorithm.clock.now:,} of {algorithm.clock.horizon:,}"
    if checkpoint is None:
        return f"{position} (there was no checkpoint yet; the run starts again)"
    return f"{position} ({interruption_reason or 'exact'})"


def _require_matching_checkpoints(plan: ResumePlan, checkpoint: Checkpoint | None) -> None:
    """Require checkpoints that exist and belong to the configuration beside them."""
    if checkpoint is None:
        if damaged := _step_checkpoints(plan.path):
            raise CheckpointError(
                f"{plan.path} has only damaged checkpoints: {', '.join(p.name for p in damaged)}\n"
                "  put a whole one back, or start a new run: rlox train"
            )
        if plan.status.get("status") == DONE:
            raise CheckpointError(summary.missing_checkpoints_message(plan.path, plan.status["step"]))
        return
    file_values = dict(dotted_items(plain_yaml.load(plan.path / "config.yaml")))
    # in a run of an older version, a resume saved the defaults of these keys in checkpoints only
    newer_keys = {"env.seeding", "env.normalize_rule"} - file_values.keys()
    checkpoint_values = to_plain(validate.saved_config(upgrade_saved_config(checkpoint.config)))
    edits = [
        change
        for change in changes.differences(checkpoint_values, to_plain(plan.saved_config))
        if not (change.is_allowed or change.key in newer_keys or _is_ignored(change))
    ]
    if edits:
        key, saved_value, current_value = edits[0].key, *map(value_text, (edits[0].old, edits[0].new))
        omitted_text = f" (and {len(edits) - 1} more)" if len(edits) > 1 else ""
        raise ConfigError(
            f"{plan.path / 'config.yaml'} was edited: {key}={current_value}, but the checkpoint has "
            f"{key}={saved_value}{omitted_text}; put it back or start a new run"
        )


def _is_ignored(change: changes.Change) -> bool:
    """Return whether a key is bookkeeping, or of a logger that only one of the configurations has."""
    group = change.key.split(".")[0]
    is_added_or_removed = changes.UNSET in (change.old, change.new)
    return group in BOOKKEEPING_KEYS or (group == "logger" and is_added_or_removed)


def _save_previous(plan: ResumePlan, new_provenance: dict[str, Any]) -> None:
    """Write `.hydra/resumeN/`: the previous configuration and result, the overrides, the provenance."""
    hydra, number = plan.path / ".hydra", 1
    while (hydra / f"resume{number}").exists():
        number += 1
    target = hydra / f"resume{number}"
    try:
        target.mkdir(parents=True)
        for name in ("config.yaml", "result.json"):
            if (plan.path / name).is_file():
                shutil.copyfile(plan.path / name, target / name)
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror}") from error
    write_text(target / "overrides.yaml", plain_yaml.dump(plan.overrides))
    write_json(target / "provenance.json", new_provenance)
    if not (plan.path / "provenance.json").exists():  # killed while the folder was made
        write_json(plan.path / "provenance.json", new_provenance)
    if plan.changes:
        write_config(plan.path, plan.config)


def _saved_checkpoints(run: Path) -> list[Path]:
    """Return the checkpoints, oldest first, without those that were set aside."""
    return sorted(p for p in run.glob("checkpoints/step-*") if "." not in p.name)


def _step_checkpoints(run: Path) -> list[Path]:
    return [path for path in _saved_checkpoints(run) if path.name[5:].isdigit()]


def _move_damaged_aside(run: Path, step: int) -> None:
    """Rename damaged checkpoints after `step`, whose names the run will need again."""
    for path in _step_checkpoints(run):
        if int(path.name[5:]) > step:
            number = 1
            while (target := path.with_name(f"{path.name}.damaged{number}")).exists():
                number += 1
            with translate_os_errors(target):
                path.rename(target)


def _status(path: Path) -> dict[str, Any]:
    try:
        status = read_status(path)
        return {**status, "step": int(status["step"])}
    except (OSError, ValueError, TypeError, KeyError):
        return {}  # the file is damaged, or a kill came before it was written: the checkpoints decide


def _print_done(plan: ResumePlan) -> int:
    trust_argument = " trust=true" if trust_arguments(plan.config) else ""
    step, total, reason = plan.status["step"], plan.config.rounded_steps, plan.status.get("reason")
    unit_word = unit_label(plan.config.algo.unit)
    limit_text = {"score": "another stop.score", "minutes": "a larger stop.minutes"}.get(str(reason))
    limit_hint = f"{limit_text}, or stop.{reason}=null" if limit_text else ""
    hints = [limit_hint] * bool(limit_hint) + ["a larger total_steps"] * (step >= total or not limit_hint)
    steps_text = f"was stopped at {step:,} of {total:,}" if step < total else f"has taken its {step:,}"
    print(
        f"done: {plan.path} {steps_text} {unit_word} ({reason}); nothing was changed\n"
        f"  to train further, give {' and '.join(hints)}; "
        f"to evaluate: rlox evaluate {summary.quote_path(plan.path)}{trust_argument}"
    )
    return OK


@contextmanager
def _show_warnings(command: str) -> Iterator[None]:
    """While active, show the library's warnings about skipped checkpoints on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter(f"rlox {command}: warning: %(message)s"))
    logger = logging.getLogger("rlox.checkpoint")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)

"""`rlox train resume=RUN`: go on with a run in its own folder, as its newest whole checkpoint left it.

Nothing in the folder is composed or executed, and nothing is changed before all of it is known to fit.
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

from rlox.configs import RunConfig, leaves, plain, upgrade_saved
from rlox.errors import CheckpointError, ConfigError, StorageError
from rlox.loggers import check_loggers
from rlox.runs.progress import word
from rlox_cli import changes, plain_yaml, provenance, summary, together, validate
from rlox_cli.changes import Change
from rlox_cli.command import Call
from rlox_cli.exit_codes import OK
from rlox_cli.help import value_text
from rlox_cli.identity import PLACE_KEYS, identity
from rlox_cli.run_folder import (
    DONE,
    RunFolder,
    is_locked,
    locked_message,
    nearest_runs,
    read_config,
    read_json,
    read_result,
    read_status,
    whole_result,
    write_config,
    write_json,
    write_text,
    writing,
)
from rlox_cli.run_training import report_failure, run_training, title, warn
from rlox_cli.trust import allowed, repeated
from rlox_cli.trust import taken as trust_taken
from rlox_cli.verbatim import typed_path

if TYPE_CHECKING:
    from rlox.runs.algorithm import Algorithm
    from rlox.runs.checkpoint import Checkpoint

log = logging.getLogger("rlox.cli")
LOGS = ("metrics.jsonl", "episodes.jsonl", "samples.jsonl", "log.txt")


@dataclass(frozen=True)
class Continuation:
    """A run folder and what it shall be continued with."""

    path: Path
    overrides: list[str]
    frozen: RunConfig
    config: RunConfig
    status: dict[str, Any]

    @classmethod
    def read(cls, path: Path, given: Sequence[str], trusted: bool = False) -> Continuation:
        """Read and check everything but the checkpoints.

        `trusted` is a folder whose configuration is one that the user typed.
        """
        trust, overrides = trust_taken(given)
        _require_files(path)
        try:
            frozen = validate.saved_config(read_config(path))
        except ConfigError as error:
            source = str(path / "config.yaml")
            prefix = "" if str(error).startswith(source) else f"{source}: "
            raise ConfigError(f"{prefix}{error}") from error
        config = allowed(
            changes.apply(frozen, overrides),
            trust or trusted,
            overrides,
            path / "config.yaml",
            f"rlox resume {summary.typed(path)}",
        )
        return cls(path, overrides, frozen, config, _status(path))

    @property
    def changes(self) -> list[Change]:
        """What differs from the frozen configuration."""
        return changes.differences(plain(self.frozen), plain(self.config))

    def finished(self) -> bool:
        """Whether the run is done and nothing that is asked for would take it further."""
        if self.status.get("status") != DONE or self.lacks_evaluation:
            return False
        self.require_ahead(int(self.status.get("step", 0)))
        if self.status.get("reason") == "total_steps":
            return self.config.rounded_steps <= int(self.status.get("step", 0))
        return not any(c.key == "total_steps" or c.key.startswith("stop.") for c in self.changes)

    @property
    def lacks_evaluation(self) -> bool:
        """Whether only the final evaluation is left: `stop.minutes` were over before it was, or what is known
        of it is lost with `result.json`.
        """
        result = whole_result(self.path)
        if result is None:
            return self.status.get("reason") == "total_steps"
        return result.get("score") is None and "within" in (result.get("unscored") or "")

    def require_ahead(self, step: int) -> None:
        """A run cannot go back."""
        asked = any(change.key == "total_steps" for change in self.changes)
        if asked and self.config.rounded_steps < step:
            raise ConfigError(
                f"total_steps={self.config.total_steps}: the run is at step {step:,} already; "
                "give at least that"
            )


def resume_run(call: Call) -> int:
    """Continue one run; the exit code."""
    name, overrides = changes.split(call.args)
    path = find_run(name)
    plan = Continuation.read(path, overrides)
    if plan.finished():
        return _say_done(plan)
    together.require_shared(plan.config)
    validate.require_environment(plan.config)
    check_loggers(plan.config.logger)
    validate.try_environment(plan.config)
    warn(plan.config, call.name)
    folder = RunFolder.reopen(path)
    try:
        with folder:
            plan = Continuation.read(
                path, overrides
            )  # again: from here on nobody else writes to it
            if plan.finished():
                return _say_done(plan)
            return int(_continue(plan, folder, call)["code"])
    except Exception as error:
        return report_failure(error, path if folder.begun else None, call)[0]


def go_on(folder: RunFolder, call: Call, given: RunConfig) -> dict[str, Any]:
    """Continue a run of the job that is configured so, unless somebody else has ended it.

    Its status and exit code. What it names is trusted, as the command of the job names the same. What
    the command says beside the job is for runs that begin: this one keeps its loggers, name and tags.
    """
    if identity(validate.saved_config(read_config(folder.path))) != identity(given):
        raise ConfigError(f"{folder.path}/config.yaml is of another job: it was changed just now")
    plan = Continuation.read(folder.path, [], trusted=True)
    if plan.finished():
        return {"status": "skipped"}
    check_loggers(plan.config.logger)
    if plan.config.logger != given.logger:
        names = ", ".join(plan.config.logger) or "none"
        call.voice.say("resumed", f"  keeps the loggers that it began with: {names}")
    return _continue(plan, folder, call)


def find_run(name: str) -> Path:
    """The run folder that is named; `ConfigError` says what is missing, and which runs there are."""
    path = typed_path(name)
    if not path.is_dir():
        what = "a file, not a run folder" if path.exists() else "no such folder"
        raise ConfigError(f"resume={name}: {what}{nearest_runs(path)}")
    if (path / "manifest.json").exists():
        raise ConfigError(f"resume={name}: a checkpoint; name the run folder it is in")
    _require_files(path)
    begun = any((path / file).exists() for file in (".lock", "status.json")) or bool(_saved(path))
    if begun and is_locked(path):
        raise ConfigError(f"resume={name}: {locked_message(path)}")
    if (path / "config.yaml").is_file() and begun:
        return path
    if begun:
        raise ConfigError(f"resume={name}: config.yaml is missing, {_without_config(path)}")
    missing = "status.json" if (path / "config.yaml").is_file() else "config.yaml"
    raise ConfigError(f"resume={name}: not a run folder, {missing} is missing{nearest_runs(path)}")


def _without_config(path: Path) -> str:
    """What a run is without its configuration, and what to do."""
    saved, logs = _saved(path), [log for log in LOGS[:-1] if _size(path / log)]
    if not (saved or logs or _size(path / "result.json")):
        return (
            "the run was killed while its folder was made\n"
            "  nothing was trained: delete the folder and start the run again with rlox train"
        )
    step, n = _status(path).get("step"), len(saved)
    at = "" if step is None else f" at step {step:,}"
    kept = f"{n} checkpoint{'s' * (n != 1)}" if n else "no checkpoint"
    more = f"\n  its values are in {saved[-1]}/state.json, under config" if n else ""
    return f"and the run{at} has {kept}: put config.yaml back{more}"


def _continue(plan: Continuation, folder: RunFolder, call: Call) -> dict[str, Any]:
    from rlox import build  # late: it brings torch, which wrong use should not wait for

    with _warnings_shown(call.name):
        algorithm, saved = build.resume(plan.path, plan.config, lambda s: _require_own(plan, s))
    with closing(algorithm):
        step = algorithm.clock.now
        plan.require_ahead(step)
        _require_same_origin(plan, algorithm)
        _require_logs(plan.path, saved)
        why = "" if saved is None else algorithm.source.interruption(saved.state["source"])
        grade = "episode_start" if why else "exact"
        folder.restart(step)
        origin = provenance.collect(plan.config, call.line)
        backend = asdict(algorithm.parts.backend)
        _say_damaged(plan.path, call.name)
        told = {"resumed_at": step, "resume_grade": grade, "backend": backend}
        _keep_previous(plan, {**origin, **told})
        _set_damaged_aside(plan.path, step)
        begun = f"{title(plan.config)}\n  folder  {plan.path}"
        begun += algorithm.parts.backend.line + algorithm.device.line
        call.voice.say("begun", begun)
        for change in plan.changes:
            call.voice.say("begun", f"  changed {changes.describe(change, plan.config)}")
        where = _where(algorithm, saved, why)
        log.info("%s", where)
        call.voice.say("resumed", f"  {where}")
        return run_training(algorithm, plan.config, folder, call, saved)


def _require_files(run: Path) -> None:
    """`ConfigError` for a pipe or a device in the place of a file: whoever opened it might wait for ever."""
    for name in ("config.yaml", "status.json", "result.json", "provenance.json", *LOGS):
        file = run / name
        if file.exists() and not file.is_file():
            raise ConfigError(f"{file} is no file, expected what a run wrote there")


def _say_damaged(run: Path, command: str) -> None:
    """Name the old result where it is damaged: the run goes on without it, and writes another."""
    try:
        read_result(run)
    except (OSError, ConfigError) as error:
        print(f"rlox {command}: warning: {error}; the run goes on without it", file=sys.stderr)


def _require_logs(run: Path, saved: Checkpoint | None) -> None:
    """`CheckpointError`, before anything is changed, for a log without rows that the checkpoint counts on."""
    for name, size in (saved.logs if saved else {}).items():
        file = run / name
        if _size(file) < size:
            has = f"has {_size(file)} bytes" if file.exists() else "is missing"
            raise CheckpointError(
                f"{file} {has}, the checkpoint was saved at {size} bytes of it: put the file back, or start "
                "a new run"
            )


def _size(file: Path) -> int:
    """Bytes of a file; 0 where there is none."""
    return file.stat().st_size if file.exists() else 0


def _require_same_origin(plan: Continuation, algorithm: Algorithm) -> None:
    """A run that begins anew, before its first checkpoint, begins with the weights it began with."""
    if algorithm.origin is None:
        return
    provenance_file = plan.path / "provenance.json"
    before: Any = read_json(provenance_file) if provenance_file.exists() else {}
    began = before.get("init_from") or algorithm.origin
    if began["weights_sha256"] != algorithm.origin["weights_sha256"]:
        raise ConfigError(
            f"init_from={plan.config.init_from}: the run began with its {began['checkpoint']}, which is not "
            "its newest checkpoint any more; start a new run"
        )


def _where(algorithm: Algorithm, saved: Checkpoint | None, why: str) -> str:
    at = f"resumed at step {algorithm.clock.now:,} of {algorithm.clock.horizon:,}"
    if saved is None:
        return f"{at} (there was no checkpoint yet, the run starts again)"
    return f"{at} ({why or 'exact'})"


def _require_own(plan: Continuation, saved: Checkpoint | None) -> None:
    """The checkpoints must be there and belong to the configuration beside them."""
    if saved is None:
        if damaged := _checkpoints(plan.path):
            raise CheckpointError(
                f"{plan.path} has only damaged checkpoints: {', '.join(p.name for p in damaged)}\n"
                "  put a whole one back, or start a new run: rlox train"
            )
        if plan.status.get("status") == DONE:
            raise CheckpointError(summary.checkpoints_are_gone(plan.path, plan.status["step"]))
        return
    written = dict(leaves(plain_yaml.load(plan.path / "config.yaml")))
    # a version that went on with a run of an older one gave its checkpoints the defaults of these
    late = {"env.seeding", "env.normalize_rule"} - written.keys()
    was = plain(validate.saved_config(upgrade_saved(saved.config)))
    edited = [
        change
        for change in changes.differences(was, plain(plan.frozen))
        if not (change.allowed or change.key in late or _is_aside(change))
    ]
    if edited:
        key, before, now = edited[0].key, *map(value_text, (edited[0].old, edited[0].new))
        more = f" (and {len(edited) - 1} more)" if len(edited) > 1 else ""
        raise ConfigError(
            f"{plan.path / 'config.yaml'} was edited: {key}={now}, the checkpoint has {key}={before}{more}; "
            "put it back or start a new run"
        )


def _is_aside(change: Change) -> bool:
    """Whether a key says where a run is, or is of a logger that only one of both configurations has."""
    group = change.key.split(".")[0]
    alone = changes.UNSET in (change.old, change.new)
    return group in PLACE_KEYS or (group == "logger" and alone)


def _keep_previous(plan: Continuation, origin: dict[str, Any]) -> None:
    """`.hydra/resumeN/`: the configuration and result until now, what changes them, from where."""
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
    write_json(target / "provenance.json", origin)
    if not (plan.path / "provenance.json").exists():  # killed while the folder was made
        write_json(plan.path / "provenance.json", origin)
    if plan.changes:
        write_config(plan.path, plan.config)


def _saved(run: Path) -> list[Path]:
    """The checkpoints, oldest first, but for those that were set aside."""
    return sorted(p for p in run.glob("checkpoints/step-*") if "." not in p.name)


def _checkpoints(run: Path) -> list[Path]:
    return [path for path in _saved(run) if path.name[5:].isdigit()]


def _set_damaged_aside(run: Path, step: int) -> None:
    """What was passed over must not stand where the run will save again."""
    for path in _checkpoints(run):
        if int(path.name[5:]) > step:
            number = 1
            while (target := path.with_name(f"{path.name}.damaged{number}")).exists():
                number += 1
            with writing(target):
                path.rename(target)


def _status(path: Path) -> dict[str, Any]:
    try:
        status = read_status(path)
        return {**status, "step": int(status["step"])}
    except (OSError, ValueError, TypeError, KeyError):
        return {}  # killed before it was written, or damaged: the checkpoints decide


def _say_done(plan: Continuation) -> int:
    trusting = " trust=true" if repeated(plan.config) else ""
    step, total, why = plan.status["step"], plan.config.rounded_steps, plan.status.get("reason")
    counted = word(plan.config.algo.unit)
    lifted = {"score": "another stop.score", "minutes": "a larger stop.minutes"}.get(str(why))
    lift = f"{lifted}, or stop.{why}=null" if lifted else ""
    more = [lift] * bool(lift) + ["a larger total_steps"] * (step >= total or not lift)
    taken = f"was stopped at {step:,} of {total:,}" if step < total else f"has taken its {step:,}"
    print(
        f"done: {plan.path} {taken} {counted} ({why}); nothing was changed\n"
        f"  to train further, give {' and '.join(more)}; "
        f"to evaluate: rlox evaluate {summary.typed(plan.path)}{trusting}"
    )
    return OK


@contextmanager
def _warnings_shown(command: str) -> Iterator[None]:
    """What the library says about checkpoints that it passes over, on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter(f"rlox {command}: warning: %(message)s"))
    logger = logging.getLogger("rlox.checkpoint")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)

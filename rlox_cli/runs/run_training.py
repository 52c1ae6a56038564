"""Train in a locked run folder, new or resumed: progress, result, plot, status."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox._core import set_num_threads
from rlox.configs import EnvConfig, RunConfig, make_run
from rlox.configs.advice import advice
from rlox.configs.env import is_ale, is_preprocessed_game
from rlox.configs.secrets import redact
from rlox.envs.engines.factories import engine_factory_for
from rlox.envs.ids import find_spec
from rlox.errors import CheckpointError, StorageError
from rlox.runs import progress
from rlox_cli.config.plugin_states import shadowing_messages
from rlox_cli.runs import plot, provenance, summary
from rlox_cli.runs.distributed_run import RANK_ZERO
from rlox_cli.runs.run_folder import DONE, KILLED, PRUNED, RunFolder, read_config, write_json
from rlox_cli.runs.run_folder import FAILED as RUN_FAILED
from rlox_cli.runs.signals import signal_name
from rlox_cli.search.pruning import make_pruner
from rlox_cli.shell import messages
from rlox_cli.shell.command import Call
from rlox_cli.shell.exit_codes import DISK_FULL_ERRORS, FAILED, NON_FINITE, OK, WRONG_USE, exit_code

if TYPE_CHECKING:
    from rlox.runs.algorithm import Algorithm
    from rlox.runs.checkpoint import Checkpoint
    from rlox.runs.outcome import Outcome
    from rlox.runs.session import Session
    from rlox.training.evaluate import Evaluation

log = logging.getLogger("rlox.cli")


def run_training(
    algorithm: Algorithm,
    config: RunConfig,
    folder: RunFolder,
    call: Call,
    resume_checkpoint: Checkpoint | None = None,
) -> dict[str, Any]:
    """Train to the end or until a signal; return the status and the exit code."""
    from rlox.runs.journal import best_evaluation
    from rlox.runs.session import Session

    set_num_threads(config.threads)
    with ExitStack() as signals:  # until the folder says how the run ended
        with call.reporter.progress() as report:

            def on_progress(snapshot: progress.ProgressSnapshot) -> None:
                folder.update_step(snapshot.now)
                is_finished = snapshot.now >= algorithm.clock.horizon and snapshot.evaluating is None
                if is_finished and (warning := endless_episodes_warning(algorithm)):
                    call.reporter.report_error(f"rlox {call.name}: warning: {warning}")
                report(snapshot)

            def on_evaluation(result: Evaluation, is_best: bool) -> None:
                step = f"{progress.unit_label(algorithm.clock.unit)} {algorithm.clock.now:,}"
                line = summary.evaluation_line(result, is_best)
                call.reporter.message("evaluated", f"  eval    {step}: {line}")

            session = Session(
                algorithm,
                folder.path,
                on_progress=on_progress,
                resume_checkpoint=resume_checkpoint,
                should_prune=make_pruner(config),
                deliver_at_end=False,
                on_evaluation=on_evaluation,
            )
            RANK_ZERO.broadcast(algorithm, config)
            signals.enter_context(call.signals.call_on_signal(lambda: session.request_stop("signal")))
            outcome = session.run()
        status, reason, data = _record_end(algorithm, config, folder, outcome)
    _deliver(session, folder)
    best = best_evaluation(folder.path, outcome.clock.unit) if config.eval.every else None
    cause = "signal" if call.signals.received_signal is None else signal_name(call.signals.received_signal)
    call.reporter.message("ended", summary.closing_lines(config, data, folder.path, best, cause))
    if offline := summary.offline_message(config, folder.path):
        call.reporter.message("ended", offline)
    return _end_status(call, status, reason)


def _record_end(
    algorithm: Algorithm, config: RunConfig, folder: RunFolder, outcome: Outcome
) -> tuple[str, str, dict[str, Any]]:
    """Write result, plot and status; return the status, its reason and the result."""
    if outcome.abandoned_during:
        print(f"  {summary.abandoned_message(config, outcome, folder.path)}", file=sys.stderr)
    status, reason = _status_and_reason(outcome)
    data = summary.result_document(config, outcome, status, reason)
    data["resume_grade"] = algorithm.source.resume_grade
    data["resumes"] = read_resumes(folder.path)
    # after a stop request, do not wait for the disk
    retry_seconds = 0.0 if status == KILLED else config.checkpoint.storage_timeout
    write_json(folder.path / "result.json", data, retry_seconds)
    _plot_learning_curve(folder)
    folder.update_step(outcome.clock.now)
    folder.write_status(status, reason, retry_seconds)
    return status, reason, data


def _end_status(call: Call, status: str, reason: str) -> dict[str, Any]:
    """Return the status and the exit code of a run that ended; report a failed run."""
    if status == RUN_FAILED:
        call.reporter.report_error(f"rlox {call.name}: {reason}")
        return {"status": status, "code": NON_FINITE, "message": reason}
    code = 128 + (call.signals.received_signal or 0) if status == KILLED else OK
    return {"status": status, "code": code}


def _status_and_reason(outcome: Outcome) -> tuple[str, str]:
    """Return status and reason of a run; a run with a non-finite score has failed."""
    status = {"signal": KILLED, PRUNED: PRUNED}.get(outcome.reason, DONE)
    if status == DONE and outcome.evaluation is not None and outcome.evaluation.non_finite_message:
        return RUN_FAILED, f"in the final evaluation {outcome.evaluation.non_finite_message}"
    return status, outcome.reason


def report_failure(error: Exception, folder: Path | None, call: Call) -> tuple[int, str]:
    """Print the error; return the exit code and the error's text.

    `folder`: the folder of the run, if the run had begun.
    """
    code, text = exit_code(error), messages.strip_frames(messages.describe(error))
    if folder is not None:
        code = FAILED if code == WRONG_USE else code
        text = messages.shorten(text, 4)
        if folder.is_dir():  # false if it was moved away
            text += f"\n  traceback: {folder / 'log.txt'}"
        is_disk_full = isinstance(error, StorageError) and _is_disk_full(error)
        has_checkpoint = any(folder.glob("checkpoints/step-*")) and not isinstance(error, CheckpointError)
        if has_checkpoint or (is_disk_full and folder.is_dir()):
            command = summary.resume_command(folder, make_run(read_config(folder)))
            text += f"\n  {'make room there; then ' if is_disk_full else ''}to go on: {command}"
    if call.full_trace:
        traceback.print_exception(error)
    call.reporter.report_error(messages.shorten(f"rlox {call.name}: {text}"))
    return code, text


def _is_disk_full(error: StorageError) -> bool:
    """Return whether the disk had no room for the write."""
    cause = error.__cause__ if error.errno is None else error
    return isinstance(cause, OSError) and cause.errno in DISK_FULL_ERRORS


def read_resumes(folder: Path) -> list[dict[str, Any]]:
    """Return the step and the grade of each resume."""
    resume_records = []
    paths = [p for p in (folder / ".hydra").glob("resume*") if p.name[6:].isdigit()]
    for path in sorted(paths, key=lambda p: int(p.name[6:])):
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            data = json.loads((path / "provenance.json").read_text())
            resume_records.append({"step": data["resumed_at"], "grade": data["resume_grade"]})
    return resume_records


def run_title(config: RunConfig) -> str:
    """Return the first line about a run."""
    amount = f"{config.total_steps:,} {progress.unit_label(config.algo.unit)}"
    if config.rounded_steps > config.total_steps:
        amount += f", rounded up to {config.rounded_steps:,}"
    name = f"{config.run.name}: " if config.run.name else ""
    variant_text = f" ({config.run.variant})" if config.run.variant else ""
    return f"{name}{config.algo.name}{variant_text} on {config.env.id}, seed {config.seed}, {amount}"


def print_warnings(config: RunConfig, command: str) -> None:
    """Print warnings about probably unintended settings, before they cost time."""
    for line in [*advice(config), *shadowing_messages(config), *thread_warnings(config)]:
        print(f"rlox {command}: warning: {line}", file=sys.stderr, flush=True)


def thread_warnings(config: RunConfig) -> list[str]:
    """Warn if torch has more threads than there are free CPUs: updates can be many times slower."""
    cores = provenance.cores()
    try:
        idle_cpus = max(0.0, cores - os.getloadavg()[0])
    except OSError:  # not available on this system
        idle_cpus = float(cores)
    if config.torch_threads <= max(1.0, idle_cpus):
        return []
    return [
        f"torch_threads={config.torch_threads}, but only {idle_cpus:.1f} of {cores} CPU{'s' * (cores != 1)} "
        "are free: threads that wait for one another can make updates many times slower; set torch_threads=1"
    ]


def _deliver(session: Session, folder: RunFolder) -> None:
    """Deliver the result and the plot to the loggers, and print what they lack."""
    deliveries = session.deliver()
    incomplete = {name: delivery for name, delivery in deliveries.items() if not delivery.complete}
    for name, delivery in incomplete.items():
        delivery_text = redact(str(delivery))
        print(f"  logger {name} {delivery_text}; metrics.jsonl has every row", file=sys.stderr)
    if incomplete:
        run_dir = summary.quote_path(folder.path)
        print(f"  to send what is missing: rlox sync {run_dir}", file=sys.stderr)


def _plot_learning_curve(folder: RunFolder) -> None:
    """Draw the learning curve; an error here does not fail the run."""
    try:
        plot.learning_curve(folder.path)
    except Exception as error:
        log.warning("no plot: %s", error, exc_info=True)
        print(f"  no plot: {error}", file=sys.stderr)


def endless_episodes_warning(algorithm: Algorithm) -> str | None:
    """Return a warning if no episode has ended although each environment was stepped past its limit."""
    config = algorithm.config
    steps = algorithm.clock.env_steps // config.env.n_envs
    if not steps or algorithm.recent.count:
        return None
    limit = step_limit(config.env)
    if limit is not None and steps <= limit:
        return None
    remedy = (
        f"give {config.env.id} a limit, e.g. env.max_episode_steps=1000"
        if limit is None
        else f"something around {config.env.id} prevents its limit of {limit:,} steps from ending episodes"
    )
    return (
        f"no episode has ended in {steps:,} steps of each environment; an evaluation plays "
        f"{config.eval.episodes} whole episodes: {remedy}"
    )


def step_limit(config: EnvConfig) -> int | None:
    """Return the number of actions after which an episode is cut off; `None` if no limit is known."""
    limit = config.max_episode_steps
    frame_skip_option: object = config.atari.frame_skip if is_preprocessed_game(config) else 1
    if limit is None:
        with suppress(Exception):  # without a spec no limit is known
            if config.backend not in ("envpool", "ale") and engine_factory_for(config) is not None:
                return None
            spec = find_spec(config.id)
            arguments = {**spec.kwargs, **config.kwargs}
            is_ale_game = is_ale(config.id)  # ALE counts frames
            limit = arguments.get("max_num_frames_per_episode" if is_ale_game else "max_episode_steps")
            limit = limit or spec.max_episode_steps
            if is_ale_game and not is_preprocessed_game(config):
                frame_skip_option = arguments.get("frameskip", 1)
    if limit is None:
        return None
    frame_skip = (
        frame_skip_option if isinstance(frame_skip_option, int) else 1
    )  # for a range of frame skips (ALE): 1, which gives the longest possible episode
    return -(-limit // (frame_skip * config.action_repeat))

"""Training in a locked run folder, fresh or resumed: progress, result, plot, status."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox._core import set_num_threads
from rlox.configs import RunConfig, make_run
from rlox.configs.advice import advice
from rlox.configs.secrets import scrubbed
from rlox.errors import CheckpointError, StorageError
from rlox.runs import progress
from rlox_cli import messages, plot, provenance, summary
from rlox_cli.command import Call
from rlox_cli.endless import endless
from rlox_cli.exit_codes import FAILED, FULL, NON_FINITE, OK, WRONG_USE, exit_code
from rlox_cli.plugin_states import passed_over
from rlox_cli.run_folder import DONE, KILLED, PRUNED, RunFolder, read_config, write_json
from rlox_cli.run_folder import FAILED as RUN_FAILED
from rlox_cli.search.watch import pruner_of
from rlox_cli.signals import said
from rlox_cli.together import LEAD

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
    resumed: Checkpoint | None = None,
) -> dict[str, Any]:
    """Train to the end, or until a signal; the status and the exit code."""
    from rlox.runs.journal import best_evaluation
    from rlox.runs.session import Session

    set_num_threads(config.threads)
    with call.voice.reporter() as report:

        def tick(now: progress.Snapshot) -> None:
            folder.at_step(now.now)
            over = now.now >= algorithm.clock.horizon and now.evaluating is None
            if over and (told := endless(algorithm)):
                call.voice.failed(f"rlox {call.name}: warning: {told}")
            report(now)

        def evaluated(found: Evaluation, best: bool) -> None:
            at = f"{progress.word(algorithm.clock.unit)} {algorithm.clock.now:,}"
            call.voice.say("evaluated", f"  eval    {at}: {summary.evaluation(found, best)}")

        session = Session(
            algorithm,
            folder.path,
            progress=tick,
            resumed=resumed,
            prune=pruner_of(config),
            delivers=False,
            evaluated=evaluated,
        )
        LEAD.tell(algorithm, config)
        with call.signals.stopping(lambda: session.request_stop("signal")):
            outcome = session.run()
    if outcome.abandoned:
        print(f"  {summary.abandoned(config, outcome, folder.path)}", file=sys.stderr)
    status, reason = _end(outcome)
    data = summary.result(config, outcome, status, reason)
    data["resume_grade"] = algorithm.source.resume_grade
    data["resumes"] = resumes(folder.path)
    # who asked it to stop does not wait for a disk
    patience = 0.0 if status == KILLED else config.checkpoint.storage_timeout
    write_json(folder.path / "result.json", data, patience)
    _plot(folder)
    folder.at_step(outcome.clock.now)
    folder.status(status, reason, patience)
    _deliver(session, folder)
    best = best_evaluation(folder.path, outcome.clock.unit) if config.eval.every else None
    by = "signal" if call.signals.received is None else said(call.signals.received)
    call.voice.say("ended", summary.closing(config, data, folder.path, best, by))
    if offline := summary.offline(config, folder.path):
        call.voice.say("ended", offline)
    if status == RUN_FAILED:
        call.voice.failed(f"rlox {call.name}: {reason}")
        return {"status": status, "code": NON_FINITE, "message": reason}
    code = 128 + (call.signals.received or 0) if status == KILLED else OK
    return {"status": status, "code": code}


def _end(outcome: Outcome) -> tuple[str, str]:
    """Status and reason of a run; one whose score is no number has failed."""
    status = {"signal": KILLED, PRUNED: PRUNED}.get(outcome.reason, DONE)
    if status == DONE and outcome.evaluation is not None and outcome.evaluation.flaw:
        return RUN_FAILED, f"in the final evaluation {outcome.evaluation.flaw}"
    return status, outcome.reason


def report_failure(error: Exception, folder: Path | None, call: Call) -> tuple[int, str]:
    """Print what went wrong; the exit code and the text. `folder`: where the run had begun."""
    code, text = exit_code(error), messages.without_frames(messages.describe(error))
    if folder is not None:
        code = FAILED if code == WRONG_USE else code
        text = messages.shorten(text, 4)
        if folder.is_dir():  # nobody moved it away
            text += f"\n  traceback: {folder / 'log.txt'}"
        full = isinstance(error, StorageError) and _is_full(error)
        saved = any(folder.glob("checkpoints/step-*")) and not isinstance(error, CheckpointError)
        if saved or (full and folder.is_dir()):
            command = summary.resume_command(folder, make_run(read_config(folder)))
            text += f"\n  {'make room there; then ' if full else ''}to go on: {command}"
    if call.full_trace:
        traceback.print_exception(error)
    call.voice.failed(messages.shorten(f"rlox {call.name}: {text}"))
    return code, text


def _is_full(error: StorageError) -> bool:
    """Whether there was no room for what was to be written."""
    cause = error.__cause__ if error.errno is None else error
    return isinstance(cause, OSError) and cause.errno in FULL


def resumes(folder: Path) -> list[dict[str, Any]]:
    """Where the run went on after each stop, and how exactly."""
    found = []
    paths = [p for p in (folder / ".hydra").glob("resume*") if p.name[6:].isdigit()]
    for path in sorted(paths, key=lambda p: int(p.name[6:])):
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            data = json.loads((path / "provenance.json").read_text())
            found.append({"step": data["resumed_at"], "grade": data["resume_grade"]})
    return found


def title(config: RunConfig) -> str:
    """The first line about a run."""
    amount = f"{config.total_steps:,} {progress.word(config.algo.unit)}"
    if config.rounded_steps > config.total_steps:
        amount += f", rounded up to {config.rounded_steps:,}"
    name = f"{config.run.name}: " if config.run.name else ""
    of = f" ({config.run.variant})" if config.run.variant else ""
    return f"{name}{config.algo.name}{of} on {config.env.id}, seed {config.seed}, {amount}"


def warn(config: RunConfig, command: str) -> None:
    """Say what is probably not meant, before it costs time."""
    for line in [*advice(config), *passed_over(config), *crowded(config)]:
        print(f"rlox {command}: warning: {line}", file=sys.stderr, flush=True)


def crowded(config: RunConfig) -> list[str]:
    """That torch has more threads than CPUs are free, which makes updates many times slower."""
    cores = provenance.cores()
    try:
        free = max(0.0, cores - os.getloadavg()[0])
    except OSError:  # a system that does not say
        free = float(cores)
    if config.torch_threads <= max(1.0, free):
        return []
    return [
        f"torch_threads={config.torch_threads}, and of {cores} CPU{'s' * (cores != 1)} {free:.1f} are free: "
        "threads that wait for one another can make updates many times slower; set torch_threads=1"
    ]


def _deliver(session: Session, folder: RunFolder) -> None:
    """Let the loggers have the result and the picture too, and say what they lack."""
    deliveries = session.deliver()
    lacking = {name: found for name, found in deliveries.items() if not found.complete}
    for name, delivery in lacking.items():
        said = scrubbed(str(delivery))
        print(f"  logger {name} {said}; metrics.jsonl has every row", file=sys.stderr)
    if lacking:
        place = summary.typed(folder.path)
        print(f"  to send what is missing: rlox sync {place}", file=sys.stderr)


def _plot(folder: RunFolder) -> None:
    """A picture is no reason to lose a run."""
    try:
        plot.learning_curve(folder.path)
    except Exception as error:
        log.warning("no plot: %s", error, exc_info=True)
        print(f"  no plot: {error}", file=sys.stderr)

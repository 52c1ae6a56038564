"""`rlox train`: from a composed config to a finished run folder."""

from __future__ import annotations

import logging
import sys
import traceback
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from rlox.configs import RunConfig
from rlox.loggers import check_loggers
from rlox_cli import check, jobs, messages, plot, progress, provenance, summary
from rlox_cli.jobs import Job
from rlox_cli.messages import OK, WRONG_USE, Interrupted
from rlox_cli.run_folder import DONE, FAILED, KILLED, RunFolder, write_json
from rlox_cli.signals import Signals
from rlox_cli.sweep import Plan

if TYPE_CHECKING:
    from rlox.training.algorithm import Algorithm
    from rlox.training.session import Snapshot

log = logging.getLogger("rlox.cli")


class TrainTask:
    """What Hydra calls once per job; it never raises an error, so that a sweep goes on."""

    def __init__(self, command: list[str], signals: Signals, full_trace: bool = False) -> None:
        self.command = command
        self.signals = signals
        self.full_trace = full_trace
        self.code = OK
        self.plan: Plan | None = None  # of a sweep
        self.outcomes: list[dict[str, Any]] = []

    def __call__(self, config: DictConfig) -> dict[str, Any]:
        """Train one job; the result says how it ended."""
        job = jobs.current_job(self.plan.common if self.plan else frozenset())
        if job.sweep is not None:
            total = f"/{self.plan.jobs}" if self.plan and self.plan.jobs else ""
            print(f"[{job.number + 1}{total}] {' '.join(job.overrides)}", flush=True)
        ended: dict[str, Any] = {"job": job.name, "status": FAILED, "code": OK, "message": ""}
        try:
            ended |= self._train(config, job)
        except Exception as error:
            ended |= self._failed(error, job)
        finally:
            self._tidy(job)
        self.code = ended["code"]
        ended["folder"] = str(job.folder) if job.folder else None
        self.outcomes.append(ended)
        if job.sweep is not None and ended["status"] == KILLED:
            raise Interrupted(self.code - 128)
        return ended

    def _train(self, composed: DictConfig, job: Job) -> dict[str, Any]:
        config = check.run_config(composed)
        check_loggers(config.logger)
        if job.sweep is not None and not config.dry_run:
            if (done := jobs.finished(job, config)) is not None:
                job.folder = done
                print(f"  done before: {done}")
                return {"status": "skipped"}
            if (busy := jobs.running(job)) is not None:
                job.folder = busy
                print(f"  running in another process: {busy}")
                return {"status": "skipped"}
        check.try_environment(config)
        from rlox.build import build  # late: it brings torch, which wrong use should not wait for

        with closing(build(config)) as algorithm:
            if config.dry_run:
                print(f"dry run: {_title(config, job)}: everything fits, nothing was trained")
                return {"status": "checked"}
            with RunFolder.create(config, job.place()) as folder:
                job.folder = folder.path
                folder.start(config, provenance.collect(config, self.command))
                jobs.save_hydra(folder.path, composed)
                print(f"{_title(config, job)}\n  folder  {folder.path}", flush=True)
                return self._session(algorithm, config, folder)

    def _session(
        self, algorithm: Algorithm, config: RunConfig, folder: RunFolder
    ) -> dict[str, Any]:
        from rlox.training.session import Session

        with progress.reporter() as report:

            def tick(now: Snapshot) -> None:
                folder.at_step(now.env_steps)
                report(now)

            session = Session(algorithm, folder.path, progress=tick)
            with self.signals.stopping(lambda: session.request_stop("signal")):
                outcome = session.run()
        killed = outcome.reason == "signal"
        data = summary.result(config, outcome, KILLED if killed else DONE)
        write_json(folder.path / "result.json", data)
        _plot(folder)
        folder.at_step(outcome.clock.env_steps)
        folder.status(data["status"], outcome.reason)
        print(summary.closing(config, data, folder.path), flush=True)
        code = 128 + (self.signals.received or 0) if killed else OK
        return {"status": data["status"], "code": code}

    def _failed(self, error: Exception, job: Job) -> dict[str, Any]:
        code, text = messages.exit_code(error), messages.describe(error)
        if job.folder is not None and not job.folder.exists():
            job.folder = None
        if job.folder is not None:
            code = messages.FAILED if code == WRONG_USE else code
            text = f"{messages.shorten(text, 4)}\n  traceback: {job.folder / 'log.txt'}"
        if self.full_trace:
            traceback.print_exception(error)
        print(messages.shorten(f"rlox train: {text}"), file=sys.stderr, flush=True)
        return {"code": code, "message": text}

    def _tidy(self, job: Job) -> None:
        """Hydra makes `hydra.run.dir` before anything is checked; leave none empty."""
        if job.given is not None and job.folder is None:
            with suppress(OSError):
                job.given.rmdir()


def _title(config: RunConfig, job: Job) -> str:
    preset = f", tuned preset {job.tuned}" if job.tuned else ""
    return (
        f"{config.algo.name} on {config.env.id}, seed {config.seed}, "
        f"{config.total_steps:,} steps{preset}"
    )


def _plot(folder: RunFolder) -> None:
    """A picture is no reason to lose a run."""
    try:
        plot.learning_curve(folder.path)
    except Exception as error:
        log.warning("no plot: %s", error, exc_info=True)
        print(f"  no plot: {error}", file=sys.stderr)

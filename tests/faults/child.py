"""Runs training in child processes that tests may kill: `ChildServer` starts them, this module runs in them.

One process imports torch, which takes seconds, and then forks once per job. It has no threads when it forks.
Each child is a separate process, so SIGKILL leaves the same state as in any other process.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

from helpers.waiting import PATIENCE

TESTS = Path(__file__).resolve().parents[1]
TIMEOUT = 2 * PATIENCE


class ChildServer:
    """Context manager: a server process that forks one child per job (see README.md)."""

    def __enter__(self) -> Self:
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
        env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "faults.child"]
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.communicate()

    def start(self, run: Path, config: dict[str, Any], **options: Any) -> int:
        """Start a job in `run` (made if need be) and return its process id."""
        run.mkdir(parents=True, exist_ok=True)
        return self._send({"run": str(run), "config": config, **options})

    def wait(self, pid: int) -> int:
        """Return the exit code; minus the signal if one ended the child. Kill a child that hangs."""
        timer = threading.Timer(TIMEOUT, os.kill, (pid, signal.SIGKILL))
        timer.start()
        try:
            return self._send({"wait": pid})
        finally:
            timer.cancel()

    def run(self, run: Path, config: dict[str, Any], **options: Any) -> int:
        """Start a job and wait for it."""
        return self.wait(self.start(run, config, **options))

    def kill(self, pid: int, run: Path, step: int, after: float) -> int:
        """SIGKILL the child `after` seconds after its run reached env step `step`; return its exit code.

        Reaching the step may take any time up to `TIMEOUT`. The code is 0 if the child ended before the kill.
        """
        until = time.monotonic() + TIMEOUT
        while reached(run) < step and not _has_ended(pid) and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)  # nobody has waited for the child, so its id is still valid
        return self.wait(pid)

    def _send(self, message: dict[str, Any]) -> int:
        assert self._server.stdin and self._server.stdout
        self._server.stdin.write(json.dumps(message) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


def _has_ended(pid: int) -> bool:
    """Return whether a process has ended, waited for or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:  # no /proc here: the run's own steps and the timeout decide
        return False


def marks(run: Path) -> list[str]:
    """Return where the children of a run killed themselves, e.g. `step 1016` or `call 31 (rename)`."""
    path = run / "marks.txt"
    return path.read_text().splitlines() if path.exists() else []


def reached(run: Path) -> int:
    """Return the env step of the last tick that a child of this run reached."""
    path = run / "step.txt"
    return int(path.read_text() or 0) if path.exists() else 0


def work(job: dict[str, Any]) -> None:
    """Do one job: train `run` with `config`, or resume it (`resume`), unless a kill comes first."""
    from faults.disk import FaultyDisk
    from rlox.build import build, resume
    from rlox.configs import make_run
    from rlox.runs.session import ProgressSnapshot, Session

    run, config = Path(job["run"]), make_run(job["config"])
    messages = _MessageCollector()
    logging.getLogger("rlox").addHandler(messages)
    if "tiling" in job:
        native: Any = sys.modules["rlox.envs.native"]
        native.VecEnv = partial(native.VecEnv, **job["tiling"])
    algorithm, saved = resume(run, config) if job.get("resume") else (build(config), None)
    step = os.open(run / "step.txt", os.O_WRONLY | os.O_CREAT)

    unit, count_steps = config.algo.unit, _counter(algorithm)

    def mark(text: str) -> None:
        with os.fdopen(os.open(run / "marks.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND), "w") as f:
            f.write(f"{text}, {unit.replace('_', ' ')[:-1]} {count_steps()}\n")

    gates, server_pid = {at: Path(gate) for at, gate in job.get("gates", ())}, os.getppid()

    def tick(now: ProgressSnapshot) -> None:
        os.pwrite(step, b"%-12d" % now.now, 0)
        _fill_disk(job.get("full_disk"), now.now, now.total)
        gate = gates.get(now.now)
        while gate is not None and not gate.exists() and os.getppid() == server_pid:
            time.sleep(0.001)

    if "kill_step" in job:
        _kill_in_step(algorithm, count_steps, job["kill_step"], lambda: mark("in a tick"))
    call = job.get("kill_call", 0)
    torn = job.get("torn", 0)
    last = lambda k, name: mark(f"in disk call {k} ({name})")  # noqa: E731
    try:
        with FaultyDisk(call, error=None, torn=torn, before_kill=last, under=run) as disk:
            Session(algorithm, run, tick, saved).run()
    finally:
        _fill_disk([0, 0], 0, 1)
        (run / "warnings.txt").write_text("".join(f"{line}\n" for line in messages.lines))
    algorithm.close()
    if "threads" in job:
        Path(job["threads"]).write_text(str(len(list(Path("/proc/self/task").iterdir()))))
    if "count" in job:
        Path(job["count"]).write_text(json.dumps(disk.calls))


def _counter(algorithm: Any) -> Callable[[], int]:
    """Return a counter of progress within a tick: env steps, dataset batches or prompts of this batch."""
    source = algorithm.source
    if algorithm.clock.unit == "samples":
        return lambda: int(algorithm.clock.samples + source.batch_size - 1)
    if algorithm.clock.unit == "updates":
        return lambda: int(source.batches)
    stepping = getattr(source, "collector", source)
    return lambda: int(stepping.env_steps)


def _kill_in_step(algorithm: Any, count_steps: Callable[[], int], at: int, mark: Any) -> None:
    """Kill this process with SIGKILL when the count reaches `at`, in the middle of a tick."""
    source = algorithm.source
    if algorithm.clock.unit == "updates":
        target, name = algorithm.learner, "update"
    elif algorithm.clock.unit == "samples":  # the completions are written and the gradients computed
        target, name = algorithm.learner.optimizer, "step"
    else:
        target, name = getattr(source, "collector", source).env, "step_into"
    inner = getattr(target, name)

    def step(*args: Any) -> Any:
        if count_steps() >= at:
            mark()
            os.kill(os.getpid(), signal.SIGKILL)
        return inner(*args)

    setattr(target, name, step)


def _fill_disk(between: list[int] | None, at: int, end: int) -> None:
    """Limit files to 100 bytes while the run is between two steps.

    At the end of the run the limit holds until the run waits to save again.
    """
    if between is None:
        return
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    full = between[0] <= at < between[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (100 if full else hard, hard))
    if full and at >= end:
        from rlox.runs import saver

        def sleep(seconds: float) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            time.sleep(seconds)

        saver.time = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)


class _MessageCollector(logging.Handler):
    """Keeps messages in memory, because the disk may be full."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def serve() -> None:
    """Fork one child per line of standard input."""
    import helpers.masked_envs
    import torch

    import rlox.build
    import rlox.runs.session  # noqa: F401

    assert helpers.masked_envs.BY_METHOD  # the import registers the environment for the children
    torch.set_num_threads(1)
    for line in sys.stdin:
        message = json.loads(line)
        if "wait" in message:
            print(os.waitstatus_to_exitcode(os.waitpid(message["wait"], 0)[1]), flush=True)
            continue
        if (pid := os.fork()) == 0:
            os.environ.update(message.get("environ", {}))
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(2, 1)
            try:
                torch.set_num_threads(message.get("torch_threads", 1))
                work(message)
            except BaseException as error:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(3 if isinstance(error, Exception) else 4)
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    serve()

"""A job of a sweep in a process that some library starts, perhaps on another machine.

It tells how it is doing in a file of the sweep's mailbox, lines of JSON as a worker's, and looks there
whether it shall stop. So the sweep knows what became of each job whatever the library makes of its end.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, cast

from rlox_cli.exit_codes import exit_code
from rlox_cli.signals import HANDLED, Interrupted, Signals
from rlox_cli.worker import Printed, Teller

LOOK = 0.25  # seconds between looks into the mailbox
STOP = "stop"
PREEMPTED = signal.SIGUSR2  # what submitit sends before the time of a job is up


def here() -> dict[str, Any]:
    """This process, as another one can look for it."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": _since(os.getpid())}


def gone(process: Mapping[str, Any]) -> bool:
    """Whether a process of this machine is no more; of another machine nobody knows."""
    return bool(
        process["host"] == socket.gethostname() and _since(process["pid"]) != process["since"]
    )


def _since(pid: int) -> str:
    """When a process began, by its machine's clock; empty once it has ended, waited for or not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


@dataclass
class Errand:
    """What a process has to know to do one job; calling it does the job."""

    number: int
    overrides: list[str]
    mailbox: str
    greeting: dict[str, Any]  # of the sweep, as a worker gets it
    environment: dict[str, str] = field(default_factory=dict)
    alone: bool = False  # goes on when the sweep is gone

    def __call__(self) -> None:
        """Do it; how it ended is in the mailbox."""
        box = Path(self.mailbox)
        stopped = box / STOP
        if stopped.exists() or (not self.alone and gone(self.greeting["runner"])):
            return
        os.environ.update(self.environment)
        with suppress(OSError):
            os.chdir(self.greeting["folder"])
        sys.path[:] = self.greeting["path"]
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            descriptor = os.open(box / f"{self.number}.jsonl", flags, 0o600)
        except FileNotFoundError:  # the sweep is gone, and with it whoever would read
            descriptor = os.open(os.devnull, flags)
        try:
            self._do(_Letter(descriptor))
        finally:
            os.close(descriptor)
        if not self.alone and gone(self.greeting["runner"]):
            os._exit(1)  # the process would wait for another job for ever

    def checkpoint(self, *args: Any) -> Any:
        """The same again, for submitit: it goes on from its checkpoint."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def _do(self, letter: _Letter) -> None:
        letter.tell("started", **here())
        with _output(letter):
            try:
                with Signals(patient=True) as signals:
                    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
                    try:
                        with _preemption(letter), _looking(self._asked, signals):
                            self._train(letter, signals)
                    finally:
                        signal.pthread_sigmask(signal.SIG_SETMASK, before)
            except Interrupted:
                if letter.preempted is None:
                    letter.tell("left")
            except Exception as error:  # of the sweep: jobs keep theirs
                from rlox_cli.messages import describe

                failed = {"status": "failed", "code": exit_code(error), "message": describe(error)}
                where = {"folder": None, "job": f"{self.number}", "identity": ""}
                letter.outcome(failed | where, False)
        letter.hand_over()

    def _train(self, letter: _Letter, signals: Signals) -> None:
        from rlox_cli import commands, compose
        from rlox_cli.command import Call
        from rlox_cli.training import TrainTask

        greeting = self.greeting
        command = commands.load(greeting["command"])
        call = Call(command, greeting["typed"], signals, greeting["full_trace"], letter)
        task = TrainTask(call)
        task.common = frozenset(greeting["common"])
        with compose.sweep_job(call, greeting["args"], task) as job:
            job(self.number, self.overrides)

    def _asked(self) -> int | None:
        """The signal that the sweep has for its jobs, or that its end is."""
        with suppress(OSError, ValueError):
            return int((Path(self.mailbox) / STOP).read_text())
        return None if self.alone or not gone(self.greeting["runner"]) else signal.SIGTERM


class _Letter(Teller):
    """Tells in a file. Of a job whose time is up nothing more is told: it goes on elsewhere."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self.preempted: Callable[[], object] | None = None

    def outcome(self, ended: dict[str, Any], last: bool) -> None:
        """The last word on the job, unless it is to go on."""
        if self.preempted is None or ended["status"] != "killed":
            self.preempted = None
            super().outcome(ended, last)

    def hand_over(self) -> None:
        """Have it begun anew elsewhere, if its time was up."""
        if self.preempted is not None:
            self.tell("preempted")
            self.preempted()


@contextmanager
def _preemption(letter: _Letter) -> Iterator[None]:
    """While active, the notice that time is up first has the run saved."""
    before = signal.getsignal(PREEMPTED)
    if not callable(before):  # nobody gives such notice
        yield
        return

    def notice(number: int, frame: FrameType | None) -> None:
        letter.preempted = lambda: before(number, frame)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(PREEMPTED, notice)
    try:
        yield
    finally:
        signal.signal(PREEMPTED, before)


@contextmanager
def _looking(asked: Callable[[], int | None], signals: Signals) -> Iterator[None]:
    """While active, what the sweep asks for is a signal to this process."""
    over = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def look() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        while not over.wait(LOOK):
            number = asked()
            if number is not None:
                if signals.received is None:
                    signal.pthread_kill(main, number)
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _output(letter: Teller) -> Iterator[None]:
    """While active, what Python prints is told."""
    before = sys.stdout, sys.stderr
    sys.stdout = cast(Any, Printed(letter))
    sys.stderr = cast(Any, Printed(letter, error=True))
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before

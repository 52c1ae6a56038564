"""A check in a process of its own, so that an environment that hangs or dies is told of as well."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from rlox.configs import EnvConfig
from rlox.envs.check.examination import Checked, check_config
from rlox.envs.check.findings import Finding
from rlox.errors import ConfigError, InternalError
from rlox.importing import failure

__all__ = ["check_apart"]

START = 60.0  # seconds that imports may take, whatever a step may
Told = Callable[[Finding], None]


def check_apart(
    config: EnvConfig, steps: int, seed: int, told: Told = lambda finding: None
) -> Checked:
    """The check of a configured environment; each call has `config.step_timeout` seconds to answer.

    What it prints goes to standard error. `ConfigError` where it cannot be made as it is configured.
    """
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=_examine, args=(its, config, steps, seed))
    process.start()
    its.close()
    try:
        return _followed(_Follower(ours, process, config.step_timeout, told))
    finally:
        process.kill()  # it may hang; nothing of it is needed any more
        process.join()
        ours.close()


class _Follower:
    """What is known of the other process: its findings, and the call that it makes."""

    def __init__(self, line: Connection, process: Any, timeout: float, told: Told) -> None:
        self.line, self.process, self.timeout, self.told = line, process, timeout, told
        self.doing = ""
        self.steps = self.resets = 0  # calls that came back
        self.findings: list[Finding] = []

    def calls(self, said: str) -> None:
        """It says what it does next."""
        self.steps += self.doing.startswith("step ")
        self.resets += self.doing.startswith("reset(")
        self.doing = said

    def add(self, finding: Finding) -> None:
        """One more finding."""
        self.findings.append(finding)
        self.told(finding)

    def ended(self, code: str, message: str) -> Checked:
        """What is known where no more will come."""
        self.add(Finding(code, "error", message))
        return Checked(tuple(self.findings), "", "", self.steps, self.resets, {})


def _followed(of: _Follower) -> Checked:
    """Listen until it is done, does not answer, or is gone."""
    while True:
        timeout = of.timeout if of.doing else max(of.timeout, START)
        if not of.line.poll(timeout):
            return of.ended(
                "no-answer",
                f"{of.doing or 'importing it'} did not come back within {timeout:g} s, expected an answer; "
                "look for an endless loop or something that it waits for, or set env.step_timeout higher",
            )
        try:
            kind, said = of.line.recv()
        except (EOFError, ConnectionError):
            of.process.join()
            return of.ended(
                "process-died",
                f"{of.doing or 'importing it'} ended the whole process ({_exit(of.process.exitcode)}), "
                "expected an answer or an exception; look for os._exit, and for crashes of "
                "native code with python -X faulthandler",
            )
        if kind == "doing":
            of.calls(said)
        elif kind == "found":
            of.add(said)
        elif kind == "raised":
            return of.ended(
                "process-died",
                f"{of.doing} raises {said}, which ends a process, expected an answer or an error of another "
                "kind; raise a RuntimeError where it cannot go on",
            )
        elif kind == "refused":
            raise ConfigError(said)
        elif kind == "failed":
            raise InternalError(
                f"the check itself failed, while {of.doing}: {said}; please report it"
            )
        else:
            done: Checked = said
            return done


def _exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _examine(line: Connection, config: EnvConfig, steps: int, seed: int) -> None:
    """In the other process: check, and say each thing at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it decides when it ends
    os.dup2(2, 1)  # what native code prints shall not be in a list that is read by a program
    threading.Thread(target=_end_with, args=(line,), daemon=True).start()

    def say(kind: str, said: Any) -> None:
        with suppress(BrokenPipeError):
            line.send((kind, said))

    try:
        checked = check_config(
            config,
            steps,
            seed,
            told=lambda finding: say("found", finding),
            doing=lambda call: say("doing", call),
        )
        say("done", checked)
    except ConfigError as error:
        say("refused", str(error))
    except (SystemExit, KeyboardInterrupt) as error:
        say("raised", failure(error))
    except Exception as error:
        say("failed", f"{type(error).__name__}: {error}")
    line.close()
    os._exit(0)  # not held up by threads and exit handlers of the environment


def _end_with(line: Connection) -> None:
    """Nothing is ever said to this process: the end of the line is the end of who started it."""
    with suppress(EOFError, OSError):
        line.recv()
    os._exit(1)

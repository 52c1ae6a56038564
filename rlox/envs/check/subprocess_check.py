"""A check in a subprocess, so that it also reports environments that hang or crash."""

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
from rlox.envs.check.findings import Finding
from rlox.envs.check.run_checks import CheckResult, check_config
from rlox.errors import ConfigError, InternalError, describe_error

__all__ = ["check_in_subprocess"]

START_SECONDS = 60.0  # seconds allowed for imports; the limit for a call if that is longer
OnFinding = Callable[[Finding], None]


def check_in_subprocess(
    config: EnvConfig, steps: int, seed: int, on_finding: OnFinding = lambda finding: None
) -> CheckResult:
    """Check a configured environment in a subprocess; each call may take `config.step_timeout` seconds.

    The subprocess's output goes to standard error. `ConfigError` if the environment cannot be made as
    configured.
    """
    context = multiprocessing.get_context("spawn")
    parent_end, child_end = context.Pipe()
    process = context.Process(target=_check_main, args=(child_end, config, steps, seed))
    process.start()
    child_end.close()
    try:
        return _listen(_CheckedProcess(parent_end, process, config.step_timeout, on_finding))
    finally:
        process.kill()  # it may hang, and its state is not needed any more
        process.join()
        parent_end.close()


class _CheckedProcess:
    """The state of the subprocess: its findings, and its current call."""

    def __init__(self, connection: Connection, process: Any, timeout: float, on_finding: OnFinding) -> None:
        self.connection, self.process, self.timeout, self.on_finding = (
            connection,
            process,
            timeout,
            on_finding,
        )
        self.current_call = ""
        self.steps = self.resets = 0  # finished calls
        self.findings: list[Finding] = []

    def set_current_call(self, call: str) -> None:
        """Record the call that the subprocess announces, and count the one before it."""
        self.steps += self.current_call.startswith("step ")
        self.resets += self.current_call.startswith("reset(")
        self.current_call = call

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        self.findings.append(finding)
        self.on_finding(finding)

    def finish_with(self, code: str, message: str) -> CheckResult:
        """Add a last error, and return the result so far."""
        self.add(Finding(code, "error", message))
        return CheckResult(tuple(self.findings), "", "", self.steps, self.resets, {})


def _listen(checked_process: _CheckedProcess) -> CheckResult:
    """Receive messages until the subprocess finishes, hangs or dies."""
    while True:
        timeout = (
            checked_process.timeout
            if checked_process.current_call
            else max(checked_process.timeout, START_SECONDS)
        )
        if not checked_process.connection.poll(timeout):
            return checked_process.finish_with(
                "no-answer",
                f"{checked_process.current_call or 'importing it'} did not return within {timeout:g} s, "
                "expected a result; look for an endless loop or something that it waits for, or raise "
                "env.step_timeout",
            )
        try:
            word, content = checked_process.connection.recv()
        except (EOFError, ConnectionError):
            checked_process.process.join()
            return checked_process.finish_with(
                "process-died",
                f"{checked_process.current_call or 'importing it'} ended the whole process "
                f"({_exit_text(checked_process.process.exitcode)}), expected a result or an exception; look "
                "for os._exit, and for crashes of native code with python -X faulthandler",
            )
        if word == "doing":
            checked_process.set_current_call(content)
        elif word == "found":
            checked_process.add(content)
        elif word == "raised":
            return checked_process.finish_with(
                "process-died",
                f"{checked_process.current_call} raises {content}, which ends a process, expected a result "
                "or another exception; raise a RuntimeError where the environment cannot continue",
            )
        elif word == "refused":
            raise ConfigError(content)
        elif word == "failed":
            raise InternalError(
                f"the check itself failed, while {checked_process.current_call}: {content}; please report it"
            )
        else:
            result: CheckResult = content
            return result


def _exit_text(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _check_main(connection: Connection, config: EnvConfig, steps: int, seed: int) -> None:
    """Run the check in the subprocess, and send each finding at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when this process ends
    os.dup2(2, 1)  # keep output of native code out of standard output, which a program may parse
    threading.Thread(target=_exit_with_parent, args=(connection,), daemon=True).start()

    def send(word: str, content: Any) -> None:
        with suppress(BrokenPipeError):
            connection.send((word, content))

    try:
        result = check_config(
            config,
            steps,
            seed,
            on_finding=lambda finding: send("found", finding),
            on_call=lambda call: send("doing", call),
        )
        send("done", result)
    except ConfigError as error:
        send("refused", str(error))
    except (SystemExit, KeyboardInterrupt) as error:
        send("raised", describe_error(error))
    except Exception as error:
        send("failed", f"{type(error).__name__}: {error}")
    connection.close()
    os._exit(0)  # do not wait for the environment's threads and exit handlers


def _exit_with_parent(connection: Connection) -> None:
    """Exit when the connection closes, which means that the parent has ended; it never sends messages."""
    with suppress(EOFError, OSError):
        connection.recv()
    os._exit(1)

"""Starts `rlox` as a shell does: in its own terminal, with streams that may be missing."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from helpers.waiting import PATIENCE, until

RLOX = str(Path(sys.executable).with_name("rlox"))
_SMALL = (
    "train", "tuned=null", "algo.n_steps=32", "algo.batch_size=64", "algo.n_epochs=1", "env.n_envs=4",
    "eval.episodes=3",
)  # fmt: skip
SHORT = (*_SMALL, "total_steps=512", "checkpoint.every=128")
# A run that continues until it is stopped, for tests of events in its middle.
ENDLESS = (*_SMALL, "total_steps=1e9", "checkpoint.every=1e9")


def environment(**changes: str | None) -> dict[str, str]:
    """Return the variables of a shell, with the tests' code and cache; `None` removes a variable."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(Path.home()), "LANG": "C.UTF-8"}
    variables |= {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    variables |= {name: os.environ[name] for name in ("PYTHONPATH", "RLOX_CACHE") if name in os.environ}
    for name, value in changes.items():
        variables |= {name: value or ""}
        if value is None:
            del variables[name]
    return variables


def shell(script: str, cwd: Path, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Run a bash script in which `rlox` is the command, without a terminal."""
    return subprocess.run(
        ["bash", "-c", f'rlox() {{ "{RLOX}" "$@"; }}\n{script}'], cwd=cwd, env=environment(**changes),
        capture_output=True, text=True, timeout=2 * PATIENCE, check=False, start_new_session=True,
    )  # fmt: skip


@contextmanager
def background(args: Sequence[str], cwd: Path, **env: str | None) -> Iterator[subprocess.Popen[bytes]]:
    """Run `rlox args` as a waiting shell does; the arguments may include redirections."""
    script = f'trap - INT; exec "{RLOX}" {" ".join(args)}'
    with subprocess.Popen(
        ["bash", "-c", script], cwd=cwd, env=environment(**env),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        try:
            yield child
        finally:
            child.kill()  # it may not end by itself


class Terminal:
    """Context manager: runs `rlox args`, or another program, as the session leader of a terminal."""

    def __init__(
        self,
        args: Sequence[str],
        cwd: Path,
        columns: int = 100,
        nohup: bool = False,
        program: str = RLOX,
        **env: str,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self._read = b""
        self._child = subprocess.Popen(
            [program, *args], cwd=cwd, env=environment(**{"TERM": "xterm-256color", **env}), stdin=slave,
            stdout=slave, stderr=slave, start_new_session=True, preexec_fn=_leading(nohup),
        )  # fmt: skip
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.kill()
        self._child.wait()
        self.close()

    @property
    def text(self) -> str:
        """All output so far."""
        return self._read.decode()

    @property
    def visible(self) -> list[str]:
        """The lines of the output, without the codes that move, hide and colour."""
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)
        return [line.rstrip() for line in re.split(r"[\r\n]+", plain) if line.strip()]

    def until(self, words: str) -> None:
        """Read until the terminal shows these words."""
        self.until_match(re.escape(words))

    def until_match(self, pattern: str) -> None:
        """Read until the output matches a regular expression."""
        self._read_until(lambda: re.search(pattern, self.text) is not None)
        assert re.search(pattern, self.text), self.text

    def type(self, keys: str) -> None:
        """Send these keys."""
        os.write(self._master, keys.encode())

    def close(self) -> None:
        """Close the window."""
        if self._master >= 0:
            os.close(self._master)
        self._master = -1

    def end(self) -> int:
        """Read the rest of the output and return the exit code."""
        self._read_until(lambda: self._master < 0)
        return self._child.wait(PATIENCE)

    def _read_until(self, condition: Callable[[], bool]) -> None:
        """Read until the condition is true or the output ends."""
        deadline = time.monotonic() + PATIENCE
        while not condition() and self.read_more():
            assert time.monotonic() < deadline, f"the terminal still shows only {self.text}"

    def read_more(self) -> bool:
        """Read more output; return whether there was any."""
        assert select.select([self._master], [], [], PATIENCE)[0], f"it hangs: {self.text}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return False
        self._read += data
        return bool(data)


def _leading(nohup: bool) -> Callable[[], None]:
    def prepare() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return prepare


def only_run(folder: Path) -> Path:
    """Return the single run folder below `folder`."""
    (status_path,) = folder.rglob("status.json")
    return status_path.parent


def run_summary(run: Path) -> Mapping[str, Any]:
    """Return a run's status, the step of its newest complete checkpoint, and whether it has a result."""
    last = run / "checkpoints" / "last" / "manifest.json"
    status = json.loads((run / "status.json").read_text())
    saved = json.loads(last.read_text())["clock"]["env_steps"] if last.exists() else None
    return {"status": status["status"], "step": status["step"], "saved": saved}


def expected_summary(step: int = 512) -> Mapping[str, Any]:
    """Return the summary of a run that ended normally."""
    return {"status": "done", "step": step, "saved": step}


def wait_until_begun(folder: Path) -> Path:
    """Wait until the run below `folder` has played an episode, and return its folder."""
    until(lambda: any(p.stat().st_size for p in folder.rglob("episodes.jsonl")), "ended episode")
    return only_run(folder)


def go_on(
    lines: Sequence[str], total_steps: int, cwd: Path, **env: str | None
) -> subprocess.CompletedProcess[str]:
    """Run the `resume` line of a stopped run, with so many steps in total."""
    (line,) = [line for line in lines if line.startswith("  resume  ")]
    return shell(f"{line.removeprefix('  resume  ')} total_steps={total_steps}", cwd, **env)

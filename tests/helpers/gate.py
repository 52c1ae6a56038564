"""A run that waits in its middle, so that it cannot end before it is stopped.

The environment is `env=gated:Gated-v0` for an `rlox` in a folder with a copy of this file (`write_gate_env`).
`python -m helpers.gate STEP ARGS...` is `rlox ARGS...` with any environment, whose run waits once it has
come to that step.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

GATE = "gate"
WAITING = "waits-*"  # one empty file for each process that has come to its gate


class Gate:
    """Is open when the folder has a file `gate`, and for a process that a signal has reached."""

    def __init__(self) -> None:
        self._open = False
        self._parent_pid = os.getppid()
        # The interpreter writes the number of each signal into this pipe, whenever the signal comes: none
        # is missed before the wait or in it. The signal's handler runs as it does anywhere else.
        self._signals, write_fd = os.pipe()
        os.set_blocking(write_fd, False)
        signal.set_wakeup_fd(write_fd)

    def wait(self) -> None:
        """Say that this process waits, by a file `waits-PID`, and wait until the gate is open."""
        if self._open or Path(GATE).exists():
            return
        Path(WAITING.replace("*", str(os.getpid()))).touch()
        while not Path(GATE).exists() and not select.select([self._signals], [], [], 0.01)[0]:
            if os.getppid() != self._parent_pid:  # the test was killed, and nobody will open it
                os._exit(1)
        self._open = True


@cache
def gate() -> Gate:
    """That of this process: all of its environments wait at one."""
    return Gate()


class Gated(gym.Env[Any, Any]):
    """Episodes of ten steps; step `at` of each copy waits at the gate, where it is not 0.

    A step is worth `worth`, a hundredth more for the right action, and up to a thousandth by chance.
    """

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, at: int = 0, worth: float = 1.0) -> None:
        self.at, self.worth = at, worth
        self.t, self.n_steps = 0, 0
        gate()  # from here on no signal is missed

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.t = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step, perhaps after a wait."""
        self.n_steps += 1
        if self.n_steps == self.at:
            gate().wait()
        is_right = float(int(action) == self.t % 2)
        self.t += 1
        reward = self.worth + 0.01 * is_right + 0.001 * float(self.np_random.random())
        return self._observation(), reward, self.t == 10, False, {}

    def save_state(self) -> dict[str, Any]:
        """How far it is."""
        return {"t": self.t, "taken": self.n_steps}

    def load_state(self, state: Any) -> None:
        """Go on from `save_state()`."""
        self.t, self.n_steps = int(state["t"]), int(state["taken"])

    def _observation(self) -> NDArray[np.float32]:
        return np.array([self.t / 10, self.t % 2], np.float32)


def write_gate_env(folder: Path) -> None:
    """Make the environment known to an `rlox` that runs in this folder."""
    shutil.copyfile(__file__, folder / "gated.py")


def waiting_processes(folder: Path, count: int) -> list[int]:
    """The processes that wait at their gates in this folder, once there are so many of them."""
    process_ids = [int(path.name.partition("-")[2]) for path in folder.glob(WAITING)]
    return process_ids if len(process_ids) >= count else []


def open_gate(folder: Path) -> None:
    """Open the gate for every process that runs in this folder, now and later."""
    (folder / GATE).touch()


def _wait_at(step: int) -> None:
    """Have the display of progress wait at the gate: it is shown after each tick of a run."""
    from rlox.runs import progress

    show = progress.LineReporter.__call__

    def waiting_show(self: progress.LineReporter, snapshot: progress.ProgressSnapshot) -> None:
        show(self, snapshot)
        if snapshot.now >= step:
            gate().wait()

    progress.LineReporter.__call__ = waiting_show  # type: ignore[method-assign]


if __name__ == "__main__":
    from rlox_cli.main import main

    gate()
    _wait_at(int(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
if __name__ == "gated":  # the copy
    gym.register("Gated-v0", Gated)

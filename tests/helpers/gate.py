"""A run that waits in its middle, so that it cannot end before a test stops it.

The environment is `env=gated:Gated-v0` for an `rlox` in a folder with a copy of this file (`write_gate_env`).
`python -m helpers.gate STEP ARGS...` runs `rlox ARGS...` with any environment; the run waits when it reaches
that step.
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
WAITING = "waits-*"  # one empty file for each process at its gate


class Gate:
    """Opens when the folder has a file `gate`, and for a process that receives a signal."""

    def __init__(self) -> None:
        self._open = False
        self._parent_pid = os.getppid()
        # The interpreter writes the number of each signal into this pipe at once, so the wait misses no
        # signal from before or during it. The signal's handler runs as usual.
        self._signals, write_fd = os.pipe()
        os.set_blocking(write_fd, False)
        signal.set_wakeup_fd(write_fd)

    def wait(self) -> None:
        """Announce the wait by a file `waits-PID`, and wait until the gate is open."""
        if self._open or Path(GATE).exists():
            return
        Path(WAITING.replace("*", str(os.getpid()))).touch()
        while not Path(GATE).exists() and not select.select([self._signals], [], [], 0.01)[0]:
            if os.getppid() != self._parent_pid:  # the test was killed, and nobody will open the gate
                os._exit(1)
        self._open = True


@cache
def gate() -> Gate:
    """Return the gate of this process: all its environments share it."""
    return Gate()


class Gated(gym.Env[Any, Any]):
    """Episodes of ten steps; each copy waits at the gate in step `at`, unless `at` is 0.

    A step has the reward `worth`, a hundredth more for the right action, and up to a thousandth by chance.
    """

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, at: int = 0, worth: float = 1.0) -> None:
        self.at, self.worth = at, worth
        self.t, self.n_steps = 0, 0
        gate()  # misses no signal from here on

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
        """Return the progress of the environment."""
        return {"t": self.t, "taken": self.n_steps}

    def load_state(self, state: Any) -> None:
        """Continue from `save_state()`."""
        self.t, self.n_steps = int(state["t"]), int(state["taken"])

    def _observation(self) -> NDArray[np.float32]:
        return np.array([self.t / 10, self.t % 2], np.float32)


def write_gate_env(folder: Path) -> None:
    """Write the environment for an `rlox` that runs in this folder."""
    shutil.copyfile(__file__, folder / "gated.py")


def waiting_processes(folder: Path, count: int) -> list[int]:
    """Wait until `count` processes wait at their gates in this folder; return their ids."""
    process_ids = [int(path.name.partition("-")[2]) for path in folder.glob(WAITING)]
    return process_ids if len(process_ids) >= count else []


def open_gate(folder: Path) -> None:
    """Open the gate for every present and later process in this folder."""
    (folder / GATE).touch()


def _wait_at(step: int) -> None:
    """Make the progress display, which is shown after each tick of a run, wait at the gate."""
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
if __name__ == "gated":  # only in the copy
    gym.register("Gated-v0", Gated)

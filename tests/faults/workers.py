"""Environments whose failures only a separate process survives."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from faults.envs import CrashingEnv, Stepped, Walk, hang
from faults.processes import mark_as_hung
from rlox.envs.base import LIFE_LOST

FAILURES = ("raise", "lie", "exit", "kill", "abort", "sleep", "stop", "block")
HANGS = ("sleep", "stop", "block")
LIVES = 16_777_213  # numbers below this are exact in float32
IN_PROCESS_FAILURES = (
    "raise",
    "lie",
)  # the process and its other environments survive these


def fail(failure: str) -> None:
    """Fail in this way; the environment itself implements `lie`."""
    if failure == "raise":
        raise RuntimeError("a fault on purpose")
    if failure == "exit":
        os._exit(3)
    if failure == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if failure == "abort":
        os.abort()
    if failure == "sleep":
        hang()
    if failure == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if failure == "block":
        mark_as_hung()
        ctypes.PyDLL(None).sleep(3600)  # blocks in C and keeps the GIL


class CounterEnv(gym.Env[Any, Any]):
    """Observations [process, life, episode, step] show whether each step follows the one before.

    The seed of the first reset determines the life. If that seed is below `fails_below`, the environment
    fails in step `at` of episode `within`, in the given way. An episode has `steps` steps.
    """

    observation_space = spaces.Box(0, np.inf, (4,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(
        self, failure: str = "", fails_below: int = 0, within: int = 1, at: int = 2, steps: int = 4
    ) -> None:
        self.failure, self.fails_below, self.when, self.steps = (
            failure,
            fails_below,
            (within, at),
            steps,
        )
        self.life, self.first, self.episode, self.t = 0, 0, -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.first, self.life, self.episode = seed, seed % LIVES, -1
        self.episode, self.t = self.episode + 1, 0
        return self.observe(), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        if self.first < self.fails_below and (self.episode, self.t) == self.when:
            fail(self.failure)
            if self.failure == "lie":
                return self.observe()[:2], 1.0, False, False, {}
        over = self.t == self.steps
        return (
            self.observe(),
            1.0,
            over and self.episode % 2 == 0,
            over and self.episode % 2 == 1,
            {},
        )

    def observe(self) -> Any:
        return np.array([os.getpid(), self.life, self.episode, self.t], np.float64)


class Lives(CounterEnv):
    """A game whose episodes are its lives; the reset after the first lost life fails."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if seed is None and self.first < self.fails_below:
            fail(self.failure)
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, self.t == self.steps, truncated, {**info, LIFE_LOST: True}


class FailingConstructor(gym.Env[Any, Any]):
    """The constructor raises."""

    def __init__(self, error: Exception) -> None:
        raise error


class FailingReset(CounterEnv):
    """The reset raises."""

    def reset(self, **options: Any) -> Any:
        raise OSError("no such map")


class ChangingSpace(CounterEnv):
    """Each copy has another observation space than the one before."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        (folder / f"{os.getpid()}-{random.random()}").touch()
        high = len(list(folder.iterdir()))
        self.observation_space = spaces.Box(0, high, (4,), np.float64)


class GlobalRandomEnv(CounterEnv):
    """Draws from the global generators, which environments should not use."""

    def observe(self) -> Any:
        return np.array([os.getpid(), random.random(), np.random.random(), self.t])  # noqa: NPY002


class Threaded:
    """Starts a thread when it is unpickled, as some libraries do."""

    def __init__(self, fails_below: int) -> None:
        self.fails_below = fails_below

    def __reduce__(self) -> Any:
        return _threaded, (self.fails_below,)

    def __call__(self) -> gym.Env[Any, Any]:
        return CounterEnv("kill", fails_below=self.fails_below)


def _threaded(fails_below: int) -> Threaded:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    return Threaded(fails_below)


class SaveableCounter(CounterEnv):
    """Can save its state, which may contain a large array."""

    def __init__(self, *args: Any, heavy: int = 0, **more: Any) -> None:
        super().__init__(*args, **more)
        self.heavy = heavy

    def save_state(self) -> dict[str, Any]:
        state = {"life": self.life, "first": self.first, "episode": self.episode, "t": self.t}
        return {**state, "heavy": np.zeros(self.heavy, np.uint8)}

    def load_state(self, state: Any) -> None:
        self.life, self.first, self.episode, self.t = (
            int(state[name]) for name in ("life", "first", "episode", "t")
        )


class FailsOnSeed(Walk):
    """The episode with the seed `failing_seed` fails in its third step, the first `times` times.

    Files in `folder` count the attempts, so the count survives the process.
    """

    def __init__(self, failure: str, folder: Path, failing_seed: int, times: int) -> None:
        super().__init__()
        self.failure, self.folder, self.failing_seed, self.times = (
            failure,
            folder,
            failing_seed,
            times,
        )
        self.is_failing = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.is_failing = False
        if seed == self.failing_seed:
            played = len(list(self.folder.iterdir()))
            (self.folder / str(played)).touch()
            self.is_failing = played < self.times
        return super().reset(seed=seed)

    def step(self, action: Any) -> Stepped:
        if self.is_failing and self.t == 2:
            fail(self.failure)
        return super().step(action)


class SpawnsProcess(CounterEnv):
    """Starts a child process that does not end by itself, optionally in a new session."""

    def __init__(self, failure: str = "", fails_below: int = 0, session: bool = False) -> None:
        super().__init__(failure, fails_below)
        line = [sys.executable, "-c", "import time; time.sleep(600)"]
        self.child = subprocess.Popen(line, start_new_session=session)

    def observe(self) -> Any:
        return np.array([os.getpid(), self.child.pid, self.episode, self.t], np.float64)


class CountingCrashingEnv(CrashingEnv):
    """`CrashingEnv` with observations [life, episode, step], which show the steps that were joined."""

    def __init__(self, **chances: Any) -> None:
        super().__init__(**chances)
        self.life, self.episode = 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.life, self.episode = seed % LIVES, -1
        self.episode += 1
        return self.observe(), {}

    def step(self, action: Any) -> Stepped:
        _, _, *rest = super().step(action)
        return (self.observe(), 1.0, *rest)

    def observe(self) -> Any:
        return np.array([self.life, self.episode % 10, self.t], np.float32)

"""A worker: steps its environments one after the other and writes what they say into shared memory."""

from __future__ import annotations

import faulthandler
import random
import signal
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox._core import set_num_threads
from rlox.envs.base import copied, reset_of, step_of
from rlox.envs.failures import encoded, raised
from rlox.envs.identity import require_apart
from rlox.envs.seeding import seeded_reset
from rlox.envs.simulators import pass_warnings_on
from rlox.envs.snapshot import can_save, restore_env, save_env
from rlox.envs.stacks import frames_in
from rlox.envs.workers.job import Failure, Job, Report, Told
from rlox.envs.workers.memory import Rows, codecs_of
from rlox.envs.workers.wire import Gone, Wire, pickled
from rlox.errors import EnvError, RloxError

__all__ = ["TELL", "live"]

TELL = signal.SIGUSR1  # has a worker write down where it is, also from the middle of C code

Saved = Mapping[str, Any]


def live(wire: Wire, memory: int, notes: int, job: Job, worker: int, key: int) -> None:
    """Work until the other end is closed. `notes` is a file for where a crash or a hang was.

    `key` seeds the global generators, which are the same in all forks of a process. The environments
    are seeded by their resets.
    """
    faulthandler.enable(notes)
    faulthandler.register(TELL, notes, all_threads=True)
    set_num_threads(1)  # each worker has a CPU
    random.seed(key)
    np.random.seed(key % 2**32)  # noqa: NPY002 environments of old draw from it
    place = _Worker(wire, memory, job, worker)
    with suppress(Gone):
        place.work()
    place.close()


class _Worker:
    """The environments `job.envs_of(worker)`, by their numbers among all."""

    def __init__(self, wire: Wire, memory: int, job: Job, worker: int) -> None:
        self.wire, self.memory, self.job = wire, memory, job
        self.index = job.envs_of(worker)
        self.envs: dict[int, gym.Env[Any, Any]] = {}
        self.infos: dict[int, Mapping[str, Any]] = {}
        self.unmade: set[int] = set()  # whose constructor failed
        self.spaces: tuple[gym.Space[Any], gym.Space[Any]] | None = None
        self.warnings: list[str] = []  # of the simulator, for the next answer that can tell of them
        pass_warnings_on(self.warnings.append)

    def work(self) -> None:
        """Do what is asked, in its order; to make the environments is the first."""
        do: dict[str, Any] = {
            "make": self.make,
            "begin": self.begin,
            "play": self.play,
            "save": self.save,
            "restore": self.restore,
        }
        while (asked := self.wire.receive()) != "close":
            if asked is None:
                self.answer(self.step())
                continue
            name, given = asked
            try:
                answer = do[name](given)
            except (Exception, SystemExit) as error:
                answer = self.failure(self.index.start, name, error)
            if isinstance(answer, Told):
                answer.warnings = self.taken_warnings()
            self.wire.send(answer)

    def close(self) -> None:
        """Close the environments, which may have files to finish."""
        for env in self.envs.values():
            with suppress(Exception):
                env.close()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()

    def make(self, index: Iterable[int]) -> Report:
        """Make these environments, also in the place of failed ones."""
        failures = []
        for i in index:
            self.close_failed(i)
            try:
                self.put(i, self.job.factory(i)())
                self.unmade.discard(i)
            except (Exception, SystemExit) as error:
                self.unmade.add(i)
                failures.append(self.failure(i, "__init__", error))
        envs = list(self.envs.values())
        require_apart(envs, self.job.name)
        frames = frames_in(envs[0]) if envs else 1
        exact = all(map(can_save, envs))
        return Report(self.spaces, exact, frames, failures, self.taken_warnings())

    def close_failed(self, i: int) -> None:
        """Close an environment that failed before another one is made: both may need the same port."""
        with suppress(Exception):
            if i in self.envs:
                self.envs.pop(i).close()

    def put(self, i: int, env: gym.Env[Any, Any]) -> None:
        """Keep an environment; those of a run have the same spaces."""
        self.envs[i] = env
        spaces = env.observation_space, env.action_space
        if self.spaces is None:
            self.spaces = spaces
            self.observations, self.actions = codecs_of(*spaces, self.job.name)
            self.rows = Rows(self.memory, self.job.n_envs, self.observations, self.actions)
        elif self.spaces != spaces:
            raise EnvError(
                f"{self.job.name} (copy {i}) has the spaces {spaces}, expected those of other copies, "
                f"{self.spaces}"
            )

    def begin(self, seeds: Mapping[int, int]) -> Told:
        """Begin an episode of each of these environments that is made, with a seed."""
        told = Told()
        for i, seed in seeds.items():
            if i in self.unmade:
                continue
            self.rows.busy[i] = True
            try:
                self.reset(i, seed)
            except (Exception, SystemExit) as error:
                told.failures.append(self.failure(i, "reset", error))
            self.rows.busy[i] = False
        told.infos = self.kept_infos()
        return told

    def step(self) -> Told:
        """A step of every environment, with the reset that follows where it ended an episode."""
        told = Told()
        chosen = self.actions.to_env(self.rows.actions[self.index.start : self.index.stop])
        for action, i in zip(self.actions.each(chosen), self.index, strict=True):
            call = "step"
            try:
                ended, info = self.act(i, action)
                if not ended:
                    self.keep(i, info)
                    continue
                # a copy, as the reset may write over it
                told.ended.append((i, copied(info)))
                call = "reset"
                self.reset(i)
            except (Exception, SystemExit) as error:
                told.failures.append(self.failure(i, call, error))
        return told

    def play(self, actions: Mapping[int, Any]) -> Told:
        """A step of some environments, with actions as they take them; nothing follows an end."""
        told = Told()
        for i, action in actions.items():
            self.rows.busy[i] = True
            try:
                if self.act(i, action)[0]:
                    told.ended.append((i, {}))
            except (Exception, SystemExit) as error:
                told.failures.append(self.failure(i, "step", error))
            self.rows.busy[i] = False
        return told

    def act(self, i: int, action: Any) -> tuple[bool, Any]:
        """A step of one environment: whether it ended an episode, and its info."""
        rows = self.rows
        result = step_of(self.envs[i].step(action))
        seen, rows.rewards[i], rows.terminated[i], rows.truncated[i], info = result
        ended = bool(rows.terminated[i] or rows.truncated[i])
        self.write(i, seen, (rows.finals if ended else rows.obs)[i])
        return ended, info

    def answer(self, told: Told) -> None:
        """What came of a step: one byte where that is all."""
        if not (told.ended or told.failures or self.warnings or self.job.keep_infos):
            self.wire.nudge()
            return
        told.warnings = self.taken_warnings()
        told.infos = self.kept_infos()
        try:
            given = pickled(told)
        except Exception as error:
            failure = self.failure(self.index.start, "sending infos", error)
            lost = [failure._replace(envs=tuple(self.index))]
            given = pickled(Told(failures=lost, warnings=told.warnings))
        self.wire.send_pickled(given)

    def kept_infos(self) -> Sequence[Mapping[str, Any]]:
        """Those of the last step or reset of each environment, if anybody wants them."""
        return [self.infos.get(i, {}) for i in self.index] if self.job.keep_infos else ()

    def reset(self, i: int, seed: int | None = None) -> None:
        """Begin an episode."""
        seen, info = reset_of(seeded_reset(self.envs[i], seed))
        self.keep(i, info)
        self.write(i, seen, self.rows.obs[i])

    def keep(self, i: int, info: Mapping[str, Any]) -> None:
        """The info of the last step or reset, if anybody wants it; a copy, as environments may share one."""
        if self.job.keep_infos:
            self.infos[i] = copied(info)

    def write(self, i: int, seen: Any, row: NDArray[Any]) -> None:
        """An observation as a row of the shared memory."""
        encoded(self.observations, seen, row, f"{self.job.name} (copy {i})")

    def failure(self, i: int, call: str, error: BaseException) -> Failure:
        """What environment `i` raised in a call."""
        trace = "".join(traceback.format_exception(error))
        if isinstance(error, RloxError):
            return Failure((i,), str(error), trace, type(error).__name__)
        return Failure((i,), raised(f"{self.job.name} (copy {i})", call, error), trace)

    def taken_warnings(self) -> list[str]:
        """Those of the simulator that no answer told of."""
        taken = self.warnings.copy()
        self.warnings.clear()
        return taken

    def save(self, index: Iterable[int]) -> list[Saved]:
        """The states of these environments."""
        return [save_env(self.envs[i]) for i in index]

    def restore(self, states: Mapping[int, Saved]) -> Told:
        """Put environments where they were saved."""
        for i, state in states.items():
            restore_env(self.envs[i], state)
        return Told()

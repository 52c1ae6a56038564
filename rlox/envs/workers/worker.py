"""A worker: steps its environments one after the other and writes the results into shared memory."""

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
from rlox.envs.base import copy_info, unpack_reset, unpack_step
from rlox.envs.failures import encode_checked, env_error_message
from rlox.envs.frame_stacks import stacked_frames
from rlox.envs.identity import require_distinct_envs
from rlox.envs.mujoco_log import redirect_warnings
from rlox.envs.seeding import seeded_reset
from rlox.envs.snapshot import can_save, restore_env, save_env
from rlox.envs.workers.messages import Failure, StartReply, StepReply, WorkerSetup
from rlox.envs.workers.shared_memory import SharedArrays, codecs_of
from rlox.envs.workers.wire import PeerClosed, Wire, dumps
from rlox.errors import EnvError, RloxError

__all__ = ["TRACEBACK_SIGNAL", "worker_main"]

TRACEBACK_SIGNAL = signal.SIGUSR1  # makes a worker dump its traceback, even from within C code

Saved = Mapping[str, Any]


def worker_main(
    wire: Wire, memory_fd: int, traceback_fd: int, setup: WorkerSetup, worker: int, key: int
) -> None:
    """Serve requests until the other end closes; `traceback_fd` gets tracebacks of crashes and hangs.

    `key` seeds the global generators, which would otherwise be the same in all forks of a process. The
    environments are seeded by their resets.
    """
    faulthandler.enable(traceback_fd)
    faulthandler.register(TRACEBACK_SIGNAL, traceback_fd, all_threads=True)
    set_num_threads(1)  # one CPU per worker
    random.seed(key)
    np.random.seed(key % 2**32)  # noqa: NPY002 old environments draw from it
    env_worker = _EnvWorker(wire, memory_fd, setup, worker)
    with suppress(PeerClosed):
        env_worker.work()
    env_worker.close()


class _EnvWorker:
    """The environments `setup.envs_of(worker)`, by their index among all."""

    def __init__(self, wire: Wire, memory_fd: int, setup: WorkerSetup, worker: int) -> None:
        self.wire, self.memory_fd, self.setup = wire, memory_fd, setup
        self.env_indices = setup.envs_of(worker)
        self.envs: dict[int, gym.Env[Any, Any]] = {}
        self.infos: dict[int, Mapping[str, Any]] = {}
        self.failed_to_make: set[int] = set()  # environments whose constructor failed
        self.spaces: tuple[gym.Space[Any], gym.Space[Any]] | None = None
        self.warnings: list[str] = []  # of the simulator, for the next reply that can carry them
        redirect_warnings(self.warnings.append)

    def work(self) -> None:
        """Handle requests in order; the first makes the environments."""
        handlers: dict[str, Any] = {
            "make": self.make,
            "begin": self.reset,
            "play": self.step_some,
            "save": self.save,
            "restore": self.restore,
        }
        while (request := self.wire.receive()) != "close":
            if request is None:
                self.send_reply(self.step())
                continue
            name, argument = request
            try:
                reply = handlers[name](argument)
            except (Exception, SystemExit) as error:
                reply = self.make_failure(self.env_indices.start, name, error)
            if isinstance(reply, StepReply):
                reply.warnings = self.pop_warnings()
            self.wire.send(reply)

    def close(self) -> None:
        """Close the environments, which may have files to finish."""
        for env in self.envs.values():
            with suppress(Exception):
                env.close()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()

    def make(self, env_indices: Iterable[int]) -> StartReply:
        """Make these environments, also as replacements of failed ones."""
        failures = []
        for i in env_indices:
            self.close_failed(i)
            try:
                self.add_env(i, self.setup.factory(i)())
                self.failed_to_make.discard(i)
            except (Exception, SystemExit) as error:
                self.failed_to_make.add(i)
                failures.append(self.make_failure(i, "__init__", error))
        envs = list(self.envs.values())
        require_distinct_envs(envs, self.setup.name)
        n_frames = stacked_frames(envs[0]) if envs else 1
        is_exact = all(map(can_save, envs))
        return StartReply(self.spaces, is_exact, n_frames, failures, self.pop_warnings())

    def close_failed(self, i: int) -> None:
        """Close a failed environment before its replacement is made, as both may need the same port."""
        with suppress(Exception):
            if i in self.envs:
                self.envs.pop(i).close()

    def add_env(self, i: int, env: gym.Env[Any, Any]) -> None:
        """Store an environment, and check that all environments of a run have the same spaces."""
        self.envs[i] = env
        spaces = env.observation_space, env.action_space
        if self.spaces is None:
            self.spaces = spaces
            self.observations, self.actions = codecs_of(*spaces, self.setup.name)
            self.arrays = SharedArrays(self.memory_fd, self.setup.n_envs, self.observations, self.actions)
        elif self.spaces != spaces:
            raise EnvError(
                f"{self.setup.name} (copy {i}) has the spaces {spaces}, expected those of other copies, "
                f"{self.spaces}"
            )

    def reset(self, seeds: Mapping[int, int]) -> StepReply:
        """Begin a seeded episode in each of these environments, except those that could not be made."""
        reply = StepReply()
        for i, seed in seeds.items():
            if i in self.failed_to_make:
                continue
            self.arrays.is_busy[i] = True
            try:
                self.reset_env(i, seed)
            except (Exception, SystemExit) as error:
                reply.failures.append(self.make_failure(i, "reset", error))
            self.arrays.is_busy[i] = False
        reply.infos = self.collect_infos()
        return reply

    def step(self) -> StepReply:
        """Step every environment, and reset those whose episode ended."""
        reply = StepReply()
        env_actions = self.actions.to_env(self.arrays.actions[self.env_indices.start : self.env_indices.stop])
        for action, i in zip(self.actions.unbatch(env_actions), self.env_indices, strict=True):
            call = "step"
            try:
                is_done, info = self.step_env(i, action)
                if not is_done:
                    self.store_info(i, info)
                    continue
                # a copy, as the reset may overwrite it
                reply.final_infos.append((i, copy_info(info)))
                call = "reset"
                self.reset_env(i)
            except (Exception, SystemExit) as error:
                reply.failures.append(self.make_failure(i, call, error))
        return reply

    def step_some(self, actions: Mapping[int, Any]) -> StepReply:
        """Step some environments, with actions in the environment's form; ended episodes are not reset."""
        reply = StepReply()
        for i, action in actions.items():
            self.arrays.is_busy[i] = True
            try:
                if self.step_env(i, action)[0]:
                    reply.final_infos.append((i, {}))
            except (Exception, SystemExit) as error:
                reply.failures.append(self.make_failure(i, "step", error))
            self.arrays.is_busy[i] = False
        return reply

    def step_env(self, i: int, action: Any) -> tuple[bool, Any]:
        """Step one environment; returns whether its episode ended, and its info."""
        arrays = self.arrays
        result = unpack_step(self.envs[i].step(action))
        observation, arrays.rewards[i], arrays.terminated[i], arrays.truncated[i], info = result
        is_done = bool(arrays.terminated[i] or arrays.truncated[i])
        self.write_obs(i, observation, (arrays.final_obs if is_done else arrays.obs)[i])
        return is_done, info

    def send_reply(self, reply: StepReply) -> None:
        """Send the result of a step: one byte if there is nothing to add to shared memory."""
        if not (reply.final_infos or reply.failures or self.warnings or self.setup.keep_infos):
            self.wire.signal_step()
            return
        reply.warnings = self.pop_warnings()
        reply.infos = self.collect_infos()
        try:
            payload = dumps(reply)
        except Exception as error:
            failure = self.make_failure(self.env_indices.start, "sending infos", error)
            failures = [failure._replace(envs=tuple(self.env_indices))]
            payload = dumps(StepReply(failures=failures, warnings=reply.warnings))
        self.wire.send_pickled(payload)

    def collect_infos(self) -> Sequence[Mapping[str, Any]]:
        """Return the info of the last step or reset of each environment, if they are kept."""
        return [self.infos.get(i, {}) for i in self.env_indices] if self.setup.keep_infos else ()

    def reset_env(self, i: int, seed: int | None = None) -> None:
        """Begin an episode."""
        observation, info = unpack_reset(seeded_reset(self.envs[i], seed))
        self.store_info(i, info)
        self.write_obs(i, observation, self.arrays.obs[i])

    def store_info(self, i: int, info: Mapping[str, Any]) -> None:
        """Store a copy of the last info if requested; a copy, because environments may share one object."""
        if self.setup.keep_infos:
            self.infos[i] = copy_info(info)

    def write_obs(self, i: int, observation: Any, row: NDArray[Any]) -> None:
        """Write an observation as a row of the shared memory."""
        encode_checked(self.observations, observation, row, f"{self.setup.name} (copy {i})")

    def make_failure(self, i: int, call: str, error: BaseException) -> Failure:
        """Describe the error that environment `i` raised in a call."""
        trace = "".join(traceback.format_exception(error))
        if isinstance(error, RloxError):
            return Failure((i,), str(error), trace, type(error).__name__)
        return Failure((i,), env_error_message(f"{self.setup.name} (copy {i})", call, error), trace)

    def pop_warnings(self) -> list[str]:
        """Return and clear the simulator's warnings that no reply has carried yet."""
        texts = self.warnings.copy()
        self.warnings.clear()
        return texts

    def save(self, env_indices: Iterable[int]) -> list[Saved]:
        """Return the states of these environments."""
        return [save_env(self.envs[i]) for i in env_indices]

    def restore(self, states: Mapping[int, Saved]) -> StepReply:
        """Restore environments from saved states."""
        for i, state in states.items():
            restore_env(self.envs[i], state)
        return StepReply()

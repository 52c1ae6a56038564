"""The workers of a pool, asked all at once and answered for: also those that are dead or late."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import gymnasium as gym

from rlox._core import stream_seed
from rlox.envs.simulators import log_warning
from rlox.envs.workers.job import Failure, Job, Report, Told
from rlox.envs.workers.nursery import Nursery
from rlox.envs.workers.wire import Gone, Late, Wire, delivered
from rlox.errors import EnvError

__all__ = ["Crew", "cpus", "share"]

START_SECONDS = 60.0  # that imports and constructors may take, or `step_timeout` where that is more

Spaces = tuple[gym.Space[Any], gym.Space[Any]]


class Crew:
    """Worker processes by number. What of them died or was late is ended, and answered for by a `Failure`."""

    def __init__(self, job: Job, seed: int, step_timeout: float) -> None:
        self.job, self._seed = job, seed
        self._timeout = step_timeout
        self._patience = max(step_timeout, START_SECONDS)
        self._nursery = Nursery(job, self._patience)
        self._closing = weakref.finalize(self, self._nursery.close)
        self._births = 0
        self._wires: dict[int, Wire] = {}  # of those that live
        self._dead: dict[int, Failure] = {}  # how those ended in whose place is nobody yet
        self._owing: list[int] = []  # whose answers nobody has taken yet, one entry each
        self._workers = range(-(-job.n_envs // job.worker_envs))
        self._step = dict.fromkeys(self._workers, (None,))
        self.spaces: Spaces | None = None  # of observations and actions; None before any are made

    @property
    def memory(self) -> int:
        """The file that the workers share."""
        return self._nursery.memory

    def start(self) -> list[Report]:
        """The first workers, with their environments."""
        for worker in self._workers:
            self._bear(worker)
        asked = {worker: ("make", self.job.envs_of(worker)) for worker in self._workers}
        answers = self._ask("__init__", asked, self._patience)
        reports = [
            Report(None, False, 1, [each]) if isinstance(each, Failure) else each
            for each in answers.values()
        ]
        for worker, report in zip(answers, reports, strict=True):
            self.spaces = self.spaces or report.spaces
            self._require_spaces(worker, report)
        return reports

    def step(self) -> dict[int, Told | Failure]:
        """A step of all environments; nothing of workers that have nothing to say besides numbers."""
        self._send(self._step, self._timeout)
        return self._take("step", self._workers, self._timeout)

    def play(self, actions: Mapping[int, Any]) -> dict[int, Told | Failure]:
        """A step of some environments, with actions as they take them; no episode begins by itself."""
        return self._ask("step", self._by_worker("play", actions), self._timeout)

    def begin(self, seeds: Mapping[int, int]) -> dict[int, Told | Failure]:
        """Begin episodes, with seeds by environment."""
        return self._ask("reset", self._by_worker("begin", seeds), self._timeout)

    def begin_anew(
        self, seeds: Mapping[int, int]
    ) -> tuple[list[Failure], dict[int, Told | Failure]]:
        """Make environments in the place of failed ones, in other processes where theirs are dead, and begin.

        Returns what could not be made, and what came of the others' resets. Both are asked for at once.
        """
        asked: dict[int, Any] = {}
        for i, seed in seeds.items():
            make, begin = asked.setdefault(self._worker_of(i), (("make", []), ("begin", {})))
            make[1].append(i)
            begin[1][i] = seed
        for worker in asked.keys() - self._wires.keys():
            self._bear(worker)
        self._send(asked, self._patience)
        failures, made = [], []
        for worker, answer in self._take("__init__", asked, self._patience).items():
            if isinstance(answer, Failure):
                failures.append(answer)
                continue
            failures += answer.failures
            made.append(worker)
            self._require_spaces(worker, answer)
        return failures, self._take("reset", made, self._timeout)

    def saved(self) -> tuple[list[Any], list[Failure]]:
        """The states of all environments, in order; failures where some workers died or were late."""
        asked = {worker: ("save", self.job.envs_of(worker)) for worker in self._workers}
        answers = self._ask("save_state", asked, self._patience)
        dead = [answers.pop(worker) for worker in list(answers) if worker not in self._wires]
        states = [state for each in self._required(answers).values() for state in each]
        return states, dead

    def restore(self, states: Sequence[Any]) -> None:
        """Put all environments where they were saved."""
        asked = {}
        for worker in self._workers:
            asked[worker] = "restore", {i: states[i] for i in self.job.envs_of(worker)}
        self._required(self._ask("load_state", asked, self._patience))

    def close(self) -> None:
        """End all processes."""
        self._closing()

    def _bear(self, worker: int) -> None:
        key = stream_seed(self._seed, f"worker-{self._births}", worker)
        self._births += 1
        self._dead.pop(worker, None)
        self._wires[worker] = self._nursery.start(worker, key)

    def _by_worker(self, what: str, given: Mapping[int, Any]) -> dict[int, Any]:
        """What each worker is asked, of what is given for its environments."""
        asked: dict[int, Any] = {}
        for i, each in given.items():
            asked.setdefault(self._worker_of(i), (what, {}))[1][i] = each
        return asked

    def _ask(self, call: str, asked: Mapping[int, Any], seconds: float) -> dict[int, Any]:
        """Ask workers, each once, and wait for all."""
        deadline = self._send({worker: (what,) for worker, what in asked.items()}, seconds)
        return self._take(call, asked, seconds, deadline)

    def _send(self, asked: Mapping[int, Sequence[Any]], seconds: float) -> float:
        """Ask workers one thing after the other, `None` is a step; until when they may answer.

        Of one that is gone, or that takes nothing, the answer will say so.
        """
        if not self._closing.alive:
            raise EnvError(f"{self.job.name} is closed")
        self._forget_answers()
        for worker, several in asked.items():
            wire = self._wires.get(worker)
            if wire is None:
                continue
            for what in several:
                self._owing.append(worker)
                with suppress(Gone):
                    wire.nudge() if what is None else wire.post(what)
        deadline = time.monotonic() + seconds
        if any(wire.unsent for wire in self._wires.values()):
            delivered(self._wires.values(), deadline)
        return deadline

    def _take(
        self, call: str, workers: Iterable[int], seconds: float, deadline: float | None = None
    ) -> dict[int, Any]:
        """The next answer of each: an object, or a `Failure` in the place of the dead and late.

        Nothing of those that have nothing to say but that it is done. Without a `deadline` they have as
        many seconds from now on.
        """
        deadline = time.monotonic() + seconds if deadline is None else deadline
        answers: dict[int, Any] = {}
        ended: dict[int, bool] = {}
        for worker in workers:
            wire = self._wires.get(worker)
            if wire is None:  # ended by a call that nobody took the consequences of
                answers[worker] = self._dead[worker]
                continue
            try:
                answer = wire.receive(deadline)
                self._owing.remove(worker)
            except (Gone, Late) as error:
                ended[worker] = isinstance(error, Late)
                continue
            if isinstance(answer, Report | Told):
                for text in answer.warnings:
                    log_warning(text)
            if answer is not None:
                answers[worker] = answer
        return answers | self._end(ended, call, seconds) if ended else answers

    def _forget_answers(self) -> None:
        """Take what was not taken: a signal may have ended the call that asked."""
        if not self._owing:
            return
        deadline = time.monotonic() + self._timeout
        delivered(self._wires.values(), deadline)  # what that call had not sent as a whole
        while self._owing:
            wire = self._wires[self._owing.pop()]
            try:
                wire.receive(deadline)
            except Gone:
                continue  # and so it will be when it is asked
            except Late:
                wire.hang_up()

    def _end(self, workers: Mapping[int, bool], call: str, seconds: float) -> dict[int, Failure]:
        """Bury workers that died in a call, or did not answer it in so many seconds (true)."""
        for worker in workers:
            del self._wires[worker]
            envs = tuple(self.job.envs_of(worker))
            copies = f"copies {envs[0]} to {envs[-1]}" if len(envs) > 1 else f"copy {envs[0]}"
            self._dead[worker] = Failure(envs, f"{self.job.name} ({copies}): a subprocess")
        self._owing = [worker for worker in self._owing if worker not in workers]
        for worker, (how, where) in self._nursery.end(workers).items():
            envs, said, *_ = self._dead[worker]
            said += _late(call, seconds) if workers[worker] else f" died during {call}: {how}"
            self._dead[worker] = Failure(envs, said, where)
        return {worker: self._dead[worker] for worker in workers}

    def _worker_of(self, env: int) -> int:
        return env // self.job.worker_envs

    def _require_spaces(self, worker: int, report: Report) -> None:
        """The memory is laid out for the spaces of the first copies."""
        if report.spaces is not None and report.spaces != self.spaces:
            self.close()
            raise EnvError(
                f"{self.job.name} has the spaces {report.spaces} in worker {worker}, expected those of "
                f"the first copies, {self.spaces}"
            )

    def _required(self, answers: Mapping[int, Any]) -> Mapping[int, Any]:
        for answer in answers.values():
            if isinstance(answer, Failure):
                raise EnvError(f"{answer.said}\n{answer.trace}")
        return answers


def _late(call: str, seconds: float) -> str:
    """What is said of a worker that did not answer in time."""
    remedy = "raise env.step_timeout, or look for a hang in the environment"
    return f" did not answer {call} within {seconds:g} s and was killed ({remedy})"


def share(n_envs: int) -> int:
    """Environments of a worker where nobody says it: as many workers as there are CPUs."""
    return -(-n_envs // cpus())


def cpus() -> int:
    """How many this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1

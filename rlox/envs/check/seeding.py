"""Check that results depend on the seed and the actions only."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from rlox.envs.check.driver import TRACE_EPISODE_STEPS, TRACE_EPISODES, EnvDriver, TraceStep, record_trace
from rlox.envs.check.findings import Report
from rlox.envs.check.subject import Subject, close_quietly
from rlox.envs.check.values import is_equal
from rlox.envs.seeding import SEED_LIMIT
from rlox.errors import describe_error

__all__ = ["check_seeding", "first_difference"]

MAX_SEED = SEED_LIMIT - 1  # highest seed of a run
SEED_TRIES = 8
UNFINISHED_STEPS = 7  # steps of an episode that is left unfinished before the last trace


def check_seeding(subject: Subject, driver: EnvDriver) -> list[TraceStep] | None:
    """Check the seeds; returns a trace of the first seed, `None` if it cannot be repeated."""
    seed = subject.seeds(1)[0]
    if not _is_reset_repeatable(driver, seed):
        _report_resets(subject, seed)
        return None
    if not _is_reset_repeatable(driver, 0):
        subject.report.error(
            "seed-zero-ignored",
            f"reset(seed=0) twice gives different observations, but reset(seed={seed}) equal ones, "
            "expected equal ones for 0 too; write `if seed is not None`, not `if seed` or `seed or ...`",
        )
    _check_max_seed(subject, driver)
    _check_later_episodes(subject, driver)
    return _repeatable_trace(subject, seed)


def first_difference(a: Sequence[TraceStep], b: Sequence[TraceStep]) -> int | None:
    """Return the index of the first difference between two traces; `None` if there is none."""
    for i, (one, other) in enumerate(zip(a, b, strict=False)):
        if not is_equal(tuple(one[1:]), tuple(other[1:])):
            return i
    return None


def _is_reset_repeatable(driver: EnvDriver, seed: int) -> bool:
    first = copy.deepcopy(driver.reset(seed)[0])
    return all(is_equal(first, driver.reset(seed)[0]) for _ in range(2))


def _report_resets(subject: Subject, seed: int) -> None:
    """Report why resets with one seed differ: `reset` ignores the seed, or keeps earlier state."""
    if not subject.is_uncopyable:
        drivers = [EnvDriver(subject, subject.make()) for _ in range(2)]
        first, second = (copy.deepcopy(driver.reset(seed)[0]) for driver in drivers)
        for driver in drivers:
            close_quietly(driver.env)
        if is_equal(first, second):
            subject.report.error(
                "reset-keeps-state",
                f"reset(seed={seed}) twice gives different observations, but equal ones in new copies, "
                "expected equal ones; in reset, set everything that step and reset change, also generators "
                "(of a space that is sampled: self.observation_space.seed(seed))",
            )
            return
    subject.report.error(
        "seed-ignored",
        f"reset(seed={seed}) twice gives different observations, expected equal ones: no run can be "
        "repeated; call super().reset(seed=seed) first and draw from self.np_random (a space that is sampled "
        "has a generator of its own: self.observation_space.seed(seed))",
    )


def _check_max_seed(subject: Subject, driver: EnvDriver) -> None:
    subject.on_call(f"reset(seed={MAX_SEED})")
    try:
        driver.env.reset(seed=MAX_SEED)
    except Exception as error:
        subject.report.error(
            "seed-large-refused",
            f"reset(seed={MAX_SEED}) raises {describe_error(error)}, expected that it accepts all whole "
            "numbers from 0: runs draw seeds of 31 bits; use np.random.default_rng(seed), which accepts them",
        )


def _check_later_episodes(subject: Subject, driver: EnvDriver) -> None:
    """Check that resets without a seed continue from the seed with new episodes."""
    tries = SEED_TRIES if not subject.is_shortened else 3
    seeds = subject.seeds(tries)
    first = [copy.deepcopy(driver.reset(seed)[0]) for seed in seeds]
    if all(is_equal(first[0], other) for other in first):
        return  # every seed gives the same start, so repetition shows nothing
    driver.reset(seeds[0])
    later = [copy.deepcopy(driver.reset()[0]) for _ in range(tries)]
    if all(is_equal(first[0], other) for other in later):
        subject.report.error(
            "episodes-repeat",
            f"reset() without a seed gives the episode of the last reset(seed=...) again, {tries} times, "
            "expected new ones: a run seeds once and would see one episode only; make a generator only "
            "where the seed is not None",
        )


def _repeatable_trace(subject: Subject, seed: int) -> list[TraceStep] | None:
    """Return a trace of one copy if another copy, and later the same one, repeat it; else `None`."""
    actions = subject.actions(subject.limited_steps(TRACE_EPISODES * TRACE_EPISODE_STEPS))
    driver = EnvDriver(subject, subject.make())
    first = record_trace(driver, seed, actions)
    if not subject.is_uncopyable:
        other = EnvDriver(subject, subject.make())
        second = record_trace(other, seed, actions)
        index = first_difference(first, second)
        close_quietly(other.env)
        if index is not None:
            _report_difference(subject.report, first[index], second[index])
            close_quietly(driver.env)
            return None
    index = _first_difference_after_episodes(driver, seed, actions, first)
    if driver.env is not subject.instance:
        close_quietly(driver.env)
    if index is None:
        return first
    subject.report.error(
        "reset-keeps-state",
        f"after some episodes reset(seed={seed}) and the same actions give other results "
        f"({first[index].label}) "
        "than in a new copy, expected the same; in reset, set everything that step changes",
    )
    return None


def _first_difference_after_episodes(
    driver: EnvDriver, seed: int, actions: Sequence[Any], first: Sequence[TraceStep]
) -> int | None:
    """Return where the trace differs after finished episodes, or after an unfinished one."""
    index = first_difference(first, record_trace(driver, seed, actions))
    if index is None:
        record_trace(driver, seed, actions[:UNFINISHED_STEPS])
        index = first_difference(first, record_trace(driver, seed, actions))
    return index


def _report_difference(report: Report, first: TraceStep, second: TraceStep) -> None:
    """Report whether an observation, a reward or an end is not repeated; the first difference decides."""
    prefix = f"with the same seed and actions {first.label} gives"
    if first.episode > 1 and not is_equal(first.observation, second.observation):
        report.error(
            "episodes-unseeded",
            f"{prefix} different observations in two copies, and the first episode does not, expected the "
            "same in all: reset() without a seed continues the generator of the last seed; leave np_random "
            "as it is where the seed is None",
        )
    elif not is_equal(first.observation, second.observation):
        report.error(
            "transitions-random",
            f"{prefix} different observations in two copies, expected the same; draw all randomness from "
            "self.np_random, and let no state depend on the time, the order of sets or threads",
        )
    elif not is_equal(first.reward, second.reward):
        report.error(
            "rewards-random",
            f"{prefix} the rewards {first.reward} and {second.reward} in two copies, and the same "
            "observation, "
            "expected the same reward; compute it without a clock or a generator other than self.np_random",
        )
    else:
        report.error(
            "ends-random",
            f"{prefix} (terminated, truncated) {first.flags} and {second.flags} in two copies, expected the "
            "same; let an episode end by its state or its steps, not by a clock or a generator of its own",
        )

"""Whether what happens follows from the seed and the actions, and from nothing else."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from rlox.envs.check.findings import Report
from rlox.envs.check.player import EPISODES, STEPS_OF_ONE, Moment, Player, trace
from rlox.envs.check.subject import Subject, closed
from rlox.envs.check.values import same
from rlox.envs.seeding import SEEDS
from rlox.importing import failure

__all__ = ["look_at_seeding", "same_trace"]

LARGE = SEEDS - 1  # the greatest seed of a run
TRIES = 8
MIDWAY = 7  # steps


def look_at_seeding(subject: Subject, player: Player) -> list[Moment] | None:
    """Seeds, and a trace of the first one; `None` where it cannot be repeated."""
    seed = subject.seeds(1)[0]
    if not _repeats_a_reset(player, seed):
        _tell_of_resets(subject, seed)
        return None
    if not _repeats_a_reset(player, 0):
        subject.report.error(
            "seed-zero-ignored",
            f"reset(seed=0) twice gives different observations, and reset(seed={seed}) the same, expected "
            "the same of 0 too; write `if seed is not None`, not `if seed` or `seed or ...`",
        )
    _try_large(subject, player)
    _look_at_later_episodes(subject, player)
    return _repeated(subject, seed)


def same_trace(a: Sequence[Moment], b: Sequence[Moment]) -> int | None:
    """Where two traces differ first; `None` where they do not."""
    for i, (one, other) in enumerate(zip(a, b, strict=False)):
        if not same(tuple(one[1:]), tuple(other[1:])):
            return i
    return None


def _repeats_a_reset(player: Player, seed: int) -> bool:
    first = copy.deepcopy(player.reset(seed)[0])
    return all(same(first, player.reset(seed)[0]) for _ in range(2))


def _tell_of_resets(subject: Subject, seed: int) -> None:
    """Two resets differ with one seed: copies that differ as well do not know it, others keep something."""
    if not subject.alone:
        players = [Player(subject, subject.make()) for _ in range(2)]
        first, second = (copy.deepcopy(player.reset(seed)[0]) for player in players)
        for player in players:
            closed(player.env)
        if same(first, second):
            subject.report.error(
                "reset-keeps-state",
                f"reset(seed={seed}) gives another observation than before, and the same in new copies, "
                "expected the same; set everything that step and reset change in reset, generators as well "
                "(those of spaces that are sampled: self.observation_space.seed(seed))",
            )
            return
    subject.report.error(
        "seed-ignored",
        f"reset(seed={seed}) twice gives different observations, expected the same: no run can be repeated; "
        "call super().reset(seed=seed) first and draw from self.np_random (a space that is sampled has a "
        "generator of its own: self.observation_space.seed(seed))",
    )


def _try_large(subject: Subject, player: Player) -> None:
    subject.doing(f"reset(seed={LARGE})")
    try:
        player.env.reset(seed=LARGE)
    except Exception as error:
        subject.report.error(
            "seed-large-refused",
            f"reset(seed={LARGE}) raises {failure(error)}, expected any whole number from 0: runs draw seeds "
            "of 31 bits; use np.random.default_rng(seed), which takes them",
        )


def _look_at_later_episodes(subject: Subject, player: Player) -> None:
    """Whether resets without a seed go on from where the seed led, to episodes that are new."""
    tries = TRIES if not subject.brief else 3
    seeds = subject.seeds(tries)
    first = [copy.deepcopy(player.reset(seed)[0]) for seed in seeds]
    if all(same(first[0], other) for other in first):
        return  # where each seed gives the same, nothing follows from repetition
    player.reset(seeds[0])
    later = [copy.deepcopy(player.reset()[0]) for _ in range(tries)]
    if all(same(first[0], other) for other in later):
        subject.report.error(
            "episodes-repeat",
            f"reset() without a seed gives the episode of the last reset(seed=...) again, {tries} times, "
            "expected new ones: a run seeds once and would see one episode only; make a generator only "
            "where the seed is not None",
        )


def _repeated(subject: Subject, seed: int) -> list[Moment] | None:
    """A trace of a copy, which another copy has to repeat, and the same copy again."""
    actions = subject.actions(subject.length(EPISODES * STEPS_OF_ONE))
    player = Player(subject, subject.make())
    first = trace(player, seed, actions)
    if not subject.alone:
        other = Player(subject, subject.make())
        second = trace(other, seed, actions)
        at = same_trace(first, second)
        closed(other.env)
        if at is not None:
            _tell_difference(subject.report, first[at], second[at])
            closed(player.env)
            return None
    at = _after_others(player, seed, actions, first)
    if player.env is not subject.instance:
        closed(player.env)
    if at is None:
        return first
    subject.report.error(
        "reset-keeps-state",
        f"after some episodes reset(seed={seed}) and the same actions lead elsewhere ({first[at].where}) "
        "than in a new copy, expected the same; set everything that step changes in reset",
    )
    return None


def _after_others(
    player: Player, seed: int, actions: Sequence[Any], first: Sequence[Moment]
) -> int | None:
    """Where the trace differs after episodes that ended, or after one that was left in the middle."""
    at = same_trace(first, trace(player, seed, actions))
    if at is None:
        trace(player, seed, actions[:MIDWAY])
        at = same_trace(first, trace(player, seed, actions))
    return at


def _tell_difference(report: Report, one: Moment, other: Moment) -> None:
    """Which of an observation, a reward and an end is not repeated; the first says it for all."""
    said = f"with the same seed and actions {one.where} gives"
    if one.episode > 1 and not same(one.seen, other.seen):
        report.error(
            "episodes-unseeded",
            f"{said} something else in two copies, and the first episode does not, expected the same of all: "
            "reset() without a seed goes on from where the seed led; leave np_random alone where the seed "
            "is None",
        )
    elif not same(one.seen, other.seen):
        report.error(
            "transitions-random",
            f"{said} different observations in two copies, expected the same; draw all randomness from "
            "self.np_random, and let no state depend on the time, the order of sets or threads",
        )
    elif not same(one.reward, other.reward):
        report.error(
            "rewards-random",
            f"{said} the rewards {one.reward} and {other.reward} in two copies, and the same observation, "
            "expected the same reward; take no clock and no generator but self.np_random for it",
        )
    else:
        report.error(
            "ends-random",
            f"{said} (terminated, truncated) {one.ends} and {other.ends} in two copies, expected the same; "
            "let an episode end by its state or its steps, not by a clock or a generator of its own",
        )

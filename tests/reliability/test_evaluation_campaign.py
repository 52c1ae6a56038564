"""Tests evaluations of difficult environments: NaN, infinity, no end, one port, few licences.

A number determines each case: the environment, the algorithm, the evaluating command, its limits. The test
also plays the expected result by hand: the score of every episode, or the reason why it has none, in the
place where a user looks for it.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from faults.report import record
from helpers.cli import Cli
from helpers.hard_evaluations import EVALUATION_SEED, Dice, Endless, LimitedInstances
from helpers.selection import examples

from rlox.runs import session

ALGOS = {
    "ppo": ("algo=ppo", "algo.n_steps=16", "algo.batch_size=16", "algo.n_epochs=1"),
    "a2c": ("algo=a2c", "algo.n_steps=8"),
    "dqn": ("algo=dqn", "algo.learning_starts=32", "algo.train_freq=16", "buffer.capacity=256"),
}
ENV = "Hard-v0"
KINDS = (
    "nan reward", "nan observation", "no end", "one port", "inf reward", "few licences",
    "inf observation", "-inf reward", "no end in time", "nothing wrong",
)  # fmt: skip


@dataclass
class Case:
    """An evaluation, its command, and the expected result."""

    make: Callable[[], gym.Env[Any, Any]]
    given: list[str]  # arguments of train
    asked: list[str]  # arguments of a separate evaluation command; empty: the run's last evaluation counts
    episodes: int
    most: float = math.inf  # step limit of an episode
    cuts: bool = True  # whether an episode at that limit counts as cut
    refused: tuple[str, ...] = ()  # texts of the error before the first step
    wrong: tuple[float, int] | None = None  # the non-finite return, and its episode
    unseen: int | None = None  # the episode with a non-finite observation
    unscored: str = ""
    room: int = 0  # how many environments can exist at once

    @property
    def truth(self) -> tuple[list[float | None], int]:
        """Return the returns of the episodes, null if not finite, and the number of cut episodes."""
        env, returns, cut = self.make(), list[float | None](), 0
        for episode in range(self.episodes):
            env.reset(seed=EVALUATION_SEED + episode)
            total, steps, over = 0.0, 0, False
            while not over and steps < self.most:
                _, reward, over, _, _ = env.step(0)
                total, steps = total + float(reward), steps + 1
            returns.append(total if math.isfinite(total) else None)
            cut += not over and self.cuts
        env.close()
        return returns, cut


def drawn(number: int) -> tuple[str, Case]:
    """Return the kind of the case with this number, and the case."""
    chance = random.Random(f"evaluations 50 {number}")  # the first ten have every algorithm and command
    kind = KINDS[number % len(KINDS)]
    algo, copies = chance.choice(list(ALGOS)), chance.randint(1, 3)
    episodes = chance.randint(2, 9)
    places, workers = (
        chance.choice(["auto", "1", "2", "5"]),
        chance.choice(["sync"] * 3 + ["subprocess"]),
    )
    given = [
        *ALGOS[algo], "tuned=null", "algo.net_arch=[4]", "total_steps=96", f"env={ENV}", f"seed={number}",
    ]  # fmt: skip
    case = Case(Dice, given, [], episodes)
    limits = [f"eval.episodes={episodes}", f"eval.n_envs={places}"]
    if kind in ("one port", "few licences"):
        workers = "sync"
        _lonely(case, kind, chance, places, copies)
        copies = min(copies, case.room)
    elif kind == "no end":
        case.make, case.most = Endless, chance.randint(1, 12)
        case.cuts = chance.random() < 0.6
        key = "eval.max_steps" if case.cuts else "env.max_episode_steps"
        limits.append(f"{key}={case.most}")
    elif kind == "no end in time":
        case.make, case.unscored = Endless, "stop.minutes were over within the final evaluation"
        limits.append("stop.minutes=0.01")
    else:
        _wrong(case, kind, chance)
        if chance.random() < 0.4:
            case.most = chance.randint(1, 8)
            limits.append(f"eval.max_steps={case.most}")
    scored_apart = not case.refused and not case.unscored and chance.random() < 0.4
    if scored_apart and kind != "no end":
        # the run's own evaluation has other seeds, without a defect
        case.asked = [f"eval.episodes={episodes}", f"eval.seed={EVALUATION_SEED}", *limits[2:]]
        limits = ["eval.episodes=1", "eval.seed=7", limits[1]]
    if kind in ("nothing wrong", "no end") and chance.random() < 0.5:
        limits.append("eval.every=48")
    case.given += [*limits, f"env.n_envs={copies}", f"env.workers={workers}"]
    return kind, case


def _wrong(case: Case, kind: str, chance: random.Random) -> None:
    """Put NaN or infinity into one episode, possibly one that is not played."""
    if kind == "nothing wrong":
        return
    value, where = (
        float(kind.split()[0]),
        {"reward": "reward", "observation": "obs"}[kind.split()[1]],
    )
    hit = chance.randrange(case.episodes + 1)
    case.make = lambda: Dice(where, value, only=EVALUATION_SEED + hit)
    if hit < case.episodes and where == "reward":
        case.wrong = value, hit
    elif hit < case.episodes:
        case.unseen = hit


def _lonely(case: Case, kind: str, chance: random.Random, places: str, copies: int) -> None:
    """Limit the number of environments: evaluation uses training's own, has room for more, or is refused."""
    case.make, case.room = LimitedInstances, 1 if kind == "one port" else chance.randint(2, 5)
    copies = min(copies, case.room)
    beside = min(case.episodes, copies if places == "auto" else int(places))
    if chance.random() < (0.5 if kind == "one port" else 0.25):
        case.given.append("eval.reuse_env=true")
    elif copies + beside > case.room:
        case.refused = ("Address already in use", "eval.reuse_env=true")


@pytest.fixture
def hard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Case], None]]:
    """Return a function that registers the environment of a case."""
    monkeypatch.setattr(session, "MIN_GRACE_SECONDS", 0.05)

    def register(case: Case) -> None:
        LimitedInstances.alive, LimitedInstances.max_alive, LimitedInstances.limit = (
            0,
            0,
            max(case.room, 1),
        )
        gym.register(ENV, case.make)

    yield register
    gym.registry.pop(ENV, None)
    LimitedInstances.alive, LimitedInstances.limit = 0, 1


@pytest.mark.parametrize("number", range(examples(len(KINDS), 100, 1000)))
def test_an_evaluation_scores_correctly_or_fails_with_the_reason(
    number: int, hard: Callable[[Case], None], cli: Cli, tmp_path: Path
) -> None:
    kind, case = drawn(number)
    hard(case)
    told = f"{number}: {kind}, {case.given}, {case.asked}"
    run = tmp_path / "run"
    ended = cli("train", *case.given, f"hydra.run.dir={run}")
    status = json.loads((run / "status.json").read_text())
    if case.room:
        assert (LimitedInstances.alive, LimitedInstances.max_alive <= case.room) == (0, True), told
    if case.refused:
        assert (ended.code, status["step"]) == (4, 0), (told, ended.err)
        assert all(each in ended.err for each in case.refused), (told, ended.err)
        return
    if case.asked:
        assert ended.code == 0, (told, ended.err)
        ended = cli("evaluate", str(run), *case.asked)
        where, names = run / "eval" / "last.json", ("episodes", "cut", "unscored")
    else:
        where, names = run / "result.json", ("episodes", "episodes_cut", "unscored")
    if case.unseen is not None:
        assert ended.code == 3, (told, ended.err)
        seed = EVALUATION_SEED + case.unseen
        assert f"{ENV} is not finite, in the evaluation episode of seed {seed}" in ended.err, told
        return
    result = json.loads(where.read_text())
    returns, cut, unscored = (result.get(name) for name in names)
    if case.unscored:
        assert (ended.code, unscored, status["status"]) == (0, case.unscored, "done"), told
        return
    assert (returns, cut or 0) == case.truth, told
    if case.wrong is None:
        assert (ended.code, unscored) == (0, None), (told, ended.err)
        return
    value, hit = case.wrong
    flaw = (
        f"1 of {case.episodes} returns are not finite: {value} in the episode of seed {EVALUATION_SEED + hit}"
    )
    assert (ended.code, unscored) == (3, flaw), (told, ended.err)
    assert flaw in ended.err, told
    if not case.asked:
        assert (status["status"], status["reason"]) == (
            "failed",
            f"in the final evaluation {flaw}",
        ), told


def test_a_hundred_cases_have_ten_of_each_kind_and_every_end() -> None:
    cases = [drawn(number) for number in range(100)]
    assert all(sum(kind == each for kind, _ in cases) == 10 for each in KINDS)
    ends = {
        "refused": sum(bool(case.refused) for _, case in cases),
        "not finite": sum(case.wrong is not None for _, case in cases),
        "unseen": sum(case.unseen is not None for _, case in cases),
        "without a score": sum(bool(case.unscored) for _, case in cases),
        "by the command evaluate": sum(bool(case.asked) for _, case in cases),
    }
    record("evaluations", ends)
    assert min(ends.values()) >= 5

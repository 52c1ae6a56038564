"""Tests that a run that is killed anywhere and resumed equals the uninterrupted run."""

from __future__ import annotations

import itertools
import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.cases import CASES, IN_ONE_CALL, UPDATES
from faults.child import ChildServer, marks, reached
from faults.fingerprint import difference, fingerprint, metrics
from faults.report import record
from helpers.selection import FULL

KILLED = -signal.SIGKILL
Whole = tuple[dict[str, Any], list[str]]


class Wholes:
    """The uninterrupted runs: fingerprints and lists of disk calls, made on first use."""

    def __init__(self, nursery: ChildServer, folder: Path) -> None:
        self.nursery, self.folder = nursery, folder
        self.known: dict[str, Whole] = {}

    def __call__(self, case: str) -> Whole:
        if case not in self.known:
            run, calls = self.folder / case, self.folder / f"{case}.json"
            assert self.nursery.run(run, CASES[case], count=str(calls)) == 0
            self.known[case] = fingerprint(run), json.loads(calls.read_text())
        return self.known[case]


@pytest.fixture(scope="module")
def nursery() -> Iterator[ChildServer]:
    with ChildServer() as made:
        yield made


@pytest.fixture(scope="module")
def whole(nursery: ChildServer, tmp_path_factory: pytest.TempPathFactory) -> Wholes:
    return Wholes(nursery, tmp_path_factory.mktemp("whole"))


def rollout_of(case: str) -> int:
    return CASES[case]["total_steps"] // UPDATES  # type: ignore[no-any-return]


def check_killed(
    nursery: ChildServer,
    run: Path,
    case: str,
    expected: dict[str, Any],
    kills: list[dict[str, int]],
) -> list[str]:
    """Kill a run at each of `kills` and resume it; then let it end and compare it."""
    for number, kill in enumerate(kills):
        code = nursery.run(run, CASES[case], resume=number > 0, **kill)
        assert code == KILLED, f"kill {kill} of {case}: exit code {code}"
    assert nursery.run(run, CASES[case], resume=True) == 0
    where = marks(run)
    print(f"  {case}: killed {'; '.join(where)}")
    assert len(where) == len(kills)
    assert difference(fingerprint(run), expected) == []
    return where


def saves(calls: list[str]) -> list[tuple[int, int]]:
    """Return the first and last disk call (from 1) of each checkpoint save; a save starts with a mkdir."""
    starts = [k for k, name in enumerate(calls, 1) if name == "mkdir" and calls[k] == "open"]
    return [(begin, following - 1) for begin, following in itertools.pairwise(starts)]


@pytest.mark.parametrize(
    ("case", "at"),
    [("8 CartPoles", 0.93), ("256 CartPoles", 0.5), ("Pendulum, both normalisers", 0.7),
     ("Gymnasium's CartPole", 0.33), ("A2C", 0.6), ("DQN, prioritized", 0.77), ("Rainbow", 0.7),
     ("DQN, masked", 0.58), ("BC", 0.4), ("Recurrent PPO", 0.55), ("GRPO", 0.61),
     ("SAC", 0.66), ("SAC, gSDE", 0.81), ("TD3", 0.57), ("Native PPO, normalised", 0.63),
     ("Native A2C, normalised", 0.44)],
)  # fmt: skip
def test_a_run_killed_in_mid_tick_resumes_to_the_same_bytes(
    case: str, at: float, nursery: ChildServer, whole: Wholes, tmp_path: Path
) -> None:
    step = int(CASES[case]["total_steps"] * at)
    assert check_killed(nursery, tmp_path, case, whole(case)[0], [{"kill_step": step}])


def test_a_run_killed_three_times_resumes_to_the_result_of_an_unkilled_run(
    nursery: ChildServer, whole: Wholes, tmp_path: Path
) -> None:
    case = "8 CartPoles"
    rollout = rollout_of(case)
    kills = [{"kill_step": int(n * rollout)} for n in (4.3, 11.8, 12.1)]
    assert len(check_killed(nursery, tmp_path, case, whole(case)[0], kills)) == 3


def test_a_run_killed_before_its_first_checkpoint_starts_again(
    nursery: ChildServer, whole: Wholes, tmp_path: Path
) -> None:
    case = "8 CartPoles"
    kills = [{"kill_step": rollout_of(case) + 40}]
    assert check_killed(nursery, tmp_path, case, whole(case)[0], kills)


@pytest.mark.parametrize("place", ["first", "middle", "last", "before best is linked"])
def test_a_run_killed_inside_a_save_resumes_to_the_same_bytes(
    place: str, nursery: ChildServer, whole: Wholes, tmp_path: Path
) -> None:
    case = "8 CartPoles"
    expected, calls = whole(case)
    found = saves(calls)
    begin, end = found[{"first": 0, "middle": len(found) // 2}.get(place, -1)]
    call = {"first": begin + 3, "middle": (begin + end) // 2, "last": end - 1}.get(place, 0)
    if not call:  # `last` is linked, `best` not yet
        links = ["symlink", "replace", "unlink", "symlink"]
        call = max(k for k in range(len(calls)) if calls[k : k + 4] == links) + 4
    kill = {"kill_call": call, "torn": 100}
    assert "call" in check_killed(nursery, tmp_path, case, expected, [kill])[0]


def test_a_run_killed_in_its_very_last_disk_calls_is_complete_once(
    nursery: ChildServer, whole: Wholes, tmp_path: Path
) -> None:
    case = "8 CartPoles"
    expected, calls = whole(case)
    last = range(len(calls) - (30 if FULL else 5), len(calls) + 1)
    for call in last:
        check_killed(nursery, tmp_path / str(call), case, expected, [{"kill_call": call}])
    assert len(last) >= 5


@pytest.mark.parametrize("case", ["8 CartPoles", *IN_ONE_CALL])
def test_a_run_killed_by_another_process_resumes_to_the_same_bytes(
    case: str, nursery: ChildServer, whole: Wholes, tmp_path: Path
) -> None:
    expected, _ = whole(case)
    chance = random.Random(5)
    codes, steps = [], []
    for update in (4, 9, 14):
        pid = nursery.start(tmp_path, CASES[case], resume=bool(codes))
        at = update * rollout_of(case)
        codes.append(nursery.kill(pid, tmp_path, at, chance.uniform(0, 0.02)))
        steps.append(reached(tmp_path))
    print(f"  {case}: killed after the ticks at {steps}, exit codes {codes}")
    assert steps[0] >= 4 * rollout_of(case)
    assert KILLED in codes
    assert nursery.run(tmp_path, CASES[case], resume=True) == 0
    assert difference(fingerprint(tmp_path), expected) == []


def test_the_comparison_of_run_folders_detects_another_seed_in_every_file(
    nursery: ChildServer, whole: Wholes, tmp_path: Path
) -> None:
    case = "8 CartPoles"
    assert nursery.run(tmp_path, {**CASES[case], "seed": 4}) == 0
    differing = difference(fingerprint(tmp_path), whole(case)[0])
    assert {"weights.safetensors", "optimizer.safetensors", "state.safetensors"} <= set(differing)
    assert {"metrics.jsonl", "episodes.jsonl", "state.json"} <= set(differing)
    assert len(metrics(tmp_path)) >= UPDATES


def in_a_save(chance: random.Random, among: list[tuple[int, int]]) -> dict[str, int]:
    """Return a kill in a random disk call of one of these saves."""
    begin, end = chance.choice(among)
    return {"kill_call": chance.randrange(begin, end), "torn": 50}


def in_steps(chance: random.Random, rollout: int, kills: int) -> list[dict[str, int]]:
    """Return kills in different rollouts, in order, each in a random step."""
    begun = sorted(chance.sample(range(1 if kills == 1 else 2, UPDATES), kills))
    return [{"kill_step": n * rollout + chance.randrange(rollout)} for n in begun]


def points_of(case: str, number: int, chance: random.Random, calls: list[str]) -> list[dict[str, int]]:
    """Return the kills of one of the six runs of a case, which have ten kills together."""
    if number in (1, 2, 3):
        return [in_a_save(chance, saves(calls))]
    kills = 3 if number else 1
    if case in IN_ONE_CALL:  # their steps are not visible; a resumed run has fewer saves left
        return [in_a_save(chance, saves(calls)[:4]) for _ in range(kills)]
    return in_steps(chance, rollout_of(case), kills)


@pytest.mark.skipif(not FULL, reason="ten kills of each case, minutes; set RLOX_FULL=1")
@pytest.mark.parametrize("case", CASES)
def test_six_runs_of_a_case_killed_ten_times_resume_to_the_same_bytes(
    case: str, nursery: ChildServer, whole: Wholes, tmp_path: Path
) -> None:
    chance = random.Random(f"2026 {case}")
    expected, calls = whole(case)
    killed: dict[str, list[str]] = {}
    for number in range(6):
        points = points_of(case, number, chance, calls)
        run = tmp_path / str(number)
        killed[f"run {number + 1}"] = check_killed(nursery, run, case, expected, points)
    kills = sum(map(len, killed.values()))
    counts = {"runs": len(killed), "kills": kills, "mismatches": 0, "where": killed}
    record(f"exact resume: {case}", counts)
    assert kills == 10

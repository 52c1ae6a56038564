"""Tests training runs as cases: parts of the same runs, and goals for whole runs."""

from __future__ import annotations

import itertools
import time

import bench_training
import pytest
import run_all
from bench_training import ROWS, TrainingWorkload
from harness.training import PartRunner, RunCache, RunTimes, Stopwatch
from helpers.benchmarks import NOWHERE

ENGINES = ("torch", "native")


def test_goals_are_on_the_whole_of_a_run_and_parts_stand_beside():
    first = {"P13": ("PPO", [1.8, 1.8, 10.0]), "P14": ("A2C", [1.8, 1.8, 35.0]),
             "P15": ("SAC", [1.3, 1.3, 3.0]), "P16": ("DQN", [1.3, 1.3, 4.2])}  # fmt: skip
    for row, (algo, goals) in first.items():
        whole, collect, update = itertools.islice(run_all.ROWS[row](NOWHERE), 3)
        assert [case.work.rpartition(" ")[2] for case in (whole, collect, update)] == [
            "training", "collection", "updates",
        ]  # fmt: skip
        assert whole.work.startswith(algo)
        found = [[g.minimum for g in s.goals] for s in whole.ours]
        assert found == [*([goal] for goal in goals), []]
        assert not any(s.goals for case in (collect, update) for s in case.ours)
        assert {peer.name for case in (whole, collect, update) for peer in case.peers} == {"SB3"}


def test_networks_batches_and_environments_are_varied_and_say_so_in_the_size():
    sizes = {(c.row, c.work.split()[0], c.size) for row in ROWS for c in run_all.ROWS[row](NOWHERE)}
    for algo in ("SAC", "TD3"):
        of = {size.partition(" steps, ")[2] for row, name, size in sizes if name == algo}
        wide = {f"net {net}, batch {b}, 1 envs" for net in ("64x64", "256x256") for b in (64, 256)}
        assert of == wide | {f"net {net}, batch 256, 8 envs" for net in ("64x64", "256x256")}
    for row in ROWS:
        of = {size for name, _, size in sizes if name == row}
        assert len(of) > 2
        assert any("256x256" in size for size in of) or row == "P16"  # P16's preset has this size


@pytest.mark.parametrize(
    ("work", "updates"),
    [
        (TrainingWorkload("P13", "ppo", "CartPole-v1", 512, {"net_arch": [8], "n_epochs": 2}), 2),
        (TrainingWorkload("P15", "sac", "Pendulum-v1", 112, {"train_freq": 8, "gradient_steps": 8,
              "learning_starts": 96, "net_arch": [8, 8], "batch_size": 8}, n_envs=8), 16),
        (TrainingWorkload("P16", "dqn", "CartPole-v1", 1_536, {"net_arch": [8], "batch_size": 8},
              n_envs=8), 384),
    ],
)  # fmt: skip
def test_all_systems_do_as_many_steps_and_updates(work: TrainingWorkload, updates: int):
    ours = [bench_training.train_rlox(work, engine, "native", seed=0) for engine in ENGINES]
    theirs = bench_training.train_sb3(work, seed=0)
    counts = {"env_steps": work.steps, "updates": updates}
    assert [one.counts for one in (*ours, theirs)] == [counts] * 3


def test_parts_use_the_same_runs_as_the_whole():
    seeds = []

    def train(seed: int) -> RunTimes:
        seeds.append(seed)
        return RunTimes({"total": 10.0 + seed, "update": 1.0 + seed}, {"updates": 7})

    recorded = RunCache(train)
    whole = PartRunner(recorded, "total")
    assert whole.result() == {"updates": 7}
    assert [whole.sample(1), whole.sample(1), whole.sample(2)] == [10.0, 11.0, 12.0 + 13.0]
    part = PartRunner(recorded, "update")
    assert [part.sample(1) for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert seeds == [0, 1, 2, 3]


def test_a_stopwatch_adds_up_cpu_seconds_and_not_waiting():
    watch = Stopwatch()
    worked = waited = 0.0

    def work() -> int:
        nonlocal worked, waited
        cpu, wall = time.process_time(), time.perf_counter()
        while time.process_time() - cpu < 0.01:
            pass
        # until the wall time is twice the CPU time, however long the work was interrupted
        while time.perf_counter() - wall < 2 * (time.process_time() - cpu):
            time.sleep(0.001)
        worked += time.process_time() - cpu
        waited += time.perf_counter() - wall
        return 3

    timed, begun = watch.time_call("update", work), time.process_time()
    assert timed() + timed() == 6
    assert 0.02 <= worked <= watch.seconds["update"] <= time.process_time() - begun
    assert 2 * worked <= waited


def test_a_split_call_divides_its_time_by_the_returned_seconds():
    cpu, wall = iter([0.0, 8.0]), iter([100.0, 104.0])
    watch = Stopwatch(cpu.__next__, wall.__next__)
    assert watch.time_split_call("collect", lambda: 1.0, "update", float)() == 1.0
    # 1 second of 4 is a quarter, and a quarter of 8 CPU seconds is 2
    assert watch.seconds == {"collect": 6.0, "update": 2.0}


def test_a_run_of_rlox_reports_its_parts_and_counts():
    work = TrainingWorkload("P14", "a2c", "CartPole-v1", 400)
    for of in bench_training.RLOX_SYSTEMS.values():
        trained = bench_training.train_rlox(work, *of, seed=0)
        assert trained.counts == {"env_steps": 400, "updates": 10}
        assert set(trained.seconds) == {"total", "collect", "update"}
        assert trained.seconds["total"] > trained.seconds["collect"] + trained.seconds["update"] > 0


def test_a_call_inside_one_that_is_split_is_counted_once():
    watch = Stopwatch(itertools.count().__next__, itertools.count().__next__)
    inner = watch.time_call("update", lambda: 0.0)

    def both() -> float:
        return inner()

    watch.time_split_call("collect", both, "update", float)()
    assert watch.seconds == {"collect": 1.0, "update": 0.0}
    inner()
    assert watch.seconds == {"collect": 1.0, "update": 1.0}
    settings = {"net_arch": [8], "batch_size": 16, "learning_starts": 96}
    trained = bench_training.train_rlox(
        TrainingWorkload("P15", "sac", "Pendulum-v1", 300, settings, 1), "native", "native", seed=0
    )
    seconds = trained.seconds
    assert seconds["total"] > seconds["collect"] + seconds["update"] > 0

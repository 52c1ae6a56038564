"""Training runs as cases: parts of the same runs, goals on the whole of them."""

from __future__ import annotations

import time

import bench_training
import run_all
from harness.training import PartRunner, Recorded, Stopwatch, Trained
from helpers.benchmarks import NOWHERE
from omegaconf import OmegaConf


def test_goals_are_on_the_whole_of_a_run_and_parts_stand_beside():
    for row, algo, goals in (("P14", "A2C", [4.5, 3.0]), ("P16", "DQN", [2.0, 2.0])):
        whole, collect, update = run_all.ROWS[row](NOWHERE)
        assert [case.work.rpartition(" ")[2] for case in (whole, collect, update)] == [
            "training", "collection", "updates",
        ]  # fmt: skip
        assert whole.work.startswith(algo)
        assert [[g.minimum for g in s.goals] for s in whole.ours] == [[goal] for goal in goals]
        assert not any(s.goals for case in (collect, update) for s in case.ours)
        assert {peer.name for case in (whole, collect, update) for peer in case.peers} == {"SB3"}


def test_parts_are_of_the_same_runs_and_cost_none_of_their_own():
    seeds = []

    def train(seed: int) -> Trained:
        seeds.append(seed)
        return Trained({"total": 10.0 + seed, "update": 1.0 + seed}, {"updates": 7})

    recorded = Recorded(train)
    whole = PartRunner(recorded, "total")
    assert whole.result() == {"updates": 7}
    assert [whole.sample(1), whole.sample(1), whole.sample(2)] == [10.0, 11.0, 12.0 + 13.0]
    part = PartRunner(recorded, "update")
    assert [part.sample(1) for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert seeds == [0, 1, 2, 3]


def test_a_stopwatch_adds_up_cpu_seconds_and_not_waiting():
    watch = Stopwatch()

    def work() -> int:
        time.sleep(0.05)
        begun = time.process_time()
        while time.process_time() - begun < 0.01:
            pass
        return 3

    timed = watch.timed("update", work)
    assert timed() + timed() == 6
    assert 0.02 <= watch.seconds["update"] < 0.09


def test_a_run_of_ours_says_its_parts_and_how_much_it_did():
    preset = OmegaConf.to_container(OmegaConf.load(bench_training.PRESETS / "a2c/CartPole-v1.yaml"))
    for backend in ("native", "gymnasium"):
        trained = bench_training.train_rlox("a2c", preset, backend, 400, seed=0)
        assert trained.counts == {"env_steps": 400, "updates": 10}
        assert set(trained.seconds) == {"total", "collect", "update"}
        assert trained.seconds["total"] > trained.seconds["collect"] + trained.seconds["update"] > 0

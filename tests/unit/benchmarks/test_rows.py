"""The rows of the suite: every size, every peer that does the work, the goals."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import run_all
from bench_gae import Rollout, env_major, numpy_gae
from helpers.benchmarks import NOWHERE

from rlox import compute_gae

BENCHMARKS = Path(run_all.__file__).parent


def goals(row: str) -> dict[tuple[str, str], list[float]]:
    """(size, system) -> the ratios to reach."""
    return {
        (case.size, own.name): [goal.minimum for goal in own.goals]
        for case in run_all.ROWS[row](NOWHERE)
        for own in case.ours
        if own.goals
    }


def peers(row: str) -> set[str]:
    """Everyone who takes part in the row."""
    return {peer.name for case in run_all.ROWS[row](NOWHERE) for peer in case.peers}


def test_gae_of_one_trajectory():
    assert goals("P1") == {(n, "rlox"): [1.3] for n in ("128", "2,048", "32,768")}
    assert peers("P1") == {"rlox 1.2.0", "TorchRL", "SB3", "NumPy loop"}


def test_gae_of_many_environments():
    assert goals("P2") == {
        ("256 x 2,048", "rlox time-major, into"): [20.0],
        ("256 x 2,048", "rlox env-major"): [6.0],
    }
    assert peers("P2") == {"rlox 1.2.0", "TorchRL", "TorchRL loop", "SB3"}


def test_stepping_covers_five_environments_in_four_sizes_beside_everyone_who_has_them():
    cases = list(run_all.ROWS["P9"](NOWHERE))
    works = {case.work.split()[-1] for case in cases}
    assert len(cases) == 20 and len(works) == 5
    by_env = {work: {p.name for c in cases if work in c.work for p in c.peers} for work in works}
    everywhere = {"EnvPool", "Gymnasium sync"}
    assert by_env.pop("CartPole-v1") == {*everywhere, "rlox 1.2.0", "Gymnasium NumPy"}
    assert by_env.pop("Pendulum-v1") == {*everywhere, "rlox 1.2.0"}
    assert set(map(frozenset, by_env.values())) == {frozenset(everywhere)}
    assert goals("P9")["1", "rlox"] == [1.5]
    assert {goals("P9")[n, "rlox"][0] for n in ("16", "256", "2,048")} == {5.0}
    assert {goals("P9")[n, "rlox f32"][0] for n in ("16", "256", "2,048")} == {8.0}


def test_the_rollout_is_held_against_the_original_and_sb3_by_name():
    (case,) = run_all.ROWS["P12"](NOWHERE)
    assert [(g.minimum, g.against) for g in case.ours[0].goals] == [
        (4.0, "rlox 1.2.0"),
        (100, "SB3"),
    ]
    assert {g.against for g in case.ours[0].goals} == {peer.name for peer in case.peers}


def test_the_numpy_loop_is_gae():
    data = Rollout.draw(64, 1, np.float64)
    arrays = (data.rewards[:, 0], data.values[:-1, 0], data.dones[:, 0])
    expected = compute_gae(*arrays, 0.5, 0.9, 0.8)
    np.testing.assert_allclose(numpy_gae(*arrays, 0.5, 0.9, 0.8), expected, atol=1e-12)


def test_env_major_order_is_one_environment_after_the_other():
    assert env_major(np.array([[1, 10], [2, 20], [3, 30]])).tolist() == [1, 2, 3, 10, 20, 30]


@pytest.mark.parametrize(
    "path",
    sorted(p for p in BENCHMARKS.glob("bench_*.py") if "ppo_training" not in p.name),
    ids=lambda p: p.name,
)
def test_every_benchmark_is_part_of_the_whole(path):
    names = {
        node.id
        for node in ast.walk(ast.parse(Path(run_all.__file__).read_text()))
        if isinstance(node, ast.Name)
    }
    assert path.stem in names

"""Tests the rows of the suite: every size, every peer that does the work, the goals."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import run_all
from bench_gae import Rollout, env_major, numpy_gae
from bench_trl_comparison import trl_advantages
from helpers.benchmarks import NOWHERE

from rlox import compute_gae

BENCHMARKS = Path(run_all.__file__).parent
# They take minutes to hours, or their peers take minutes to build; each has its own command.
APART = {
    "bench_ppo_training",
    "bench_atari",
    "bench_nn_backends",
    "bench_offline",
    "bench_llm_training",
}


def goals(row: str) -> dict[tuple[str, str], list[float]]:
    """Returns the ratios to reach by (size, system)."""
    return {
        (case.size, own.name): [goal.minimum for goal in own.goals]
        for case in run_all.ROWS[row](NOWHERE)
        for own in case.ours
        if own.goals
    }


def peers(row: str) -> set[str]:
    """Returns the names of the row's peers."""
    return {peer.name for case in run_all.ROWS[row](NOWHERE) for peer in case.peers}


def test_the_benchmark_of_one_gae_trajectory_has_its_goals_and_peers():
    assert goals("P1") == {(n, "rlox"): [1.3] for n in ("128", "2,048", "32,768")}
    assert peers("P1") == {"rlox 1.2.0", "TorchRL", "SB3", "NumPy loop"}


def test_the_benchmark_of_batched_gae_has_its_goals_and_peers():
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


def test_steps_of_large_batches_are_held_against_those_of_2048():
    cases = list(run_all.ROWS["P20"](NOWHERE))
    assert len(cases) == 6
    for case in cases:
        (goal,), (small, copy) = case.ours[0].goals, case.peers
        assert (goal.minimum, goal.against) == (pytest.approx(2 / 3), small.name)
        assert small.scale * 2_048 == case.elements
        assert small.is_bound and copy.is_bound


def test_the_rollout_is_held_against_the_original_and_sb3_by_name():
    (case,) = run_all.ROWS["P12"](NOWHERE)
    assert [(g.minimum, g.against) for g in case.ours[0].goals] == [
        (4.0, "rlox 1.2.0"),
        (100, "SB3"),
    ]
    assert {g.against for g in case.ours[0].goals} == {peer.name for peer in case.peers}


def test_the_benchmark_of_v_trace_has_its_goals_and_peers():
    assert goals("P3") == {("2,048", "rlox"): [2.0]}
    assert peers("P3") == {"rlox 1.2.0", "TorchRL"}


def test_the_benchmark_of_group_advantages_has_its_goals_and_peers():
    assert goals("P10") == {
        ("16 x 4", "rlox"): [1.5],
        ("256 x 16", "rlox"): [4.0],
        ("1,024 x 32", "rlox"): [4.0],
    }
    assert peers("P10") == {"rlox 1.2.0", "NumPy", "torch"}


def test_the_benchmark_of_token_kl_has_its_goals_and_peers_by_precision():
    reached = {
        (case.work.split()[-1], case.size): case.ours[0].goals[0].minimum
        for case in run_all.ROWS["P11"](NOWHERE)
    }
    assert reached == {
        ("float32", "1 x 128"): 1.2,
        ("float32", "1 x 8,192"): 1.5,
        ("float32", "32 x 2,048"): 1.5,
        ("float64", "1 x 128"): 1.2,
        ("float64", "1 x 8,192"): 1.2,
        ("float64", "32 x 2,048"): 1.2,
    }
    assert peers("P11") == {"rlox 1.2.0", "NumPy", "torch"}


def test_the_benchmark_of_float64_sequence_kl_has_its_goals_and_peers():
    cases = list(run_all.ROWS["P19"](NOWHERE))
    assert {(case.work.split()[0], case.size) for case in cases} == {
        (estimator, size) for estimator in ("exact", "k3") for size in ("128", "8,192", "65,536")
    }
    assert {goal.minimum for case in cases for goal in case.ours[0].goals} == {1.2}
    assert peers("P19") == {"rlox 1.2.0", "NumPy", "torch"}


def test_pushing_and_sampling_of_vectors_beside_every_buffer():
    everyone = {"rlox 1.2.0", "SB3", "TorchRL"}
    assert goals("P4") == {("1", "rlox"): [1.2]}
    assert goals("P6") == {(n, "rlox"): [1.3] for n in ("32", "256", "1,024")}
    assert {case.work for case in run_all.ROWS["P6"](NOWHERE)} == {
        "sample, obs 4",
        "sample, obs 17",
    }
    assert peers("P4") == peers("P6") == everyone


def test_pushing_of_images_is_held_against_torchrl_and_a_bare_copy():
    cases = list(run_all.ROWS["P5"](NOWHERE))
    assert len(cases) == 4
    for case in cases:
        held = [(goal.minimum, goal.against) for goal in case.ours[0].goals]
        assert held == [(4.0, "TorchRL"), (0.5, "NumPy copy")]
        assert [peer.name for peer in case.peers if peer.is_bound] == ["NumPy copy"]


def test_sampling_of_images_is_held_against_a_bare_gather_then_against_peers():
    cases = {case.size: case for case in run_all.ROWS["P7"](NOWHERE) if "float32" in case.work}
    few, many = cases["32"].ours[0].goals[0], cases["256"].ours[0].goals[0]
    assert (few.against, many.against, many.minimum) == ("NumPy gather", None, 3.0)
    assert few.minimum == pytest.approx(1 / 1.2)


def test_the_benchmark_of_prioritized_sampling_has_its_goals_and_peers():
    assert goals("P8") == {("256", "rlox"): [2.5]}
    assert peers("P8") == {"rlox 1.2.0", "TorchRL"}


@pytest.mark.parametrize("row", ["T1", "T2"])
def test_trl_comparison_covers_the_sizes_of_the_language_model_rows(row):
    beside = {"T1": "P10", "T2": "P11"}[row]
    sizes = {case.size for case in run_all.ROWS[row](NOWHERE)}
    assert sizes == {case.size for case in run_all.ROWS[beside](NOWHERE)}
    assert peers(row) == {"TRL-style torch", "NumPy"}


def test_trls_advantages_divide_by_the_sample_deviation_and_a_little():
    rewards = np.array([1.0, 2.0, 3.0, 5.0, 5.0, 5.0], np.float32)
    _, answer = trl_advantages(rewards, 3)()
    expected = np.array([-1.0, 0.0, 1.0, 0.0, 0.0, 0.0]) / (1 + 1e-4)
    np.testing.assert_allclose(answer()["advantages"], expected, atol=1e-6)


def test_the_numpy_loop_of_the_benchmarks_computes_gae_correctly():
    data = Rollout.draw(64, 1, np.float64)
    arrays = (data.rewards[:, 0], data.values[:-1, 0], data.dones[:, 0])
    expected = compute_gae(*arrays, 0.5, 0.9, 0.8)
    np.testing.assert_allclose(numpy_gae(*arrays, 0.5, 0.9, 0.8), expected, atol=1e-12)


def test_env_major_order_is_one_environment_after_the_other():
    assert env_major(np.array([[1, 10], [2, 20], [3, 30]])).tolist() == [1, 2, 3, 10, 20, 30]


@pytest.mark.parametrize(
    "path",
    sorted(p for p in BENCHMARKS.glob("bench_*.py") if p.stem not in APART),
    ids=lambda p: p.name,
)
def test_run_all_imports_every_benchmark_module_of_the_suite(path):
    names = {
        node.id
        for node in ast.walk(ast.parse(Path(run_all.__file__).read_text()))
        if isinstance(node, ast.Name)
    }
    assert path.stem in names

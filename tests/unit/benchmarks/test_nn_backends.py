"""Tests the steps for comparing engines: the count of their work, and their equal results."""

from __future__ import annotations

import sys
from pathlib import Path

import bench_nn_backends as bench
import numpy as np
import pytest
import torch
from harness import peers, programs, torch_steps
from harness.network_work import Sizes, arrays, product_flops
from harness.programs import ProgramError, ProgramRunner
from helpers.benchmarks import NOWHERE
from update_profile import OperationCounter

SMALL = Sizes(3, 2, 8, 6)
ALGORITHMS = ("ppo", "a2c", "dqn", "sac", "td3")


def multiplied(noted: OperationCounter) -> float:
    """Returns the multiplications and additions of the counted products."""
    work = 0.0
    for (_, operands), times in noted.products.items():
        (n, k), m = operands[-2][0], operands[-1][0][-1]
        work += times * 2 * n * k * m
    return work


@pytest.mark.parametrize("work", ["act", "critic", *ALGORITHMS])
def test_counted_matrix_products_of_a_step_equal_those_torch_computes(work: str):
    steps = torch_steps.Steps(work, SMALL, arrays(work, SMALL), lambda loss: loss)
    steps.step_once()  # TD3's actor learns in every second step
    with OperationCounter() as noted:
        steps.step_once()
        steps.step_once()
    assert multiplied(noted) / 2 == product_flops(work, SMALL)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_step_in_torch_moves_each_parameter_by_no_more_than_a_learning_rate(algo: str):
    given = arrays(algo, SMALL)
    steps = torch_steps.Steps(algo, SMALL, given, lambda loss: loss)
    (after,) = steps.result().values()
    way = np.abs(after - given["parameters"])
    # RMSprop's first step is ten times as long: its mean of squares begins with a hundredth
    most = torch_steps.LEARNING_RATE * (10 if algo == "a2c" else 1)
    assert 0.5 * most < way.max() < 1.01 * most


def test_a_benchmarked_sac_step_updates_the_target_network():
    steps = torch_steps.Steps("sac", SMALL, arrays("sac", SMALL), lambda loss: loss)
    before = [p.clone() for p in steps.targets[1]]
    steps.step_once()
    expected = [
        torch.lerp(b, own.detach(), torch_steps.TAU) for b, own in zip(before, steps.nets[1], strict=True)
    ]
    for target, goal in zip(steps.targets[1], expected, strict=True):
        torch.testing.assert_close(target, goal)


def test_every_step_of_the_native_engine_is_compared_with_all_peers():
    cases = list(bench.n2(NOWHERE))
    assert [case.size.split(",")[0] for case in cases[::2]] == [a.upper() for a in ALGORITHMS]
    everyone = {"torch", "torch eager", "torch compiled", bench.LIMIT, bench.BLAS_LIMIT}
    for case in cases:
        libraries = {"Candle", "Burn"} if case.size[:3] in ("PPO", "DQN") else set()
        assert {peer.name for peer in case.peers} == everyone | libraries
        assert {peer.name for peer in case.peers if peer.is_bound} == {
            bench.LIMIT,
            bench.BLAS_LIMIT,
        }
    bound = [case.size for case in cases if case.ours[0].goals]
    assert bound == [
        "PPO, 256x256, batch 256, 205 MFLOP",
        "SAC, 256x256, batch 256, 546 MFLOP",
        "TD3, 256x256, batch 256, 392 MFLOP",
    ]


def test_the_four_original_rows_compare_the_results_of_all_engines():
    cases = list(bench.n1(NOWHERE))
    assert [case.size.split(",")[0] for case in cases] == [row[0] for row in bench.ORIGINAL_ROWS]
    for case in cases:
        rivals = {peer.name for peer in case.peers if not peer.is_bound}
        assert rivals == {"torch eager", "torch compiled", "Candle", "Burn"}
        assert all(peer.is_compared for peer in case.peers if not peer.is_bound)


@pytest.mark.parametrize("algo", ["a2c", "td3"])
def test_benchmarked_native_and_torch_steps_learn_the_same_weights(algo: str):
    env, width, rows = {"a2c": "CartPole-v1", "td3": "Pendulum-v1"}[algo], 8, 16
    bench.torch_run.cache_clear()
    native, own = (bench.learner_runner(algo, env, width, rows, name) for name in ("native", "torch"))
    first, second = native.result()["weights"], own.result()["weights"]
    np.testing.assert_allclose(first, second, rtol=1e-3, atol=1e-4)
    native.sample(3)
    np.testing.assert_array_equal(native.result()["weights"], first)
    native.close()
    own.close()
    bench.torch_run.cache_clear()


PROGRAM = """
import sys, time
from pathlib import Path

*words, folder = sys.argv[1:]
for line in map(str.strip, sys.stdin):
    if line == "result":
        Path(folder, "result.f32").write_bytes(Path(folder, "given.f32").read_bytes())
    elif line == "0":
        sys.exit(f"no work: {words}")
    else:
        begun, wall = time.process_time(), time.perf_counter()
        while time.process_time() < begun + float(line) / 100:
            pass
        worked = time.process_time() - begun
        # the clock of the wall says more than all the CPU time that this process has had
        while time.perf_counter() < wall + 2 * time.process_time():
            time.sleep(0.001)
        print(worked, 2 * time.process_time(), file=sys.stderr, flush=True)
    print("done", flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Makes a program that takes 0.01 seconds of CPU time for each loop and returns its arrays."""
    path = tmp_path / "program"
    path.write_text(f"#!{sys.executable}\n{PROGRAM}")
    path.chmod(0o755)
    return path


def test_a_program_is_given_arrays_and_measured_by_its_cpu_time(program: Path):
    given = np.array([1.5, -2.0], np.float32)
    runner = ProgramRunner(program, ("ppo", 4), {"given": given})
    np.testing.assert_array_equal(runner.result()["result"], given)
    measured = runner.sample(5)
    with pytest.raises(ProgramError) as stopped:  # the message ends with the program's output
        runner.sample(0)
    worked, wall = map(float, str(stopped.value).splitlines()[-2].split())
    assert 0.05 <= worked <= measured < wall
    runner.close()


def test_the_error_of_a_stopped_program_has_its_last_output(program: Path):
    runner = ProgramRunner(program, ("ppo", 4), {})
    with pytest.raises(ProgramError, match=r"no work: \['ppo', '4'\]"):
        runner.sample(0)
    runner.close()


def test_the_message_of_a_missing_engine_has_the_command_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    engines = ("engine cpu", "candle", "burn")
    assert not any(map(peers.is_importable, engines))
    said = peers.explain_missing(engines)
    for crate, engine in (("rlox-nn", "cpu"), ("rlox-candle", "candle"), ("rlox-burn", "burn")):
        assert f"(cd rust/{crate} && cargo build --release --example steps_{engine})" in said
    built = programs.example_path("candle")
    built.parent.mkdir(parents=True)
    built.touch()
    assert peers.is_importable("candle")


def test_versions_of_the_engines_math_libraries_come_from_the_lock_files():
    assert programs.math_library("cpu").startswith("matrixmultiply 0.")
    assert programs.math_library("candle").startswith("candle-core 0.")
    assert programs.math_library("burn").startswith("burn-tensor 0.")

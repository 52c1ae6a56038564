"""Tests that an exported policy acts as the run's one: by its definition, in onnxruntime and in Rust."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
import torch
from helpers.exported_policies import KINDS, VARIANTS, collect_observations
from numpy.typing import NDArray
from safetensors import safe_open

from rlox.export import ExportedPolicy, build_exported_policy, onnx_bytes, safetensors_bytes
from rlox.export.numpy_policy import relative_difference
from rlox.runs.algorithm import Algorithm

ROOT = Path(__file__).resolve().parents[3]
OLD = sorted((ROOT / "tests" / "golden" / "old").glob("*/policy/policy.safetensors"))
RECORDED = 1000
FROM_DATASETS = ("bc_", "td3_bc", "iql", "cql")  # the policy applies the dataset's moments
CASES = [
    *((name, normalized) for name in KINDS for normalized in (False, True)),
    *((name, False) for name in VARIANTS),
]


class Played(NamedTuple):
    """A policy, observations of its run, and its outputs and actions there."""

    policy: ExportedPolicy
    obs: NDArray[np.float32]
    outputs: NDArray[np.float32]
    actions: NDArray[Any]


def played(algorithm: Algorithm) -> Played:
    policy, obs = build_exported_policy(algorithm), collect_observations(algorithm, RECORDED)
    actor = algorithm.components.actor
    with torch.inference_mode(), actor.inference_mode():
        outputs = policy.network.torch_forward(actor.policy_input(obs)).numpy()
        return Played(policy, obs, outputs, np.asarray(actor.act(obs)))


@pytest.fixture(scope="module")
def cases() -> dict[tuple[str, bool], Played]:
    """Makes each case at its first use."""

    class Made(dict[tuple[str, bool], Played]):
        def __missing__(self, case: tuple[str, bool]) -> Played:
            name, normalized = case
            options = {"normalize_obs": True} if normalized else {}
            self[case] = played({**KINDS, **VARIANTS}[name](**options))
            return self[case]

    return Made()


def assert_same(case: Played, outputs: NDArray[Any], actions: NDArray[Any]) -> None:
    """Checks differences of at most 1e-5 of the norm; choices are equal, or their values are as close."""
    assert relative_difference(outputs, case.outputs) <= 1e-5
    if case.policy.bounds is not None:
        assert relative_difference(actions, case.actions) <= 1e-5
        return
    assert actions.shape == (len(case.obs),)
    other = actions != case.actions
    top = np.sort(case.outputs[other], -1)
    assert (top[:, -1] - top[:, -2] <= 1e-5 * np.abs(case.outputs).max()).all()


@pytest.mark.parametrize(("name", "normalized"), CASES)
def test_the_definition_in_the_file_acts_as_the_policy(cases: Any, name: str, normalized: bool) -> None:
    case = cases[name, normalized]
    assert (case.policy.moments is not None) == (normalized or name.startswith(FROM_DATASETS))
    assert_same(case, *case.policy.run(case.obs))


@pytest.mark.parametrize(("name", "normalized"), CASES)
def test_onnxruntime_acts_as_the_policy_on_observations_that_it_has_met(
    cases: Any, name: str, normalized: bool
) -> None:
    pytest.importorskip("onnx", reason="needs the extra onnx")
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    case = cases[name, normalized]
    session = runtime.InferenceSession(onnx_bytes(case.policy), providers=["CPUExecutionProvider"])
    actions, outputs = session.run(["action", "outputs"], {"obs": case.obs})
    assert_same(case, outputs, actions)
    (alone,) = session.run(["outputs"], {"obs": case.obs[:1]})
    assert alone.shape == (1, case.outputs.shape[1])


@pytest.fixture(scope="module")
def play() -> Path:
    """Builds the example of `rlox-nn`."""
    done = subprocess.run(
        [
            "cargo",
            "build",
            "--quiet",
            "--locked",
            "--message-format=json",
            "-p",
            "rlox-nn",
            "--example",
            "play",
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    (built,) = [one["executable"] for one in told if one.get("executable")]
    return Path(built)


def asked(play: Path, file: Path, *more: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([play, file, *more], input=given, capture_output=True)


@pytest.mark.timeout(900)  # the first one that needs `play` waits for the compiler
@pytest.mark.parametrize(("name", "normalized"), CASES)
def test_rust_acts_as_the_policy_on_observations_that_it_has_met(
    cases: Any, play: Path, tmp_path: Path, name: str, normalized: bool
) -> None:
    case = cases[name, normalized]
    file = tmp_path / "policy.safetensors"
    file.write_bytes(safetensors_bytes(case.policy))
    done = asked(play, file, "--observations", given=case.obs.astype("<f4").tobytes())
    assert done.returncode == 0, done.stderr
    rows = np.array([[float(x) for x in line.split()] for line in done.stdout.splitlines()])
    width = case.outputs.shape[1]
    actions = rows[:, :-width]
    assert_same(case, rows[:, -width:], actions if case.policy.bounds else actions[:, 0].astype(np.int64))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("file", OLD, ids=lambda file: file.parts[-3])
def test_rust_plays_a_policy_that_an_earlier_version_exported(play: Path, file: Path) -> None:
    with safe_open(file, "numpy") as held:
        obs, outputs, actions = (held.get_tensor(f"golden.{name}") for name in ("obs", "outputs", "actions"))
    done = asked(play, file, "--observations", given=obs.astype("<f4").tobytes())
    assert done.returncode == 0, done.stderr
    rows = np.array([[float(x) for x in line.split()] for line in done.stdout.splitlines()])
    np.testing.assert_allclose(rows[:, 1:], outputs, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(rows[:, 0], actions)


@pytest.mark.slow
def test_the_example_plays_whole_episodes_in_the_environment_that_is_named(
    cases: Any, play: Path, tmp_path: Path
) -> None:
    file = tmp_path / "policy.safetensors"
    file.write_bytes(safetensors_bytes(cases["sac", False].policy))
    done = asked(play, file, "--episodes", "3")
    assert done.stdout.decode().startswith("sac on Pendulum-v1: mean return of 3 episodes -")
    assert b"99% within" in asked(play, file, "--bench").stdout
    assert asked(play, file, "--episode", "3").returncode == 2
    file.write_bytes(file.read_bytes()[:-1])
    cut = asked(play, file)
    assert (cut.returncode, cut.stdout) == (1, b"")
    assert str(file) in os.fsdecode(cut.stderr)


def test_the_file_has_the_tensors_and_the_description_that_are_documented(cases: Any, tmp_path: Path) -> None:
    file = tmp_path / "policy.safetensors"
    file.write_bytes(safetensors_bytes(cases["sac", True].policy))
    with safe_open(file, "numpy") as held:
        shapes = {name: held.get_slice(name).get_shape() for name in held.keys()}  # noqa: SIM118
        about = json.loads(held.metadata()["rlox"])
    assert shapes == {
        "actor.0.weight": [130, 3], "actor.0.bias": [130],
        "actor.2.weight": [70, 130], "actor.2.bias": [70],
        "actor.4.weight": [1, 70], "actor.4.bias": [1],  # the mean without its deviation
        "normalizer.mean": [3], "normalizer.deviation": [3],
        "action.low": [1], "action.high": [1],
        "golden.obs": [32, 3], "golden.outputs": [32, 1], "golden.actions": [32, 1],
    }  # fmt: skip
    assert about["format"] == 1
    assert (about["algorithm"], about["env"]) == ("sac", "Pendulum-v1")
    assert about["normalizer"] == {"clip": 10.0}
    assert about["network"]["sizes"] == [3, 130, 70, 1]
    assert about["action"] == {"kind": "box", "shape": [1]}


def test_a_squashed_policys_actions_reach_from_bound_to_bound(cases: Any) -> None:
    policy = cases["td3", False].policy
    network = policy.network.parts[0]
    far = type(network)(network.name, network.weights, (*network.biases[:-1], np.float32([1e6])))
    far = type(policy.network)((far,), *list(vars(policy.network).values())[1:])
    highest = type(policy)(**{**vars(policy), "network": far})
    assert highest.run(np.zeros((1, 3), np.float32))[1] == gym.make("Pendulum-v1").action_space.high


def test_exporting_a_policy_twice_gives_identical_safetensors_bytes(cases: Any) -> None:
    policy = cases["ppo_gsde", True].policy
    assert safetensors_bytes(policy) == safetensors_bytes(policy)

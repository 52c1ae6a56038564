"""Tests that the estimated memory of collecting and learning matches the memory in use."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlox.algorithms import A2C, PPO, HybridPPO, RecurrentPPO
from rlox.algorithms.assembly.on_policy import rollout_bytes
from rlox.algorithms.recurrent_ppo import recurrent_bytes
from rlox.errors import ConfigError
from rlox.parameters.encoder_cost import EncoderCost
from rlox.runs.algorithm import Algorithm
from rlox.sources.arena import Arena

MEASURE = """
import ctypes, json, sys
from pathlib import Path
ctypes.CDLL(None).mallopt(-3, 65536)  # M_MMAP_THRESHOLD: what is freed goes back at once, no gaps
from rlox.algorithms import ALGORITHMS

name, options = sys.argv[1], json.loads(sys.argv[2])

def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(key))

ALGORITHMS[name]("CartPole-v1", **{**options, "n_steps": 8}).train(1)
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak is that from here on
ALGORITHMS[name]("CartPole-v1", **options).train(1)
print(status("VmHWM") - before)
"""


CPU = torch.device("cpu")


def said(algorithm: Algorithm, minibatch: int | None) -> int:
    algo: Any = algorithm.config.algo
    env = algorithm.source.collector.env
    return rollout_bytes(algo, env, True, minibatch, algo.hidden_widths)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    "name",
    [
        "ppo",
        pytest.param("a2c", marks=pytest.mark.slow),
        "recurrent_ppo",
        pytest.param("hybrid_ppo", marks=pytest.mark.slow),
    ],
)
def test_the_memory_estimate_matches_the_measured_memory(name: str) -> None:
    options: dict[str, Any] = {"n_envs": 1000, "n_steps": 200}
    if name in ("ppo", "a2c"):
        options["backend"] = "torch"  # torch needs more memory than the native engine
    if name in ("ppo", "hybrid_ppo"):
        options |= {"n_steps": 500, "batch_size": 8192, "n_epochs": 2}
    if name == "recurrent_ppo":
        options = {"n_envs": 64, "n_steps": 128, "batch_size": 4096, "n_epochs": 1}
    command = [sys.executable, "-c", MEASURE, name, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    made = {"ppo": PPO, "a2c": A2C, "recurrent_ppo": RecurrentPPO, "hybrid_ppo": HybridPPO}
    algorithm: Any = made[name]("CartPole-v1", **options)
    if name == "recurrent_ppo":
        need = recurrent_bytes(algorithm.config.algo, algorithm.collector.env, CPU)
    else:
        need = said(algorithm, options.get("batch_size"))
    assert 0.5 < int(done.stdout) / need < 1.2


def test_rollout_bytes_counts_shuffled_copies_and_the_layers_of_one_minibatch() -> None:
    algorithm = A2C("CartPole-v1", n_envs=8, n_steps=512)
    config: Any = algorithm.config.algo
    env, rows = algorithm.collector.env, 8 * 512
    whole, halves, small = (
        rollout_bytes(config, env, True, minibatch, ((64, 64), (64, 64))) for minibatch in (None, 2048, 32)
    )
    assert halves - small == 4 * (2048 - 32) * (256 + 128 + 24)
    # plus obs, action, four columns and the order; minus the layers of the other half
    assert halves - whole == rows * (16 + 8 + 16 + 8) - 4 * 2048 * (256 + 128 + 24)
    unknown = rollout_bytes(config, env, True, None, ((), ()))
    assert whole - unknown == 4 * rows * (256 + 2 * 64 + 3 * 64)
    arena = Arena.byte_size(512, 8, env.observations.dim, env.actions)
    assert rollout_bytes(config, env, False, 32, ((64, 64), (64, 64))) == arena
    # the heads take 24 numbers a row, both when rows are scored and when the network learns from them
    assert whole - arena == 4 * rows * (3 * 64 + 24) + 4 * rows * (256 + 2 * 64 + 24)


def test_rollout_bytes_counts_the_features_kept_by_a_shared_encoder() -> None:
    algorithm = A2C("CartPole-v1", n_envs=8, n_steps=512)
    config: Any = algorithm.config.algo
    env, widths = algorithm.collector.env, ((64,), (64,))
    few, many = (
        rollout_bytes(config, env, True, 32, widths, EncoderCost(0, 0, 0, features)) for features in (1, 33)
    )
    assert many - few == 4 * (8 * 512) * 32
    apart = replace(config, share_encoder=False)
    few, many = (
        rollout_bytes(apart, env, True, 32, widths, EncoderCost(0, 0, 0, features)) for features in (1, 33)
    )
    assert many == few


def test_native_ppo_counts_the_memory_of_all_shuffled_orders() -> None:
    passes: dict[str, Any] = {"n_envs": 8, "n_steps": 128, "batch_size": 64, "n_epochs": 10**9}
    PPO("CartPole-v1", **passes).close()
    with pytest.raises(ConfigError, match=r"lower algo\.n_steps or env\.n_envs"):
        PPO("CartPole-v1", backend="native", **passes)

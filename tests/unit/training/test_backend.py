"""Tests which engine `algo.backend=auto` takes, and that a run keeps it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_ppo import SMALL_PPO

from rlox.algorithms import A2C, DDPG, DQN, PPO, SAC, TD3
from rlox.build import build, resume
from rlox.configs import ALGO_CONFIGS, make_run
from rlox.errors import ConfigError
from rlox.parameters.layout import linear_shapes, max_width
from rlox.runs.checkpoint import read_checkpoint, write_checkpoint
from rlox.training import backend
from rlox.training.backend import TABLE_FILE, Backend, cpu_kind

OFF = {"net_arch": (8,), "batch_size": 16, "learning_starts": 32, "buffer_size": 256}
FACADES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "ppo": (PPO, "CartPole-v1", SMALL_PPO),
    "a2c": (A2C, "CartPole-v1", {"net_arch": (8,)}),
    "dqn": (DQN, "CartPole-v1", OFF),
    "sac": (SAC, "Pendulum-v1", OFF),
    "td3": (TD3, "Pendulum-v1", OFF),
    "ddpg": (DDPG, "Pendulum-v1", OFF),
}


def cell(width: int, rows: int, ratio: float) -> dict[str, float]:
    return {"width": width, "rows": rows, "ratio": ratio}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replaces the committed measurements by some of this machine's kind of CPU."""
    algorithms = {name: [cell(1024, 65536, 2.5)] for name in FACADES}
    monkeypatch.setattr(backend, "_table", lambda: {cpu_kind(): {"algorithms": algorithms}})
    return algorithms


@pytest.mark.parametrize("name", FACADES)
def test_backend_auto_takes_the_engine_with_the_faster_measurement(name: str, table: dict[str, Any]) -> None:
    facade, env, options = FACADES[name]
    for ratio, expected in ((2.5, "native"), (1.0, "torch"), (0.4, "torch")):
        table[name] = [cell(1024, 65536, ratio)]
        algorithm = facade(env, seed=0, backend="auto", **options)
        assert algorithm.components.backend.name == expected
        at = "(layers 1024 wide, 65,536 rows an update)"
        told = f"native was measured at {ratio:g} times torch's speed {at}"
        assert algorithm.components.backend.reason == told
        algorithm.close()


def test_backend_auto_uses_the_measurement_of_the_next_larger_sizes(table: dict[str, Any]) -> None:
    table["ppo"] = [
        cell(64, 64, 7.0),
        cell(64, 256, 4.0),
        cell(128, 64, 0.9),
        cell(128, 256, 0.8),
    ]
    for width, batch_size, said in ((64, 64, "7 times"), (64, 65, "4 times"), (65, 32, "0.9 ")):
        algorithm = PPO(
            seed=0, backend="auto", **SMALL_PPO | {"net_arch": (width,), "batch_size": batch_size}
        )
        assert said in algorithm.components.backend.reason
        algorithm.close()
    for options in ({"net_arch": (129,)}, {"batch_size": 257, "n_steps": 128}):
        algorithm = PPO(seed=0, backend="auto", **SMALL_PPO | options)
        assert algorithm.components.backend.name == "torch"
        assert "not measured at such sizes" in algorithm.components.backend.reason
        algorithm.close()


def test_a_kind_of_cpu_that_nobody_measured_learns_with_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backend, "cpu_kind", lambda: "riscv64 unknown DEFAULT")
    algorithm = PPO(seed=0, backend="auto", **SMALL_PPO)
    said = "native ppo was not measured on this kind of CPU (riscv64 unknown DEFAULT)"
    assert algorithm.components.backend == Backend("torch", said)
    algorithm.close()


@pytest.mark.parametrize(
    ("cpu", "ratio"),
    [
        ("x86_64 Vendor AVX512", 2.0),  # the least of both
        ("x86_64 Vendor AVX2", 3.0),
        ("x86_64 Other Vendor AVX2", 3.0),
        ("x86_64 Vendor DEFAULT", None),
        ("aarch64 Vendor AVX2", None),
        ("x86_64 Measured AVX512", 2.0),
    ],
)
def test_a_kind_of_cpu_that_nobody_measured_uses_the_least_of_kinds_whose_vectors_it_has(
    monkeypatch: pytest.MonkeyPatch, cpu: str, ratio: float | None
) -> None:
    table = {
        "x86_64 Measured AVX2": {"algorithms": {"ppo": [cell(1024, 1024, 3.0)]}},
        "x86_64 Measured AVX512": {"algorithms": {"ppo": [cell(1024, 1024, 2.0)]}},
        "x86_64 Incomplete AVX2": {"algorithms": {"a2c": [cell(1024, 1024, 0.5)]}},
        "aarch64 Measured DEFAULT": {"algorithms": {"ppo": [cell(1024, 1024, 0.5)]}},
    }
    monkeypatch.setattr(backend, "cpu_kind", lambda: cpu)
    monkeypatch.setattr(backend, "_table", lambda: table)
    algorithm = PPO(seed=0, backend="auto", **SMALL_PPO)
    found = algorithm.components.backend
    assert found.name == ("torch" if ratio is None else "native")
    assert (
        f"{ratio:g} times" in found.reason
        if ratio
        else f"not measured on this kind of CPU ({cpu})" in found.reason
    )
    others = "x86_64 Measured AVX2 or x86_64 Measured AVX512" if ratio == 2.0 else "x86_64 Measured AVX2"
    is_foreign = f", on {others}; {cpu} was not measured" in found.reason
    assert is_foreign == (ratio is not None and cpu not in table)
    algorithm.close()


def test_torch_learns_if_a_comparable_kind_of_cpu_was_not_measured_at_such_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = {
        "x86_64 One AVX2": {"algorithms": {"ppo": [cell(1024, 1024, 3.0)]}},
        "x86_64 Other AVX2": {"algorithms": {"ppo": [cell(8, 8, 3.0)]}},
    }
    monkeypatch.setattr(backend, "cpu_kind", lambda: "x86_64 New AVX2")
    monkeypatch.setattr(backend, "_table", lambda: table)
    algorithm = PPO(seed=0, backend="auto", **SMALL_PPO)
    assert algorithm.components.backend.name == "torch"
    assert "not measured at such sizes" in algorithm.components.backend.reason
    algorithm.close()


@pytest.mark.usefixtures("table")
def test_backend_auto_selects_torch_with_a_reason_for_unsupported_policies() -> None:
    noisy = DQN(seed=0, noisy=True, backend="auto", **OFF)
    assert noisy.components.backend.name == "torch"
    assert noisy.components.backend.reason == "native does not learn DQN with noisy layers (algo.noisy=true)"
    noisy.train(64)
    noisy.close()
    exploring = SAC("Pendulum-v1", seed=0, use_sde=True, backend="auto", **OFF)
    assert exploring.components.backend.name == "torch"
    assert "algo.use_sde=true" in exploring.components.backend.reason
    exploring.close()
    with pytest.raises(ConfigError, match="native does not learn DQN with noisy"):
        DQN(seed=0, noisy=True, backend="native", **OFF)


@pytest.mark.usefixtures("table")
def test_a_setting_of_torch_threads_selects_torch() -> None:
    config = make_run(
        {
            "algo": {"name": "ppo", "backend": "auto"},
            "env": {"id": "CartPole-v1"},
            "torch_threads": 2,
        }
    )
    algorithm = build(config)
    assert algorithm.components.backend == Backend(
        "torch", "torch_threads=2, and native updates with one thread"
    )
    algorithm.close()


def test_a_checkpoint_without_its_backend_resumes_with_torch(table: dict[str, Any], tmp_path: Path) -> None:
    table["ppo"] = [cell(1024, 1024, 3.0)]
    run = PPO("CartPole-v1", n_envs=1, n_steps=16, batch_size=16)
    assert run.components.backend.name == "native"
    run.save(tmp_path / "saved")
    saved = read_checkpoint(tmp_path / "saved")
    of_old = {name: part for name, part in saved.state.items() if name != "backend"}
    write_checkpoint(tmp_path / "saved", replace(saved, state=of_old))
    assert PPO.from_checkpoint(tmp_path / "saved").components.backend.name == "torch"


def test_very_many_epochs_select_torch_because_native_holds_all_orders(
    table: dict[str, Any],
) -> None:
    table["ppo"] = [cell(1024, 65536, 3.0)]
    options = SMALL_PPO | {"n_epochs": 100_000_000}
    algorithm = PPO(seed=0, backend="auto", **options)
    assert algorithm.components.backend.name == "torch"
    assert "the shuffled row indices of its epochs take" in algorithm.components.backend.reason
    algorithm.close()
    with pytest.raises(ConfigError, match="of memory"):
        PPO(seed=0, backend="native", **options)


def test_a_backend_that_the_user_chose_has_no_reason(table: dict[str, Any]) -> None:
    for name in ("torch", "native"):
        algorithm = PPO(seed=0, backend=name, **SMALL_PPO)
        assert algorithm.components.backend == Backend(name)
        algorithm.close()


@pytest.mark.parametrize(("began", "now"), [(2.0, 0.5), (0.5, 2.0)])
def test_a_run_goes_on_with_the_engine_that_it_began_with(
    began: float, now: float, table: dict[str, Any], tmp_path: Path
) -> None:
    table["ppo"] = [cell(1024, 65536, began)]
    algorithm = PPO(seed=0, backend="auto", **SMALL_PPO)
    took = algorithm.components.backend.name
    algorithm.train(128)
    algorithm.save(tmp_path / "checkpoints" / "step-000000000128")
    algorithm.close()
    table["ppo"] = [cell(1024, 65536, now)]
    loaded = PPO.from_checkpoint(tmp_path / "checkpoints" / "step-000000000128")
    assert loaded.components.backend == Backend(took, "it learned before the run was resumed")
    assert loaded.config.algo.backend == "auto"
    other = PPO.from_checkpoint(
        tmp_path / "checkpoints" / "step-000000000128",
        backend={"native": "torch", "torch": "native"}[took],
    )
    assert other.components.backend.name != took  # as requested
    resumed, saved = resume(tmp_path, replace(loaded.config, total_steps=256))
    assert saved is not None
    assert resumed.components.backend.name == took
    for each in (loaded, other, resumed):
        each.close()


def test_the_widest_layer_counts_its_inputs_too() -> None:
    assert max_width(linear_shapes("", (376, 64, 17))) == 376


def test_the_committed_table_has_every_algorithm_at_growing_sizes() -> None:
    kinds = json.loads(TABLE_FILE.read_text("utf-8"))
    assert kinds
    for known in kinds.values():
        assert set(FACADES) <= set(known["algorithms"]) <= set(ALGO_CONFIGS)
        for cells in known["algorithms"].values():
            sizes = [(one["width"], one["rows"]) for one in cells]
            assert len(set(sizes)) == len(sizes) > 10
            assert all(one["ratio"] > 0 and math.isfinite(one["ratio"]) for one in cells)


def test_auto_and_native_learn_the_same_weights(table: dict[str, Any]) -> None:
    table["ppo"] = [cell(1024, 65536, 3.0)]
    weights = []
    for name in ("auto", "native"):
        algorithm = PPO(seed=3, backend=name, **SMALL_PPO)
        algorithm.train(256)
        weights.append(torch.cat([p.flatten() for p in algorithm.policy.parameters()]))
        algorithm.close()
    assert torch.equal(*weights)

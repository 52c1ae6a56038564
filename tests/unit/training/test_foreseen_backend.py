"""Tests that a configuration and spaces tell the engine of `algo.backend=auto` before a run is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contract.specs import CASES, SPECS
from gymnasium import spaces

from rlox.configs import RunConfig, make_run
from rlox.envs.actions import ActionCodec
from rlox.envs.parts_codec import codec_of
from rlox.training import backend
from rlox.training.backend import (
    cpu_kind,
    native_obstacle,
    predict_backend,
    predict_backend_between,
)

OBSERVATIONS = codec_of(spaces.Box(-1.0, 1.0, (4,)))
ACTIONS = ActionCodec.of(spaces.Discrete(2))
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 128, 256, 1024)
NATIVE = ("a2c", "bc", "ddpg", "dqn", "iql", "ppo", "sac", "td3", "td3_bc")
OF_VECTORS = [(name, case) for name, case in CASES if name in NATIVE]
Measured = Callable[[Callable[[int, int], float]], None]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Sets the speed of native relative to torch by the width of layers and the rows of an update."""

    def measure(speed: Callable[[int, int], float]) -> None:
        cells = [{"width": w, "rows": r, "ratio": speed(w, r)} for w in SIZES for r in SIZES]
        table: Any = {cpu_kind(): {"algorithms": dict.fromkeys(NATIVE, cells)}}
        monkeypatch.setattr(backend, "_table", lambda: table)

    return measure


def ppo(**algo: Any) -> RunConfig:
    small = {"name": "ppo", "n_steps": 32, "batch_size": 32, "net_arch": [8]}
    return make_run({"algo": {**small, **algo}, "env": {"id": "CartPole-v1", "n_envs": 4}})


@pytest.mark.parametrize(("name", "case"), OF_VECTORS)
def test_the_foreseen_engine_is_the_one_that_is_built(name: str, case: str, measured: Measured) -> None:
    measured(lambda width, rows: 2.0 + width / 1000 + rows / 1e6)  # another speed for each size
    with_backend = {"backend": "auto"}
    algorithm = SPECS[name].make(case, **with_backend)
    actor = algorithm.components.actor
    found = predict_backend(algorithm.config, actor.observations, actor.actions)
    own = "algo.policy" in found.reason  # torch would have to construct it
    built = algorithm.backend
    algorithm.close()
    assert own or found == built


def test_the_prediction_limits_a_minibatch_to_its_rollout(measured: Measured) -> None:
    measured(lambda width, rows: 2.0)
    found = predict_backend(ppo(batch_size=100_000), OBSERVATIONS, ACTIONS)
    assert found.name == "native"
    assert "128 rows an update" in found.reason


def test_the_reason_has_a_speed_only_for_environments_in_rust(measured: Measured) -> None:
    measured(lambda width, rows: 7.37)
    assert "7.37 times torch's speed" in predict_backend(ppo(), OBSERVATIONS, ACTIONS).reason
    stepped = make_run({"algo": {"name": "ppo"}, "env": {"id": "Blackjack-v1"}})
    found = predict_backend(stepped, OBSERVATIONS, ACTIONS)
    assert found.name == "native"
    assert found.reason == (
        "its updates were measured to be faster than torch's (layers 64 wide, 64 rows an update)"
    )


def test_the_prediction_between_two_runs_is_torch_if_any_size_prefers_torch(measured: Measured) -> None:
    measured(lambda width, rows: 0.5 if (width, rows) == (64, 48) else 2.0)
    ends = [ppo(net_arch=[32], batch_size=128), ppo(net_arch=[128], batch_size=16)]
    assert [predict_backend(end, OBSERVATIONS, ACTIONS).name for end in ends] == [
        "native",
        "native",
    ]
    found = predict_backend_between(ends, OBSERVATIONS, ACTIONS)
    assert found.name == "torch"
    assert "layers 64 wide, 48 rows an update" in found.reason
    near = [ends[0], ppo(net_arch=[32], batch_size=64)]
    assert predict_backend_between(near, OBSERVATIONS, ACTIONS).name == "native"


def test_the_prediction_between_two_runs_tries_the_sizes_of_comparable_kinds_of_cpu_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ratios = {64: 3.0, 256: 0.5, 1024: 2.0}  # by width
    cells = [{"width": width, "rows": 1024, "ratio": ratio} for width, ratio in ratios.items()]
    monkeypatch.setattr(backend, "_table", lambda: {"x86_64 Measured AVX2": {"algorithms": {"ppo": cells}}})
    ends = [ppo(net_arch=[64]), ppo(net_arch=[1024])]
    for cpu in ("x86_64 Measured AVX2", "x86_64 New AVX2", "x86_64 New AVX512"):
        monkeypatch.setattr(backend, "cpu_kind", lambda cpu=cpu: cpu)
        assert [predict_backend(end, OBSERVATIONS, ACTIONS).name for end in ends] == ["native", "native"]
        assert predict_backend_between(ends, OBSERVATIONS, ACTIONS).name == "torch"


@pytest.mark.usefixtures("measured")
def test_native_cannot_learn_a_users_policy() -> None:
    told = native_obstacle(ppo(policy="somewhere:Policy"), OBSERVATIONS, ACTIONS)
    assert told == "the policy is one of your own (algo.policy)"

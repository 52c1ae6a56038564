"""Tests that the native engine learns only what it implements; torch learns the rest, or it is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
from helpers.small_ppo import small_ppo

from rlox.algorithms.assembly.on_policy import build_on_policy_run
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.build import build
from rlox.configs import ALGO_CONFIGS, RunConfig, make_run
from rlox.configs.params import param
from rlox.errors import ConfigError
from rlox.rng import Streams
from rlox.training import backend
from rlox.training.backend import BackendSelector, cpu_kind, unsupported_fields
from rlox.training.components import BuildContext

SMALL: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 16, "n_epochs": 1, "batch_size": 16},
    "a2c": {},
    "dqn": {"batch_size": 16},
    "sac": {"batch_size": 16},
    "td3": {"batch_size": 16},
    "ddpg": {"batch_size": 16},
}
WITH_ENGINE = [
    name
    for name, kind in ALGO_CONFIGS.items()
    if "native" in kind.__dataclass_fields__["backend"].metadata["choices"]
]


def config_of(name: str, backend: str = "auto") -> RunConfig:
    env = {"id": "Pendulum-v1" if "Box" in ALGO_CONFIGS[name].action_kinds else "CartPole-v1"}
    algo = {"name": name, "net_arch": [8], "backend": backend, **SMALL.get(name, {})}
    if "offline" in ALGO_CONFIGS[name].buffers:
        return make_run({"algo": algo, "env": env, "buffer": {"name": "offline", "path": "d"}})
    return make_run({"algo": algo, "env": env})


def edited(config: RunConfig, value: float) -> RunConfig:
    """Returns the configuration with an additional field, as for an experiment with a term of a loss."""
    kind = type(config.algo)

    @dataclass(frozen=True)
    class Edited(kind):  # type: ignore[misc, valid-type]
        mean_l2: float = param(0.0, "weight of the penalty")

    values = {f.name: getattr(config.algo, f.name) for f in fields(kind)}
    return replace(config, algo=Edited(**values, mean_l2=value))


@pytest.fixture(autouse=True)
def always_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets measurements with which `auto` takes the native engine for all sizes."""
    cells = [{"width": 1024, "rows": 65536, "ratio": 2.0}]
    measured = {"algorithms": dict.fromkeys(WITH_ENGINE, cells)}
    monkeypatch.setattr(backend, "_table", lambda: {cpu_kind(): measured})


def test_nine_algorithms_have_an_engine() -> None:
    assert {"ppo", "a2c", "dqn", "sac", "td3", "ddpg", "bc", "iql", "td3_bc"} <= set(WITH_ENGINE)


# Rust cannot run the networks of a user.
NOT_NATIVE = {"dqn": {"policy"}, "sac": {"policy"}}


@pytest.mark.parametrize("name", WITH_ENGINE)
def test_each_field_of_a_built_in_algorithm_is_known_to_its_engine(name: str) -> None:
    algo = config_of(name).algo
    assert {f.name for f in fields(algo)} == algo.native_fields | NOT_NATIVE.get(name, set())
    assert unsupported_fields(algo) == ""


@pytest.mark.parametrize("name", sorted(set(ALGO_CONFIGS) - set(WITH_ENGINE)))
def test_other_algorithms_have_no_engine(name: str) -> None:
    algo: Any = ALGO_CONFIGS[name]()
    assert unsupported_fields(algo) == f"{name} has no native engine"


@pytest.mark.parametrize("name", SMALL)
def test_backend_auto_selects_torch_for_a_changed_unknown_field(name: str) -> None:
    for value, expected in ((0.0, "native"), (10.0, "torch")):
        algorithm = build(edited(config_of(name), value))
        assert algorithm.components.backend.name == expected
        algorithm.close()
    assert algorithm.components.backend.reason == (
        "the native engine does not implement algo.mean_l2 (it is 10.0)"
    )


@pytest.mark.parametrize("name", WITH_ENGINE)
def test_backend_native_refuses_a_changed_unknown_field(name: str) -> None:
    config = edited(config_of(name, "native"), 10.0)
    with pytest.raises(ConfigError, match=r"backend=native: .* algo\.mean_l2 \(it is 10\.0\); make"):
        BackendSelector("native", config)


def test_an_algorithm_of_another_name_has_no_engine() -> None:
    config = config_of("sac", "native")
    other = replace(config, algo=replace(config.algo, target_entropy=-1.0))
    assert unsupported_fields(other.algo) == ""
    object.__setattr__(other.algo, "name", "sac_l2")  # as a plugin derived from SAC's configuration
    with pytest.raises(ConfigError, match="backend=native: sac_l2 has no native engine; make"):
        BackendSelector("native", other)
    assert BackendSelector("auto", other).is_torch_forced


def test_parts_without_an_engine_refuse_the_native_one() -> None:
    config = make_run({"algo": small_ppo(backend="native"), "env": {"id": "CartPole-v1"}})
    tools = BuildContext("cpu", Streams(0))
    with pytest.raises(ConfigError, match="backend=native: ppo has no native engine; make"):
        build_on_policy_run(config, tools, lambda policy, *_: PPOLearner(policy, config.algo, tools.streams))

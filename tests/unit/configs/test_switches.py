"""Tests that a setting without effect is refused, and that the error names it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from helpers.factored_actions import env_id

from rlox.algorithms import A2C, PPO, HybridPPO, RecurrentPPO
from rlox.configs import ALGO_CONFIGS, make_run, to_plain, upgrade_saved_config
from rlox.configs.check import make
from rlox.configs.text import TextAlgorithmConfig
from rlox.errors import ConfigError
from rlox.presets import preset_options
from rlox.training.setup import config_from_arguments

SWITCHED_FIELDS = [
    (name, f.name, f.metadata["only_with"])
    for name, config_class in sorted(ALGO_CONFIGS.items())
    for f in fields(config_class)
    if f.metadata.get("only_with") and f.metadata["only_with"] not in config_class.drops
]
FIELD_VALUES = {
    "sde_sample_freq": 4,
    "log_std_init": -2.0,
    "cql_target_value": 2.0,
    "target_entropy": -1.0,
    "rms_prop_eps": 1e-3,
}


@pytest.mark.parametrize(("algo", "field", "switch"), SWITCHED_FIELDS)
def test_a_field_of_a_switch_is_refused_where_it_is_off(algo: str, field: str, switch: str) -> None:
    tree = {"name": algo, switch: False, field: FIELD_VALUES[field]}
    with pytest.raises(ConfigError, match=rf"algo.{field}=.* without algo.{switch}"):
        make_run({"algo": tree})


def test_a_rule_of_normalisation_is_refused_where_nothing_is_normalised() -> None:
    with pytest.raises(ConfigError, match=r"env\.normalize_rule=sb3 without env\.normalize_obs and"):
        config_from_arguments("ppo", "CartPole-v1", {"normalize_rule": "sb3"})
    for idle in ({"normalize_rule": "relative"}, {"normalize_rule": "sb3", "normalize_obs": True}):
        config_from_arguments("ppo", "CartPole-v1", idle)


def test_a_saved_run_keeps_the_idle_rule_that_it_began_with() -> None:
    saved = to_plain(make_run({"env": {"normalize_rule": "sb3"}}))
    assert make_run(upgrade_saved_config(saved)).env.normalize_rule == "sb3"


def test_disabling_normalisation_drops_the_normalize_rule_of_a_preset() -> None:
    off: dict[str, Any] = {"normalize_obs": False, "normalize_reward": False}
    options, _ = preset_options("ppo", "Hopper-v5", off)
    assert not {"normalize_rule"} & options.keys()
    config_from_arguments("ppo", "Hopper-v5", options)
    options, _ = preset_options("ppo", "Hopper-v5", {"normalize_obs": False})
    assert options["normalize_rule"] == "sb3"


@pytest.mark.parametrize("kind", [PPO, A2C, RecurrentPPO, HybridPPO])
def test_an_initial_deviation_is_refused_where_actions_are_choices(kind: Any) -> None:
    small = {"net_arch": (4,), "n_steps": 8}
    with pytest.raises(ConfigError, match=r"algo\.log_std_init=-1: CartPole-v1 has Discrete\(2\)"):
        kind("CartPole-v1", log_std_init=-1.0, **small)
    kind("Pendulum-v1", log_std_init=-1.0, **small)


def test_log_std_init_needs_an_action_part_with_real_numbers() -> None:
    PPO(env_id("DictMixed"), log_std_init=-1.0, net_arch=(4,))
    with pytest.raises(ConfigError, match="which have no standard deviation; leave it out, or set it to 0"):
        PPO(env_id("MultiDiscrete"), log_std_init=-1.0, net_arch=(4,))


def test_a_run_that_began_with_an_idle_deviation_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:  # without the check that refuses it
        before.setattr("rlox.algorithms.assembly.on_policy._require_vector_for_log_std", lambda *given: None)
        PPO("CartPole-v1", log_std_init=-1.0, net_arch=(4,), backend="torch").save(tmp_path / "a")
    assert PPO.from_checkpoint(tmp_path / "a").config.algo.log_std_init == -1.0


TEXT_ALGORITHMS = [
    name for name, config_class in ALGO_CONFIGS.items() if issubclass(config_class, TextAlgorithmConfig)
]


@pytest.mark.parametrize("algo", TEXT_ALGORITHMS)
def test_a_new_run_refuses_more_accumulation_parts_than_batch_rows(algo: str) -> None:
    each = 3 if "group_size" in ALGO_CONFIGS[algo].__dataclass_fields__ else 1
    tree: dict[str, Any] = {"name": algo, "batch_size": 4}
    tree |= {"group_size": 3} if each == 3 else {}
    most = 4 * each
    run: dict[str, Any] = {"env": {"id": "text/copy"}}
    make_run({**run, "algo": {**tree, "accumulate": most}}, is_new_run=True)
    more = {**run, "algo": {**tree, "accumulate": most + 1}}
    told = rf"algo\.accumulate={most + 1}: a batch has {most} rows .*expected 1 to {most}"
    with pytest.raises(ConfigError, match=told):
        make_run(more, is_new_run=True)
    assert make_run(more).algo == make(ALGO_CONFIGS[algo], more["algo"]), "of a saved run"

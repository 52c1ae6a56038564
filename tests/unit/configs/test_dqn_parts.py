"""Tests that DQN refuses settings of components that are off, and that Rainbow has the paper's defaults."""

from __future__ import annotations

from typing import Any

import pytest

from rlox.configs import PrioritizedConfig, make_run, to_plain
from rlox.configs.dqn import DQNConfig
from rlox.errors import ConfigError
from rlox.presets import preset_options


def run(buffer: dict[str, Any] | None = None, name: str = "dqn", **algo: Any) -> Any:
    tree: dict[str, Any] = {"algo": {"name": name, **algo}}
    return make_run({**tree, "buffer": buffer} if buffer else tree)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"noisy": True, "exploration_fraction": 0.2}, "noisy=true and algo.exploration_fraction=0.2"),
    ({"noisy": True, "exploration_final_eps": 0.2}, "noisy=true and algo.exploration_final_eps"),
    ({"noisy": True, "exploration_initial_eps": 0.2}, "noisy=true and algo.exploration_initial_eps"),
    ({"noisy": True, "exploration_eps": "lin_1"}, "noisy=true and algo.exploration_eps=lin_1"),
    ({"name": "rainbow", "exploration_fraction": 0.2}, "noisy=true and algo.exploration_fraction"),
    ({"noisy_sigma": 0.4}, "noisy_sigma=0.4 with algo.noisy=false: .* set algo.noisy=true, or"),
    ({"name": "rainbow", "noisy": False, "noisy_sigma": 0.4}, "noisy_sigma=0.4 with algo.noisy=false"),
    ({"n_atoms": 11}, "n_atoms=11 with algo.distribution=none: .* set algo.distribution=categorical"),
    ({"v_min": 0}, "v_min=0.0 with .* or leave algo.v_min at -10.0"),
    ({"v_max": 5, "distribution": "quantile"}, "v_max=5.0 with algo.distribution=quantile"),
    ({"n_quantiles": 5, "distribution": "categorical"}, "n_quantiles=5 with algo.distribution=categ"),
    ({"n_quantiles": 5}, "n_quantiles=5 with algo.distribution=none"),
    ({"loss": "mse", "distribution": "quantile"}, "loss=mse with algo.distribution=quantile"),
    ({"distribution": "categorical", "v_min": 5, "v_max": 5}, "v_min=5.0 and algo.v_max=5.0"),
    ({"distribution": "categoric"}, "expected one of none, categorical, quantile; did you mean"),
]  # fmt: skip


@pytest.mark.parametrize(("algo", "told"), REFUSED)
def test_dqn_refuses_settings_of_components_that_are_switched_off(algo: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        run(**algo)


@pytest.mark.parametrize(
    "algo",
    [
        {"noisy": True, "noisy_sigma": 0.1},
        {"distribution": "categorical", "n_atoms": 11, "v_min": 0.0, "v_max": 100.0, "noisy": True},
        {"distribution": "quantile", "n_quantiles": 20, "exploration_fraction": 0.3},
        {"name": "rainbow", "noisy": False, "exploration_fraction": 0.3},
        {"name": "rainbow", "distribution": "quantile", "n_quantiles": 20},
        {"name": "rainbow", "distribution": "none", "loss": "mse"},
    ],
)
def test_dqn_accepts_settings_of_components_that_are_switched_on(algo: dict[str, Any]) -> None:
    made = to_plain(run(**algo))["algo"]
    assert made == made | algo


def test_rainbows_defaults_are_those_of_the_paper_in_environment_steps() -> None:
    made = run(name="rainbow")
    assert made.buffer == PrioritizedConfig(alpha=0.5, beta=0.4, beta_final=1.0)
    assert made.buffer.rows == 1_000_000
    assert made.env.n_envs == 1
    frames = 4  # frames per environment step
    expected = {
        "learning_starts": 80_000 // frames, "target_update_interval": 32_000 // frames, "train_freq": 4,
        "gradient_steps": 1, "learning_rate": 6.25e-5, "adam_eps": 1.5e-4, "noisy": True,
        "noisy_sigma": 0.5, "n_step": 3, "distribution": "categorical", "n_atoms": 51, "v_min": -10.0,
        "v_max": 10.0, "double_dqn": True, "dueling": True, "batch_size": 32, "gamma": 0.99,
    }  # fmt: skip
    assert {name: getattr(made.algo, name) for name in expected} == expected
    assert not made.algo.has_schedule
    assert run(name="rainbow", noisy=False).algo.has_schedule  # epsilon has a schedule


@pytest.mark.parametrize(
    ("buffer", "alpha"),
    [({"name": "auto"}, 0.5), ({"name": "prioritized"}, 0.5), ({"name": "auto", "capacity": 9}, 0.5),
     ({"name": "prioritized", "alpha": 0.6}, 0.6)],
)  # fmt: skip
def test_rainbow_brings_its_exponent_to_its_buffer_unless_one_is_given(
    buffer: dict[str, Any], alpha: float
) -> None:
    made = run(buffer, "rainbow").buffer
    assert (made.name, made.alpha) == ("prioritized", alpha)
    assert run({"name": "prioritized"}).buffer.alpha == 0.6  # DQN's default


def test_rainbow_refuses_a_uniform_buffer() -> None:
    with pytest.raises(ConfigError, match="buffer=uniform: rainbow learns from prioritized"):
        run({"name": "uniform"}, "rainbow")


def test_noisy_layers_drop_the_exploration_settings_of_a_preset() -> None:
    preset = preset_options("dqn", "CartPole-v1", {})[0]
    assert {"exploration_fraction", "exploration_final_eps"} < set(preset)
    noisy = preset_options("dqn", "CartPole-v1", {"noisy": True})[0]
    assert set(preset) - set(noisy) == {"exploration_fraction", "exploration_final_eps"}
    assert set(preset_options("dqn", "CartPole-v1", {"noisy": False})[0]) == {*preset, "noisy"}


def test_policy_mismatch_reports_different_atoms() -> None:
    atoms = {"distribution": "categorical", "n_atoms": 10}
    mine = DQNConfig(**atoms, v_max=20.0)
    assert mine.policy_mismatch(DQNConfig(**atoms, v_max=20.0)) == ""
    assert "algo.v_max=10.0, but this run has 20.0" in mine.policy_mismatch(DQNConfig(**atoms))
    quantiles = DQNConfig(distribution="quantile", n_quantiles=10)
    assert "algo.distribution=quantile" in mine.policy_mismatch(quantiles)
    assert "algo.activation" in mine.policy_mismatch(DQNConfig(**atoms, v_max=20.0, activation="elu"))


def test_the_memory_of_a_distribution_is_counted() -> None:
    assert DQNConfig().layer_widths(4, 2) == [(4, 64, 64, 2)]
    assert DQNConfig(distribution="categorical").layer_widths(4, 2) == [(4, 64, 64, 102)]
    assert DQNConfig(distribution="quantile", noisy=True).layer_widths(4, 2) == 2 * [(4, 64, 64, 400)]
    hidden = DQNConfig().activation_count(2)
    assert hidden == 2 * 128 + 4 * 64
    assert DQNConfig(distribution="quantile").activation_count(2) > hidden + 200 * 200

"""Tests that a user's options, which build on other options, keep the settings of those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from helpers.cli import Cli
from omegaconf import OmegaConf

from rlox_cli.config.options import CONF
from rlox_cli.config.run_schema import ALGO
from rlox_cli.config.variants import resolve_variant, variant_keys

FILES = {
    "algo/ppo_big.yaml": "defaults:\n  - ppo\n  - _self_\nnet_arch: [128, 96]\ngae_lambda: 0.5\n",
    "algo/ppo_bigger.yaml": "defaults:\n  - ppo_big\n  - _self_\nnet_arch: [256]\n",
    "algo/dqn_small.yaml": "defaults:\n  - dqn\n  - _self_\nnet_arch: [16]\n",
    "buffer/few.yaml": "defaults:\n  - uniform\n  - _self_\ncapacity: 5000\n",
    "tuned/ppo/MyEnv-v0.yaml": "# @package _global_\nalgo: {gamma: 0.5}\n",
    "tuned/ppo_bigger/Acrobot-v1.yaml": "# @package _global_\nalgo: {gamma: 0.25}\n",
}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path.with_name(f"{tmp_path.name}-conf")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setitem(gym.registry, "MyEnv-v0", gym.envs.registration.EnvSpec("MyEnv-v0", CartPoleEnv))
    return folder


def composed(cli: Cli, folder: Path, *overrides: str) -> dict[str, Any]:
    result = cli("train", "--config-dir", str(folder), "--cfg", "job", *overrides)
    assert result.code == 0, result.err
    data: Any = OmegaConf.to_container(OmegaConf.create(result.out))
    return data


def test_the_keys_of_a_variant_override_the_preset_of_its_algorithm(cli: Cli, own: Path) -> None:
    preset = composed(cli, own, "algo=ppo")
    variant = composed(cli, own, "algo=ppo_big")
    assert preset["algo"]["gae_lambda"] == 0.8
    assert variant["algo"] == preset["algo"] | {"net_arch": [128, 96], "gae_lambda": 0.5}
    assert {k: v for k, v in variant.items() if k != "algo"} == {
        k: v for k, v in preset.items() if k != "algo"
    }


def test_a_variant_of_a_variant_stands_on_both(cli: Cli, own: Path) -> None:
    algo = composed(cli, own, "algo=ppo_bigger")["algo"]
    assert (algo["net_arch"], algo["gae_lambda"], algo["gamma"]) == ([256], 0.5, 0.98)
    assert variant_keys(ALGO, "ppo_bigger", [CONF, own]) == {"net_arch": [256], "gae_lambda": 0.5}


def test_a_variant_uses_its_own_preset_and_the_command_line_overrides_both(cli: Cli, own: Path) -> None:
    algo = composed(cli, own, "algo=ppo_bigger", "env=Acrobot-v1")["algo"]
    assert (algo["gamma"], algo["n_epochs"], algo["net_arch"]) == (0.25, 10, [256])
    typed = composed(cli, own, "algo=ppo_big", "algo.net_arch=[7]", "algo.gamma=0.1")["algo"]
    assert (typed["net_arch"], typed["gamma"]) == ([7], 0.1)


def test_without_a_preset_a_variant_is_its_file(cli: Cli, own: Path) -> None:
    for override in ("tuned=null", "env=FrozenLake-v1"):
        algo = composed(cli, own, "algo=dqn_small", override)["algo"]
        assert (algo["net_arch"], algo["learning_rate"]) == ([16], 1e-4)


def test_an_off_policy_variant_sets_one_environment_and_accepts_any_buffer(cli: Cli, own: Path) -> None:
    data = composed(cli, own, "algo=dqn_small")
    assert (data["env"]["n_envs"], data["buffer"]["name"]) == (1, "auto")
    for more in ((), ("tuned=null",), ("algo=dqn",), ("tuned=dqn/Acrobot-v1",)):
        few = composed(cli, own, "algo=dqn_small", "buffer=few", *more)
        assert (few["buffer"]["name"], few["buffer"]["capacity"]) == ("uniform", 5000)
    typed = composed(cli, own, "algo=dqn", "buffer=few", "buffer.capacity=70")
    assert typed["buffer"]["capacity"] == 70


def test_the_keys_of_a_variant_override_a_named_preset_and_its_alternative_keys(cli: Cli, own: Path) -> None:
    named = composed(cli, own, "algo=ppo_big", "tuned=ppo/Acrobot-v1")["algo"]
    assert (named["gae_lambda"], named["net_arch"], named["n_epochs"]) == (0.5, [128, 96], 4)
    text = "defaults: [dqn, _self_]\nreplay_ratio: 0.25\n"
    (own / "algo" / "dqn_ratio.yaml").write_text(text)
    ratio = composed(cli, own, "algo=dqn_ratio")["algo"]
    assert (ratio["replay_ratio"], ratio["gradient_steps"], ratio["train_freq"]) == (0.25, 1, 256)


def test_files_that_build_on_one_another_are_named(cli: Cli, own: Path) -> None:
    for name, base in (("round", "about"), ("about", "round")):
        (own / "algo" / f"{name}.yaml").write_text(f"defaults: [{base}, _self_]\n")
    result = cli("train", "--config-dir", str(own), "algo=round")
    assert (result.code, result.err) == (
        2,
        "rlox train: configuration files include one another in a cycle; check the defaults lists "
        "of the chosen options: algo=round\n",
    )


@pytest.mark.parametrize(
    ("overrides", "announced"),
    [
        (("algo=ppo_big",), "tuned preset ppo/CartPole-v1"),
        (("algo=ppo_bigger", "env=Acrobot-v1"), "tuned preset ppo_bigger/Acrobot-v1"),
        (("env=gymnasium:MyEnv-v0",), "tuned preset ppo/MyEnv-v0"),
        (("algo=ppo_big", "env=gymnasium:MyEnv-v0"), "tuned preset ppo/MyEnv-v0"),
        (("env=FrozenLake-v1",), ""),
        (("algo=ppo_big", "env=FrozenLake-v1"), ""),
        (("env=gymnasium:FrozenLake-v1",), ""),
    ],
)
def test_the_preset_that_is_used_is_announced_and_no_other(
    cli: Cli, own: Path, overrides: tuple[str, ...], announced: str
) -> None:
    result = cli("train", "--config-dir", str(own), "dry_run=true", *overrides)
    assert result.code == 0, result.err
    assert announced in result.out
    assert ("tuned" in result.out) == bool(announced)


def test_a_sweep_takes_variants_as_values(cli: Cli, own: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("RLOX_CONF_PATH", str(own))
    result = cli("sweep", "algo=ppo,ppo_big", "env=CartPole-v1,gymnasium:MyEnv-v0", "dry_run=true")
    assert result.code == 0, result.err
    assert result.out.count("tuned preset ppo/CartPole-v1") == 2
    assert result.out.count("tuned preset ppo/MyEnv-v0") == 2


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("tuned/ppo/m:CartPole-v1", "tuned/ppo/CartPole-v1"),
        ("tuned/ppo/CartPole-v1", None),  # this option exists itself
        ("tuned/ppo/Nothing-v0", None),
        ("tuned/none", None),
        ("tuned/nothing/CartPole-v1", None),
        ("buffer/auto/ppo", None),
        ("buffer/auto/nothing", None),
        ("algo/ppo", None),
    ],
)
def test_stands_for_resolves_only_variants_of_options_that_exist(path: str, found: str | None) -> None:
    assert resolve_variant(path, [CONF]) == found

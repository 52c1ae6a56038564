"""Tests that tuned presets from Python give the configuration that the command line composes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from helpers.cli import Cli
from omegaconf import OmegaConf

from rlox._core import native_env_ids
from rlox.algorithms import A2C, BC, DQN, PPO, SAC, TD3, TQC, Rainbow
from rlox.configs import make_run, to_plain
from rlox.errors import UnknownNameError
from rlox.presets import preset_names, preset_options
from rlox_cli.config.options import CONF, group_options

FACADES: dict[str, Any] = {
    "ppo": PPO,
    "a2c": A2C,
    "dqn": DQN,
    "rainbow": Rainbow,
    "sac": SAC,
    "tqc": TQC,
    "td3": TD3,
}
# The others differ only in their environments, whose engines are slow to construct or not installed.
NATIVE = [name for name in preset_names() if name.split("/")[1] in native_env_ids()]


def test_tuned_names_lists_the_presets_of_the_command_line() -> None:
    assert list(preset_names()) == [n for n in group_options("tuned", [CONF]) if n != "null"]


@pytest.mark.parametrize("name", NATIVE)
def test_a_tuned_algorithm_has_the_configuration_of_the_command_line(cli: Cli, name: str) -> None:
    algo, env = name.split("/")
    shown = cli("train", f"algo={algo}", f"env={env}", "seed=7", "--cfg", "job").out
    composed: Any = OmegaConf.to_container(OmegaConf.create(shown))
    expected = make_run(composed)
    made = FACADES[algo].tuned(env, seed=7)
    found, wanted = to_plain(made.config), to_plain(expected)
    assert found.pop("total_steps") == expected.rounded_steps
    assert found == {k: v for k, v in wanted.items() if k != "total_steps"}


def test_arguments_of_dqn_tuned_override_the_preset_and_equivalent_keys() -> None:
    made = DQN.tuned("CartPole-v1", replay_ratio=0.25, memory="20MB", learning_rate=1e-4)
    algo, buffer = made.config.algo, made.config.buffer
    assert (algo.replay_ratio, algo.gradient_steps, algo.learning_rate) == (0.25, 1, 1e-4)
    assert (buffer.memory, buffer.capacity) == ("20MB", None)
    assert algo.train_freq == 256


def test_the_preset_of_another_environment_and_of_an_id_with_its_module_can_be_used() -> None:
    assert SAC.tuned("MountainCarContinuous-v0", use_sde=False).config.algo.log_std_init == -3.0
    other = PPO.tuned("Pendulum-v1", preset="CartPole-v1")
    assert (other.env_id, other.config.algo.gae_lambda) == ("Pendulum-v1", 0.8)
    assert PPO.tuned(env="CartPole-v1").config == PPO.tuned("CartPole-v1").config
    made = PPO.tuned(lambda: gym.make("CartPole-v1"), preset="CartPole-v1")
    assert made.config.algo.gae_lambda == 0.8
    assert PPO.tuned("gymnasium:CartPole-v1").config.algo.gae_lambda == 0.8


@pytest.mark.parametrize(
    ("facade", "env", "told"),
    [
        (
            PPO,
            "FrozenLake-v1",
            "no tuned preset ppo/FrozenLake-v1; there is ppo/ALE, ppo/Acrobot-v1, ppo/Ant",
        ),
        (PPO, "CartPole-v0", "no tuned preset ppo/CartPole-v0; did you mean 'ppo/CartPole-v1'"),
        (BC, "CartPole-v1", "no tuned preset bc/CartPole-v1; there is none for this algorithm"),
    ],
)
def test_the_error_of_a_missing_preset_names_the_existing_ones(facade: Any, env: str, told: str) -> None:
    with pytest.raises(UnknownNameError) as refused:
        facade.tuned(env)
    assert str(refused.value).startswith(told)


def test_environments_of_a_family_share_a_preset() -> None:
    options, total = preset_options("dqn", "ALE/Breakout-v5", {"gamma": 0.9})
    assert (options["encoder"], options["gamma"], total) == ("nature", 0.9, 10_000_000)
    assert preset_options("ppo", "ppo/ALE", {})[0]["n_envs"] == 8
    with pytest.raises(UnknownNameError, match="no tuned preset a2c/ALE/Pong-v5"):
        preset_options("a2c", "ALE/Pong-v5", {})

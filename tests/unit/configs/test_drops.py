"""Tests that an inherited field that an algorithm does not use is no key and accepts no value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pytest

from rlox.configs import ALGO_CONFIGS, PPOConfig, make_run
from rlox.configs.params import param
from rlox.errors import ConfigError
from rlox_cli import commands
from rlox_cli.shell.help import command_help


@dataclass(frozen=True)
class PenaltyConfig(PPOConfig):
    """PPO with a penalty in place of clipping."""

    drops: ClassVar[Mapping[str, str]] = {"clip_eps": "has no clipping"}

    name: str = param("ppo_kl", "the algorithm", choices=("ppo_kl",))


def test_a_value_of_a_field_that_is_not_used_is_refused_with_the_reason() -> None:
    PenaltyConfig(clip_eps=PPOConfig().clip_eps).reject_unused()
    with pytest.raises(
        ConfigError, match=r"algo\.clip_eps=0\.1: ppo_kl has no clipping; leave algo\.clip_eps out"
    ):
        PenaltyConfig(clip_eps=0.1).reject_unused()
    with pytest.raises(ConfigError, match=r"algo\.use_sde=True: recurrent_ppo has no state-dep"):
        make_run({"algo": {"name": "recurrent_ppo", "use_sde": True}, "env": {"id": "CartPole-v1"}})


def test_help_lists_no_field_that_is_not_used() -> None:
    shown = command_help(commands.load("train"), ["algo=recurrent_ppo"])
    assert "algo.lstm_hidden_size=256" in shown
    assert "algo.use_sde" not in shown
    assert "algo.use_sde=false" in command_help(commands.load("train"), ["algo=ppo"])


@pytest.mark.parametrize("name", ALGO_CONFIGS)
def test_each_unused_field_is_one_that_the_algorithm_inherits(name: str) -> None:
    kind = ALGO_CONFIGS[name]
    assert kind.drops.keys() <= kind.__dataclass_fields__.keys()

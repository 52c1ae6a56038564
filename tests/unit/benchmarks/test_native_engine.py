"""Tests the campaign of the native engine: its legs, the compared runs, and settings equal to torch's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import classic_control_suite
import native_engine
import pytest
from omegaconf import OmegaConf

CAMPAIGN = native_engine.CAMPAIGN
LEGS = {leg.name: leg for leg in CAMPAIGN.legs}
CONF = Path(__file__).resolve().parents[3] / "conf"


def test_the_native_engine_campaign_plans_eight_legs_of_two_systems():
    pairs = {name: (leg.env, [s.name for s in leg.systems], leg.seeds) for name, leg in LEGS.items()}
    engines, hybrids = ["torch", "native"], ["torch", "hybrid"]
    assert pairs == {
        "PPO_CartPole-v1": ("CartPole-v1", engines, 10),
        "A2C_CartPole-v1": ("CartPole-v1", engines, 10),
        "DQN_CartPole-v1": ("CartPole-v1", engines, 10),
        "PPO_Acrobot-v1": ("Acrobot-v1", engines, 10),
        "SAC_Pendulum-v1": ("Pendulum-v1", engines, 10),
        "TD3_Pendulum-v1": ("Pendulum-v1", engines, 10),
        "hybrid_PPO_CartPole-v1": ("CartPole-v1", hybrids, 10),
        "hybrid_PPO_Pendulum-v1": ("Pendulum-v1", hybrids, 10),
    }
    assert CAMPAIGN.script.is_file()


@pytest.mark.parametrize("name", LEGS)
def test_the_campaign_takes_torchs_runs_from_the_classic_suite(name: str):
    leg = LEGS[name]
    suite = {of.name: of for of in classic_control_suite.CAMPAIGN.legs}
    same = suite[name.removeprefix("hybrid_")]
    assert (leg.algo, leg.env, leg.steps) == (same.algo, same.env, same.steps)
    for seed in range(leg.seeds):
        path = CAMPAIGN.path(leg, "torch", seed)
        assert path == classic_control_suite.CAMPAIGN.path(same, "rlox", seed)
        assert path.is_file()
    ours = CAMPAIGN.path(leg, leg.systems[1].name, 0)
    assert ours.parent == CAMPAIGN.folder / "results"


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_hybrid_ppo_has_the_settings_of_ppo_s_preset(env: str):
    preset: Any = OmegaConf.to_container(OmegaConf.load(CONF / "tuned" / "ppo" / f"{env}.yaml"))
    (given,) = (s for leg in CAMPAIGN.legs if leg.env == env for s in leg.systems if s.algo)
    assert given.settings == {"env": preset["env"], "algo": preset["algo"]}
    assert "algo.backend=cpu" in given.overrides()

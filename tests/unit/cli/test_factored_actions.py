"""Tests of actions with several parts: runs train, resume and evaluate, or rlox refuses them before torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.cli import TINY, Cli, only_run
from helpers.factored_actions import SPACES, env_id, require_form

from rlox.algorithms import PPO


@pytest.mark.parametrize("workers", ["sync", pytest.param("subprocess", marks=pytest.mark.slow)])
def test_a_run_with_nested_actions_trains_resumes_exactly_and_evaluates(workers: str, cli: Cli) -> None:
    """The environment raises for an action outside its space."""
    given = (*TINY, f"env={env_id('Nested')}", f"env.workers={workers}", "eval.every=128")
    assert cli("train", *given, "total_steps=128").code == 0
    run = only_run(Path("runs"))
    went_on = cli("resume", str(run), "total_steps=256")
    assert went_on.code == 0, went_on.err
    played = cli("evaluate", str(run), "episodes=4", "deterministic=false")
    assert played.code == 0, played.err
    result = json.loads((run / "result.json").read_text())
    assert (result["status"], result["resume_grade"]) == ("done", "exact")
    again = cli("train", *given, "total_steps=256", "hydra.run.dir=whole")
    assert again.code == 0, again.err
    resumed, whole = PPO.from_checkpoint(run), PPO.from_checkpoint("whole")
    assert all(map(torch.equal, resumed.policy.parameters(), whole.policy.parameters()))
    require_form(SPACES["Nested"], resumed.predict(np.zeros(4)))


@pytest.mark.parametrize(
    ("algo", "space", "told"),
    [
        (
            "dqn",
            "MultiDiscrete",
            "dqn needs Discrete actions, MatchMultiDiscrete-v0 has MultiDiscrete",
        ),
        (
            "sac",
            "DictMixed",
            "sac needs Discrete or Box actions, MatchDictMixed-v0 has Dict('force'",
        ),
        ("td3", "BoxOneSided", "td3 needs Box actions with finite bounds, but MatchBoxOneSided-v0"),
        (
            "ppo",
            "DictWithSequence",
            "MatchDictWithSequence-v0, part path, has action space Sequence",
        ),
    ],
)
def test_rlox_train_refuses_action_spaces_that_the_algorithm_does_not_support(
    algo: str, space: str, told: str, cli: Cli
) -> None:
    refused = cli("train", f"algo={algo}", "tuned=null", f"env={env_id(space)}")
    assert refused.code == 2
    assert told in refused.err
    assert "Traceback" not in refused.err

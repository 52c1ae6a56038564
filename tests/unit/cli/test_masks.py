"""Tests of action masks on the command line: runs train, resume and evaluate, or are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from helpers.cli import TINY, Cli, only_run
from helpers.masked_envs import BY_INFO, BY_METHOD, BY_OBSERVATION

from rlox.algorithms import PPO

SOURCES = pytest.mark.parametrize(
    ("source", "env"),
    [
        ("info", BY_INFO),
        pytest.param("method", BY_METHOD, marks=pytest.mark.slow),
        pytest.param("observation", BY_OBSERVATION, marks=pytest.mark.slow),
    ],
)


@SOURCES
def test_training_resume_and_evaluation_never_take_a_masked_action(source: str, env: str, cli: Cli) -> None:
    """The environment raises when an action opens a closed door."""
    given = (*TINY, f"env={env}", f"env.action_mask={source}", "eval.every=64")
    assert cli("train", *given, "total_steps=128").code == 0
    run = only_run(Path("runs"))
    went_on = cli("resume", str(run), "total_steps=256")
    assert went_on.code == 0, went_on.err
    played = cli("evaluate", str(run), "episodes=12")
    assert played.code == 0, played.err
    result = json.loads((run / "result.json").read_text())
    assert (result["status"], result["resume_grade"]) == ("done", "exact")
    whole = PPO.from_checkpoint(run)
    assert whole.clock.env_steps == 256
    assert whole.config.env.action_mask == source
    again = cli("train", *given, "total_steps=256", "hydra.run.dir=whole")
    assert again.code == 0, again.err
    parameters = [
        torch.cat([p.flatten() for p in made.policy.parameters()])
        for made in (whole, PPO.from_checkpoint("whole"))
    ]
    assert torch.equal(*parameters)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ("env=CartPole-v1", "env.action_mask=info"),
            "runs in Rust, where environments have no masks",
        ),
        (("env=FrozenLake-v1", "env.action_mask=method"), "has no method action_masks()"),
        ((f"env={BY_INFO}", "env.action_mask=observation"), "has no part 'action_mask'"),
        (
            (f"env={BY_INFO}", "env.action_mask=info", "env.action_mask_key=legal"),
            "expected 'legal'",
        ),
        (("env=CartPole-v1", "env.action_mask=infos"), "expected one of none, info"),
    ],
)
def test_masks_that_are_not_there_end_in_a_message_that_names_the_key(
    given: tuple[str, ...], told: str, cli: Cli
) -> None:
    ended = cli("train", *TINY, *given)
    assert ended.code != 0
    assert told in ended.err
    assert "Traceback" not in ended.err

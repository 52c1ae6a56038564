"""Wrappers, policies and callbacks of the user's own, named as `module:Name`; run folders are data."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
from faults.fingerprint import difference, fingerprint
from helpers import own_code
from helpers.cli import TINY, Cli, only_run

OWN = "helpers.own_code"
ALL = (
    *TINY, "env=CartPole-v1", f"env.wrappers=[time_aware_observation,{{name:{OWN}:TenthReward,part:1}}]",
    f"env.reward_wrappers=[{OWN}:TenthReward]", f"algo.policy={{name:{OWN}:small_net,hidden:4}}",
    f"callbacks=[{OWN}:Counting]",
)  # fmt: skip
DATA = "a run folder is data: nothing it names is imported or looked up unless you say so"


@pytest.fixture
def own(cli: Cli) -> Path:
    """A run with code of its own in every field that can name some."""
    ended = cli("train", *ALL)
    assert ended.code == 0, ended.err
    return only_run(Path("runs"))


def test_own_code_trains_and_its_returns_are_those_of_the_environment(own: Path) -> None:
    episodes = [json.loads(line) for line in (own / "episodes.jsonl").read_text().splitlines()]
    assert episodes
    assert all(episode["return"] == episode["length"] for episode in episodes)  # CartPole pays 1
    result = json.loads((own / "result.json").read_text())
    assert all(score == int(score) for score in result["episodes"])
    assert result["resume_grade"] == "exact"


def test_what_a_run_folder_names_is_not_imported_unless_it_is_said(cli: Cli, own: Path) -> None:
    asked = (
        f"algo.policy={OWN}:small_net, env.wrappers={OWN}:TenthReward, "
        f"env.reward_wrappers={OWN}:TenthReward"
    )
    refused = cli("resume", str(own), "total_steps=512")
    assert (refused.code, refused.err) == (
        2,
        f"rlox train: {own}/config.yaml names code: {asked} and 1 more\n"
        f"  {DATA}\n"
        f"  if it is yours: rlox resume {own} trust=true\n",
    )
    refused = cli("evaluate", str(own))
    assert (refused.code, refused.err) == (
        2,
        f"rlox evaluate: {own}/config.yaml names code: {asked}\n"
        f"  {DATA}\n"
        f"  if it is yours: rlox evaluate {own} trust=true\n",
    )


@pytest.mark.parametrize("said", [("trust=true",), ALL[-4:]], ids=["trusted", "repeated"])
def test_a_run_with_own_code_goes_on_where_that_is_trusted_or_repeated(
    cli: Cli, own: Path, said: tuple[str, ...]
) -> None:
    own_code.SEEN.clear()
    ended = cli("resume", str(own), "total_steps=512", *said)
    assert ended.code == 0, ended.err
    assert "resumed at step 256 of 512 (exact)" in ended.out
    assert own_code.SEEN == [(384, 3), (512, 4)]  # the callback goes on counting
    ended = cli("evaluate", str(own), "trust=true", "episodes=2")
    assert ended.code == 0, ended.err


def test_a_run_that_goes_on_is_the_run_that_was_never_stopped(cli: Cli, own: Path) -> None:
    whole = Path("whole")
    ended = cli("train", *ALL, "total_steps=512", f"hydra.run.dir={whole}")
    assert ended.code == 0, ended.err
    assert cli("resume", str(own), "total_steps=512", "trust=true").code == 0
    # its first end was logged and evaluated: all else is the same, episodes and the last weights too
    logged = {"folders", "metric rows", "metrics.jsonl"}
    assert set(difference(fingerprint(whole), fingerprint(own)) or ()) <= logged


def test_a_callback_of_ones_own_may_stop_the_run(cli: Cli) -> None:
    ended = cli("train", *TINY, f"callbacks=[{{name:{OWN}:Counting,most:1}}]")
    assert ended.code == 0, ended.err
    assert "done (stopped by callback): ppo on CartPole-v1, seed 0" in ended.out


def test_a_wrapper_that_cannot_be_saved_makes_a_run_start_new_episodes(cli: Cli) -> None:
    assert cli("train", *TINY, f"env.wrappers=[{OWN}:Unsaved]").code == 0
    result = json.loads((only_run(Path("runs")) / "result.json").read_text())
    assert result["resume_grade"] == "episode_start"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            "env.wrappers=[rescale]",
            "env.wrappers[0]=rescale: expected one of flatten_observation, rescale_action, "
            "time_aware_observation or module:Name, or {name: module:Name, argument: value}; did you "
            "mean 'rescale_action'?",
        ),
        (
            "env.wrappers=[no_such_module:Wrapper]",
            "env.wrappers=no_such_module:Wrapper: module 'no_such_module' cannot be imported: No module "
            "named 'no_such_module'",
        ),
        (
            f"env.wrappers=[{OWN}:TenthRewards]",
            f"env.wrappers={OWN}:TenthRewards: module '{OWN}' has no TenthRewards; did you mean "
            "'TenthReward'?",
        ),
        (
            f"env.reward_wrappers=[{OWN}:no_env]",
            f"env.reward_wrappers: {OWN}:no_env gave a int, expected a gymnasium.Env around the one that "
            "it is called with",
        ),
        (
            f"env.wrappers=[{{name:{OWN}:TenthReward,parts:2}}]",
            f"env.wrappers={OWN}:TenthReward cannot be made with parts: TenthReward.__init__() got an "
            "unexpected keyword argument 'parts'",
        ),
        (
            "env.wrappers=[{name:rescale_action,low:0}]",
            "env.wrappers: rescale_action takes no arguments, got low",
        ),
        (
            f"env.wrappers={OWN}:TenthReward",
            f"env.wrappers='{OWN}:TenthReward': expected a list, e.g. env.wrappers=[...]",
        ),
        (
            f"algo.policy={OWN}:no_policy",
            f"algo.policy={OWN}:no_policy gave a int, expected a torch.nn.Module",
        ),
        (
            f"callbacks=[{OWN}:SEEN]",
            f"callbacks[0]={OWN}:SEEN: expected a class or a function",
        ),
        (
            "algo.policy=nets",
            "algo.policy=nets: expected module:Name, or {name: module:Name, argument: value}",
        ),
        ("trust=true", "trust=true: it goes with resume=RUN and rlox evaluate; what you type is trusted"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_own_code_is_said_by_key_and_name(
    cli: Cli, given: str, told: str
) -> None:
    ended = cli("train", *TINY, given)
    assert (ended.code, ended.err) == (2, f"rlox train: {told}\n")
    assert not Path("runs").exists()


def test_a_job_of_a_sweep_that_was_interrupted_goes_on_without_being_trusted(cli: Cli) -> None:
    sweep = ("sweep", *ALL, "seed=0,1", "hydra.sweep.dir=sweep", "checkpoint.every=128")
    assert cli(*sweep).code == 0
    job = next(Path("sweep").glob("1_*"))
    shutil.rmtree(max(job.glob("checkpoints/step-*")))
    (job / "result.json").unlink()
    status = json.loads((job / "status.json").read_text())
    (job / "status.json").write_text(json.dumps(status | {"status": "killed", "step": 128}))
    again = cli(*sweep)
    assert again.code == 0, again.err
    assert "resumed at step 128 of 256 (exact)" in again.out


@pytest.mark.parametrize(
    "given",
    [
        (f"algo.policy={OWN}:small_net",),
        (f"algo.policy={{name:{OWN}:small_net,hidden:4}}", f"callbacks=[{OWN}:Counting]"),
        (f"env.reward_wrappers=[{{name:{OWN}:TenthReward,part:2}}]",),
    ],
)
def test_the_command_that_a_refusal_prints_is_the_one_that_works(
    cli: Cli, given: tuple[str, ...]
) -> None:
    assert cli("train", *TINY, *given).code == 0
    run = only_run(Path("runs"))
    for command in (("resume", str(run), "total_steps=512"), ("evaluate", str(run), "episodes=1")):
        refused = cli(*command)
        assert refused.code == 2
        printed = refused.err.partition("if it is yours: rlox ")[2]
        ended = cli(*shlex.split(printed), *command[2:])
        assert ended.code == 0, ended.err


def test_jobs_of_a_sweep_with_and_without_a_schedule_are_what_they_would_be_alone(cli: Cli) -> None:
    sweep = ("tuned=ppo/CartPole-v1", "total_steps=256", "eval.episodes=1", "hydra.sweep.dir=sweep")
    ended = cli("sweep", "algo.learning_rate=1e-3,lin_1e-3_1e-4", *sweep)
    assert ended.code == 0, ended.err
    texts = [(job / "config.yaml").read_text() for job in sorted(Path("sweep").glob("[01]_*"))]
    assert [("anneal_lr: true" in text, "lin_" in text) for text in texts] == [
        (True, False),
        (False, True),
    ]

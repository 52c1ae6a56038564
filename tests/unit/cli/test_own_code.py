"""Tests of user code named as `module:Name`: wrappers, policies and callbacks. Run folders are data."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from faults.fingerprint import difference, fingerprint
from helpers import user_code
from helpers.cli import TINY, Cli, only_run

from rlox.configs import EnvConfig
from rlox.training.evaluate import Evaluation, Evaluator
from rlox_cli.runs.run_training import step_limit

OWN = "helpers.user_code"
ALL = (
    *TINY, "env=CartPole-v1", f"env.wrappers=[time_aware_observation,{{name:{OWN}:TenthReward,part:1}}]",
    f"env.reward_wrappers=[{OWN}:TenthReward]", f"algo.policy={{name:{OWN}:small_net,hidden:4}}",
    f"callbacks=[{OWN}:CountingCallback]",
)  # fmt: skip
DATA = "a run folder is data: nothing it names is imported or looked up unless you say so"


@pytest.fixture
def own(cli: Cli) -> Path:
    """Train a run with user code in every field that can name code."""
    ended = cli("train", *ALL)
    assert ended.code == 0, ended.err
    return only_run(Path("runs"))


def test_own_code_trains_and_its_returns_are_those_of_the_environment(own: Path) -> None:
    episodes = [json.loads(line) for line in (own / "episodes.jsonl").read_text().splitlines()]
    assert episodes
    assert all(episode["return"] == episode["length"] for episode in episodes)  # CartPole gives 1 per step
    result = json.loads((own / "result.json").read_text())
    assert all(score == int(score) for score in result["episodes"])
    assert result["resume_grade"] == "exact"


def test_resume_and_evaluate_refuse_code_named_by_a_run_folder_without_trust(cli: Cli, own: Path) -> None:
    asked = (
        f"algo.policy={OWN}:small_net, env.wrappers={OWN}:TenthReward, env.reward_wrappers={OWN}:TenthReward"
    )
    refused = cli("resume", str(own), "total_steps=512")
    assert (refused.code, refused.err) == (
        2,
        f"rlox resume: {own}/config.yaml names code: {asked} and 1 more\n"
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
    user_code.RECORDED_CALLS.clear()
    ended = cli("resume", str(own), "total_steps=512", *said)
    assert ended.code == 0, ended.err
    assert "resumed at step 256 of 512 (exact)" in ended.out
    assert user_code.RECORDED_CALLS == [(384, 3), (512, 4)]  # the callback continues its count
    ended = cli("evaluate", str(own), "trust=true", "episodes=2")
    assert ended.code == 0, ended.err


def test_a_resumed_run_with_user_code_equals_an_uninterrupted_run(cli: Cli, own: Path) -> None:
    whole = Path("whole")
    ended = cli("train", *ALL, "total_steps=512", f"hydra.run.dir={whole}")
    assert ended.code == 0, ended.err
    assert cli("resume", str(own), "total_steps=512", "trust=true").code == 0
    # The resumed run also logged and evaluated its first end. All else is equal, also episodes and weights.
    logged = {"folders", "metric rows", "metrics.jsonl"}
    assert set(difference(fingerprint(whole), fingerprint(own)) or ()) <= logged


def test_a_callback_of_ones_own_may_stop_the_run(cli: Cli) -> None:
    ended = cli("train", *TINY, f"callbacks=[{{name:{OWN}:CountingCallback,max_calls:1}}]")
    assert ended.code == 0, ended.err
    assert "done (stopped by callback): ppo on CartPole-v1, seed 0" in ended.out


def test_a_wrapper_that_cannot_be_saved_makes_a_run_start_new_episodes(cli: Cli) -> None:
    assert cli("train", *TINY, f"env.wrappers=[{OWN}:StatelessWrapper]").code == 0
    result = json.loads((only_run(Path("runs")) / "result.json").read_text())
    assert result["resume_grade"] == "episode_start"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            "env.wrappers=[rescale]",
            "env.wrappers[0]=rescale: expected one of flatten_observation, hide_velocities, minigrid_flat, "
            "minigrid_image, rescale_action, time_aware_observation or module:Name, or {name: module:Name, "
            "argument: value}; did you mean 'rescale_action'?",
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
            f"env.reward_wrappers: {OWN}:no_env returned a int, expected a gymnasium.Env that wraps the "
            "one passed to it",
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
            f"callbacks=[{OWN}:RECORDED_CALLS]",
            f"callbacks[0]={OWN}:RECORDED_CALLS: expected a class or a function",
        ),
        (
            "algo.policy=nets",
            "algo.policy=nets: expected module:Name, or {name: module:Name, argument: value}",
        ),
        ("trust=true", "trust=true: it goes with resume=RUN and rlox evaluate; what you type is trusted"),
    ],
)  # fmt: skip
def test_rlox_train_refuses_invalid_user_code_and_names_its_config_key(
    cli: Cli, given: str, told: str
) -> None:
    ended = cli("train", *TINY, given)
    assert (ended.code, ended.err) == (2, f"rlox train: {told}\n")
    assert not Path("runs").exists()


def test_a_job_of_a_sweep_that_was_interrupted_goes_on_without_being_trusted(cli: Cli) -> None:
    sweep = ("sweep", *ALL, "seed=1", "hydra.sweep.dir=sweep", "checkpoint.every=128")
    assert cli(*sweep).code == 0
    (job,) = Path("sweep").glob("0_*")
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
        (f"algo.policy={{name:{OWN}:small_net,hidden:4}}", f"callbacks=[{OWN}:CountingCallback]"),
        (f"env.reward_wrappers=[{{name:{OWN}:TenthReward,part:2}}]",),
    ],
)
def test_the_command_that_a_refusal_prints_is_the_one_that_works(cli: Cli, given: tuple[str, ...]) -> None:
    assert cli("train", *TINY, *given).code == 0
    run = only_run(Path("runs"))
    for command in (("resume", str(run), "total_steps=512"), ("evaluate", str(run), "episodes=1")):
        refused = cli(*command)
        assert refused.code == 2
        printed = refused.err.partition("if it is yours: rlox ")[2]
        ended = cli(*shlex.split(printed), *command[2:])
        assert ended.code == 0, ended.err


def test_a_sweep_applies_preset_annealing_only_to_jobs_without_a_schedule(cli: Cli) -> None:
    sweep = ("tuned=ppo/CartPole-v1", "total_steps=256", "eval.episodes=1", "hydra.sweep.dir=sweep")
    ended = cli("sweep", "algo.learning_rate=1e-3,lin_1e-3_1e-4", *sweep)
    assert ended.code == 0, ended.err
    texts = [(job / "config.yaml").read_text() for job in sorted(Path("sweep").glob("[01]_*"))]
    assert [("anneal_lr: true" in text, "lin_" in text) for text in texts] == [
        (True, False),
        (False, True),
    ]


BROKEN = {
    "exits.py": "import sys\n\nsys.exit(3)\n",
    "slips.py": "def f(:\n    pass\n",
    "refuses.py": "def wrap(env):\n    raise RuntimeError('no licence')\n",
}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            "env.wrappers=[exits:W]",
            "module 'exits' fails when it is imported: SystemExit: 3 ({}/exits.py, line 3)",
        ),
        (
            "env.wrappers=[slips:W]",
            "module 'slips' fails when it is imported: SyntaxError: invalid syntax ({}/slips.py, line 1)",
        ),
        (
            "env.wrappers=[refuses:wrap]",
            "env.wrappers=refuses:wrap fails: RuntimeError: no licence ({}/refuses.py, line 2)",
        ),
        (
            f"env.reward_wrappers=[{OWN}:OpaqueWrapper]",
            "env.reward_wrappers: OpaqueWrapper changes more than rewards, and evaluations leave reward "
            "wrappers out; put it into env.wrappers",
        ),
    ],
)  # fmt: skip
def test_own_code_that_fails_is_named_with_file_and_line(
    cli: Cli, tmp_path: Path, given: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in BROKEN.items():
        (tmp_path / name).write_text(text)
    ended = cli("train", *TINY, given)
    assert ended.code == 2
    assert told.format(tmp_path) in ended.err


def test_an_environment_that_leaves_python_is_one_that_failed(cli: Cli) -> None:
    ended = cli("sweep", *TINY, f"env.wrappers=[{OWN}:ExitsProcess]", "seed=0,1", "hydra.sweep.dir=sweep")
    assert ended.code == 1
    assert ended.err.count("CartPole-v1 (copy 0) raised SystemExit in step: 7") >= 2


def test_an_environment_that_never_ends_is_warned_of_before_it_is_evaluated(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Evaluator, "_play", lambda *given: Evaluation((0.0,), (1,), 0))
    gym.register("Endless-v0", "gymnasium.envs.classic_control:CartPoleEnv")
    endless = f"env.wrappers=[{OWN}:Endless]"
    told = (
        "rlox train: warning: no episode has ended in 64 steps of each environment; an evaluation plays 3 "
        "whole episodes: "
    )
    try:
        ended = cli("train", *TINY, "env=Endless-v0", endless)
        assert ended.err == f"{told}give Endless-v0 a limit, e.g. env.max_episode_steps=1000\n"
    finally:
        gym.registry.pop("Endless-v0")
    ended = cli("train", *TINY, endless, "env.max_episode_steps=63")
    assert ended.err == (
        f"{told}something around CartPole-v1 prevents its limit of 63 steps from ending episodes\n"
    )


def test_rlox_train_gives_no_warning_before_the_step_limit_is_reached(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Evaluator, "_play", lambda *given: Evaluation((0.0,), (1,), 0))
    ended = cli("train", *TINY, "env=Pendulum-v1", "env.n_envs=2", "env.max_episode_steps=130")
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, 500),
        ({"max_episode_steps": 30, "action_repeat": 4}, 8),
        ({"id": "Blackjack-v1"}, None),
        ({"id": "helpers.user_code:nothing"}, None),
    ],
)
def test_step_limit_converts_environment_steps_to_repeated_actions(
    given: dict[str, Any], limit: int | None
) -> None:
    assert step_limit(EnvConfig(**given)) == limit


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ("algo.net_arch={pi: [64], vf: [64]}",),
            "algo.net_arch={pi: [64], vf: [64]}: expected a list, e.g. algo.net_arch=[...]; those of the "
            "critic alone are algo.critic_net_arch",
        ),
        (
            (f"env.wrappers={{name: {OWN}:StatelessWrapper}}",),
            f"env.wrappers={{name: {OWN}:StatelessWrapper}}: expected a list, e.g. env.wrappers=[...]",
        ),
        (
            ("algo.learning_rate={0: 3e-4}",),
            "algo.learning_rate={0: 3e-4}: expected a number or a schedule, e.g. algo.learning_rate=[...]",
        ),
        (
            ("env=Pendulum-v1", "env.id=Acrobot-v1"),
            "env=Pendulum-v1 and env.id=Acrobot-v1 both name the environment; give one of them",
        ),
    ],
)
def test_rlox_train_explains_values_of_a_wrong_kind(cli: Cli, given: tuple[str, ...], told: str) -> None:
    ended = cli("train", *given)
    assert (ended.code, ended.err) == (2, f"rlox train: {told}\n")


def test_the_id_of_an_environment_brings_its_own_preset(cli: Cli) -> None:
    ended = cli("train", "env.id=Acrobot-v1", "dry_run=true")
    assert "tuned preset ppo/Acrobot-v1" in ended.out


def test_jobs_that_are_the_same_and_sweeps_without_jobs_are_refused(cli: Cli) -> None:
    same = cli("sweep", *TINY, "run.name=a,b", "hydra.sweep.dir=sweep")
    assert same.code == 2
    assert same.err.startswith(
        "rlox sweep: two jobs of the sweep are the same: names, tags, loggers and threads change no result:\n"
    )
    none = cli("sweep", *TINY, "seed=range(0,0)", "hydra.sweep.dir=sweep")
    assert (none.code, none.err) == (
        2,
        "rlox sweep: the sweep has no jobs: a range or list of values is empty\n",
    )
    assert not Path("sweep").exists()


def test_rlox_train_checks_a_user_policy_before_training(cli: Cli) -> None:
    ended = cli("train", *TINY, f"algo.policy={OWN}:LogitsForMode")
    assert (ended.code, ended.err) == (
        2,
        "rlox train: policy LogitsForMode fails on observations of CartPole-v1, [B, 4] float32: mode gave "
        "[2, 2] of float32, the environment takes whole numbers [B] from 0 to 1\n",
    )

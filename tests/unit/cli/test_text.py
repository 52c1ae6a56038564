"""Tests of runs on text from the command line: their folder, their evaluation, and early refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import Cli, only_run
from helpers.fake_generation import fake_generation

from rlox.algorithms import GRPO
from rlox.llm import Llama, LlamaSize, save_llama, task_of

SFT = ("train", "algo=sft", "env=text", "task=copy", "tuned=null", "algo.batch_size=8")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_run_counts_prompts_and_leaves_metrics_samples_and_a_score(cli: Cli, tmp_path: Path) -> None:
    more = ("total_steps=96", "log.every=32", "eval.every=48", "eval.episodes=20")
    ran = cli(*SFT, "algo.learning_rate=1e-3", *more)
    assert ran.code == 0, ran.err
    run = only_run(tmp_path / "runs")
    assert run.parent.relative_to(tmp_path / "runs").as_posix() == "text-copy/sft"
    result = json.loads((run / "result.json").read_text())
    assert (result["unit"], result["samples"], result["env"]) == ("samples", 96, "text/copy")
    assert (result["env_steps"], result["updates"], len(result["episodes"])) == (0, 12, 20)
    rows = lines(run / "metrics.jsonl")
    assert [row["samples"] for row in rows if "loss/policy" in row] == [32, 64, 96]
    samples = lines(run / "samples.jsonl")
    assert [row["samples"] for row in samples] == [48] * 16 + [96] * 16
    assert [row["reward"] for row in samples[16:]] == result["episodes"][:16]
    assert all(row["prompt"].endswith(">") for row in samples)
    assert {row["completion"] == row["prompt"][:-1] for row in samples} == {False}


def test_completions_are_episodes_whose_rewards_are_their_returns(cli: Cli, tmp_path: Path) -> None:
    ran = cli(
        "train", "algo=grpo", "env=text", "task=copy", "tuned=null", "algo.rewards=[close]",
        "algo.batch_size=4", "total_steps=8", "eval.episodes=4",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    episodes = lines(only_run(tmp_path / "runs") / "episodes.jsonl")
    assert [row["samples"] for row in episodes] == [k for k in range(1, 9) for _ in range(4)]
    assert all(1 <= row["length"] <= 8 and 0.0 <= row["return"] <= 1.0 for row in episodes)
    assert {row["return"] for row in episodes} != {0.0}


def test_init_from_sets_the_reference_model_of_grpo(cli: Cli, tmp_path: Path) -> None:
    assert cli(*SFT, "total_steps=16", "eval.episodes=4", "hydra.run.dir=begin").code == 0
    given = ("algo=grpo", "env=text", "tuned=null", "total_steps=4", "eval.episodes=4")
    ran = cli("train", *given, "task=copy", "init_from=begin", "hydra.run.dir=run")
    assert ran.code == 0, ran.err
    from rlox.algorithms import GRPO
    from rlox.algorithms import SFT as Begin

    begin, run = Begin.from_checkpoint(tmp_path / "begin"), GRPO.from_checkpoint(tmp_path / "run")
    there, held = (dict(m.state_dict()) for m in (begin.policy, run.learner.reference.module))
    assert all((there[name] == held[name]).all() for name in there)
    other = cli("train", *given, "task=arithmetic", "init_from=begin")
    assert other.code == 2
    assert "a policy of sft cannot initialise grpo: model.embed_tokens.weight is [11, 64]" in other.err


def test_a_task_is_named_by_its_environment_too(cli: Cli, tmp_path: Path) -> None:
    ran = cli("train", "algo=sft", "env=text/copy", "total_steps=8", "eval.episodes=2")
    assert ran.code == 0, ran.err
    result = json.loads((only_run(tmp_path / "runs") / "result.json").read_text())
    assert (result["env"], result["samples"]) == ("text/copy", 8)


def test_completions_come_from_a_server_that_is_given_the_weights(cli: Cli, tmp_path: Path) -> None:
    model = Llama(LlamaSize(vocab_size=len(task_of("copy").codec)))
    with fake_generation("vllm", model) as fake:
        ran = cli(
            "train", "algo=grpo", "env=text/copy", "algo.batch_size=4", "total_steps=12",
            "algo.server=vllm", f"algo.server_url={fake.url}", "algo.server_model=tiny", "eval.episodes=2",
            "algo.rewards=[close]", "algo.learning_rate=1e-3",
        )  # fmt: skip
    assert ran.code == 0, ran.err
    paths = [path for path, _ in fake.requests]
    assert (paths.count("/collective_rpc"), paths.count("/v1/completions")) == (3, 3 * 4 + 3)
    run = only_run(tmp_path / "runs")
    assert json.loads((run / "result.json").read_text())["resume_grade"] == "episode_start"
    weights = GRPO.from_checkpoint(run, trust=True).policy.lm_head.weight
    assert 0 < float((weights - fake.model.lm_head.weight).detach().abs().max()) < 0.01, "one update ahead"


REFUSED = {
    "algo=grpo env=text/copy algo.server_model=tiny": "algo.server_model=tiny applies to a server only: set",
    "algo=grpo env=text/copy algo.server=vllm algo.top_k=3": "algo.top_k with algo.server: log-prob",
    "algo=rloo env=text/copy algo.staleness=2": "algo.staleness=2 applies to a server only: set",
    "algo=grpo env=text/copy algo.server=vllm algo.staleness=2": "algo.staleness=2 without algo.corr",
    "algo=grpo env=text/copy algo.server=vlm": "algo.server=vlm: expected one of vllm, sglang",
    "algo=grpo": "env=CartPole-v1: grpo learns from text; set env=text and task=arithmetic",
    "algo=sft env=text": "missing key 'task': sft needs a text task or dataset; set task=arithmetic",
    "algo=grpo task=copy": "env=CartPole-v1: grpo learns from text; set env=text",
    "algo=sft env=text/sums": "env=text/sums: ",
    "algo=sft env=text/copy task=format": "env=text/copy and task=format: leave one of them out",
    "algo=sft env=text/copy env.kwargs={a:1}": "env.kwargs={'a': 1}: sft learns from text",
    "algo=ppo env=text task=copy": "task=copy: ppo does not learn from text (sft, grpo, rloo, dpo, online",
    "model=tiny": "model=tiny: ppo does not learn from text",
    "algo=sft env=text task=sums": "task=sums: expected one of arithmetic, copy, format",
    "algo=sft env=text task=copy env.n_envs=4": "env.n_envs=4: sft learns from text, expected 1",
    "algo=sft env=text task=copy model=nowhere": "model=nowhere: expected tiny, or a folder with",
    "algo=grpo env=text task=copy algo.rewards=[nice]": "algo.rewards[0]=nice: expected one of right",
    "algo=grpo env=text task=copy algo.group_size=1": "algo.group_size=1: expected a value in [2,",
    "algo=grpo env=text task=copy algo.minibatches=999": "algo.minibatches=999 of 512 completions",
}


@pytest.mark.parametrize("line", REFUSED)
def test_rlox_train_refuses_wrong_text_settings_before_it_makes_a_folder(
    line: str, cli: Cli, tmp_path: Path
) -> None:
    ran = cli("train", *line.split())
    assert ran.code == 2
    assert REFUSED[line] in ran.err
    assert not (tmp_path / "runs").exists()


def test_a_run_goes_on_without_the_folder_that_its_model_came_from(cli: Cli, tmp_path: Path) -> None:
    save_llama(Llama(LlamaSize(vocab_size=11, hidden_size=32)), tmp_path / "model")
    given = ("model=model", "total_steps=16", "eval.episodes=2", "hydra.run.dir=run")
    assert cli(*SFT, *given).code == 0
    shutil.rmtree(tmp_path / "model")
    ran = cli("resume", "run", "total_steps=32")
    assert ran.code == 0, ran.err
    assert json.loads((tmp_path / "run" / "result.json").read_text())["samples"] == 32


def test_commands_that_need_an_environment_refuse_runs_of_language_models(cli: Cli, tmp_path: Path) -> None:
    assert cli(*SFT, "total_steps=8", "eval.episodes=4", "hydra.run.dir=run").code == 0
    for command in (
        ("export", "run", "format=onnx"),
        ("dataset", "make", "data", "policy=run", "episodes=1"),
        ("evaluate", "run", "video=true"),
        ("evaluate", "run", "env=CartPole-v1"),
    ):
        ran = cli(*command)
        assert ran.code == 2, command
        assert "text" in ran.err, command
    assert cli("evaluate", "run", "episodes=6", "best_of=3").code == 0
    found = json.loads((tmp_path / "run" / "eval" / "last.json").read_text())
    assert (found["best_of"], found["deterministic"]) == (3, False)
    assert cli("evaluate", "run", "episodes=6", "deterministic=false").code == 0
    assert len(json.loads((tmp_path / "run" / "eval" / "last.json").read_text())["episodes"]) == 6


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("train algo=ppo", "2 processes (WORLD_SIZE) were started together, but ppo learns in one"),
        ("train algo=sft env=text/copy algo.batch_size=3", "3 prompts in a batch for 2 processes"),
        (
            "train algo=sft env=text/copy algo.batch_size=4 total_steps=9",
            "1 prompts in a batch for 2 processes",
        ),
        ("train -m algo=sft env=text/copy seed=0,1", "a sweep was started in 2 processes (WORLD_SIZE)"),
    ],
)
def test_rlox_train_refuses_runs_that_several_processes_cannot_share(
    line: str, said: str, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {
        "RANK": 0,
        "WORLD_SIZE": 2,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": 1,
    }.items():
        monkeypatch.setenv(name, str(value))
    ran = cli(*line.split())
    assert ran.code == 2
    assert said in ran.err
    assert not (tmp_path / "runs").exists()

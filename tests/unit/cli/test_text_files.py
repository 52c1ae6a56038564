"""Tests of runs on text files and models of transformers, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import Cli, only_run
from helpers.pretrained import folder

from rlox.algorithms import SFT

THINGS = ("sky", "sea", "tree", "sun")


def asked(i: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"what colour is the {THINGS[i % 4]} {i}?"}]


def said(i: int) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": ("blue", "green")[i % 2]}]


ROWS: dict[str, Any] = {
    "chat": lambda i: {"prompt": asked(i), "completion": said(i)},
    "chats": lambda i: {"messages": asked(i) + said(i)},
    "pairs": lambda i: {"prompt": f"{i}+1=", "chosen": f"{i + 1}", "rejected": f"{i}"},
    "sums": lambda i: {"prompt": f"{i}+1=", "answer": f"{i + 1}"},
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Write a file of each kind and a model into the current folder."""
    for name, row in ROWS.items():
        lines = "".join(json.dumps(row(i)) + "\n" for i in range(40))
        (tmp_path / f"{name}.jsonl").write_text(lines)
    (tmp_path / "rewarding.py").write_text(
        "def same(completions, prompts, texts, answer):\n"
        "    return [0.5 + (text == right) for text, right in zip(texts, answer)]\n"
    )
    folder(tmp_path / "model")
    return tmp_path


SMALL = ("tuned=null", "algo.batch_size=8", "total_steps=16", "algo.max_new_tokens=4")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("chat", "algo=sft model=model"),
        ("chats", "algo=sft model=model"),
        ("pairs", "algo=dpo model=model"),
        ("pairs", "algo=sft"),
        ("sums", "algo=grpo model=model algo.rewards=[rewarding:same,close]"),
        ("chat", "algo=rloo model=model algo.rewards=[right]"),
    ],
)
def test_rlox_train_learns_from_a_text_file_and_scores_a_part_of_it(
    name: str, line: str, cli: Cli, files: Path
) -> None:
    ran = cli("train", "env=text", f"dataset={name}.jsonl", *line.split(), *SMALL)
    assert ran.code == 0, ran.err
    run = only_run(files / "runs")
    result = json.loads((run / "result.json").read_text())
    assert (result["env"], result["samples"]) == (f"text/{name}.jsonl", 16)
    scores = result["episodes"]
    assert 2 <= len(scores) <= 16
    if name == "sums":  # 0.5 for every completion, and more for one that is close
        assert all(0.5 <= score <= 2.5 for score in scores)
    elif "rloo" in line or "dpo" in line:
        assert set(scores) <= {0.0, 1.0}
    else:  # log-probabilities per token of a model that has learned from 16 rows
        assert all(-8.0 < score < -2.0 for score in scores)
    samples = [json.loads(text) for text in (run / "samples.jsonl").read_text().splitlines()]
    begun = "" if name == "chats" else "+1=" if name in ("pairs", "sums") else "what colour is"
    assert all(begun in row["prompt"] for row in samples)


def test_a_run_resumes_with_its_moved_text_file_and_refuses_a_changed_one(cli: Cli, files: Path) -> None:
    given = ("algo=sft", "env=text", "dataset=pairs.jsonl", *SMALL, "hydra.run.dir=run")
    assert cli("train", *given).code == 0
    (files / "kept").mkdir()
    (files / "pairs.jsonl").rename(files / "kept" / "pairs.jsonl")
    gone = cli("resume", "run", "total_steps=32")
    assert gone.code == 2
    assert "dataset=pairs.jsonl: there is no such file" in gone.err
    assert cli("resume", "run", "total_steps=32", "dataset=kept/pairs.jsonl").code == 0
    with (files / "kept" / "pairs.jsonl").open("a") as out:
        out.write('{"prompt": "a", "chosen": "b", "rejected": "c"}\n')
    other = cli("resume", "run", "total_steps=48")
    assert other.code != 0
    assert "its dataset or tokenizer has changed (another SHA-256)" in other.err


def test_a_task_is_learned_by_a_model_with_a_tokenizer(cli: Cli, files: Path) -> None:
    given = ("algo=grpo", "env=text/copy", "model=model", "algo.rewards=[close]", *SMALL)
    ran = cli("train", *given)
    assert ran.code == 0, ran.err
    result = json.loads((only_run(files / "runs") / "result.json").read_text())
    assert (result["env"], len(result["episodes"])) == ("text/copy", 200)


@pytest.mark.parametrize("adapters", [False, True])
def test_rlox_export_writes_a_trained_model_that_transformers_loads(
    adapters: bool, cli: Cli, files: Path
) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    rank = ["algo.lora_r=2"] * adapters
    given = ("algo=sft", "env=text", "dataset=chat.jsonl", "model=model", *rank, *SMALL)
    assert cli("train", *given, "algo.learning_rate=0.01", "hydra.run.dir=run").code == 0
    ran = cli("export", "run", "out=learned")
    assert ran.code == 0, ran.err
    name = "adapter_model" if adapters else "model"
    assert f"learned/{name}.safetensors" in ran.out
    assert len(AutoTokenizer.from_pretrained("learned")) == 321
    begun = AutoModelForCausalLM.from_pretrained("model")
    if adapters:
        found = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("model"), "learned")
    else:
        found = AutoModelForCausalLM.from_pretrained("learned")
    run = SFT.from_checkpoint("run")
    ids = torch.arange(3, 12)[None]
    with torch.no_grad():
        said, there, before = (of.eval()(ids).logits for of in (run.policy, found, begun))
    assert torch.allclose(said, there, atol=1e-5)
    assert not torch.allclose(there, before, atol=1e-2)


def test_a_user_model_gets_no_tuned_preset(cli: Cli, files: Path) -> None:
    more = ("total_steps=8", "algo.batch_size=4", "algo.max_new_tokens=4")
    for name, given in {
        "own": ("env=text", "dataset=chat.jsonl", "model=model"),
        "tiny": ("env=text/copy", "eval.episodes=2"),
    }.items():
        ran = cli("train", "algo=sft", *given, *more, f"hydra.run.dir={name}")
        assert ran.code == 0, ran.err
        assert ("tuned preset" in ran.out) == (name == "tiny")
        config = (files / name / "config.yaml").read_text()
        assert ("learning_rate: 1.0e-05" in config) == (name == "own")


def test_a_run_is_evaluated_and_exported_without_its_file(cli: Cli, files: Path) -> None:
    given = ("algo=sft", "env=text", "dataset=chat.jsonl", "model=model", *SMALL)
    assert cli("train", *given, "hydra.run.dir=run").code == 0
    (files / "chat.jsonl").rename(files / "moved.jsonl")
    assert cli("export", "run").code == 0
    gone = cli("evaluate", "run")
    assert gone.code == 2
    assert "dataset=chat.jsonl: there is no such file" in gone.err
    run = SFT.from_checkpoint("run", dataset="moved.jsonl")
    assert len(run.evaluate(100).returns) == len(
        json.loads((files / "run" / "result.json").read_text())["episodes"]
    )
    assert cli("resume", "run", "total_steps=24", "dataset=moved.jsonl").code == 0


def test_evaluating_another_dataset_does_not_replace_last_json(cli: Cli, files: Path) -> None:
    own, other = Path("chat.jsonl"), Path("other.jsonl")
    other.write_text("".join(own.read_text().splitlines(keepends=True)[:6]))
    given = ("algo=sft", "env=text", f"dataset={own}", f"eval_dataset={own}", "model=model", *SMALL)
    assert cli("train", *given, "hydra.run.dir=run").code == 0
    assert cli("evaluate", "run", "episodes=4").code == 0
    newest = Path("run/eval/last.json")
    before, count = newest.read_bytes(), len(list(newest.parent.iterdir()))
    ran = cli("evaluate", "run", "episodes=4", f"eval_dataset={other}")
    assert ran.code == 0, ran.err
    assert newest.read_bytes() == before
    assert len(list(newest.parent.iterdir())) == count + 1
    own.rename("moved.jsonl")
    again = ("dataset=moved.jsonl", "eval_dataset=moved.jsonl")
    assert cli("evaluate", "run", "episodes=4", *again).code == 0
    assert len(list(newest.parent.iterdir())) == count + 1


def test_resume_refuses_a_model_whose_tokenizer_is_gone(cli: Cli, files: Path) -> None:
    from rlox.llm import Llama, LlamaSize, save_llama

    save_llama(Llama(LlamaSize(vocab_size=321, hidden_size=16)), files / "model")
    given = ("algo=grpo", "env=text/copy", "model=model", "algo.rewards=[close]", *SMALL)
    assert cli("train", *given, "hydra.run.dir=run").code == 0
    (files / "model").rename(files / "away")
    ran = cli("resume", "run", "total_steps=24")
    assert ran.code != 0
    assert "has 321 tokens, text as characters or bytes has 11" in ran.err


def test_reward_functions_get_columns_by_name_as_in_trl(cli: Cli, files: Path) -> None:
    lines = [{"prompt": f"{i}+1=", **({"level": i} if i % 2 else {})} for i in range(40)]
    (files / "some.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (files / "ordering.py").write_text(
        "def of_trl(prompts, completions, **columns):\n"
        "    assert len(prompts[0]) >= 3 and len(completions[0]) <= 2\n"
        "    assert set(columns) == {'prompt', 'level', 'texts'}\n"
        "    return columns['level']\n"
    )
    small = ("total_steps=16", "algo.batch_size=8", "algo.max_new_tokens=2", "algo.group_size=2")
    given = ("algo=grpo", "env=text", "dataset=some.jsonl", "algo.rewards=[ordering:of_trl]")
    ran = cli("train", *given, *small)
    assert ran.code == 0, ran.err
    result = json.loads((only_run(files / "runs") / "result.json").read_text())
    assert result["episodes"] and all(worth % 2 == 1 for worth in result["episodes"])


def test_evaluate_resume_and_export_accept_moved_models_and_datasets(cli: Cli, files: Path) -> None:
    given = ("algo=sft", "env=text", "dataset=chat.jsonl", "model=model", *SMALL)
    assert cli("train", *given, "hydra.run.dir=run").code == 0
    score = json.loads((files / "run" / "result.json").read_text())["episodes"]
    (files / "chat.jsonl").rename(files / "other.jsonl")
    (files / "model").rename(files / "away")
    gone = cli("evaluate", "run")
    assert gone.code == 2
    assert "model=model: expected tiny, or a folder with config.json" in gone.err
    now = ("model=away", "dataset=other.jsonl")
    assert cli("evaluate", "run", *now, "episodes=200").code == 0
    found = json.loads((files / "run" / "eval" / "last.json").read_text())
    assert found["episodes"] == score
    lines = (files / "other.jsonl").read_text().splitlines()[:5]
    (files / "five.jsonl").write_text("\n".join(lines))
    assert cli("evaluate", "run", *now, "eval_dataset=five.jsonl").code == 0
    (kept,) = (files / "run" / "eval").glob("*_rows-*.json")
    assert len(json.loads(kept.read_text())["episodes"]) == 5
    assert cli("resume", "run", *now, "total_steps=24").code == 0
    assert cli("export", "run", "model=away").code == 0
    changed = cli("evaluate", "run", "model=away", "dataset=five.jsonl")
    assert "its dataset or tokenizer has changed" in changed.err


def test_a_reward_is_given_its_arguments(cli: Cli, files: Path) -> None:
    (files / "scaling.py").write_text(
        "def scaled(completions, prompts, texts, scale=1.0):\n    return [scale] * len(texts)\n"
    )
    given = ("algo=grpo", "env=text", "dataset=sums.jsonl", *SMALL)
    ran = cli("train", *given, "algo.rewards=[{name: 'scaling:scaled', scale: 3.0}]")
    assert ran.code == 0, ran.err
    result = json.loads((only_run(files / "runs") / "result.json").read_text())
    assert set(result["episodes"]) == {3.0}
    ran = cli("train", *given, "algo.rewards=[{name: 'scaling:scaled', size: 3.0}]")
    assert ran.code == 2
    assert "algo.rewards[0]=scaling:scaled takes no size" in ran.err


REFUSED = {
    "algo=dpo env=text dataset=pairs.jsonl eval_dataset=sums.jsonl": (
        "eval_dataset=sums.jsonl has no column chosen, and the dataset has prompt, chosen, rejected"
    ),
    "env=text dataset=pairs.jsonl algo.rewards=[right]": "line 1 has no right answer, which algo.rew",
    "env=text dataset=sums.jsonl model=nowhere": "model=nowhere: expected tiny, or a folder with config",
    "env=text dataset=nowhere.jsonl": "dataset=nowhere.jsonl: there is no such file, expected a file of",
    "algo=grpo env=text dataset=chats.jsonl model=model algo.rewards=[rewarding:same]": (
        "the dataset's rows are whole texts; expected a column prompt"
    ),
    "env=text dataset=chat.jsonl model=bare": "model=bare comes without a tokenizer; set tokenizer=",
    "algo=grpo env=text dataset=sums.jsonl model=model algo.rewards=[close] algo.max_new_tokens=126": (
        "126 of them to generate (algo.max_new_tokens), and the model has positions for 128"
    ),
    "env=text/copy dataset=chat.jsonl": "dataset=chat.jsonl and env=text/copy: leave one of them out",
    "env=text task=copy dataset=chat.jsonl": "dataset=chat.jsonl and task=copy: leave one of them out",
    "env=text/copy eval_dataset=chat.jsonl": "eval_dataset=chat.jsonl without dataset",
    "env=text dataset=chat.jsonl": "line 1: a conversation needs a tokenizer with a chat template",
    "env=text dataset=sums.jsonl": "these prompts have no answers to learn: expected a column text,",
    "env=text dataset=pairs.jsonl tokenizer=no": "tokenizer=no: expected a folder with tokenizer.json",
    "env=text/copy model=model tokenizer=other": "model=model has 321 tokens, its tokenizer has 400",
    "algo=ppo env=CartPole-v1 dataset=a": "dataset=a: ppo does not learn from text",
    "algo=grpo env=text dataset=sums.jsonl": "grpo needs rewards: give it a reward_fn (algo.rewards=",
    "algo=dpo env=text dataset=sums.jsonl": "these prompts have no pairs to learn: expected columns",
    "algo=grpo env=text dataset=sums.jsonl algo.rewards=[wanting:wants]": "asks for colour, and there",
}


@pytest.mark.parametrize("line", REFUSED)
def test_rlox_train_refuses_text_files_models_and_rewards_that_do_not_fit(
    line: str, cli: Cli, files: Path
) -> None:
    (files / "wanting.py").write_text("def wants(completions, prompts, colour): ...\n")
    if "model=bare" in line:
        folder(files / "bare")
        for path in (files / "bare").glob("tokenizer*"):
            path.unlink()
    if "tokenizer=other" in line:
        from helpers.pretrained import tokenizer

        made = tokenizer()
        made.add_tokens([f"<{i}>" for i in range(400 - len(made))])
        made.save_pretrained(files / "other")
    given = () if "ppo" in line else SMALL[1:]
    small = [part for part in given if part.partition("=")[0] not in line]
    ran = cli("train", *([] if "algo=" in line else ["algo=sft"]), *line.split(), *small)
    assert ran.code == 2, ran.out
    assert REFUSED[line] in ran.err


def test_a_relative_path_that_is_not_there_says_where_it_is_looked_for(
    cli: Cli, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("algo=sft", "env=text", "dataset=chat.jsonl", "model=model", *SMALL)
    assert cli("train", *given, "hydra.run.dir=run").code == 0
    (files / "elsewhere").mkdir()
    monkeypatch.chdir(files / "elsewhere")
    where = f"(looked for in {files / 'elsewhere'})"
    for command in (("resume", "../run", "total_steps=24"), ("evaluate", "../run")):
        ran = cli(*command)
        assert ran.code == 2
        assert where in ran.err
        ran = cli(*command, "model=../model", "dataset=no.jsonl")
        assert ran.code == 2
        assert "dataset=no.jsonl: there is no such file" in ran.err and where in ran.err
    ran = cli("train", *given, "tokenizer=tokens", "model=../model", "dataset=../chat.jsonl")
    assert ran.code == 2
    assert (
        f"tokenizer=tokens: expected a folder with tokenizer.json, as save_pretrained writes one {where}"
        in (ran.err)
    )


def test_a_sweep_over_files_takes_a_comma_in_a_name_that_is_in_quotes(cli: Cli, files: Path) -> None:
    (files / "pairs.jsonl").rename(files / "a,b.jsonl")
    (files / "sums.jsonl").unlink()
    lines = "".join(json.dumps(ROWS["pairs"](i)) + "\n" for i in range(40))
    (files / "c.jsonl").write_text(lines)
    given = ("algo=sft", "env=text", *SMALL, "hydra.sweep.dir=sweep")
    ran = cli("sweep", *given, 'dataset="a,b.jsonl",c.jsonl')
    assert ran.code == 0, ran.err
    configs = sorted((files / "sweep").glob("*/config.yaml"))
    named = {line for of in configs for line in of.read_text().splitlines() if "dataset:" in line}
    assert named == {"dataset: a,b.jsonl", "eval_dataset: null", "dataset: c.jsonl"}

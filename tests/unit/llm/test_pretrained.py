"""Tests that models of transformers load unchanged, also from several files, and no code of a folder runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.pretrained import folder, qwen, tokenizer
from safetensors.torch import load_file, save_file

from rlox.algorithms import GRPO, SFT, BestOfN
from rlox.errors import CheckpointError, ConfigError
from rlox.llm import (
    Llama,
    LlamaSize,
    Sampling,
    TextModel,
    generate_completions,
    load_llama,
    save_llama,
)
from rlox.llm.codecs import Tokenizer
from rlox.llm.transformers_files import load_model, max_positions_of

SIZE = LlamaSize(vocab_size=11, hidden_size=16, intermediate_size=24)


def test_a_model_of_transformers_scores_and_generates_as_in_transformers(tmp_path: Path) -> None:
    module = load_model(folder(tmp_path / "m", positions=77))
    assert (type(module).__name__, max_positions_of(module)) == ("Qwen2ForCausalLM", 77)
    model = TextModel(module)
    assert (model.vocabulary, model.has_cache) == (321, True)
    text = [torch.tensor(row) for row in ([5, 6, 7], [8, 9, 10, 11, 12])]
    how = Sampling(max_new_tokens=6, temperature=0.0, pad=0)
    written = generate_completions(model, text, how, None)
    for row, tokens, said in zip(text, written.tokens, written.log_probs, strict=True):
        there = qwen(positions=77).eval().generate(
            row[None], max_new_tokens=6, do_sample=False, pad_token_id=0
        )  # fmt: skip
        assert there[0, len(row) :].tolist() == tokens.tolist()
        whole = model.log_probs(there, len(row))
        assert torch.allclose(whole[0], said, atol=1e-5)


def test_a_llama_loads_as_rloxs_unless_it_scales_its_positions(tmp_path: Path) -> None:
    model = Llama(SIZE)
    for weight in model.parameters():
        weight.data *= 20  # so that positions matter
    save_llama(model.bfloat16(), tmp_path)
    ours = load_model(tmp_path)
    assert isinstance(ours, Llama)
    assert ours.lm_head.weight.dtype == torch.float32
    about = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps(about | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}})
    )
    scaled = load_model(tmp_path)
    assert type(scaled).__name__ == "LlamaForCausalLM"
    ids = torch.arange(1, 9)[None]
    apart = [TextModel(module).log_probs(ids, 1) for module in (ours, scaled)]
    assert not torch.allclose(*apart, atol=1e-4)


def test_a_folder_of_several_files_is_one_model(tmp_path: Path) -> None:
    import transformers

    model = Llama(SIZE)
    save_llama(model, tmp_path / "one")
    there = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "one")
    there.save_pretrained(tmp_path / "many", max_shard_size="4KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 2
    for name, value in load_llama(tmp_path / "many").state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name
    index = tmp_path / "many" / "model.safetensors.index.json"
    told = json.loads(index.read_text())
    for change, said in (
        ({"lm_head.weight": "../secret"}, "names ../secret, which is no file of the folder"),
        ({"lm_head.other": "model-00001-of-00009.safetensors"}, "is no model with config.json"),
    ):
        named = told["weight_map"] | change
        index.write_text(json.dumps({"weight_map": named}))
        with pytest.raises(CheckpointError, match=said):
            load_llama(tmp_path / "many")


def test_only_weights_from_safetensors_are_read_and_no_code_of_a_folder_runs(
    tmp_path: Path,
) -> None:
    made = folder(tmp_path / "m")
    weights = made / "model.safetensors"
    torch.save(qwen().state_dict(), made / "pytorch_model.bin")
    weights.unlink()
    with pytest.raises(CheckpointError, match=r"has no \*.safetensors, and weights are loaded"):
        load_model(made)
    shutil.rmtree(made)
    folder(made)
    about = json.loads((made / "config.json").read_text())
    about |= {"auto_map": {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"}}
    (made / "config.json").write_text(json.dumps(about | {"model_type": "evil"}))
    (made / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nC = M = None\n")
    with pytest.raises(CheckpointError, match="has no causal model that transformers reads"):
        load_model(made)
    assert not (tmp_path / "ran").exists()


def test_the_tokenizer_refuses_a_folder_without_a_valid_tokenizer_json(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a folder with tokenizer.json"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ConfigError, match="tokenizer="):
        Tokenizer(tmp_path)


def test_all_ends_of_a_model_end_a_text(tmp_path: Path) -> None:
    tokenizer().save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 320]}))
    codec = Tokenizer(tmp_path)
    assert (codec.eos_ids, codec.pad) == ((2, 320), 0)
    assert codec.exact_match((), [*codec.encode("blue"), 320], "blue") == 1.0


def test_a_missing_package_is_named_with_what_installs_it(tmp_path: Path) -> None:
    made = folder(tmp_path / "m")
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "from pathlib import Path; from rlox.llm.transformers_files import load_model\n"
        f"load_model(Path({str(made)!r}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtraError: a model of qwen2 needs the package transformers: pip" in ran.stderr


def test_a_folder_without_some_weights_is_refused(tmp_path: Path) -> None:
    made = folder(tmp_path / "m")
    weights = load_file(made / "model.safetensors")
    save_file({n: v for n, v in weights.items() if "layers.1." not in n}, made / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"do not fit its config.json: model.layers.1"):
        load_model(made)


def test_a_sequence_beyond_the_models_positions_is_refused(tmp_path: Path) -> None:
    model = TextModel(load_model(folder(tmp_path / "m", positions=16)))
    ids = torch.ones(1, 12, dtype=torch.long)
    told = "a sequence of 17 tokens, expected at most max_position_embeddings=16 of Qwen2"
    with pytest.raises(ConfigError, match=told):
        generate_completions(model, ids, Sampling(max_new_tokens=8, temperature=0.0), None)
    with pytest.raises(ConfigError, match="a sequence of 20 tokens"):
        model.log_probs(torch.ones(1, 20, dtype=torch.long))


def test_a_model_that_is_not_causal_is_refused(tmp_path: Path) -> None:
    from transformers import BertConfig, BertLMHeadModel

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    torch.manual_seed(0)
    made = BertLMHeadModel(BertConfig(vocab_size=50, num_attention_heads=2, **sizes))
    for weight in made.parameters():
        weight.data *= 5
    made.save_pretrained(tmp_path / "bert")
    with pytest.raises(CheckpointError, match="the logits of BertLMHeadModel depend on later tokens"):
        load_model(tmp_path / "bert")


def test_a_model_folder_without_a_task_learns_from_users_prompts(tmp_path: Path) -> None:
    made = folder(tmp_path / "m")

    def short(completions: list[torch.Tensor], prompts: torch.Tensor) -> list[float]:
        return [-float(len(tokens)) for tokens in completions]

    grpo = GRPO(made, reward_fn=short, max_new_tokens=3)
    prompts = torch.randint(3, 320, (4, 5), generator=torch.Generator().manual_seed(0))
    assert -3.0 <= grpo.train_step(prompts)["mean_reward"] <= -1.0
    (text,) = grpo.generate(["the sky is"])
    (tokens,) = grpo.generate([torch.from_numpy(Tokenizer(made).encode("the sky is"))])
    assert text == Tokenizer(made).decode(tokens.numpy())
    assert BestOfN(made, short, n=2, max_new_tokens=3).generate(prompts).shape[0] == 4


def test_save_pretrained_keeps_the_generation_config_of_the_model(tmp_path: Path) -> None:
    save_llama(Llama(LlamaSize(vocab_size=11, hidden_size=16)), tmp_path / "m")
    told = json.dumps({"temperature": 0.6, "eos_token_id": 1})
    (tmp_path / "m" / "generation_config.json").write_text(told)
    SFT(tmp_path / "m", task="copy").save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "generation_config.json").read_text() == told


def test_a_run_on_users_prompts_resumes_without_the_folder_of_its_llama(tmp_path: Path) -> None:
    save_llama(Llama(LlamaSize(vocab_size=11, hidden_size=16)), tmp_path / "m")

    def none(completions: list[torch.Tensor], prompts: torch.Tensor) -> list[float]:
        return [0.0] * len(completions)

    grpo = GRPO(tmp_path / "m", reward_fn=none, max_new_tokens=2)
    prompts = torch.ones(4, 3, dtype=torch.long)
    grpo.train_step(prompts)
    grpo.save(tmp_path / "saved")
    shutil.rmtree(tmp_path / "m")
    again = GRPO.from_checkpoint(tmp_path / "saved", reward_fn=none)
    assert again.train_step(prompts)["updates"] == 2
    assert again.policy.size == grpo.policy.size


def test_bfloat16_weights_cause_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"weights of model are torch.bfloat16, in which steps"):
        SFT(qwen().bfloat16())

"""Tests models in folders: rlox writes the files of transformers, and reads only models it implements."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from rlox.errors import CheckpointError, ConfigError
from rlox.llm import Llama, LlamaSize
from rlox.llm.llama_files import is_llama, load_llama, read_eos_ids, save_llama

SIZE = LlamaSize(11, 16, 24, 2, 2, 1, 256)
IDS = torch.arange(200).unsqueeze(0) % 11


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_load_llama_restores_the_size_and_logits_that_save_llama_wrote(
    tied: bool, dtype: torch.dtype, tmp_path: Path
) -> None:
    model = Llama(replace(SIZE, tie_word_embeddings=tied, rope_theta=500.0)).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(10)
    save_llama(model, tmp_path / "model")
    again = load_llama(str(tmp_path / "model"))  # type: ignore[arg-type]
    assert again.size == model.size
    assert torch.equal(again(IDS).logits, model(IDS).logits)
    assert len(list(again.parameters())) == len(list(model.parameters()))
    names = safetensors.torch.load_file(tmp_path / "model" / "model.safetensors")
    assert ("lm_head.weight" in names) == (not tied)


def changed(folder: Path, **more: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | more))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, r"expected architectures=\[LlamaForCausalLM\]"),
        ({"hidden_act": "gelu"}, "hidden_act=gelu; such a model needs the package transformers"),
        ({"attention_bias": True}, "attention_bias=True; such a model needs"),
        ({"rope_scaling": {"factor": 2.0}}, "rope_scaling=.*; such a model needs"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "rope_type=llama3; such a model needs"),
        ({"mlp_bias": True}, "mlp_bias=True; such a model needs"),
        ({"attention_dropout": 0.5}, "attention_dropout=0.5; such a model needs"),
        ({"quantization_config": {"bits": 4}}, "quantization_config=.*; such a model needs"),
        ({"rope_theta": None}, "rope_theta=None, expected a number above 0"),
        ({"rope_parameters": [1]}, r"rope_parameters=\[1\], expected an object"),
        ({"vocab_size": "11"}, "vocab_size='11', expected a whole number above 0"),
        ({"num_attention_heads": 0}, "num_attention_heads=0, expected a whole number above 0"),
        ({"head_dim": 4}, "head_dim=4; such a model needs the package transformers"),
        ({"vocab_size": 10**12}, "its weights do not fit its config.json"),
        ({"num_hidden_layers": 3}, "its weights do not fit its config.json"),
    ],
)
def test_models_that_are_another_function_are_refused(
    more: dict[str, Any], told: str, tmp_path: Path
) -> None:
    save_llama(Llama(SIZE), tmp_path)
    changed(tmp_path, **more)
    with pytest.raises(CheckpointError, match=told):
        load_llama(tmp_path)


def test_load_llama_prefers_the_rope_theta_of_newer_files(tmp_path: Path) -> None:
    save_llama(Llama(SIZE), tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    assert about["rope_theta"] == 10_000.0  # the newer entry takes precedence over it
    about["rope_parameters"] = {"rope_type": "default", "rope_theta": 77.0}
    (tmp_path / "config.json").write_text(json.dumps(about))
    assert load_llama(tmp_path).size.rope_theta == 77.0


def test_save_llama_writes_the_end_and_padding_tokens(tmp_path: Path) -> None:
    save_llama(Llama(SIZE), tmp_path, eos=1, pad=0)
    about = json.loads((tmp_path / "config.json").read_text())
    assert (about["eos_token_id"], about["pad_token_id"], about["bos_token_id"]) == (1, 0, None)
    assert about["dtype"] == "float32"
    del about["num_key_value_heads"]
    (tmp_path / "config.json").write_text(json.dumps(about))
    with pytest.raises(CheckpointError, match="its weights do not fit"):
        load_llama(tmp_path)  # without this key: as many as attention heads


def test_load_llama_refuses_a_folder_without_a_valid_model(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is no model with config.json and model.safetensors"):
        load_llama(tmp_path)
    save_llama(Llama(SIZE), tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x80\x04pickle?")
    with pytest.raises(CheckpointError, match=r"is no model with config.json and model.safetensors"):
        load_llama(tmp_path)


def test_json_that_is_nested_too_deeply_is_no_model_and_has_no_ends(tmp_path: Path) -> None:
    save_llama(Llama(SIZE), tmp_path)
    (tmp_path / "config.json").write_text("[" * 100_000)
    for reads in (load_llama, is_llama, read_eos_ids):
        with pytest.raises(CheckpointError, match="config"):
            reads(tmp_path)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"hidden_size": 18},
            r"hidden_size=18 and num_attention_heads=2: expected hidden_size to be",
        ),
        (
            {"num_attention_heads": 3, "hidden_size": 18, "num_key_value_heads": 2},
            "expected a multiple",
        ),
    ],
)
def test_sizes_that_do_not_fit_each_other_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        replace(SIZE, **given)

"""Tests end tokens: the files of the model and of the tokenizer set them together, as in transformers."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.pretrained import folder, tokenizer
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from rlox.algorithms import GRPO, SFT, BestOfN
from rlox.errors import CheckpointError, ConfigError
from rlox.llm import Llama, load_llama
from rlox.llm.codecs import Tokenizer
from rlox.llm.transformers_files import eos_ids_of, load_model

PROMPT = torch.tensor([[5, 6, 7]])
LONG = 12


def llama() -> LlamaForCausalLM:
    """Makes a Llama that generates many different tokens in a row."""
    torch.manual_seed(3)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    made = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=321,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
            **sizes,
        )
    )
    for weight in made.parameters():
        if weight.dim() > 1:
            weight.data *= 20
    return made.eval()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llama")
    llama().save_pretrained(path)
    (path / "generation_config.json").unlink(missing_ok=True)
    return path


@pytest.fixture(scope="module")
def said(model: Path) -> list[int]:
    """Returns the distinct tokens that the model generates, in order, without the first one."""
    whole = llama().generate(PROMPT, max_new_tokens=LONG, do_sample=False, pad_token_id=0)
    found = list(dict.fromkeys(whole[0, 3:].tolist()))[1:]
    assert len(found) >= 4
    return found


def with_ends(model: Path, path: Path, generation: Any, config: Any, beside: int | None, ours: bool) -> Path:
    """Copies the model with this `eos_token_id` in each file; None: no id, "absent": no such file."""
    shutil.copytree(model, path)
    about = json.loads((path / "config.json").read_text())
    about["eos_token_id"] = config
    if not ours:  # a model that only transformers implements
        about["rope_scaling"] = {"rope_type": "linear", "factor": 1.0}
    (path / "config.json").write_text(json.dumps(about))
    if generation != "absent":
        (path / "generation_config.json").write_text(json.dumps({"eos_token_id": generation}))
    if beside is not None:
        made = tokenizer()
        made.eos_token = made.convert_ids_to_tokens(beside)
        made.save_pretrained(path)
    return path


def several(value: Any) -> list[int]:
    return value if isinstance(value, list) else [] if value in (None, "absent") else [value]


# Indices of end tokens in `said`: of generation_config.json, of config.json, of the tokenizer.
CASES = [
    *itertools.product(("absent", 1, [2], [3, 1], [2, 3]), (None, 2, [3, 2]), (None, 0), (True,)),
    ([1, 3], 2, 0, False),
    ("absent", [2, 1], None, False),
]


@pytest.mark.parametrize(("generation", "config", "beside", "ours"), CASES)
def test_completions_end_where_those_of_transformers_do(
    generation: Any, config: Any, beside: int | None, ours: bool, model: Path, said: list[int],
    tmp_path: Path,
) -> None:  # fmt: skip
    def ids(value: Any) -> Any:
        if isinstance(value, list):
            return [said[i] for i in value]
        return said[value] if isinstance(value, int) else value

    generation, config, beside = ids(generation), ids(config), ids(beside)
    made = with_ends(model, tmp_path / "m", generation, config, beside, ours)
    expected = {*several(generation), *several(config), *several(beside)}
    grpo = GRPO(made, reward_fn=none, max_new_tokens=LONG)
    assert set(grpo._text.sampling.eos) == expected
    there = AutoModelForCausalLM.from_pretrained(made, dtype=torch.float32).eval()
    how: dict[str, Any] = {"max_new_tokens": LONG, "do_sample": False, "pad_token_id": 0}
    whole = there.generate(PROMPT, **how, eos_token_id=sorted(expected) or None)
    (found,) = grpo.generate(PROMPT)
    assert found.tolist() == whole[0, 3:].tolist()
    assert not expected or found[-1].item() in expected
    own = several(there.generation_config.eos_token_id)
    if set(own) == expected:  # what `generate` does by default
        assert there.generate(PROMPT, **how)[0, 3:].tolist() == found.tolist()


def none(completions: list[torch.Tensor], prompts: Any) -> list[float]:
    return [0.0] * len(completions)


def test_a_separate_tokenizer_keeps_the_models_ends(model: Path, said: list[int], tmp_path: Path) -> None:
    made = with_ends(model, tmp_path / "m", "absent", [said[2], said[3]], None, True)
    apart = with_ends(model, tmp_path / "t", "absent", None, said[1], True)
    (apart / "config.json").unlink()
    grpo = GRPO(made, reward_fn=none, tokenizer=apart, max_new_tokens=LONG)
    assert grpo._text.sampling.eos == (said[1], said[2], said[3])
    codec: Any = grpo._text.codec
    assert codec.exact_match((), [*codec.encode("blue"), said[3]], "blue") == 1.0


def test_a_users_module_ends_texts_by_its_generation_config(said: list[int]) -> None:
    module = llama()
    module.generation_config.eos_token_id = [said[2], said[0]]
    module.config.eos_token_id = said[1]
    assert eos_ids_of(module) == (said[2], said[0], said[1])
    found = GRPO(module, reward_fn=none, max_new_tokens=LONG).generate(PROMPT)[0]
    assert found[-1].item() == said[0]
    chosen = GRPO(module, reward_fn=none, max_new_tokens=LONG, eos_token_id=(said[3],))
    assert chosen._text.sampling.eos == (said[3],)
    module.config.eos_token_id = 50_256  # the default for a larger vocabulary
    assert eos_ids_of(module) == (said[2], said[0])


def test_best_of_n_ends_completions_by_the_files_of_its_model(
    model: Path, said: list[int], tmp_path: Path
) -> None:
    made = with_ends(model, tmp_path / "m", "absent", [said[2], said[3]], said[1], True)
    texts: list[str] = []

    def of_texts(texts: list[str], completions: list[torch.Tensor]) -> list[float]:
        seen.extend(texts)
        return [-float(len(tokens)) for tokens in completions]

    seen: list[str] = texts
    best = BestOfN(made, of_texts, n=2, max_new_tokens=LONG)
    assert best._sampling.eos == (said[1], said[2], said[3])
    assert best.generate(PROMPT).shape[0] == 1
    assert len(texts) == 2
    assert BestOfN(made, none, eos_token_id=said[0])._sampling.eos == (said[0],)


def test_a_llama_that_is_saved_keeps_its_ends(model: Path, said: list[int], tmp_path: Path) -> None:
    listed = [said[1], said[0]]
    made = with_ends(model, tmp_path / "m", "absent", listed, said[0], True)
    sft = SFT(made, task="copy")
    sft.save_pretrained(tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["eos_token_id"] == listed
    assert load_llama(tmp_path / "saved").eos_ids == tuple(listed)


def test_a_run_keeps_the_ends_of_its_llama_when_the_folder_is_gone(
    model: Path, said: list[int], tmp_path: Path
) -> None:
    made = with_ends(model, tmp_path / "m", [said[1]], said[2], None, True)
    grpo = GRPO(made, reward_fn=none, max_new_tokens=LONG)
    grpo.train_step(PROMPT)
    grpo.save(tmp_path / "run")
    shutil.rmtree(made)
    again = GRPO.from_checkpoint(tmp_path / "run", reward_fn=none)
    assert again._text.sampling.eos == (said[1], said[2])


@pytest.mark.parametrize("value", ["</s>", [1, "a"], True, 1.5])
def test_an_end_that_is_no_token_is_refused_by_name(value: Any, model: Path, tmp_path: Path) -> None:
    made = with_ends(model, tmp_path / "m", "absent", value, None, True)
    with pytest.raises((CheckpointError, ConfigError), match=r"config.json: eos_token_id=.*expected a"):
        load_model(made)


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Makes a tokenizer whose turns and texts have different end tokens."""
    path = tmp_path_factory.mktemp("gemma")
    folder(path)
    made = tokenizer()
    made.eos_token = "<|pad|>"
    made.save_pretrained(path)
    about = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(about | {"eos_token_id": [0, 2]}))
    return Tokenizer(path)


@pytest.mark.parametrize(
    ("answer", "said", "right"),
    [
        ("blue", "blue", 1.0),
        ("blue<|im_end|>", "blue", 1.0),
        ("blue<|im_end|>\n", "blue", 1.0),
        ("blue<|pad|>", "blue", 1.0),
        ("blue<|im_end|>\n<|pad|>", "blue", 1.0),
        ("blue<|im_start|>", "blue", 0.0),
        ("blue \n", "blue", 0.0),
        ("<|im_end|>blue", "blue", 0.0),
        ("blue<|im_end|>", "green", 0.0),
    ],
)
def test_an_answer_is_judged_without_the_ends_that_its_text_has(
    answer: str, said: str, right: float, gemma: Tokenizer
) -> None:
    assert gemma.eos_ids == (0, 2)
    for end in gemma.eos_ids:
        tokens = [*gemma.encode(said), end]
        assert gemma.exact_match((), tokens, answer) == right
        assert (gemma.partial_match((), tokens, answer) == 1.0) == bool(right)


@pytest.mark.parametrize("kept", ["model.embed_tokens.weight", "lm_head.weight"])
def test_a_tied_llama_has_its_weights_under_either_name(kept: str, tmp_path: Path) -> None:
    made = llama()
    made.save_pretrained(tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(about | {"tie_word_embeddings": True}))
    path = tmp_path / "model.safetensors"
    both = {"model.embed_tokens.weight", "lm_head.weight"} - {kept}
    save_file({n: v for n, v in load_file(path).items() if n not in both}, path, {"format": "pt"})
    there = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    ours, ids = load_llama(tmp_path), torch.arange(1, 12)[None]
    assert ours.size.tie_word_embeddings
    assert ours.lm_head.weight is ours.model.embed_tokens.weight
    with torch.no_grad():
        assert torch.equal(ours(ids).logits, there(ids).logits)


def test_a_tied_llama_with_its_own_head_in_the_file_loads_as_in_transformers(
    tmp_path: Path,
) -> None:
    made = llama()
    made.save_pretrained(tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(about | {"tie_word_embeddings": True}))
    there = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    ours = load_model(tmp_path)
    assert isinstance(ours, Llama)
    ids = torch.arange(1, 12)[None]
    with torch.no_grad():
        assert torch.equal(ours(ids).logits, there(ids).logits)
        assert torch.allclose(ours(ids).logits, made(ids).logits, atol=1e-4)
    assert not ours.size.tie_word_embeddings

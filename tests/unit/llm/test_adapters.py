"""Tests low-rank adapters: which weights learn, what is saved, and which models have them."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.fake_generation import fake_generation
from helpers.pretrained import folder, qwen
from safetensors.torch import load_file

from rlox.algorithms import DPO, GRPO, SFT
from rlox.errors import CheckpointError, ConfigError
from rlox.llm import Llama, LlamaSize, TextModel, save_llama
from rlox.llm.adapters import add_adapters
from rlox.llm.serving import GenerationServer
from rlox.llm.transformers_files import load_model

SIZE = LlamaSize(vocab_size=11, hidden_size=16, intermediate_size=24)
PROMPTS = torch.randint(2, 11, (4, 5), generator=torch.Generator().manual_seed(0))
ANSWERS = torch.randint(2, 11, (4, 3), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    torch.manual_seed(3)
    model = Llama(SIZE)
    for weight in model.parameters():
        weight.data *= 5
    save_llama(model, tmp_path / "base")
    return tmp_path / "base"


def logits(module: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return TextModel(module).all_logits(PROMPTS)


def test_new_adapters_change_no_logits_and_only_they_learn(base: Path) -> None:
    before = load_model(base)
    sft = SFT(str(base), 0.05, task="copy", lora_r=2)
    assert torch.equal(logits(sft.policy), logits(before))
    kept = {name: value.clone() for name, value in before.state_dict().items()}
    losses = [sft.train_step(PROMPTS, ANSWERS)["loss"] for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    names = {name.replace(".base_layer", ""): v for name, v in sft.policy.state_dict().items()}
    assert all(torch.equal(names[name], value) for name, value in kept.items())
    learned = [name for name, value in sft.policy.named_parameters() if value.requires_grad]
    assert len(learned) == 2 * 7 * 2  # A and B of seven layers in each of two blocks
    assert "lm_head" not in "".join(learned)


def test_adapter_gradients_equal_those_of_the_product_of_a_and_b(base: Path) -> None:
    """The expected weights are W + alpha / r * B A, computed by hand."""
    module = load_model(base)
    add_adapters(module, 2, 6.0, ["q_proj"])
    layer = module.model.layers[0].self_attn.q_proj  # type: ignore[union-attr,operator]
    a, b = layer.lora_A.default.weight, layer.lora_B.default.weight  # type: ignore[union-attr]
    with torch.no_grad():
        b.normal_(generator=torch.Generator().manual_seed(0))
    whole = load_model(base)
    weight = whole.model.layers[0].self_attn.q_proj.weight  # type: ignore[union-attr,operator]
    with torch.no_grad():
        weight += 6.0 / 2 * b @ a
    assert torch.allclose(logits(module), logits(whole), atol=1e-5)
    for of in (module, whole):
        TextModel(of).log_probs(PROMPTS, 1).sum().backward()
    assert torch.allclose(b.grad, 3.0 * weight.grad @ a.T, atol=1e-4)
    assert torch.allclose(a.grad, 3.0 * b.T @ weight.grad, atol=1e-4)


def test_a_checkpoint_has_the_adapters_only_and_goes_on_exactly(base: Path, tmp_path: Path) -> None:
    def made() -> DPO:
        return DPO(str(base), task="copy", lora_r=2, learning_rate=0.01)

    chosen, rejected = ANSWERS, ANSWERS.flip(1)
    whole, half = made(), made()
    told = [whole.train_step(PROMPTS, chosen, rejected)["loss"] for _ in range(6)]
    for _ in range(3):
        half.train_step(PROMPTS, chosen, rejected)
    half.save(tmp_path / "saved")
    weights = load_file(tmp_path / "saved" / "weights.safetensors")
    assert {n.rpartition(".lora_")[2][0] for n in weights if "lora" in n} == {"A", "B"}
    assert [n for n in weights if "lora" not in n] == ["base_model.sha256"]
    again = DPO.from_checkpoint(tmp_path / "saved")
    reference = again.learner.reference.module
    assert torch.equal(logits(reference), logits(load_model(base)))
    shared = reference.model.embed_tokens.weight
    assert shared.data_ptr() == again.policy.model.embed_tokens.weight.data_ptr()
    assert [again.train_step(PROMPTS, chosen, rejected)["loss"] for _ in range(3)] == told[3:]
    for name, value in whole.policy.state_dict().items():
        assert torch.equal(value, again.policy.state_dict()[name]), name


def test_adapters_of_another_model_or_rank_are_refused(base: Path, tmp_path: Path) -> None:
    SFT(str(base), task="copy", lora_r=2).save(tmp_path / "saved")
    torch.manual_seed(4)
    save_llama(Llama(SIZE), base)
    with pytest.raises(CheckpointError, match=r"its adapters are of another model than this one"):
        SFT.from_checkpoint(tmp_path / "saved")
    with pytest.raises(ConfigError, match=r"lora_A.default.weight is \[2, 16\] there and \[3, 16\]"):
        SFT(str(base), task="copy", lora_r=3).load_initial_weights(str(tmp_path / "saved"))
    with pytest.raises(ConfigError, match=r"init_from=.*: its adapters are of another model"):
        SFT(str(base), task="copy", lora_r=2).load_initial_weights(str(tmp_path / "saved"))


def test_adapters_of_another_scaling_or_on_an_adapted_model_are_refused(base: Path, tmp_path: Path) -> None:
    sft = SFT(str(base), task="copy", lora_r=2)
    sft.save(tmp_path / "saved")
    other = SFT(str(base), task="copy", lora_r=2, lora_alpha=4.0)
    with pytest.raises(ConfigError, match=r"or algo.lora_alpha differs \(the SHA-256 covers both\)"):
        other.load_initial_weights(str(tmp_path / "saved"))
    with pytest.raises(ConfigError, match="Llama has adapters already, which are trained; leave"):
        SFT(sft.policy, lora_r=2)


def test_a_run_takes_initial_adapters_as_its_kl_reference(base: Path, tmp_path: Path) -> None:
    sft = SFT(str(base), 0.05, task="copy", lora_r=2)
    sft.train_step(PROMPTS, ANSWERS)
    sft.save(tmp_path / "sft")
    grpo = GRPO(str(base), task="copy", lora_r=2, kl_coef=0.1)
    grpo.load_initial_weights(str(tmp_path / "sft"))
    held = logits(grpo.learner.reference.module)
    assert torch.equal(held, logits(sft.policy))
    grpo.train(8)
    assert torch.equal(logits(grpo.learner.reference.module), held)


def test_peft_loads_saved_lora_adapters_with_equal_logits(tmp_path: Path) -> None:
    import peft

    made = folder(tmp_path / "model")
    sft = SFT(
        str(made),
        0.05,
        task="copy",
        lora_r=4,
        lora_alpha=8.0,
        lora_target_modules=("q_proj", "o_proj"),
    )
    sft.train_step(PROMPTS, ANSWERS)
    sft.save_pretrained(tmp_path / "adapters")
    names = {path.name for path in (tmp_path / "adapters").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"} <= names
    there = peft.PeftModel.from_pretrained(qwen(), tmp_path / "adapters").eval()
    assert torch.allclose(logits(there), logits(sft.policy), atol=1e-6)
    assert not torch.allclose(logits(there), logits(qwen().eval()), atol=1e-3)


def test_a_users_peft_model_learns_only_its_adapters(tmp_path: Path) -> None:
    import peft

    config = peft.LoraConfig(r=2, task_type="CAUSAL_LM", target_modules=["q_proj"])
    given = peft.get_peft_model(qwen(), config)
    before = copy.deepcopy(given.state_dict())
    sft = SFT(given, 0.05)
    sft.train_step(PROMPTS, ANSWERS)
    changed = {n for n, value in given.state_dict().items() if not torch.equal(value, before[n])}
    assert changed
    assert all("lora_B" in name or "lora_A" in name for name in changed)
    sft.save_pretrained(tmp_path / "adapters")
    there = peft.PeftModel.from_pretrained(qwen(), tmp_path / "adapters").eval()
    assert torch.equal(logits(there), logits(given))


def test_a_run_with_adapters_sends_only_adapters_to_its_server(base: Path) -> None:
    with fake_generation("vllm", load_model(base)) as fake:
        server = GenerationServer("vllm", fake.url, "tiny")
        grpo = GRPO(
            str(base),
            task="copy",
            lora_r=2,
            server=server,
            batch_size=2,
            learning_rate=0.05,
            rewards=("close",),
        )
        grpo.train(8)
    paths = [path for path, _ in fake.requests]
    assert (paths.count("/v1/load_lora_adapter"), paths.count("/collective_rpc")) == (4, 0)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"lora_r": 0}, r"lora_r=0: expected a value in \[1, inf\)"),
        ({"lora_alpha": 4.0}, r"algo.lora_alpha=4.0 applies to adapters only: set algo.lora_r"),
        (
            {"lora_r": 2, "lora_target_modules": ("query",)},
            r"Llama has no linear layer query, expected some of down_proj, gate_proj, k_proj, lm_head",
        ),
    ],
)
def test_sft_refuses_invalid_lora_settings_by_name(given: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        SFT("tiny", task="copy", **given)  # type: ignore[arg-type]


def test_adapters_in_a_tied_head_are_warned_of(tmp_path: Path) -> None:
    tied = Llama(replace(SIZE, tie_word_embeddings=True))
    with pytest.warns(UserWarning, match="lora_target_modules has lm_head, whose weights are the em"):
        add_adapters(tied, 2, 4.0, ["q_proj", "lm_head"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add_adapters(Llama(SIZE), 2, 4.0, ["q_proj", "lm_head"])
        add_adapters(Llama(replace(SIZE, tie_word_embeddings=True)), 2, 4.0)


def test_a_folder_of_adapters_is_no_model_and_says_how_it_becomes_one(base: Path, tmp_path: Path) -> None:
    SFT(str(base), task="copy", lora_r=2).save_pretrained(tmp_path / "adapters")
    told = r"it has adapters \(adapter_config.json\), not a model: merge them into their"
    with pytest.raises(ConfigError, match=f"model=.*adapters: expected tiny, or a folder .*{told}"):
        SFT(tmp_path / "adapters", task="copy")
    with pytest.raises(CheckpointError, match=told):
        load_model(tmp_path / "adapters")

"""Tests that packing, gradient checkpointing and products in bfloat16 give the same numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.pretrained import qwen
from torch import Tensor, nn
from transformers import MistralConfig, MistralForCausalLM

from rlox.algorithms import GRPO, SFT
from rlox.errors import ConfigError
from rlox.llm import Llama, LlamaSize, Sampling, TextModel, generate_completions
from rlox.llm.packing import pack_sequences

LENGTHS = ((3, 2), (9, 6), (1, 1), (4, 1), (2, 5), (7, 3), (1, 4))  # of prompts and completions


def llama() -> Llama:
    torch.manual_seed(0)
    model = Llama(LlamaSize(vocab_size=13, hidden_size=16, intermediate_size=24))
    for weight in model.parameters():
        weight.data *= 5
    return model


def conversations() -> tuple[list[Tensor], Tensor, Tensor]:
    torch.manual_seed(1)
    prompts = [torch.randint(0, 13, (p,)) for p, _ in LENGTHS]
    counts = torch.tensor([n for _, n in LENGTHS])
    mask = torch.arange(6) < counts.unsqueeze(1)
    return prompts, torch.randint(0, 13, (len(LENGTHS), 6)), mask


def scored(model: TextModel, temperature: float = 1.0) -> tuple[Tensor, list[Tensor]]:
    """Returns log-probabilities, and the gradient of their weighted sum."""
    prompts, tokens, mask = conversations()
    found = model.completion_log_probs(prompts, tokens, mask, temperature, overwrite=True)
    weights = torch.linspace(-1, 1, found.numel()).reshape(found.shape)
    (found * weights).sum().backward()
    slopes = [p.grad.clone() for p in model.module.parameters() if p.grad is not None]
    model.module.zero_grad()
    return found.detach(), slopes


def apart(one: list[Tensor], other: list[Tensor]) -> float:
    """Returns the norm of the difference, relative to the norm."""
    a, b = (torch.cat([of.flatten() for of in many]) for many in (one, other))
    return float((a - b).norm() / b.norm())


MODELS = {"llama": llama, "qwen": lambda: qwen(13).eval()}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("way", ["packing", "twice", "both"])
def test_packing_and_recomputation_give_equal_log_probs_and_gradients(name: str, way: str) -> None:
    module = MODELS[name]()
    asked = {"packing": way != "twice", "gradient_checkpointing": way != "packing"}
    plain, other = TextModel(module), TextModel(module, **asked)
    for temperature in (1.0, 0.7):
        expected, slopes = scored(plain, temperature)
        found, others = scored(other, temperature)
        assert float((found - expected).abs().max()) < 1e-5
        assert apart(others, slopes) < 1e-5
        assert (found == 0).equal(~conversations()[2])


def test_packed_tokens_see_only_their_own_sequence_up_to_themselves() -> None:
    rows = [torch.arange(10 * i, 10 * i + n) for i, n in enumerate((2, 5, 3, 4))]
    laid = pack_sequences(rows)
    assert laid.ids.shape == (3, 5)  # 14 tokens; padded they take 4 x 5
    for i, row in enumerate(rows):
        at, begin = int(laid.rows[i]), int(laid.starts[i])
        there = slice(begin, begin + len(row))
        assert laid.ids[at, there].equal(row)
        assert laid.positions[at, there].equal(torch.arange(len(row)))
        seen = laid.attention_mask[at, there]
        assert seen[:, there].equal(torch.ones(len(row), len(row)).bool().tril())
        assert int(seen.sum()) == len(row) * (len(row) + 1) // 2
    assert sorted(laid.sequences_sharing_a_row()) == [0, 2]
    assert pack_sequences(rows[:1]).sequences_sharing_a_row() == []


def test_packing_computes_fewer_tokens_for_sequences_of_different_lengths() -> None:
    module, tokens = llama(), []
    module.model.embed_tokens.register_forward_hook(lambda _, given, __: tokens.append(given[0].numel()))
    prompts, ids, mask = conversations()
    for packing in (False, True):
        model = TextModel(module, packing=packing)
        model.completion_log_probs(prompts, ids, mask)
    assert tokens[0] == 7 * 15
    assert tokens[1] == 4 * 15  # 49 tokens; then, once, those of a single row


def windowed() -> nn.Module:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    return MistralForCausalLM(MistralConfig(vocab_size=13, sliding_window=8, **sizes, **heads)).eval()


def test_a_model_that_sees_a_window_packs_what_is_within_it_and_nothing_longer() -> None:
    prompts, tokens, mask = conversations()
    short = [prompt[:2] for prompt in prompts]
    model, plain = TextModel(windowed(), packing=True), TextModel(windowed())
    given = (short, tokens, mask)
    assert torch.allclose(model.completion_log_probs(*given), plain.completion_log_probs(*given), atol=1e-5)
    with pytest.raises(ConfigError, match="has a window of 8 tokens, and a sequence has 15; leave it out"):
        scored(model)


def test_gradient_checkpointing_keeps_a_users_forward() -> None:
    module = llama()
    layer: Any = module.model.layers[0]
    once = layer.forward
    layer.forward = lambda *given: 2.0 * once(*given)
    expected, _ = scored(TextModel(module))
    for _ in range(2):
        found, _ = scored(TextModel(module, gradient_checkpointing=True))
        assert torch.allclose(found, expected, atol=1e-5)


class Blind(Llama):
    """A Llama that ignores its attention mask."""

    def forward(
        self, input_ids: Tensor, attention_mask: Any = None, position_ids: Any = None, **given: Any
    ) -> Any:
        return super().forward(input_ids, None, position_ids, **given)


class Leaking(Llama):
    """A Llama whose tokens depend a little on the other sequences of their row."""

    def forward(
        self, input_ids: Tensor, attention_mask: Any = None, position_ids: Any = None, **given: Any
    ) -> Any:
        apart = super().forward(input_ids, attention_mask, position_ids, **given)
        if attention_mask is None or attention_mask.dim() < 3:
            return apart
        blind = super().forward(input_ids, None, position_ids, **given)
        return apart._replace(logits=apart.logits + 3e-4 * (blind.logits - apart.logits))


@pytest.mark.parametrize("bf16", [False, True])
def test_a_model_that_lets_sequences_see_a_little_of_each_other_is_refused(bf16: bool) -> None:
    leaking = Leaking(llama().size)
    leaking.load_state_dict(llama().state_dict())
    with pytest.raises(ConfigError, match=r"Leaking does not keep sequences apart \(log-pro.* by 0.00"):
        scored(TextModel(leaking, packing=True, bf16=bf16))
    found, _ = scored(TextModel(llama(), packing=True, bf16=bf16))
    assert torch.isfinite(found).all()


SMALL = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
MIXED: dict[str, tuple[dict[str, Any], str]] = {
    "lfm2": ({"layer_types": ["conv", "full_attention"]}, "Lfm2ShortConv"),
    "jamba": ({"num_experts": 2}, "JambaMamba"),
    "minimax": ({"head_dim": 8, "num_local_experts": 2}, "MiniMaxLightningAttention"),
    "qwen3_next": ({"head_dim": 8, "num_experts": 2}, "Qwen3NextGatedDeltaNet"),
    "recurrent_gemma": ({"lru_width": 32}, "RecurrentGemma"),
    "bamba": ({"mamba_n_heads": 4, "mamba_d_head": 16}, "Bamba"),
}


@pytest.mark.parametrize("kind", MIXED)
def test_kinds_with_convolutions_or_states_are_refused_before_anything_is_packed(kind: str) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    more, layer = MIXED[kind]
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SMALL, **HEADS, **more))
    told = rf"packing=true: \w+ has layers \({layer}\w*\) that run on from one sequence into the next"
    with pytest.raises(ConfigError, match=told):
        TextModel(made, packing=True)


def test_a_model_that_lets_sequences_see_each_other_is_refused() -> None:
    blind = Blind(llama().size)
    blind.load_state_dict(llama().state_dict())
    with pytest.raises(ConfigError, match=r"packing=true: Blind does not keep sequences apart \(log"):
        scored(TextModel(blind, packing=True))
    words = nn.Sequential(nn.Embedding(13, 8), nn.Linear(8, 13))
    with pytest.raises(ConfigError, match=r"packing=true: Sequential may not keep sequences apart"):
        TextModel(words, packing=True)
    with pytest.raises(ConfigError, match=r"gradient_checkpointing=true: Sequential has no layers"):
        TextModel(words, gradient_checkpointing=True)


@pytest.mark.parametrize("name", MODELS)
def test_gradient_checkpointing_keeps_less_memory(name: str) -> None:
    module = MODELS[name]()
    held = []
    for twice in (False, True):
        kept = 0

        def keep(value: Tensor) -> Tensor:
            nonlocal kept
            kept += value.numel()
            return value

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
            TextModel(module, gradient_checkpointing=twice).log_probs(torch.zeros(4, 12, dtype=torch.long), 1)
        held.append(kept)
    assert held[1] < 0.5 * held[0]
    assert all("forward" not in vars(part) for part in module.modules())


@pytest.mark.parametrize("name", MODELS)
def test_bf16_products_are_close_and_gradients_stay_float32(name: str) -> None:
    module = MODELS[name]()
    expected, slopes = scored(TextModel(module))
    found, others = scored(TextModel(module, bf16=True))
    assert found.dtype == torch.float32
    assert 0 < float((found - expected).abs().max()) < 0.3
    assert 1e-4 < apart(others, slopes) < 0.1
    assert {of.dtype for of in others} == {torch.float32}
    prompts = conversations()[0]
    how = Sampling(max_new_tokens=5, temperature=0.0)
    wrote = generate_completions(TextModel(module, bf16=True), prompts, how, None)
    said = TextModel(module, bf16=True).completion_log_probs(prompts, wrote.tokens, wrote.mask)
    assert torch.allclose(said, wrote.log_probs, atol=0.1)


def test_settings_change_what_a_run_costs_and_not_what_it_learns() -> None:
    metrics = []
    for given in ({}, {"gradient_checkpointing": True, "packing": True}):
        grpo = GRPO(
            "tiny",
            task="copy",
            kl_coef=0.1,
            rewards=("close",),
            batch_size=4,
            learning_rate=1e-3,
            **given,
        )
        assert grpo.learner.reference is not None
        told = grpo.train(24)
        metrics.append([told[name] for name in ("loss", "kl", "train/grad_norm", "mean_reward")])
    assert metrics[0] == pytest.approx(metrics[1], rel=1e-3)
    assert metrics[0][1] > 1e-6
    wide = GRPO("tiny", task="copy", kl_coef=0.1, rewards=("close",), batch_size=4, bf16=True)
    assert wide.learner.text.model.bf16 and wide.learner.reference.bf16
    assert wide.train(8)["train/grad_norm"] > 0.0


def test_a_run_learns_the_same_with_packing_as_with_padding() -> None:
    prompts, tokens, mask = conversations()
    answers = [row[there] for row, there in zip(tokens, mask, strict=True)]
    weights = []
    for packing in (False, True):
        sft = SFT(llama(), 0.001, packing=packing)
        for _ in range(20):
            sft.train_step(prompts, answers)
        weights.append([value.detach() for value in sft.policy.parameters()])
    assert apart(*weights) < 1e-4
    assert apart(weights[0], [value.detach() for value in llama().parameters()]) > 1e-3

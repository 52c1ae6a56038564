"""Tests generation by a model in this process: its distribution, and its independence of batch and calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.llm import Llama, LlamaSize, Sampling, TextModel, generate_completions
from rlox.llm.decoding import _filter_tokens, _inverse_cdf
from rlox.losses import rloo_loss

SIZE = LlamaSize(13, 16, 24, 2, 2, 1, 64)
PROMPTS = [torch.tensor(row) for row in ([3, 1, 4], [2], [7, 5, 6, 8, 2], [1, 1])]


class Plain(nn.Module):
    """A model that takes token ids only."""

    def __init__(self, of: Llama) -> None:
        super().__init__()
        self.of = of

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.of(ids).logits
        return logits


class Fixed(nn.Module):
    """Gives the same logits after any tokens."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, ids: Tensor) -> Tensor:
        return self.logits.expand(*ids.shape, -1)


def llama(seed: int = 0) -> Llama:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Llama(SIZE)
        for parameter in model.parameters():
            parameter.data += 0.4 * torch.randn_like(parameter)
        return model


def numbers(count: int, length: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((count, length)))


HOW = Sampling(max_new_tokens=9, temperature=0.8, eos=(4, 12), pad=11)


def test_a_cache_does_not_change_completions() -> None:
    model, drawn = llama(), numbers(4, 9)
    kept = generate_completions(TextModel(model), PROMPTS, HOW, drawn)
    again = generate_completions(TextModel(Plain(model)), PROMPTS, HOW, drawn)
    assert kept.tokens.tolist() == again.tokens.tolist()
    assert kept.mask.tolist() == again.mask.tolist()
    torch.testing.assert_close(kept.log_probs, again.log_probs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_prompts_can_be_padded_as_tokenizers_do(side: str) -> None:
    model, drawn = TextModel(llama()), numbers(4, 9)
    padded = pad_sequence(PROMPTS, batch_first=True, padding_value=9, padding_side=side)
    mask = pad_sequence([torch.ones_like(p) for p in PROMPTS], batch_first=True, padding_side=side)
    found = generate_completions(model, padded, HOW, drawn, mask)
    assert found.tokens.tolist() == generate_completions(model, PROMPTS, HOW, drawn).tokens.tolist()
    for wrong in (mask[:, :3], torch.tensor([[0, 1, 1, 1, 0]]).expand(4, 5), mask[0]):
        with pytest.raises(ShapeError, match=r"attention_mask .* of prompts \[4, 5\]: expected \[B, P\]"):
            generate_completions(model, padded, HOW, drawn, wrong)


@pytest.mark.parametrize("made", [lambda model: model, Plain], ids=["cached", "asked again"])
def test_a_completion_depends_on_its_row_alone(made: Callable[[Llama], nn.Module]) -> None:
    model, drawn = TextModel(made(llama())), numbers(4, 9)
    together = generate_completions(model, PROMPTS, HOW, drawn)
    for row, prompt in enumerate(PROMPTS):
        alone = generate_completions(model, [prompt], HOW, drawn[row : row + 1])
        length = int(alone.lengths[0])
        assert together.tokens[row, :length].tolist() == alone.tokens[0].tolist()
        assert int(together.lengths[row]) == length


def test_log_probabilities_are_those_that_learning_computes() -> None:
    model = TextModel(llama())
    found = generate_completions(model, PROMPTS, HOW, numbers(4, 9))
    for row, prompt in enumerate(PROMPTS):
        length = int(found.lengths[row])
        ids = torch.cat([prompt, found.tokens[row, :length]]).unsqueeze(0)
        expected = model.log_probs(ids, len(prompt), temperature=0.8)
        torch.testing.assert_close(found.log_probs[row, :length], expected[0], rtol=1e-4, atol=1e-5)


def test_generated_completions_can_be_backpropagated_through() -> None:
    """Its tensors, and those that a module keeps during generation, are ordinary tensors."""
    model = TextModel(llama())
    found = generate_completions(model, PROMPTS, HOW, numbers(4, 9))
    log_probs = model.completion_log_probs(PROMPTS, found.tokens, found.mask, 0.8)
    torch.testing.assert_close(log_probs, found.log_probs, rtol=1e-4, atol=1e-5)
    rloo_loss(log_probs, found.log_probs, torch.ones(4), found.mask, 0.2).backward()
    assert all(parameter.grad is not None for parameter in model.module.parameters())


class Placed(nn.Module):
    """Has learned positions, as GPT-2, and the interface of transformers. Its cache holds the whole input."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(13, 8), nn.Embedding(32, 8)
        self.head = nn.Linear(8, 13)
        self.calls: list[dict[str, Any]] = []

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: list[Tensor] | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
    ) -> Any:
        self.calls.append({"cache": use_cache, "keep": logits_to_keep, "mask": attention_mask})
        past = past_key_values or []
        begin = sum(part.shape[1] for part in past)
        if position_ids is None:
            position_ids = torch.arange(begin, begin + input_ids.shape[1])
        x = self.embed(input_ids) + self.place(position_ids)
        if use_cache:
            past = [*past, x]
            x = torch.cat(past, 1)
        seen = torch.ones(x.shape[:2]) if attention_mask is None else attention_mask.float()
        total = (x.tanh() * seen.unsqueeze(-1)).cumsum(1)[:, -input_ids.shape[1] :]
        logits = self.head(total)[:, -logits_to_keep:]
        return SimpleNamespace(logits=logits, past_key_values=past if use_cache else None)


def placed() -> Placed:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return Placed()


def test_positions_count_from_the_beginning_of_each_prompt() -> None:
    module, drawn = placed(), numbers(4, 9)
    together = generate_completions(TextModel(module), PROMPTS, HOW, drawn)
    assert all(call["cache"] and call["keep"] == 1 for call in module.calls)
    assert all(call["mask"] is not None for call in module.calls)
    for row, prompt in enumerate(PROMPTS):
        module.calls.clear()
        alone = generate_completions(TextModel(module), [prompt], HOW, drawn[row : row + 1])
        assert all(call["mask"] is None for call in module.calls)
        length = int(alone.lengths[0])
        assert together.tokens[row, :length].tolist() == alone.tokens[0].tolist()
    module.calls.clear()
    scored = TextModel(module).completion_log_probs(PROMPTS, together.tokens, together.mask, 0.8)
    torch.testing.assert_close(scored, together.log_probs, rtol=1e-4, atol=1e-5)
    ((call),) = module.calls
    assert call["cache"] is False
    assert call["keep"] == int((torch.tensor([3, 1, 5, 2]) + together.lengths).max())
    assert call["mask"].sum(1).tolist() == (torch.tensor([3, 1, 5, 2]) + together.lengths).tolist()


def test_generation_uses_the_cache_of_a_wrapped_model() -> None:
    """PEFT, DistributedDataParallel and compiled models wrap in this way."""
    module, drawn = placed(), numbers(4, 9)
    found = generate_completions(TextModel(nn.DataParallel(module)), PROMPTS, HOW, drawn)
    assert all(call["cache"] and call["keep"] == 1 for call in module.calls)
    expected = generate_completions(TextModel(placed()), PROMPTS, HOW, drawn)
    assert found.tokens.tolist() == expected.tokens.tolist()


def test_a_model_without_attention_masks_uses_its_cache_for_prompts_of_one_length() -> None:
    class Untold(Placed):
        def forward(  # type: ignore[override]
            self, input_ids: Tensor, past_key_values: Any = None, use_cache: bool = False
        ) -> Any:
            return super().forward(input_ids, None, None, past_key_values, use_cache)

    with torch.random.fork_rng():
        torch.manual_seed(2)
        module = Untold()
    found = generate_completions(TextModel(module), PROMPTS, HOW, numbers(4, 9))
    expected = generate_completions(TextModel(placed()), PROMPTS, HOW, numbers(4, 9))
    assert found.tokens.tolist() == expected.tokens.tolist()
    assert not any(call["cache"] for call in module.calls)
    module.calls.clear()
    generate_completions(TextModel(module), PROMPTS[:1] * 2, HOW, numbers(2, 9))
    assert all(call["cache"] for call in module.calls)


def test_a_model_that_returns_no_cache_is_refused_by_name() -> None:
    class Forgetful(Placed):
        def forward(self, *given: Any, **more: Any) -> Any:
            said = super().forward(*given, **more)
            said.past_key_values = None
            return said

    Forgetful.forward.__signature__ = inspect.signature(Placed.forward)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="Forgetful takes past_key_values and returned none"):
        generate_completions(TextModel(Forgetful()), PROMPTS, HOW, numbers(4, 9))


def test_completions_include_their_end_and_nothing_after_it() -> None:
    logits = torch.full((3,), -torch.inf)
    logits[[0, 2]] = 0.0
    how = Sampling(max_new_tokens=4, eos=(2,), pad=1)
    drawn = torch.tensor([[0.1, 0.9, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1], [0.6, 0.1, 0.1, 0.9]])
    found = generate_completions(TextModel(Fixed(logits)), [torch.tensor([0])] * 3, how, drawn)
    assert found.tokens.tolist() == [[0, 2, 1, 1], [0, 0, 0, 0], [2, 1, 1, 1]]
    assert found.mask.sum(1).tolist() == found.lengths.tolist() == [2, 4, 1]
    assert found.has_ended.tolist() == [True, False, True]
    half = float(np.log(0.5))
    assert found.log_probs[0].tolist() == pytest.approx([half, half, 0.0, 0.0])
    # generation stops when all rows have ended
    both = generate_completions(TextModel(Fixed(logits)), [torch.tensor([0])] * 2, how, drawn[[0, 2]])
    assert both.tokens.tolist() == [[0, 2], [2, 1]]


def test_tokens_are_drawn_as_often_as_the_model_says() -> None:
    logits = torch.tensor([0.3, -1.0, 2.0, 0.0, -2.0])
    drawn = (torch.arange(10_000).unsqueeze(1) + 0.5) / 10_000
    how = Sampling(max_new_tokens=1, temperature=1.7)
    found = generate_completions(TextModel(Fixed(logits)), [torch.tensor([0])] * 10_000, how, drawn)
    counts = torch.bincount(found.tokens[:, 0], minlength=5) / 10_000
    torch.testing.assert_close(counts, (logits / 1.7).softmax(-1), rtol=0, atol=1e-4)


def test_sampling_never_draws_a_token_of_probability_zero() -> None:
    weights = torch.tensor([[0.0, 0.3, 0.0, 0.7, 0.0]])
    for number, token in ((0.0, 1), (0.2999, 1), (0.3001, 3), (1.0 - 2**-53, 3), (1.0, 3)):
        assert _inverse_cdf(weights, torch.tensor([number], dtype=torch.float64)).item() == token


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ({}, [0, 1, 2, 3]),
        ({"top_k": 2}, [0, 2]),
        ({"top_k": 9}, [0, 1, 2, 3]),
        ({"top_p": 0.5}, [2]),
        ({"top_p": 0.51}, [0, 2]),
        ({"top_p": 0.81}, [0, 1, 2]),
        ({"top_k": 3, "top_p": 0.85}, [0, 2]),
        ({"min_p": 0.3}, [0, 2]),
        ({"min_p": 0.1}, [0, 1, 2, 3]),
    ],
)
def test_top_k_top_p_and_min_p_keep_the_tokens_of_their_definitions(
    how: dict[str, Any], left: list[int]
) -> None:
    said = torch.tensor([[0.3, 0.14, 0.5, 0.06]]).log()
    assert torch.isfinite(_filter_tokens(said, Sampling(**how))[0]).nonzero().flatten().tolist() == left


def test_greedy_decoding_needs_no_random_numbers() -> None:
    model = llama()
    found = generate_completions(TextModel(model), PROMPTS[:1], replace(HOW, temperature=0.0, eos=()), None)
    ids = PROMPTS[0].unsqueeze(0)
    for _ in range(9):
        ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
    assert found.tokens[0].tolist() == ids[0, 3:].tolist()
    assert not found.has_ended.any()


def test_dropout_is_off_while_a_model_writes_and_on_again_afterwards() -> None:
    model = Plain(llama())
    model.add_module("dropout", nn.Dropout(0.9))
    model.train()
    model.of.lm_head.eval()  # a frozen part stays frozen
    seen: list[bool] = []
    model.register_forward_pre_hook(lambda module, given: seen.append(module.dropout.training))
    generate_completions(TextModel(model), PROMPTS, HOW, numbers(4, 9))
    assert not any(seen)
    assert seen
    assert model.training
    assert model.dropout.training
    assert not model.of.lm_head.training


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max_new_tokens": 0}, r"max_new_tokens=0, expected a number >= 1"),
        ({"temperature": -1.0}, r"temperature=-1.0, expected a number >= 0"),
        ({"top_k": 0}, r"top_k=0, expected a number >= 1"),
        ({"top_p": 0.0}, r"top_p=0.0, expected a number in \(0, 1\]"),
        ({"min_p": 1.5}, r"min_p=1.5, expected a number in \[0, 1\]"),
        ({"pad": -100}, r"pad=-100, expected a number >= 0"),
        ({"eos": 2}, r"eos=2, expected a tuple of token ids"),
    ],
)
def test_sampling_refuses_settings_out_of_range(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Sampling(**given)


def test_generation_refuses_invalid_prompts_uniforms_logits_and_tokens() -> None:
    model = TextModel(llama())
    with pytest.raises(ShapeError, match=r"uniforms None, expected \[4, 9\]"):
        generate_completions(model, PROMPTS, HOW, None)
    with pytest.raises(ShapeError, match=r"uniforms \[4, 3\], expected \[4, 9\]"):
        generate_completions(model, PROMPTS, HOW, numbers(4, 3))
    for wrong in ([], [torch.zeros(0, dtype=torch.long)], [torch.zeros(3)]):
        with pytest.raises(ShapeError, match=r"expected .*token ids"):
            generate_completions(model, wrong, HOW, numbers(len(wrong), 9))
    with pytest.raises(ConfigError, match=r"a sequence of 65 tokens, expected at most .*=64"):
        generate_completions(model, [torch.ones(60, dtype=torch.long)], replace(HOW, eos=()), numbers(1, 9))
    for wrong_number in (-0.1, 1.0, float("nan")):
        with pytest.raises(ConfigError, match=r"uniforms: expected numbers in \[0, 1\)"):
            generate_completions(model, PROMPTS, HOW, torch.full((4, 9), wrong_number))
    nan = TextModel(Fixed(torch.tensor([0.0, torch.nan])))
    with pytest.raises(NonFiniteError, match="Fixed returned logits that are not finite"):
        generate_completions(nan, [torch.tensor([0])], replace(HOW, eos=(), pad=0), numbers(1, 9))
    two = TextModel(Fixed(torch.zeros(2)))
    for wrong_token in ({"eos": (1, 2), "pad": 0}, {"eos": (), "pad": 2}):
        with pytest.raises(ConfigError, match="=2: Fixed has 2 tokens, expected a smaller id"):
            generate_completions(two, [torch.tensor([0])], replace(HOW, **wrong_token), numbers(1, 9))


def test_a_text_model_refuses_modules_that_return_no_valid_logits() -> None:
    class Odd(nn.Module):
        def forward(self, ids: Tensor) -> Any:
            return ids if ids.shape[1] > 1 else {"logits": None}

    with pytest.raises(ShapeError, match=r"Odd returned logits \[1, 2\] for tokens \[1, 2\]"):
        TextModel(Odd()).all_logits(torch.tensor([[0, 1]]))
    with pytest.raises(ConfigError, match="Odd returned a dict, expected logits"):
        TextModel(Odd()).all_logits(torch.tensor([[0]]))
    with pytest.raises(ConfigError, match=r"model is a str, expected a torch.nn.Module"):
        TextModel("gpt2")  # type: ignore[arg-type]

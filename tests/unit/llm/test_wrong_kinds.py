"""Tests that functions of language models refuse unfitting arguments by name and never broadcast them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.tiny_lm import TinyLM
from torch import nn

from rlox.errors import ConfigError, RloxError, ShapeError
from rlox.llm import (
    CharacterCodec,
    GeneratedTokens,
    Llama,
    LlamaSize,
    Sampling,
    TextModel,
    generate_completions,
    group_advantages,
    leave_one_out_advantages,
    save_llama,
    task_of,
)
from rlox.losses import (
    CompletionLogProbs,
    DPOLoss,
    clipped_surrogate,
    importance_weights,
    policy_gradient,
    rloo_loss,
    token_entropies,
    token_log_probs,
)

B, T, V = 3, 4, 9
IDS = torch.arange(B * T).reshape(B, T) % V
ONES, ROWS, COLUMN = torch.ones(B, T), torch.ones(B), torch.ones(B, 1)
MASK = torch.ones(B, T, dtype=torch.bool)
MASK_WITH_HOLES = torch.tensor([[1, 0, 1, 0]] * B).bool()
LOGITS = torch.zeros(B, T, V)
LLAMA_SIZE = LlamaSize(V, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                 num_attention_heads=2, num_key_value_heads=2)  # fmt: skip
GREEDY = Sampling(max_new_tokens=2, temperature=0.0)
CODEC = CharacterCodec("abc")


def run_llama(**kwargs: Any) -> Any:
    return Llama(LLAMA_SIZE)(IDS, **kwargs)


def run_with_cache(batch: int, length: int) -> Any:
    model = Llama(LLAMA_SIZE)
    return model(IDS, past_key_values=model.cache(batch, length))


def compute_dpo_loss(*change: int) -> Any:
    """Computes DPO's loss; one of its six arguments is `[B, 1]`, or has fewer pairs."""
    columns = [COLUMN if i == change[0] else ROWS[: change[1]] if i == change[0] - 10 else ROWS
             for i in range(6)]  # fmt: skip
    return DPOLoss()(CompletionLogProbs(*columns[:3]), CompletionLogProbs(*columns[3:]))


SAME_SHAPE_ERROR, TOKEN_IDS_ERROR = r"expected the same shape \[B, T\] for all", "expected token ids"
CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "old log-probabilities of completions": (
        lambda: rloo_loss(ONES, COLUMN, ROWS, MASK, 0.2),
        r"\[3, 4\] and \[3, 1\], mask \[3, 4\], advantages \[3\]",
    ),
    "old log-probabilities of one": (lambda: rloo_loss(ONES, ONES[:1], ROWS, MASK, 0.2), "expected"),
    "log-probabilities of one sequence": (
        lambda: rloo_loss(ROWS, ROWS, torch.tensor(1.0), MASK[:, 0], 0.2), r"expected \[B, T\]",
    ),
    "sampled ones of completions": (
        lambda: importance_weights(ONES, COLUMN, MASK, "token_mask"), SAME_SHAPE_ERROR,
    ),
    "a mask of another length": (
        lambda: importance_weights(ONES, ONES, MASK[:, :1], "token_mask"), SAME_SHAPE_ERROR,
    ),
    **{
        f"part {i} of pairs is a column": (
            partial(compute_dpo_loss, i), r"\[3, 1\].*expected the same shape \[B\] for all",
        )
        for i in range(6)
    },
    "fewer chosen": (
        partial(compute_dpo_loss, 10, 1), r"\[\[1\], \[3\].*expected the same shape \[B\] for all",
    ),
    "advantages in a column": (
        lambda: clipped_surrogate(ROWS, COLUMN, 0.2), r"\[3\] and advantages \[3, 1\]",
    ),
    "log-probabilities in a column": (
        lambda: policy_gradient(COLUMN, ROWS), r"\[3, 1\] and advantages \[3\]",
    ),
    "tokens with a point": (lambda: token_log_probs(LOGITS, ONES), TOKEN_IDS_ERROR),
    "tokens of another vocabulary": (
        lambda: token_log_probs(LOGITS, IDS + 5), "token ids from 5 to 13: expected ids from 0 to 8",
    ),
    "tokens that are left out elsewhere": (
        lambda: token_log_probs(LOGITS, IDS.masked_fill(IDS == 3, -100)), "token ids from -100",
    ),
    "a start before the first": (lambda: token_log_probs(LOGITS, IDS[:, :1], -1), "from -1 on"),
    "entropies of a row": (lambda: token_entropies(LOGITS[0]), r"\[4, 9\]: expected \[B, L, V\]"),
    "no temperature": (lambda: token_entropies(LOGITS, 0.0), "temperature=0.0, expected"),
    "a temperature without end": (
        lambda: token_log_probs(LOGITS, IDS, 0, np.inf), "temperature=inf, expected",
    ),
    "rewards as texts": (lambda: group_advantages(np.array(["1", "2"]), 2), "expected numbers"),
    "one reward as a text": (
        lambda: group_advantages(["1", None], 2), "expected numbers",  # type: ignore[arg-type]
    ),
    "masked rewards": (
        lambda: group_advantages(np.ma.masked_array(np.ones(2), [False, True]), 2), "some are masked",
    ),
    "complex rewards": (lambda: leave_one_out_advantages(np.ones(2) * 1j, 2), "expected numbers"),
    "rewards of unequal lengths": (
        lambda: group_advantages([[1.0], [1.0, 2.0]], 2), "expected an array of numbers",  # type: ignore[arg-type]
    ),
    "half a group": (lambda: group_advantages(np.ones(4), 2.0), "group_size=2.0"),  # type: ignore[arg-type]
    "weights in a column": (
        lambda: group_advantages(np.ones((4, 2)), 2, [[1.0], [2.0]]),  # type: ignore[list-item]
        r"\[2, 1\] weights for 2 rewards",
    ),
    "weights as texts": (
        lambda: group_advantages(np.ones((4, 2)), 2, ["1", "2"]), "weights .*expected numbers",  # type: ignore[list-item]
    ),
    "a mask of other tokens": (
        lambda: GeneratedTokens(IDS, MASK[:, :2], ONES, ROWS.bool()), r"expected \[B, T\] for the",
    ),
    "ends in a column": (lambda: GeneratedTokens(IDS, MASK, ONES, COLUMN.bool()), "ended"),
    "half a token": (lambda: Sampling(max_new_tokens=2.5), "max_new_tokens=2.5, expected a whole"),  # type: ignore[arg-type]
    "a number as a text": (lambda: Sampling(temperature="1"), "temperature='1', expected a number"),  # type: ignore[arg-type]
    "a truth for a number": (lambda: Sampling(top_k=True), "top_k=True, expected a whole number"),
    "a truth for an end": (lambda: Sampling(eos=(True,)), "expected a tuple of token ids"),
    "a module": (lambda: generate_completions(TinyLM(), IDS, GREEDY, None), "expected a TextModel"),  # type: ignore[arg-type]
    "a number for a sampling": (
        lambda: generate_completions(TextModel(TinyLM()), IDS, 5, None),  # type: ignore[arg-type]
        "sampling is a int, expected a Sampling",
    ),
    "texts for prompts": (
        lambda: generate_completions(TextModel(TinyLM()), ["ab"], GREEDY, None), TOKEN_IDS_ERROR,  # type: ignore[list-item]
    ),
    "truths for prompts": (
        lambda: generate_completions(TextModel(TinyLM()), MASK, GREEDY, None), "torch.bool: exp",
    ),
    "one prompt": (
        lambda: generate_completions(TextModel(TinyLM()), IDS[0], GREEDY, None), "each of token ids",
    ),
    "what is added to attention": (
        lambda: generate_completions(TextModel(TinyLM()), IDS, GREEDY, None, (1.0 - ONES) - 1e9),
        "expected 1 for tokens and 0 for padding, not an additive mask",
    ),
    "a list for uniforms": (
        lambda: generate_completions(TextModel(TinyLM()), IDS, Sampling(), [0.5]),  # type: ignore[arg-type]
        r"uniforms \[0.5\], expected \[3, 16\]",
    ),
    "a mask of one column": (lambda: run_llama(attention_mask=MASK[:, :1]), r"expected \[3, 4\]"),
    "a mask of one row": (lambda: run_llama(attention_mask=MASK[:1]), r"expected \[3, 4\]"),
    "a mask of numbers between all": (
        lambda: run_llama(attention_mask=torch.zeros(B, T, T)), r"bool \[3, 4, 4\]",
    ),
    "a mask of heads": (lambda: run_llama(attention_mask=torch.ones(B, 1, T, T).bool()), "expected"),
    "places in a column": (lambda: run_llama(position_ids=IDS[:, :1]), r"position_ids \[3, 1\]"),
    "fewer than no logits": (lambda: run_llama(logits_to_keep=-1), "logits_to_keep=-1, expected"),
    "a cache of one": (lambda: run_with_cache(1, 8), "for 1 sequences of 8 tokens, expected 3"),
    "a cache that is too short": (lambda: run_with_cache(3, 2), "for 3 sequences of 2 tokens"),
    "lengths in a column": (
        lambda: TextModel(TinyLM()).log_probs(IDS, lengths=COLUMN.long()), r"lengths \[3, 1\]",
    ),
    "a sequence": (lambda: TextModel(TinyLM()).log_probs(IDS[0]), r"ids \[4\] .*expected \[B, L\]"),
    "a mask with holes": (
        lambda: TextModel(TinyLM()).completion_log_probs(list(IDS), IDS, MASK_WITH_HOLES),
        "a token after padding, expected padding at the end only",
    ),
    "one completion": (
        lambda: TextModel(TinyLM()).completion_log_probs(list(IDS), ROWS.long(), MASK[:, 0]),
        r"expected B, \[B, T\] and \[B, T\]",
    ),
    "a list for an alphabet": (lambda: CharacterCodec(["a", "b"]), "each once, in one text"),  # type: ignore[arg-type]
    "bytes for a text": (lambda: CODEC.encode(b"ab"), "is a bytes, expected a text"),  # type: ignore[arg-type]
    "tokens with a part": (lambda: CODEC.decode([2.7]), r"\[2.7\]: expected token ids \[T\]"),  # type: ignore[list-item]
    "a batch of tokens": (
        lambda: CODEC.exact_match((), np.array([[2, 1]]), "a"), r"expected token ids \[T\]",
    ),
    "a batch for a task": (
        lambda: task_of("copy").partial_match(IDS.numpy(), task_of("copy").example(np.zeros(8))),
        TOKEN_IDS_ERROR,
    ),
    "another model to save": (lambda: save_llama(nn.Linear(1, 1), Path("x")), "expected a rlox.llm.Ll"),  # type: ignore[arg-type]
    "a text for an end": (
        lambda: save_llama(Llama(LLAMA_SIZE), Path("x"), "2"), r"eos=\['2'\], expected token ids",  # type: ignore[arg-type]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_functions_of_language_models_refuse_unfitting_arguments(case: str) -> None:
    act, told = CASES[case]
    with pytest.raises((ConfigError, ShapeError), match=told) as raised:
        act()
    assert isinstance(raised.value, RloxError)
    assert not Path("x").exists()


def test_functions_of_language_models_accept_equivalent_forms() -> None:
    expected = group_advantages(np.array([1.0, 0.0, np.nan, 1.0]), 2)
    for rewards in ([1.0, 0.0, None, 1.0], np.array([[1.0], [0.0], [np.nan], [1.0]])):
        assert np.array_equal(group_advantages(rewards, np.int64(2)), expected)  # type: ignore[arg-type]
    kept, at = run_llama(attention_mask=ONES.long()).logits, torch.arange(T)
    assert kept.shape == run_llama(attention_mask=MASK[:, None] & MASK[:, :, None]).logits.shape
    assert run_llama(position_ids=at).logits.shape == run_llama(position_ids=at[None]).logits.shape
    padded = generate_completions(TextModel(TinyLM()), IDS, GREEDY, None, [[0, 1, 1, 1]] * B)  # type: ignore[arg-type]
    assert torch.equal(
        padded.tokens, generate_completions(TextModel(TinyLM()), IDS[:, 1:], GREEDY, None).tokens
    )
    assert CODEC.decode(torch.tensor([2, 3, 1])) == "ab"  # type: ignore[arg-type]

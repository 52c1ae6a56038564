"""Tests that log-probabilities of sequences and their gradients equal torch's, with any model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rlox.errors import ShapeError
from rlox.llm import Llama, LlamaSize, TextModel

IDS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 0, 0], [9, 7, 0, 0, 0, 0]])
LENGTHS = torch.tensor([6, 4, 2])


def llama() -> Llama:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Llama(LlamaSize(10, 16, 24, 2, 2, 2, 64)).double()


class Squashed(nn.Module):
    """A model whose last function keeps its output for its gradient."""

    def __init__(self, of: Llama) -> None:
        super().__init__()
        self.of = of

    def forward(self, input_ids: Tensor) -> Tensor:
        return 30 * (self.of(input_ids).logits / 30).tanh()


def by_torch(module: Any, start: int) -> Tensor:
    said = module(IDS)
    logits = said if isinstance(said, Tensor) else said.logits
    return logits[:, start - 1 : -1].log_softmax(-1).gather(-1, IDS[:, start:, None])[..., 0]


@pytest.mark.parametrize("start", [1, 3])
@pytest.mark.parametrize("kind", [lambda of: of, Squashed], ids=["linear at the end", "tanh at the end"])
def test_text_model_log_probs_and_gradients_equal_those_of_log_softmax(kind: Any, start: int) -> None:
    module = kind(llama())
    counts = torch.arange(start, 6) < LENGTHS.unsqueeze(1)
    expected = by_torch(module, start)
    given = list(module.parameters())
    gradient = torch.autograd.grad((expected * counts).sum(), given)
    found = TextModel(module).log_probs(IDS, start, LENGTHS, overwrite=True)
    torch.testing.assert_close(found[counts], expected[counts])
    torch.testing.assert_close(torch.autograd.grad((found * counts).sum(), given), gradient)


def test_the_gradient_of_the_logits_overwrites_the_logits() -> None:
    """The gradient of the logits overwrites the logits if the last layer is linear."""
    module = llama()
    seen: list[bool] = []

    def watch(layer: nn.Module, given: Any, logits: Tensor) -> None:
        logits.register_hook(lambda slope: seen.append(slope.data_ptr() == logits.data_ptr()))

    module.lm_head.register_forward_hook(watch)
    for overwrite in (True, False):
        TextModel(module).log_probs(IDS, overwrite=overwrite).sum().backward()
    assert seen == [True, False]


def test_completions_of_any_prompts_are_scored_in_one_call() -> None:
    model = TextModel(llama())
    prompts = [torch.tensor(row) for row in ([3, 1, 4], [2], [9, 7])]
    tokens = torch.tensor([[1, 5, 9, 2], [6, 5, 0, 0], [3, 2, 3, 8]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])
    found = model.completion_log_probs(prompts, tokens, mask, 0.7)
    for row, prompt in enumerate(prompts):
        length = int(mask[row].sum())
        ids = torch.cat([prompt, tokens[row, :length]]).unsqueeze(0)
        expected = model.log_probs(ids, len(prompt), temperature=0.7)[0]
        torch.testing.assert_close(found[row, :length], expected)
        assert not found[row, length:].any()
    nothing = model.completion_log_probs(prompts[:1], tokens[:1], torch.zeros_like(mask[:1]))
    assert nothing.tolist() == [[0.0] * 4]


@pytest.mark.parametrize("start", [0, 6])
def test_log_probs_refuses_columns_without_preceding_logits(start: int) -> None:
    with pytest.raises(ShapeError, match=rf"start={start} of 6 columns, expected one in \[1, 6\)"):
        TextModel(llama()).log_probs(IDS, start)


def test_completions_without_their_prompts_are_refused() -> None:
    tokens = torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(ShapeError, match=r"1 prompts, tokens \[2, 3\] and mask \[2, 3\]"):
        TextModel(llama()).completion_log_probs([tokens[0]], tokens, tokens)
    with pytest.raises(ShapeError, match="a prompt without a token"):
        TextModel(llama()).completion_log_probs([tokens[0], tokens[0, :0]], tokens, tokens)

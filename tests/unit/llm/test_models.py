"""Scores of sequences are torch's, with any model, and their gradients too."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rlox.llm import Llama, LlamaSize, TextModel

IDS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 0, 0], [9, 7, 0, 0, 0, 0]])
LENGTHS = torch.tensor([6, 4, 2])


def llama() -> Llama:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Llama(LlamaSize(10, 16, 24, 2, 2, 2, 64)).double()


class Squashed(nn.Module):
    """A model whose last function keeps what came out of it for its gradient."""

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
@pytest.mark.parametrize(
    "kind", [lambda of: of, Squashed], ids=["linear at the end", "tanh at the end"]
)
def test_they_are_those_of_log_softmax_with_their_gradients(kind: Any, start: int) -> None:
    module = kind(llama())
    counts = torch.arange(start, 6) < LENGTHS.unsqueeze(1)
    expected = by_torch(module, start)
    given = list(module.parameters())
    gradient = torch.autograd.grad((expected * counts).sum(), given)
    found = TextModel(module).log_probs(IDS, start, LENGTHS)
    torch.testing.assert_close(found[counts], expected[counts])
    torch.testing.assert_close(torch.autograd.grad((found * counts).sum(), given), gradient)


def test_no_second_array_of_the_logits_size_is_held() -> None:
    """The gradient of the logits is where the logits are, where the last layer is linear."""
    module = llama()
    seen: list[bool] = []

    def watch(layer: nn.Module, given: Any, logits: Tensor) -> None:
        logits.register_hook(lambda slope: seen.append(slope.data_ptr() == logits.data_ptr()))

    module.lm_head.register_forward_hook(watch)
    TextModel(module).log_probs(IDS).sum().backward()
    assert seen == [True]

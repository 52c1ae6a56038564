"""Tests that decoding token by token with few calls equals the forward pass of a Llama."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from rlox.llm import Llama, LlamaSize
from rlox.llm.llama_stepper import make_stepper

IDS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8], [9, 7, 9, 3, 2, 3]])
PADDED = torch.tensor([0, 2, 1])


def llama(shared: int, **more: Any) -> Llama:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Llama(LlamaSize(10, 16, 24, 2, 4, shared, 8, **more))
        for parameter in model.parameters():
            parameter.data += 0.3 * torch.randn_like(parameter)
        return model


@torch.no_grad()
@pytest.mark.parametrize("shared", [4, 2])
@pytest.mark.parametrize("padded", [torch.zeros_like(PADDED), PADDED], ids=["whole", "padded"])
def test_decoding_token_by_token_gives_the_logits_of_the_forward_pass(
    shared: int, padded: torch.Tensor
) -> None:
    model = llama(shared, tie_word_embeddings=shared == 2)
    mask = torch.arange(6) >= padded.unsqueeze(1)
    positions = (mask.long().cumsum(1) - 1).clamp(min=0)
    expected = model(IDS, mask, positions).logits
    cache = model.cache(3, 6)
    model(IDS[:, :3], mask[:, :3], positions[:, :3], cache)
    step = make_stepper(model, cache, padded)
    assert step is not None
    for at in range(3, 6):
        torch.testing.assert_close(step(IDS[:, at]), expected[:, at], rtol=1e-4, atol=1e-5)


def test_a_changed_llama_decodes_with_its_forward() -> None:
    def stepped(model: Llama) -> bool:
        return make_stepper(model, model.cache(1, 4), torch.zeros(1)) is not None

    class Louder(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    class Mine(Llama):
        pass

    hooked, exchanged, normed = llama(4), llama(4), llama(4)
    parametrizations.weight_norm(normed.lm_head)
    hooked.lm_head.register_forward_hook(lambda *given: None)
    exchanged.lm_head = Louder(16, 10, bias=False)
    assert stepped(llama(4))
    assert not any(map(stepped, (hooked, exchanged, normed, llama(4).bfloat16(), Mine(llama(4).size))))

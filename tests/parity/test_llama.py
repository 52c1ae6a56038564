"""Tests that rlox's Llama equals transformers' with the same weights, in one call and token by token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from parity.llama import GOLDEN, IDS, LENGTH, SIZES, padding, weights
from rlox.llm import Llama, LlamaSize

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(params=range(len(SIZES)), ids=["as many heads", "shared heads, tied"])
def given(request: pytest.FixtureRequest) -> tuple[Llama, dict[str, Tensor]]:
    number = request.param
    with np.load(GOLDEN) as file:
        theirs = {
            name.removeprefix(f"{number}/"): torch.from_numpy(file[name])
            for name in file
            if name.startswith(f"{number}/")
        }
    model = Llama(LlamaSize(**SIZES[number]))
    model.load_state_dict(weights(model.state_dict()))
    return model.eval(), theirs


@torch.no_grad()
def in_steps(model: Llama, mask: Tensor | None, positions: Tensor | None) -> Tensor:
    """Run four tokens at once, then three, then one by one; the cache holds the earlier ones."""
    cache = model.cache(len(IDS), LENGTH)
    parts, at = [], 0
    for end in (4, *range(7, LENGTH + 1)):
        more: list[Any] = [None, None]
        if mask is not None and positions is not None:
            more = [mask[:, :end], positions[:, at:end]]
        parts.append(model(IDS[:, at:end], *more, cache).logits)
        at = end
    return torch.cat(parts, 1)


def test_the_logits_of_our_llama_equal_those_of_transformers(
    given: tuple[Llama, dict[str, Tensor]],
) -> None:
    model, theirs = given
    torch.testing.assert_close(model(IDS).logits, theirs["logits"], **CLOSE)
    torch.testing.assert_close(in_steps(model, None, None), theirs["logits"], **CLOSE)
    last = model(IDS, logits_to_keep=2).logits
    torch.testing.assert_close(last, theirs["logits"][:, -2:], **CLOSE)


def test_padding_before_a_text_changes_nothing_of_it(
    given: tuple[Llama, dict[str, Tensor]],
) -> None:
    model, theirs = given
    mask, positions = padding()
    counts = mask.bool()
    torch.testing.assert_close(model(IDS, mask, positions).logits[counts], theirs["padded"][counts], **CLOSE)
    found = in_steps(model, mask, positions)
    torch.testing.assert_close(found[counts], theirs["padded"][counts], **CLOSE)
    alone = model(IDS[1:2, 2:]).logits
    torch.testing.assert_close(alone[0], theirs["padded"][1, 2:], **CLOSE)


def test_logits_at_padding_tokens_are_finite(
    given: tuple[Llama, dict[str, Tensor]],
) -> None:
    """A NaN would reach the loss: 0 times NaN is NaN."""
    model, _ = given
    logits = model(IDS, *padding()).logits
    assert torch.isfinite(logits).all()

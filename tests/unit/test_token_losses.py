"""Tests token log-probabilities against torch and autograd, and that no array of the logits' size is made."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rlox.errors import ConfigError, ShapeError
from rlox.losses import token_entropies, token_log_probs, tokens


def given(batch: int = 3, length: int = 6, size: int = 11) -> tuple[Tensor, Tensor, Tensor]:
    """Returns logits with gradient, tokens with three columns fewer, and slopes."""
    generator = torch.Generator().manual_seed(batch + length)
    logits = 3 * torch.randn(batch, length, size, dtype=torch.float64, generator=generator)
    ids = torch.randint(size, (batch, length - 3), generator=generator)
    slopes = torch.randn(ids.shape, dtype=torch.float64, generator=generator)
    return logits.requires_grad_(), ids, slopes


def plain(logits: Tensor, ids: Tensor, start: int, temperature: float) -> Tensor:
    said = (logits / temperature).log_softmax(-1)[:, start : start + ids.shape[1]]
    return said.gather(-1, ids.unsqueeze(-1)).squeeze(-1)


@pytest.mark.parametrize("chunk", [1, 25, 70, 2**20])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("overwrite", [False, True])
def test_token_log_probs_and_gradients_equal_log_softmax_for_any_chunk_size(
    chunk: int, temperature: float, overwrite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_BLOCK_LOGITS", chunk)
    logits, ids, slope = given()
    expected = plain(logits, ids, 2, temperature)
    (gradient,) = torch.autograd.grad(expected, logits, slope)
    found = token_log_probs(logits * 1.0, ids, 2, temperature, overwrite)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, logits, slope)[0], gradient)


def test_the_gradient_can_overwrite_the_logits() -> None:
    logits, ids, slope = given()
    for overwrite in (False, True):
        made, seen = logits * 1.0, list[Tensor]()
        made.register_hook(seen.append)
        token_log_probs(made, ids, 2, overwrite=overwrite).backward(slope)
        assert [of.data_ptr() == made.data_ptr() for of in seen] == [overwrite]


def test_logits_that_another_function_has_kept_are_not_overwritten_silently() -> None:
    logits, ids, slope = given()
    made = logits.tanh()  # its gradient is a function of its output
    found = token_log_probs(made, ids, 2, overwrite=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(found, logits, slope)


def test_sums_of_bfloat16_are_taken_in_float32() -> None:
    logits, ids, _ = given(size=5000)
    half = logits.detach().bfloat16()
    found = token_log_probs(half, ids, 2)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, plain(half.float(), ids, 2, 1.0))


def test_token_entropies_equal_those_of_torchs_categorical() -> None:
    logits, _, _ = given()
    of = torch.distributions.Categorical(logits=logits.detach() / 0.7)
    torch.testing.assert_close(token_entropies(logits, 0.7), of.entropy())
    assert not token_entropies(logits).requires_grad
    impossible = torch.tensor([[[0.0, 0.0, -torch.inf]]])
    assert token_entropies(impossible).item() == pytest.approx(0.6931472)


def test_token_log_probs_refuses_invalid_temperatures_and_starts() -> None:
    logits, ids, _ = given()
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match=f"temperature={wrong}, expected a number > 0"):
            token_log_probs(logits, ids, 0, wrong)
    with pytest.raises(ShapeError, match=r"logits \[3, 6, 11\] from 4 on and tokens \[3, 3\]"):
        token_log_probs(logits, ids, 4)

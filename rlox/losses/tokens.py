"""Log-probabilities of tokens, without arrays of all tokens of the vocabulary beside logits and gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rlox.errors import ConfigError, ShapeError

__all__ = ["of_linear", "token_entropies", "token_log_probs"]

CHUNK = 2**20  # numbers that are looked at at a time


def token_log_probs(
    logits: Tensor,
    tokens: Tensor,
    start: int = 0,
    temperature: float = 1.0,
    overwrite: bool = False,
) -> Tensor:
    """log softmax(logits[:, start : start + T] / temperature) of `tokens`.

    Parameters
    ----------
    logits : `[B, L, V]`, with gradient or without
    tokens : int64 `[B, T]`, each of which the logits of its column, counted from `start`, foretell
    temperature : > 0
    overwrite : write the gradient where the logits are, which nothing may read afterwards, so that no second
        `[B, L, V]` is held; torch refuses where another function has kept the logits for its own gradient

    Of a leaf that gradients are kept of the logits themselves would be lost: `overwrite` is not for those.

    Returns float32 (float64 of float64) `[B, T]`. `ShapeError` where the sizes do not fit.
    """
    _require_temperature(temperature)
    if (
        logits.dim() != 3
        or start < 0
        or tokens.shape != logits[:, start : start + tokens.shape[-1]].shape[:2]
    ):
        raise ShapeError(
            f"logits {list(logits.shape)} from {start} on and tokens {list(tokens.shape)}: expected "
            "[B, L, V] and [B, T] with start + T <= L"
        )
    _require_tokens(tokens, logits.shape[-1])
    found: Tensor = _TokenLogProbs.apply(logits, tokens, start, temperature, overwrite)
    return found


def token_entropies(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Entropies in nats of softmax(logits / temperature), `[B, L, V]` -> `[B, L]`, without gradient."""
    _require_temperature(temperature)
    if logits.dim() != 3:
        raise ShapeError(f"logits {list(logits.shape)}: expected [B, L, V]")
    logits = logits.detach()
    found = torch.empty(logits.shape[:2], dtype=_wide(logits.dtype), device=logits.device)
    for at in _blocks(logits):
        said = (logits[at].to(found.dtype) / temperature).softmax(-1)
        found[at] = torch.special.entr(said).sum(-1)
    return found


def _require_temperature(temperature: float) -> None:
    if not 0.0 < temperature < torch.inf:
        raise ConfigError(f"temperature={temperature}, expected a number > 0")


def _require_tokens(tokens: Tensor, size: int) -> None:
    """Ids of a vocabulary; of those on a device, which is not waited for, only the dtype is looked at."""
    if tokens.dtype != torch.int64:
        raise ShapeError(f"tokens of {tokens.dtype}: expected token ids, int64")
    if tokens.device.type == "cpu" and tokens.numel():
        low, high = (int(of) for of in tokens.aminmax())
        if low < 0 or high >= size:
            raise ConfigError(
                f"token ids from {low} to {high}: expected some of the {size} that logits are of, from 0"
            )


def of_linear(logits: Tensor) -> bool:
    """Whether a linear layer made them: it keeps nothing of its output, gradients can be in their place."""
    made = logits.grad_fn
    if made is not None and made.name() in ("UnsafeViewBackward0", "ViewBackward0"):
        made = made.next_functions[0][0]
    return made is not None and made.name() in ("AddmmBackward0", "MmBackward0")


class _TokenLogProbs(torch.autograd.Function):
    """d log p / d logits = (one-hot - p) / temperature, p from the logits again and their log-sum-exp."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, tokens: Tensor, start: int, temperature: float, overwrite: bool
    ) -> Tensor:
        asked = logits[:, start : start + tokens.shape[1]]
        total = torch.empty(tokens.shape, dtype=_wide(logits.dtype), device=logits.device)
        taken = torch.empty_like(total)
        for at in _blocks(asked):
            scaled = _scaled(asked[at], temperature)
            total[at] = scaled.logsumexp(-1)
            taken[at] = scaled.gather(-1, tokens[at].unsqueeze(-1)).squeeze(-1)
        ctx.save_for_backward(logits, tokens, total)
        ctx.given = start, temperature, overwrite
        return taken - total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None, None, None]:
        logits, tokens, total = ctx.saved_tensors
        start, temperature, overwrite = ctx.given
        end = start + tokens.shape[1]
        found = logits.detach() if overwrite else torch.empty_like(logits)
        asked, written = logits.detach()[:, start:end], found[:, start:end]
        slope = slope / temperature
        for at in _blocks(asked):
            scaled = _scaled(asked[at], temperature)
            part = (scaled - total[at].unsqueeze(-1)).exp_().mul_(-slope[at].unsqueeze(-1))
            part.scatter_add_(-1, tokens[at].unsqueeze(-1), slope[at].unsqueeze(-1))
            written[at] = part.to(written.dtype)
        found[:, :start] = 0
        found[:, end:] = 0
        return found, None, None, None, None


def _wide(dtype: torch.dtype) -> torch.dtype:
    """What sums are taken in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    wide = logits.to(_wide(logits.dtype))
    return wide if temperature == 1.0 else wide / temperature


def _blocks(logits: Tensor) -> Iterator[tuple[slice, slice]]:
    """Parts of `[B, T]` of about `CHUNK` logits: whole sequences, or stretches of one."""
    batch, length, size = logits.shape
    rows = max(1, CHUNK // max(1, length * size))
    steps = max(1, length if length * size <= CHUNK else CHUNK // size)
    for first in range(0, batch, rows):
        for begin in range(0, length, steps):
            yield slice(first, first + rows), slice(begin, begin + steps)

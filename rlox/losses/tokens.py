"""Log-probabilities of tokens, with no `[B, L, V]` arrays besides the logits and their gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rlox.errors import ConfigError, ShapeError

__all__ = ["is_linear_output", "token_entropies", "token_log_probs"]

MAX_BLOCK_LOGITS = 2**20  # number of logits processed at a time


def token_log_probs(
    logits: Tensor,
    tokens: Tensor,
    start: int = 0,
    temperature: float = 1.0,
    overwrite: bool = False,
) -> Tensor:
    """Return log softmax(logits[:, start : start + T] / temperature) of `tokens`.

    Parameters
    ----------
    logits : `[B, L, V]`, with or without gradient
    tokens : int64 `[B, T]`; column t is predicted by the logits at position `start + t`
    temperature : > 0
    overwrite : write the gradient over the logits, which nothing may read afterwards, to avoid a second
        array `[B, L, V]`; torch raises an error if another function saved the logits for its own gradient

    Do not use `overwrite` for a leaf tensor that requires a gradient: its values would be lost.

    Returns float32 `[B, T]`, or float64 for float64 logits. `ShapeError` if the sizes do not fit.
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
    log_probs: Tensor = _TokenLogProbs.apply(logits, tokens, start, temperature, overwrite)
    return log_probs


def token_entropies(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Return the entropies in nats of softmax(logits / temperature), `[B, L, V]` -> `[B, L]`, no gradient."""
    _require_temperature(temperature)
    if logits.dim() != 3:
        raise ShapeError(f"logits {list(logits.shape)}: expected [B, L, V]")
    logits = logits.detach()
    entropies = torch.empty(logits.shape[:2], dtype=_sum_dtype(logits.dtype), device=logits.device)
    for block in _blocks(logits):
        probabilities = (logits[block].to(entropies.dtype) / temperature).softmax(-1)
        entropies[block] = torch.special.entr(probabilities).sum(-1)
    return entropies


def _require_temperature(temperature: float) -> None:
    if not 0.0 < temperature < torch.inf:
        raise ConfigError(f"temperature={temperature}, expected a number > 0")


def _require_tokens(tokens: Tensor, vocab_size: int) -> None:
    """Check token ids; on a GPU only their dtype, since checking values would wait for the GPU."""
    if tokens.dtype != torch.int64:
        raise ShapeError(f"tokens of {tokens.dtype}: expected token ids, int64")
    if tokens.device.type == "cpu" and tokens.numel():
        low, high = (int(bound) for bound in tokens.aminmax())
        if low < 0 or high >= vocab_size:
            raise ConfigError(
                f"token ids from {low} to {high}: expected ids from 0 to {vocab_size - 1}, since the logits "
                f"are of {vocab_size} tokens"
            )


def is_linear_output(logits: Tensor) -> bool:
    """Return whether a linear layer made the logits; it does not save them, so they can be overwritten."""
    node = logits.grad_fn
    if node is not None and node.name() in ("UnsafeViewBackward0", "ViewBackward0"):
        node = node.next_functions[0][0]
    return node is not None and node.name() in ("AddmmBackward0", "MmBackward0")


class _TokenLogProbs(torch.autograd.Function):
    """d log p / d logits = (one-hot - p) / temperature; p is recomputed from logits and log-sum-exp."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, tokens: Tensor, start: int, temperature: float, overwrite: bool
    ) -> Tensor:
        token_logits = logits[:, start : start + tokens.shape[1]]
        total = torch.empty(tokens.shape, dtype=_sum_dtype(logits.dtype), device=logits.device)
        token_scores = torch.empty_like(total)
        for block in _blocks(token_logits):
            scaled = _scale(token_logits[block], temperature)
            total[block] = scaled.logsumexp(-1)
            token_scores[block] = scaled.gather(-1, tokens[block].unsqueeze(-1)).squeeze(-1)
        ctx.save_for_backward(logits, tokens, total)
        ctx.given = start, temperature, overwrite
        return token_scores - total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None, None, None]:
        logits, tokens, total = ctx.saved_tensors
        start, temperature, overwrite = ctx.given
        end = start + tokens.shape[1]
        gradient = logits.detach() if overwrite else torch.empty_like(logits)
        token_logits, gradient_rows = logits.detach()[:, start:end], gradient[:, start:end]
        slope = slope / temperature
        for block in _blocks(token_logits):
            scaled = _scale(token_logits[block], temperature)
            block_gradient = (scaled - total[block].unsqueeze(-1)).exp_().mul_(-slope[block].unsqueeze(-1))
            block_gradient.scatter_add_(-1, tokens[block].unsqueeze(-1), slope[block].unsqueeze(-1))
            gradient_rows[block] = block_gradient.to(gradient_rows.dtype)
        gradient[:, :start] = 0
        gradient[:, end:] = 0
        return gradient, None, None, None, None


def _sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which logits of this dtype are summed."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _scale(logits: Tensor, temperature: float) -> Tensor:
    logits_in_sum_dtype = logits.to(_sum_dtype(logits.dtype))
    return logits_in_sum_dtype if temperature == 1.0 else logits_in_sum_dtype / temperature


def _blocks(logits: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of `[B, T]` with about `MAX_BLOCK_LOGITS` logits: whole sequences or parts of one."""
    batch, length, size = logits.shape
    block_rows = max(1, MAX_BLOCK_LOGITS // max(1, length * size))
    block_steps = max(1, length if length * size <= MAX_BLOCK_LOGITS else MAX_BLOCK_LOGITS // size)
    for row in range(0, batch, block_rows):
        for position in range(0, length, block_steps):
            yield slice(row, row + block_rows), slice(position, position + block_steps)

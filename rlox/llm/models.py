"""A language model as training and generation use it, whoever wrote it."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.llm.llama import Llama
from rlox.losses import token_log_probs

__all__ = ["TextModel"]


class TextModel:
    """Logits of a module whose `forward(input_ids)` returns them, or what has them as `logits`.

    What else `forward` takes by name it gets: `attention_mask`, `position_ids`, `past_key_values` with
    `use_cache`, `logits_to_keep`, as the models of transformers do. A causal model that takes no mask never
    sees padding before a token that counts.
    """

    def __init__(self, module: nn.Module) -> None:
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"model is a {type(module).__name__}, expected a torch.nn.Module whose forward(input_ids) "
                "returns logits"
            )
        self.module = module
        named = inspect.signature(module.forward).parameters
        self._takes_mask, self._takes_positions, self._keeps, self.caches = (
            name in named
            for name in ("attention_mask", "position_ids", "logits_to_keep", "past_key_values")
        )
        self._told_to_cache = "use_cache" in named

    def log_probs(
        self,
        ids: Tensor,
        start: int = 1,
        lengths: Tensor | None = None,
        temperature: float = 1.0,
    ) -> Tensor:
        """Log-probabilities of the tokens of each sequence from column `start` on, with gradient.

        Parameters
        ----------
        ids : int64 `[B, L]`, padding behind each sequence
        start : >= 1
        lengths : tokens of each sequence, int64 `[B]`; None: L. What is behind them means nothing
        temperature : that they are drawn with

        Returns `[B, L - start]`.
        """
        kept = ids.shape[1] - start + 1
        given: dict[str, Any] = {}
        if self._takes_mask and lengths is not None:
            columns = torch.arange(ids.shape[1], device=ids.device)
            given["attention_mask"] = (columns < lengths.unsqueeze(1)).long()
        if self._told_to_cache:
            given["use_cache"] = False
        if self._keeps:
            given["logits_to_keep"] = kept
        logits = self._logits(self.module(ids, **given), ids, kept)
        free = _of_linear(logits)
        return token_log_probs(logits, ids[:, start:], logits.shape[1] - kept, temperature, free)

    def whole(self, ids: Tensor) -> Tensor:
        """The logits behind all tokens of sequences with padding behind them, `[B, L, V]`."""
        given = {"use_cache": False} if self._told_to_cache else {}
        return self._logits(self.module(ids, **given), ids, ids.shape[1])

    def begun(self, ids: Tensor, mask: Tensor, length: int) -> tuple[Tensor, Any]:
        """The logits behind prompts with padding before them, `[B, V]`, and a cache for `length` tokens."""
        given: dict[str, Any] = {}
        if isinstance(self.module, Llama):
            given["past_key_values"] = self.module.cache(len(ids), length)
        return self._step(ids, mask, given)

    def further(self, ids: Tensor, mask: Tensor, cache: Any) -> tuple[Tensor, Any]:
        """The logits behind one more token of each, `[B, 1]`, `mask` `[B, all]`."""
        return self._step(ids, mask, {"past_key_values": cache})

    def _step(self, ids: Tensor, mask: Tensor, given: dict[str, Any]) -> tuple[Tensor, Any]:
        if not bool(mask.all()):
            if not self._takes_mask:
                raise ShapeError("prompts of different lengths, and the model takes no mask")
            given["attention_mask"] = mask.long()
        if self._takes_positions:
            at = (mask.long().cumsum(1) - 1).clamp_(min=0)
            given["position_ids"] = at[:, -ids.shape[1] :]
        if self._keeps:
            given["logits_to_keep"] = 1
        if self._told_to_cache:
            given["use_cache"] = True
        said = self.module(ids, **given)
        return self._logits(said, ids, 1)[:, -1], said.past_key_values

    def _logits(self, said: Any, ids: Tensor, least: int) -> Tensor:
        logits = said if isinstance(said, Tensor) else getattr(said, "logits", None)
        if not isinstance(logits, Tensor):
            raise ConfigError(
                f"{type(self.module).__name__} returned a {type(said).__name__}, expected logits [B, L, V] "
                "or what has them as .logits"
            )
        if (
            logits.dim() != 3
            or len(logits) != len(ids)
            or not least <= logits.shape[1] <= ids.shape[1]
        ):
            raise ShapeError(
                f"{type(self.module).__name__} returned logits {list(logits.shape)} for tokens "
                f"{list(ids.shape)}, expected [{len(ids)}, {ids.shape[1]}, V]"
            )
        return logits


def _of_linear(logits: Tensor) -> bool:
    """Whether a linear layer made them: it keeps nothing of its output, gradients can be in their place."""
    made = logits.grad_fn
    if made is not None and made.name() in ("UnsafeViewBackward0", "ViewBackward0"):
        made = made.next_functions[0][0]
    return made is not None and made.name() in ("AddmmBackward0", "MmBackward0")


def require_finite_logits(logits: Tensor, model: nn.Module) -> None:
    """`NonFiniteError` where nothing can be drawn."""
    if not bool(torch.isfinite(logits.amax(-1)).all()):
        raise NonFiniteError(f"{type(model).__name__} says logits that are not finite")

"""A common interface to language models for training and generation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from rlox.devices import to_device
from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.llm.adapters import TrainableWeights
from rlox.llm.gradient_checkpointing import accepted_arguments, checkpointed, find_layers
from rlox.llm.llama import Llama
from rlox.llm.packing import PackedScorer, can_pack
from rlox.llm.transformers_files import depends_on_later_tokens, max_positions_of
from rlox.losses import token_log_probs
from rlox.losses.tokens import is_linear_output

__all__ = ["TextModel", "eval_mode", "require_finite_logits"]


class TextModel:
    """Wraps a module whose `forward(input_ids)` returns logits, or an object with them as `logits`.

    Parameters
    ----------
    module : the model
    bf16 : whether matrix products are in bfloat16 (torch.autocast); weights keep their dtype
    gradient_checkpointing : whether layers are recomputed in the backward pass to save memory
    packing : whether scored sequences of different lengths are packed into shared rows

    If `forward` takes them, it gets further arguments: `attention_mask`, `position_ids`, `past_key_values`
    with `use_cache`, and `logits_to_keep`, as in transformers. Without a mask argument, padding always comes
    after the tokens that count, so it does not affect a causal model.
    """

    def __init__(
        self,
        module: nn.Module,
        bf16: bool = False,
        gradient_checkpointing: bool = False,
        packing: bool = False,
    ) -> None:
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"model is a {type(module).__name__}, expected a torch.nn.Module whose forward(input_ids) "
                "returns logits"
            )
        self.module = module
        accepted_names = accepted_arguments(module)
        self._takes_mask, self._takes_positions, self._takes_logits_to_keep, self.has_cache = (
            name in accepted_names
            for name in ("attention_mask", "position_ids", "logits_to_keep", "past_key_values")
        )
        self._takes_use_cache = "use_cache" in accepted_names
        self.bf16, self._layers = bf16, find_layers(module) if gradient_checkpointing else []
        self._packing = PackedScorer(module, bf16) if packing else None
        self.trainable = TrainableWeights(module)

    def with_module(self, module: nn.Module) -> TextModel:
        """Wrap a frozen copy of this module, with the same `bf16`, and the same `packing` if it can pack."""
        new_model = TextModel(module, self.bf16, packing=self._packing is not None and can_pack(module))
        new_model.trainable = TrainableWeights(module, self.trainable)
        return new_model

    def log_probs(
        self,
        ids: Tensor,
        start: int = 1,
        lengths: Tensor | None = None,
        temperature: float = 1.0,
        overwrite: bool = False,
    ) -> Tensor:
        """Return log-probabilities of the tokens of each sequence from column `start` on, with gradient.

        Parameters
        ----------
        ids : int64 `[B, L]`, padded on the right
        start : the first column, in [1, L)
        lengths : number of tokens of each sequence, int64 `[B]`; None: L. Results after the last token of a
            sequence are undefined
        temperature : sampling temperature, > 0
        overwrite : write the gradient into the memory of the logits, if a linear layer made them, to save a
            second tensor `[B, L, V]`. Then the logits must not be read, and there may be one backward pass
            only

        Returns `[B, L - start]`.
        """
        if ids.dim() != 2 or (lengths is not None and lengths.shape != ids.shape[:1]):
            lengths_shape = None if lengths is None else list(lengths.shape)
            raise ShapeError(f"ids {list(ids.shape)} and lengths {lengths_shape}: expected [B, L] and [B]")
        if not 1 <= start < ids.shape[1]:
            raise ShapeError(f"start={start} of {ids.shape[1]} columns, expected one in [1, {ids.shape[1]})")
        self.require_positions(ids.shape[1])
        n_logits = ids.shape[1] - start + 1
        kwargs: dict[str, Any] = {}
        if self._takes_mask and lengths is not None:
            columns = torch.arange(ids.shape[1], device=ids.device)
            kwargs["attention_mask"] = (columns < lengths.unsqueeze(1)).long()
        if self._takes_use_cache:
            kwargs["use_cache"] = False
        if self._takes_logits_to_keep:
            kwargs["logits_to_keep"] = n_logits
        logits = self.extract_logits(self.call(ids, **kwargs), ids, n_logits)
        can_overwrite = overwrite and is_linear_output(logits)
        return token_log_probs(logits, ids[:, start:], logits.shape[1] - n_logits, temperature, can_overwrite)

    def completion_log_probs(
        self,
        prompts: Sequence[Tensor],
        tokens: Tensor,
        mask: Tensor,
        temperature: float = 1.0,
        overwrite: bool = False,
    ) -> Tensor:
        """Return log-probabilities of completions, in one forward pass, with gradient.

        Parameters
        ----------
        prompts : int64 `[P]` each, of any lengths, one per completion, on the device of `tokens`
        tokens : int64 `[B, T]`, on the CPU or the model's device
        mask : tokens that belong to a completion, `[B, T]`; padding is on the right
        temperature, overwrite : as in `log_probs`

        Returns `[B, T]` on the model's device, 0 where the mask is False.
        """
        if tokens.dim() != 2 or tokens.shape != mask.shape or len(prompts) != len(tokens):
            raise ShapeError(
                f"{len(prompts)} prompts, tokens {list(tokens.shape)} and mask {list(mask.shape)}: expected "
                "B, [B, T] and [B, T]"
            )
        mask = mask.bool()
        if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
            raise ShapeError("mask: a token after padding, expected padding at the end only")
        prompt_lengths = torch.tensor([len(prompt) for prompt in prompts], device=tokens.device)
        lengths_of_completions = mask.sum(1)
        if int(prompt_lengths.min()) < 1:
            raise ShapeError("a prompt without a token, expected at least one")
        rows = [
            torch.cat([p, row[: int(n)]])
            for p, row, n in zip(prompts, tokens, lengths_of_completions, strict=True)
        ]
        if self._packing:
            return self._packing(self, rows, prompt_lengths, mask, temperature, overwrite)
        ids, start = pad_sequence(rows, batch_first=True), int(prompt_lengths.min())
        if ids.shape[1] == start:
            return torch.zeros(mask.shape, device=self.device)
        columns = (prompt_lengths - start).unsqueeze(1) + torch.arange(tokens.shape[1], device=tokens.device)
        # shapes and lengths were read on the tokens' device, so nothing here synchronises the GPU
        tensors = (
            ids,
            prompt_lengths + lengths_of_completions,
            columns.clamp(max=ids.shape[1] - start - 1),
            ~mask,
        )
        ids, lengths, columns, is_padding = (to_device(tensor, self.device) for tensor in tensors)
        row_log_probs = self.log_probs(ids, start, lengths, temperature, overwrite)
        return row_log_probs.gather(1, columns).masked_fill(is_padding, 0.0)

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return next((p.device for p in self.module.parameters()), torch.device("cpu"))

    @property
    def vocabulary(self) -> int:
        """Vocabulary size according to the model's `size` or `config`; 0 if unknown."""
        model_config = getattr(self.module, "size", None) or getattr(self.module, "config", None)
        return int(getattr(model_config, "vocab_size", 0))

    def require_positions(self, tokens: int) -> None:
        """Raise `ConfigError` for a sequence with more tokens than the model has positions."""
        max_positions = max_positions_of(self.module)
        if max_positions is not None and tokens > max_positions:
            raise ConfigError(
                f"a sequence of {tokens} tokens, expected at most max_position_embeddings={max_positions} of "
                f"{type(self.module).__name__}"
            )

    def require_causal(self, label: str = "model") -> None:
        """Raise `ConfigError` if logits depend on later tokens, tested by one forward pass of a few tokens.

        A model that raises an error in this test, or is not deterministic, is accepted: then the test proves
        nothing.
        """
        if isinstance(self.module, Llama):
            return
        try:
            with torch.no_grad(), eval_mode(self.module):
                is_acausal = depends_on_later_tokens(lambda ids: self.all_logits(ids.to(self.device)))
        except Exception:  # the first real use reports the error
            return
        if is_acausal:
            raise ConfigError(
                f"{label}: the logits that {type(self.module).__name__} returns for a token depend on later "
                "tokens, expected a causal model, whose logits depend only on that token and earlier ones"
            )

    def can_cache(self, lengths: Sequence[int]) -> bool:
        """Return whether a cache can be used; different lengths also need a mask and position ids."""
        is_same_length = len(set(lengths)) == 1
        return self.has_cache and (is_same_length or (self._takes_mask and self._takes_positions))

    def all_logits(self, ids: Tensor) -> Tensor:
        """Return the logits after all tokens of right-padded sequences, `[B, L, V]`."""
        self.require_positions(ids.shape[1])
        kwargs = {"use_cache": False} if self._takes_use_cache else {}
        return self.extract_logits(self.call(ids, **kwargs), ids, ids.shape[1])

    def prefill(self, ids: Tensor, mask: Tensor | None, length: int) -> tuple[Tensor, Any]:
        """Return the logits after the prompts, `[B, V]`, and a cache for `length` tokens.

        `mask` `[B, P]` is False for padding, which is on the left; None: no padding.
        """
        kwargs: dict[str, Any] = {}
        if isinstance(self.module, Llama):
            kwargs["past_key_values"] = self.module.cache(len(ids), length)
        return self._step(ids, mask, kwargs)

    def decode_step(self, ids: Tensor, mask: Tensor | None, cache: Any) -> tuple[Tensor, Any]:
        """Return the logits after one more token of each sequence; `ids` are `[B, 1]`, `mask` `[B, all]`."""
        return self._step(ids, mask, {"past_key_values": cache})

    def _step(self, ids: Tensor, mask: Tensor | None, kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
        if mask is not None:
            kwargs["attention_mask"] = mask.long()
            positions = (mask.long().cumsum(1) - 1).clamp_(min=0)
            kwargs["position_ids"] = positions[:, -ids.shape[1] :]
        if self._takes_logits_to_keep:
            kwargs["logits_to_keep"] = 1
        if self._takes_use_cache:
            kwargs["use_cache"] = True
        output = self.call(ids, **kwargs)
        cache = getattr(output, "past_key_values", None)
        if cache is None:
            raise ConfigError(
                f"{type(self.module).__name__} takes past_key_values and returned none: earlier tokens would "
                "be lost"
            )
        return self.extract_logits(output, ids, 1)[:, -1], cache

    def call(self, ids: Tensor, **kwargs: Any) -> Any:
        """Call the module; `ConfigError` for token ids outside its vocabulary."""
        autocast = torch.autocast(ids.device.type, torch.bfloat16) if self.bf16 else nullcontext()
        try:
            with autocast, checkpointed(self._layers):
                # a copy, because a forward that writes to its argument would change the training data
                return self.module(ids.clone(), **kwargs)
        except IndexError as error:
            raise ConfigError(
                f"{type(self.module).__name__} fails on token ids from {int(ids.min())} to {int(ids.max())}: "
                f"{error}; are they ids of its vocabulary?"
            ) from error

    def extract_logits(self, output: Any, ids: Tensor, min_length: int) -> Tensor:
        """Return a module's logits of `ids`, `[B, L, V]`, for at least the last `min_length` tokens."""
        logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        if not isinstance(logits, Tensor):
            raise ConfigError(
                f"{type(self.module).__name__} returned a {type(output).__name__}, expected logits [B, L, V] "
                "or an object with logits as .logits"
            )
        if logits.dim() != 3 or len(logits) != len(ids) or not min_length <= logits.shape[1] <= ids.shape[1]:
            raise ShapeError(
                f"{type(self.module).__name__} returned logits {list(logits.shape)} for tokens "
                f"{list(ids.shape)}, expected [{len(ids)}, {ids.shape[1]}, V]"
            )
        return logits


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Run the block in evaluation mode, without dropout; restore the mode of each module afterwards."""
    training_parts = [module_part for module_part in module.modules() if module_part.training]
    for module_part in training_parts:
        module_part.training = False
    try:
        yield
    finally:
        for module_part in training_parts:
            module_part.training = True


def require_finite_logits(logits: Tensor, model: nn.Module) -> None:
    """Raise `NonFiniteError` if no token can be sampled because logits are not finite."""
    if not bool(torch.isfinite(logits.amax(-1)).all()):
        raise NonFiniteError(f"{type(model).__name__} returned logits that are not finite")

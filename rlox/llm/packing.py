"""Packing of sequences into shared rows with block attention, so that less padding is computed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rlox._core import pack_tokens
from rlox.devices import to_device
from rlox.errors import ConfigError, RloxError
from rlox.llm.gradient_checkpointing import accepted_arguments, is_known_model
from rlox.llm.llama import Llama
from rlox.losses import token_log_probs
from rlox.losses.tokens import is_linear_output

if TYPE_CHECKING:
    from rlox.llm.models import TextModel

__all__ = ["PackedBatch", "PackedScorer", "can_pack", "pack_sequences"]

TOLERANCE = 1e-4  # maximum difference of packed float32 log-probabilities from those of a sequence alone
# Class names of layers with a state; convolutional layers are recognised by their convolutions.
STATEFUL_LAYERS = re.compile(r"Mamba|SSM|Recurrent|Rwkv|Lightning|Delta|LSTM")


@dataclass(frozen=True)
class PackedBatch:
    """B sequences in R rows of L tokens, in the layout of `rlox.pack_tokens`."""

    ids: Tensor  # int64 [R, L], 0 for padding
    positions: Tensor  # int64 [R, L], from 0 in each sequence
    attention_mask: Tensor  # bool [R, L, L], causal attention within each sequence
    rows: Tensor  # int64 [B], row of each sequence
    starts: Tensor  # int64 [B], column of each sequence's first token

    def sequences_sharing_a_row(self) -> list[int]:
        """Return the sequences of the fullest row; an empty list if each row has one sequence."""
        counts = torch.bincount(self.rows, minlength=len(self.ids))
        if int(counts.max()) < 2:
            return []
        sequences: list[int] = torch.nonzero(self.rows == int(counts.argmax())).flatten().tolist()
        return sequences


def pack_sequences(sequences: Sequence[Tensor]) -> PackedBatch:
    """Pack token sequences `[length]` into rows of the maximum length, by first-fit-decreasing."""
    longest = max(len(sequence) for sequence in sequences)
    layout = pack_tokens([sequence.numpy() for sequence in sequences], longest)
    sequence_of_token, positions = layout["packed"], layout["positions"]
    rows, columns = np.nonzero((positions == 0) & (sequence_of_token >= 0))
    order = np.argsort(sequence_of_token[rows, columns])
    sequence_ids = torch.from_numpy(sequence_of_token)
    causal = torch.ones(longest, longest, dtype=torch.bool).tril()
    return PackedBatch(
        ids=torch.from_numpy(layout["tokens"]),
        positions=torch.from_numpy(positions),
        attention_mask=(sequence_ids.unsqueeze(2) == sequence_ids.unsqueeze(1)) & causal,
        rows=torch.from_numpy(rows[order]),
        starts=torch.from_numpy(columns[order]),
    )


def can_pack(module: nn.Module) -> bool:
    """Return whether a model can keep packed sequences apart.

    It has to be a `Llama`, or a transformers model that takes `attention_mask` and `position_ids`, without
    stateful layers.
    """
    takes_positions = {"attention_mask", "position_ids"} <= accepted_arguments(module)
    return is_known_model(module) and takes_positions and not _stateful_layer(module)


def _stateful_layer(module: nn.Module) -> str:
    """Return the class name of a layer that leaks from one sequence into the next; else an empty string.

    Convolutions over tokens and layers with a state do so despite the mask.
    """
    for module_part in module.modules():
        class_name, children = type(module_part).__name__, module_part.children()
        if STATEFUL_LAYERS.search(class_name) or any(
            isinstance(child, nn.Conv1d) and child.kernel_size != (1,) for child in children
        ):
            return class_name
    return ""


class PackedScorer:
    """Computes log-probabilities of completions in packed rows."""

    def __init__(self, module: nn.Module, bf16: bool) -> None:
        self._name, self._bf16 = type(module).__name__, bf16
        if layer := _stateful_layer(module):
            raise self._refusal(f"has layers ({layer}) that run on from one sequence into the next")
        if not can_pack(module):
            raise self._refusal(
                "may not keep sequences apart, expected a Llama, or a model of transformers that takes "
                "position_ids"
            )
        is_half_precision = {p.dtype for p in module.parameters()} & {torch.bfloat16, torch.float16}
        self._tolerance = 0.3 if is_half_precision else TOLERANCE
        self._is_checked = False

    def __call__(
        self,
        model: TextModel,
        rows: list[Tensor],
        prompt_lengths: Tensor,
        mask: Tensor,
        temperature: float,
        overwrite: bool,
    ) -> Tensor:
        """Score whole sequences that begin with `prompt_lengths` `[B]` tokens of a prompt.

        The result is that of `TextModel.completion_log_probs`.
        """
        batch = pack_sequences([row.cpu() for row in rows])
        if batch.ids.shape[1] == 1:
            return torch.zeros(mask.shape, device=model.device)
        self._require_no_window(model.module, batch.ids.shape[1])
        try:
            row_log_probs = _score_packed(model, batch, temperature, overwrite)
        except (RuntimeError, TypeError, ValueError) as error:
            if self._is_checked or isinstance(error, RloxError):
                raise
            raise self._refusal(f"takes no block attention ({error})") from error
        self._check_isolation(model, rows, batch, row_log_probs.detach(), temperature)
        width, prompt_lengths, mask = row_log_probs.shape[1], prompt_lengths.cpu(), mask.cpu()
        # index of the log-probability of each completion's first token
        first_index = batch.rows * width + batch.starts + prompt_lengths - 1
        indices = (first_index.unsqueeze(1) + torch.arange(mask.shape[1])).masked_fill(~mask, 0)
        indices, is_padding = to_device(indices, model.device), to_device(~mask, model.device)
        return row_log_probs.flatten()[indices].masked_fill(is_padding, 0.0)

    def _require_no_window(self, module: nn.Module, max_length: int) -> None:
        """Raise `ConfigError` if the attention window, which the mask overrides, is below `max_length`."""
        model_config = getattr(module, "config", None)
        names = ["sliding_window", "attention_chunk_size"]
        if getattr(model_config, "use_sliding_window", True) is False:
            del names[0]
        for window in (getattr(model_config, name, None) for name in names):
            if isinstance(window, int) and max_length > window:
                raise self._refusal(f"has a window of {window} tokens, and a sequence has {max_length}")

    def _check_isolation(
        self,
        model: TextModel,
        rows: list[Tensor],
        batch: PackedBatch,
        packed_log_probs: Tensor,
        temperature: float,
    ) -> None:
        """Check once that packed sequences give the same log-probabilities as alone; else `ConfigError`."""
        checked_sequences = [] if self._is_checked else batch.sequences_sharing_a_row()
        longest_index = max(range(len(rows)), key=lambda i: len(rows[i]))
        if checked_sequences and self._bf16:  # bfloat16 rounding would hide a leak
            model = type(model)(model.module)
            with torch.no_grad():
                packed_log_probs = _score_packed(model, batch, temperature, False)
        for i in [*checked_sequences, longest_index] if checked_sequences else []:
            if len(rows[i]) == 1:
                continue
            start, row = int(batch.starts[i]), int(batch.rows[i])
            with torch.no_grad():
                (single_log_probs,) = model.log_probs(rows[i][None].to(model.device), 1, None, temperature)
            sequence_log_probs = packed_log_probs[row, start : start + len(rows[i]) - 1]
            if not torch.allclose(sequence_log_probs, single_log_probs, atol=self._tolerance, rtol=0.0):
                largest_difference = float((sequence_log_probs - single_log_probs).abs().max())
                raise self._refusal(
                    f"does not keep sequences apart (log-probabilities differ by {largest_difference:.2g})"
                )
        self._is_checked = self._is_checked or bool(checked_sequences)

    def _refusal(self, reason: str) -> ConfigError:
        return ConfigError(f"algo.packing=true: {self._name} {reason}; leave it out")


def _score_packed(model: TextModel, batch: PackedBatch, temperature: float, overwrite: bool) -> Tensor:
    """Return log-probabilities of all tokens except the first of each row, `[R, L - 1]`."""
    ids, positions, attention_mask = (
        to_device(tensor, model.device) for tensor in (batch.ids, batch.positions, batch.attention_mask)
    )
    kwargs: dict[str, Any] = {"attention_mask": attention_mask, "position_ids": positions}
    if not isinstance(model.module, Llama):  # every attention of transformers takes an additive 4D mask
        min_value = torch.finfo(torch.float32).min
        additive_mask = torch.zeros(attention_mask.shape, device=model.device).masked_fill_(
            ~attention_mask, min_value
        )
        kwargs = {**kwargs, "attention_mask": additive_mask.unsqueeze(1), "use_cache": False}
    logits = model.extract_logits(model.call(ids, **kwargs), ids, ids.shape[1])
    return token_log_probs(logits, ids[:, 1:], 0, temperature, overwrite and is_linear_output(logits))

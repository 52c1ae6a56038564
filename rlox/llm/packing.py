"""Sequences side by side in rows, each seeing itself alone: no padding to compute where lengths differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rlox._core import pack_tokens
from rlox.devices import moved
from rlox.errors import ConfigError, RloxError
from rlox.llm.layers import is_known, names_taken
from rlox.llm.llama import Llama
from rlox.losses import token_log_probs
from rlox.losses.tokens import of_linear

if TYPE_CHECKING:
    from rlox.llm.models import TextModel

__all__ = ["Packed", "Packing", "can_pack", "packed"]

NEAR = 1e-4  # that log-probabilities of float32 have to be to those of a sequence alone
# Names of layers with a state; those that convolve are known by their convolutions.
STATES = re.compile(r"Mamba|SSM|Recurrent|Rwkv|Lightning|Delta|LSTM")


@dataclass(frozen=True)
class Packed:
    """Some sequences in R rows of L tokens, as `rlox.pack_tokens` lays them out."""

    ids: Tensor  # int64 [R, L], 0 where there is no token
    positions: Tensor  # int64 [R, L], from 0 in each sequence
    seen: Tensor  # bool [R, L, L], which tokens each sees: those of its sequence up to itself
    rows: Tensor  # int64 [B], the row that each sequence is in
    begins: Tensor  # int64 [B], the column of its first token

    def shared(self) -> list[int]:
        """The sequences of the first row that has several; none if each has its own."""
        counts = torch.bincount(self.rows, minlength=len(self.ids))
        if int(counts.max()) < 2:
            return []
        found: list[int] = torch.nonzero(self.rows == int(counts.argmax())).flatten().tolist()
        return found


def packed(sequences: Sequence[Tensor]) -> Packed:
    """Lay sequences of tokens `[length]` out in rows as long as the longest, first-fit-decreasing."""
    longest = max(len(sequence) for sequence in sequences)
    laid = pack_tokens([sequence.numpy() for sequence in sequences], longest)
    whose, positions = laid["packed"], laid["positions"]
    rows, columns = np.nonzero((positions == 0) & (whose >= 0))
    order = np.argsort(whose[rows, columns])
    of = torch.from_numpy(whose)
    causal = torch.ones(longest, longest, dtype=torch.bool).tril()
    return Packed(
        ids=torch.from_numpy(laid["tokens"]),
        positions=torch.from_numpy(positions),
        seen=(of.unsqueeze(2) == of.unsqueeze(1)) & causal,
        rows=torch.from_numpy(rows[order]),
        begins=torch.from_numpy(columns[order]),
    )


def can_pack(module: nn.Module) -> bool:
    """Whether sequences can be told apart to a model: a `Llama`, or one of transformers that takes places."""
    told = {"attention_mask", "position_ids"} <= names_taken(module)
    return is_known(module) and told and not _running_on(module)


def _running_on(module: nn.Module) -> str:
    """The kind of a layer that goes on from one sequence into the next, whatever a mask says; else empty.

    Those are convolutions over tokens, and layers with a state.
    """
    for part in module.modules():
        kind, inside = type(part).__name__, part.children()
        if STATES.search(kind) or any(
            isinstance(of, nn.Conv1d) and of.kernel_size != (1,) for of in inside
        ):
            return kind
    return ""


class Packing:
    """Scores completions of sequences that stand side by side."""

    def __init__(self, module: nn.Module, bf16: bool) -> None:
        self._name, self._bf16 = type(module).__name__, bf16
        if layer := _running_on(module):
            raise self._no(f"has layers ({layer}) that run on from one sequence into the next")
        if not can_pack(module):
            raise self._no(
                "may not keep sequences apart, expected a Llama, or a model of transformers that takes "
                "position_ids"
            )
        halves = {p.dtype for p in module.parameters()} & {torch.bfloat16, torch.float16}
        self._near = 0.3 if halves else NEAR
        self._seen_apart = False

    def __call__(
        self,
        model: TextModel,
        rows: list[Tensor],
        before: Tensor,
        mask: Tensor,
        temperature: float,
        overwrite: bool,
    ) -> Tensor:
        """As `TextModel.completion_log_probs`, of whole sequences with `before` `[B]` tokens of a prompt."""
        laid = packed([row.cpu() for row in rows])
        if laid.ids.shape[1] == 1:
            return torch.zeros(mask.shape, device=model.device)
        self._require_window(model.module, laid.ids.shape[1])
        try:
            said = _scored(model, laid, temperature, overwrite)
        except (RuntimeError, TypeError, ValueError) as error:
            if self._seen_apart or isinstance(error, RloxError):
                raise
            raise self._no(f"takes no block attention ({error})") from error
        self._see_apart(model, rows, laid, said.detach(), temperature)
        width, before, mask = said.shape[1], before.cpu(), mask.cpu()
        first = laid.rows * width + laid.begins + before - 1  # of each completion
        at = (first.unsqueeze(1) + torch.arange(mask.shape[1])).masked_fill(~mask, 0)
        at, behind = moved(at, model.device), moved(~mask, model.device)
        return said.flatten()[at].masked_fill(behind, 0.0)

    def _require_window(self, module: nn.Module, longest: int) -> None:
        """What each token sees is said for each: a window of the model's own would be passed over."""
        about = getattr(module, "config", None)
        names = ["sliding_window", "attention_chunk_size"]
        if getattr(about, "use_sliding_window", True) is False:
            del names[0]
        for window in (getattr(about, name, None) for name in names):
            if isinstance(window, int) and longest > window:
                raise self._no(f"sees {window} tokens back, and a sequence has {longest}")

    def _see_apart(
        self,
        model: TextModel,
        rows: list[Tensor],
        laid: Packed,
        said: Tensor,
        temperature: float,
    ) -> None:
        """Once: `ConfigError` where sequences side by side are not what they are alone."""
        shared = [] if self._seen_apart else laid.shared()
        longest = max(range(len(rows)), key=lambda i: len(rows[i]))
        if shared and self._bf16:  # whose rounding hides what is seen
            model = type(model)(model.module)
            with torch.no_grad():
                said = _scored(model, laid, temperature, False)
        for i in [*shared, longest] if shared else []:
            if len(rows[i]) == 1:
                continue
            begin, row = int(laid.begins[i]), int(laid.rows[i])
            with torch.no_grad():
                (alone,) = model.log_probs(rows[i][None].to(model.device), 1, None, temperature)
            found = said[row, begin : begin + len(rows[i]) - 1]
            if not torch.allclose(found, alone, atol=self._near, rtol=0.0):
                apart = float((found - alone).abs().max())
                raise self._no(
                    f"does not keep sequences apart (log-probabilities differ by {apart:.2g})"
                )
        self._seen_apart = self._seen_apart or bool(shared)

    def _no(self, why: str) -> ConfigError:
        return ConfigError(f"algo.packing=true: {self._name} {why}; leave it out")


def _scored(model: TextModel, laid: Packed, temperature: float, overwrite: bool) -> Tensor:
    """Log-probabilities of all tokens but the first of each row, `[R, L - 1]`."""
    ids, places, seen = (moved(of, model.device) for of in (laid.ids, laid.positions, laid.seen))
    given: dict[str, Any] = {"attention_mask": seen, "position_ids": places}
    if not isinstance(model.module, Llama):  # the form that every kind of attention there adds
        least = torch.finfo(torch.float32).min
        added = torch.zeros(seen.shape, device=model.device).masked_fill_(~seen, least)
        given = {**given, "attention_mask": added.unsqueeze(1), "use_cache": False}
    logits = model.logits_of(model.asked(ids, **given), ids, ids.shape[1])
    return token_log_probs(logits, ids[:, 1:], 0, temperature, overwrite and of_linear(logits))

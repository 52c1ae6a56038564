"""Completions that a model in this process writes, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rlox.errors import ConfigError, RloxError, ShapeError
from rlox.llm.llama import Llama
from rlox.llm.models import TextModel, evaluating, require_finite_logits
from rlox.llm.stepping import Stepper, steps_of
from rlox.masked import MASKED, is_masked
from rlox.stopping import check

__all__ = ["Completed", "Sampling", "completions"]

NO_IDS = (torch.bool, torch.complex64, torch.complex128)  # beside numbers with a point


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn.

    Attributes
    ----------
    max_new_tokens : of a completion at most
    temperature : logits are divided by it; 0 takes the best token
    top_k, top_p, min_p : only the k best tokens are drawn (and those that are as good as the last of them),
        only the best that together have the probability top_p, only those that are min_p times as probable as
        the best; None: all
    eos : tokens that end a completion, and belong to it
    pad : the token that stands behind an end
    """

    max_new_tokens: int = 16
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    eos: tuple[int, ...] = ()
    pad: int = 0

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "temperature", "top_k", "top_p", "min_p", "pad"):
            value, whole = getattr(self, name), name in ("max_new_tokens", "top_k", "pad")
            if value is None and name in ("top_k", "top_p", "min_p"):
                continue
            if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
                kind = "a whole number" if whole else "a number"
                raise ConfigError(f"{name}={value!r}, expected {kind}")
        checks = {
            "max_new_tokens": self.max_new_tokens >= 1,
            "temperature": self.temperature >= 0.0,
            "top_k": self.top_k is None or self.top_k >= 1,
            "top_p": self.top_p is None or 0.0 < self.top_p <= 1.0,
            "min_p": self.min_p is None or 0.0 <= self.min_p <= 1.0,
            "pad": self.pad >= 0,
        }
        within = {
            "max_new_tokens": ">= 1",
            "temperature": ">= 0",
            "top_k": ">= 1",
            "top_p": "in (0, 1]",
            "min_p": "in [0, 1]",
            "pad": ">= 0",
        }
        if not isinstance(self.eos, tuple) or any(
            isinstance(t, bool) or not isinstance(t, int) or t < 0 for t in self.eos
        ):
            raise ConfigError(f"eos={self.eos}, expected a tuple of token ids")
        for name, good in checks.items():
            if not good:
                raise ConfigError(f"{name}={getattr(self, name)}, expected a number {within[name]}")


@dataclass(frozen=True)
class Completed:
    """Completions `[B, T]`, T the length of the longest."""

    tokens: Tensor  # int64; `pad` behind an end
    mask: Tensor  # bool, of tokens that belong to it, the end among them
    log_probs: (
        Tensor  # float32, of each token among all, at the temperature (0: at 1); 0 behind an end
    )
    ended: Tensor  # bool [B], whether there is an end; else it was cut off

    def __post_init__(self) -> None:
        told = [list(of.shape) for of in (self.tokens, self.mask, self.log_probs, self.ended)]
        if self.tokens.dim() != 2 or told != [told[0]] * 3 + [told[0][:1]]:
            raise ShapeError(
                f"tokens, mask, log_probs and ended {told}: expected [B, T] of three, and [B]"
            )

    @property
    def lengths(self) -> Tensor:
        """Tokens of each, int64 `[B]`."""
        return self.mask.sum(1)

    def rows(self) -> list[Tensor]:
        """The tokens of each, `[length]`, tensors of their own."""
        return [row[there] for row, there in zip(self.tokens, self.mask.bool(), strict=True)]

    def cpu(self) -> Completed:
        """The same on the CPU."""
        return Completed(self.tokens.cpu(), self.mask.cpu(), self.log_probs.cpu(), self.ended.cpu())


def completions(
    model: TextModel,
    prompts: Tensor | Sequence[Tensor],
    how: Sampling,
    uniforms: Tensor | None,
    attention_mask: Tensor | None = None,
) -> Completed:
    """Complete prompts.

    Parameters
    ----------
    model : the one that is asked, in evaluation mode meanwhile
    prompts : int64 `[B, P]`, or B of different lengths, each at least one token
    how : the way of drawing
    uniforms : in [0, 1), `[B, max_new_tokens]`, by which the tokens are drawn, so that those of a completion
        depend on its row alone; not needed for the best tokens
    attention_mask : of prompts `[B, P]` as tokenizers pad them, 0 for padding before or behind each

    Raises `ConfigError` and `ShapeError` for what is none of these.

    With a model that has a cache each token is a call for one token; others are asked for the whole again,
    and so are those that cannot be told of padding where prompts have different lengths.
    """
    if not isinstance(model, TextModel):
        raise ConfigError(
            f"model is a {type(model).__name__}, expected a TextModel: TextModel(module)"
        )
    if not isinstance(how, Sampling):
        raise ConfigError(f"how is a {type(how).__name__}, expected a Sampling")
    for name, given in (("prompts", prompts), ("attention_mask", attention_mask)):
        if any(map(is_masked, given if isinstance(given, list | tuple) else (given,))):
            raise ConfigError(f"{name}: {MASKED}")
    rows = _rows(prompts, attention_mask)
    drawn = how.temperature > 0.0
    if drawn:
        expected = [len(rows), how.max_new_tokens]
        if not isinstance(uniforms, Tensor) or list(uniforms.shape) != expected:
            there = list(uniforms.shape) if isinstance(uniforms, Tensor) else uniforms
            raise ShapeError(
                f"uniforms {there}, expected {expected}: one for each token that is drawn"
            )
        if not bool(((uniforms >= 0.0) & (uniforms < 1.0)).all()):
            raise ConfigError("uniforms: expected numbers in [0, 1)")
    # not in inference mode, whose tensors no gradient can be taken with afterwards
    with torch.no_grad(), evaluating(model.module):
        kind = _Cached if model.caches_for([len(row) for row in rows]) else _Again
        text = kind(model, rows, how.max_new_tokens)
        return _drawn(text, model, how, uniforms if drawn else None)


def _rows(prompts: Tensor | Sequence[Tensor], mask: Tensor | None) -> list[Tensor]:
    """The tokens of each prompt."""
    try:
        if mask is not None:
            prompts = _unpadded(torch.as_tensor(prompts), torch.as_tensor(mask))
        rows = [torch.as_tensor(row) for row in prompts]
    except (TypeError, ValueError) as error:
        if isinstance(error, RloxError):
            raise
        raise ConfigError(
            f"prompts {prompts!r:.60}: expected token ids, [B, P] or rows of different lengths"
        ) from error
    if not rows or any(row.dim() != 1 or not len(row) for row in rows):
        shapes = [list(row.shape) for row in rows[:3]]
        raise ShapeError(
            f"prompts {shapes}: expected at least one, each of token ids [P] with P >= 1"
        )
    if any(row.dtype.is_floating_point or row.dtype in NO_IDS for row in rows):
        raise ShapeError(f"prompts of {rows[0].dtype}: expected at least one, each of token ids")
    return rows


def _unpadded(prompts: Tensor, mask: Tensor) -> list[Tensor]:
    """Each row of `[B, P]` without its padding, which is on one side of it."""
    seen = mask.bool()
    if seen.dim() != 2 or prompts.shape != seen.shape or bool((seen.diff(dim=1).sum(1) > 1).any()):
        raise ShapeError(
            f"attention_mask {list(mask.shape)} of prompts {list(prompts.shape)}: expected [B, P] of both, "
            "with padding before or behind each prompt"
        )
    if not bool((mask == seen).all()):
        raise ConfigError(
            "attention_mask: expected 1 for tokens and 0 for padding, not what is added to attention"
        )
    return [row[there] for row, there in zip(prompts, seen, strict=True)]


class _Cached:
    """The logits behind prompts, and behind what is drawn, by a model that keeps keys and values."""

    def __init__(self, model: TextModel, rows: list[Tensor], longest: int) -> None:
        self._model = model
        ids = pad_sequence(rows, batch_first=True, padding_side="left")
        lengths = torch.tensor([len(row) for row in rows]).to(ids.device)
        self._at = width = ids.shape[1]
        self._mask: Tensor | None = None
        if any(len(row) != width for row in rows):
            self._mask = torch.ones(len(rows), width + longest, dtype=torch.bool, device=ids.device)
            columns = torch.arange(width, device=ids.device)
            self._mask[:, :width] = columns >= (width - lengths).unsqueeze(1)
        self.logits, self._cache = model.prefill(ids, self._seen(), width + longest)
        self._steps: Stepper | None = None
        if isinstance(model.module, Llama) and not model.bf16:
            self._steps = steps_of(model.module, self._cache, width - lengths)

    def take(self, tokens: Tensor) -> None:
        """One more token of each."""
        if self._steps is not None:
            self.logits = self._steps(tokens)
            return
        self._at += 1
        self._model.require_room(self._at)
        ids = tokens.unsqueeze(1)
        self.logits, self._cache = self._model.decode_step(ids, self._seen(), self._cache)

    def _seen(self) -> Tensor | None:
        return None if self._mask is None else self._mask[:, : self._at]


class _Again:
    """The same by a model that is asked for the whole again; padding is behind the text, unseen."""

    def __init__(self, model: TextModel, rows: list[Tensor], longest: int) -> None:
        self._model = model
        ids = pad_sequence(rows, batch_first=True)
        self._ends = torch.tensor([len(row) for row in rows]).to(ids.device)
        self._ids = torch.cat([ids, ids.new_zeros(len(rows), longest)], 1)
        self._each = torch.arange(len(rows), device=ids.device)
        self._ask()

    def take(self, tokens: Tensor) -> None:
        """One more token of each."""
        self._ids[self._each, self._ends] = tokens
        self._ends += 1
        self._ask()

    def _ask(self) -> None:
        said = self._model.whole(self._ids[:, : int(self._ends.max())])
        self.logits = said[self._each, self._ends - 1]


def _drawn(
    text: _Cached | _Again, model: TextModel, how: Sampling, uniforms: Tensor | None
) -> Completed:
    """Token after token until all have ended."""
    count, device = len(text.logits), text.logits.device
    _require_known(how, text.logits.shape[-1], type(model.module).__name__)
    ends = torch.tensor(how.eos).to(device)
    going, columns = torch.ones(count, dtype=torch.bool, device=device), []
    for at in range(how.max_new_tokens):
        check()
        require_finite_logits(text.logits, model.module)
        tokens, said = _token(text.logits, how, None if uniforms is None else uniforms[:, at])
        columns.append((torch.where(going, tokens, how.pad), going, torch.where(going, said, 0.0)))
        going = going & ~torch.isin(tokens, ends)
        if at == how.max_new_tokens - 1 or not bool(going.any()):
            break
        text.take(columns[-1][0])
    tokens, mask, log_probs = (torch.stack(of, 1) for of in zip(*columns, strict=True))
    return Completed(tokens, mask, log_probs, ~going)


def _require_known(how: Sampling, vocabulary: int, model: str) -> None:
    """`ConfigError` for an end or padding that the model cannot say, or be shown."""
    for name, token in (*(("eos", end) for end in how.eos), ("pad", how.pad)):
        if token >= vocabulary:
            raise ConfigError(f"{name}={token}: {model} has {vocabulary} tokens, expected less")


def _token(logits: Tensor, how: Sampling, uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
    """One of each row of `[B, V]`, and its log-probability."""
    logits = logits.float()
    if uniforms is None:
        best, where = logits.max(-1)
        return where, best - logits.logsumexp(-1)
    said = (logits / how.temperature).log_softmax(-1)
    tokens = _inverse(_left(said, how).exp(), uniforms.to(said.device))
    return tokens, said.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def _inverse(weights: Tensor, uniforms: Tensor) -> Tensor:
    """The token where the sum of the weights `[B, V]` up to it passes the part `uniforms` `[B]` of all."""
    total = weights.cumsum(-1, dtype=torch.float64)
    goal = uniforms.to(torch.float64).unsqueeze(1) * total[:, -1:]
    found = torch.searchsorted(total, goal, right=True).squeeze(1)
    # a product that was rounded up to the sum of all would be behind the last token
    last = (weights > 0).long().cumsum(-1).argmax(-1)
    return torch.minimum(found, last)


def _left(said: Tensor, how: Sampling) -> Tensor:
    """Log-probabilities, -inf of the tokens that are not drawn."""
    if how.top_k is not None and how.top_k < said.shape[-1]:
        least = said.topk(how.top_k, -1).values[:, -1:]
        said = said.masked_fill(said < least, -torch.inf)
    if how.top_p is not None and how.top_p < 1.0:
        ordered, order = said.softmax(-1).sort(-1, descending=True)
        needless = ordered.cumsum(-1) - ordered >= how.top_p
        said = said.masked_fill(needless.scatter(-1, order, needless), -torch.inf)
    if how.min_p:
        best = said.amax(-1, keepdim=True)
        said = said.masked_fill(said < best + torch.tensor(how.min_p).log(), -torch.inf)
    return said

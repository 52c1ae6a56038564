"""Generation of completions by a model in this process, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rlox.errors import ConfigError, RloxError, ShapeError
from rlox.llm.llama import Llama
from rlox.llm.llama_stepper import LlamaStepper, make_stepper
from rlox.llm.models import TextModel, eval_mode, require_finite_logits
from rlox.masked_arrays import MASKED_MESSAGE, is_masked
from rlox.stopping import raise_if_expired

__all__ = ["GeneratedTokens", "Sampling", "generate_completions"]

NON_ID_DTYPES = (torch.bool, torch.complex64, torch.complex128)  # floating-point ones: checked separately


@dataclass(frozen=True)
class Sampling:
    """Settings for sampling tokens.

    Attributes
    ----------
    max_new_tokens : maximum number of tokens in a completion
    temperature : divides the logits; 0 is greedy decoding
    top_k : sample only from the k most probable tokens, and others as probable as the k-th; None: all
    top_p : sample only from the most probable tokens whose total probability reaches top_p; None: all
    min_p : sample only tokens at least min_p times as probable as the best one; None: all
    eos : tokens that end a completion; they are part of it
    pad : token after the end
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
            value, is_integer = getattr(self, name), name in ("max_new_tokens", "top_k", "pad")
            if value is None and name in ("top_k", "top_p", "min_p"):
                continue
            if isinstance(value, bool) or not isinstance(value, Integral if is_integer else Real):
                expected = "a whole number" if is_integer else "a number"
                raise ConfigError(f"{name}={value!r}, expected {expected}")
        checks = {
            "max_new_tokens": self.max_new_tokens >= 1,
            "temperature": self.temperature >= 0.0,
            "top_k": self.top_k is None or self.top_k >= 1,
            "top_p": self.top_p is None or 0.0 < self.top_p <= 1.0,
            "min_p": self.min_p is None or 0.0 <= self.min_p <= 1.0,
            "pad": self.pad >= 0,
        }
        ranges = {
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
        for name, is_valid in checks.items():
            if not is_valid:
                raise ConfigError(f"{name}={getattr(self, name)}, expected a number {ranges[name]}")


@dataclass(frozen=True)
class GeneratedTokens:
    """Completions `[B, T]`, T the length of the longest."""

    tokens: Tensor  # int64; `pad` after the end
    mask: Tensor  # bool, tokens of the completion, including EOS
    log_probs: Tensor  # float32, before filters, at the sampling temperature (1 if it is 0); 0 after the end
    has_ended: Tensor  # bool [B], whether EOS was generated; otherwise the completion was truncated

    def __post_init__(self) -> None:
        shapes = [list(tensor.shape) for tensor in (self.tokens, self.mask, self.log_probs, self.has_ended)]
        if self.tokens.dim() != 2 or shapes != [shapes[0]] * 3 + [shapes[0][:1]]:
            raise ShapeError(
                f"tokens, mask, log_probs, has_ended {shapes}: expected [B, T] for the first three, and [B]"
            )

    @property
    def lengths(self) -> Tensor:
        """Number of tokens of each completion, int64 `[B]`."""
        return self.mask.sum(1)

    def token_rows(self) -> list[Tensor]:
        """Return the tokens of each completion, `[length]`, as separate tensors."""
        return [row[row_mask] for row, row_mask in zip(self.tokens, self.mask.bool(), strict=True)]

    def cpu(self) -> GeneratedTokens:
        """Return the same data on the CPU."""
        return GeneratedTokens(self.tokens.cpu(), self.mask.cpu(), self.log_probs.cpu(), self.has_ended.cpu())


def generate_completions(
    model: TextModel,
    prompts: Tensor | Sequence[Tensor],
    sampling: Sampling,
    uniforms: Tensor | None,
    attention_mask: Tensor | None = None,
) -> GeneratedTokens:
    """Generate completions of prompts.

    Parameters
    ----------
    model : the model; it is in evaluation mode during the call
    prompts : int64 `[B, P]`, or B rows of different lengths, each with at least one token
    sampling : the sampling settings
    uniforms : random numbers in [0, 1), `[B, max_new_tokens]`. A completion depends only on its own row. Not
        needed for greedy decoding
    attention_mask : mask of padded prompts `[B, P]`, 0 for padding before or after each prompt

    Raises `ConfigError` and `ShapeError` for invalid arguments.

    A model with a cache is called with one token per step, a model without a cache with the whole sequence.
    For prompts of different lengths, a cache is only used if the model also takes a mask and position ids.
    """
    if not isinstance(model, TextModel):
        raise ConfigError(f"model is a {type(model).__name__}, expected a TextModel: TextModel(module)")
    if not isinstance(sampling, Sampling):
        raise ConfigError(f"sampling is a {type(sampling).__name__}, expected a Sampling")
    for name, value in (("prompts", prompts), ("attention_mask", attention_mask)):
        if any(map(is_masked, value if isinstance(value, list | tuple) else (value,))):
            raise ConfigError(f"{name}: {MASKED_MESSAGE}")
    rows = _parse_prompts(prompts, attention_mask)
    is_sampled = sampling.temperature > 0.0
    if is_sampled:
        expected = [len(rows), sampling.max_new_tokens]
        if not isinstance(uniforms, Tensor) or list(uniforms.shape) != expected:
            shape = list(uniforms.shape) if isinstance(uniforms, Tensor) else uniforms
            raise ShapeError(f"uniforms {shape}, expected {expected}: one for each token that is drawn")
        if not bool(((uniforms >= 0.0) & (uniforms < 1.0)).all()):
            raise ConfigError("uniforms: expected numbers in [0, 1)")
    # no_grad, because tensors of inference mode cannot take part in autograd later
    with torch.no_grad(), eval_mode(model.module):
        decoder_class = _CachedDecoder if model.can_cache([len(row) for row in rows]) else _UncachedDecoder
        decoder = decoder_class(model, rows, sampling.max_new_tokens)
        return _decode(decoder, model, sampling, uniforms if is_sampled else None)


def _parse_prompts(prompts: Tensor | Sequence[Tensor], mask: Tensor | None) -> list[Tensor]:
    """Return the tokens of each prompt."""
    try:
        if mask is not None:
            prompts = _remove_padding(torch.as_tensor(prompts), torch.as_tensor(mask))
        rows = [torch.as_tensor(row) for row in prompts]
    except (TypeError, ValueError) as error:
        if isinstance(error, RloxError):
            raise
        raise ConfigError(
            f"prompts {prompts!r:.60}: expected token ids, [B, P] or rows of different lengths"
        ) from error
    if not rows or any(row.dim() != 1 or not len(row) for row in rows):
        shapes = [list(row.shape) for row in rows[:3]]
        raise ShapeError(f"prompts {shapes}: expected at least one, each of token ids [P] with P >= 1")
    if any(row.dtype.is_floating_point or row.dtype in NON_ID_DTYPES for row in rows):
        raise ShapeError(f"prompts of {rows[0].dtype}: expected token ids, whole numbers")
    return rows


def _remove_padding(prompts: Tensor, mask: Tensor) -> list[Tensor]:
    """Return each row of `[B, P]` without its padding, which has to be on one side."""
    mask_bool = mask.bool()
    if (
        mask_bool.dim() != 2
        or prompts.shape != mask_bool.shape
        or bool((mask_bool.diff(dim=1).sum(1) > 1).any())
    ):
        raise ShapeError(
            f"attention_mask {list(mask.shape)} of prompts {list(prompts.shape)}: expected [B, P] for both, "
            "with padding before or after each prompt"
        )
    if not bool((mask == mask_bool).all()):
        raise ConfigError("attention_mask: expected 1 for tokens and 0 for padding, not an additive mask")
    return [row[row_mask] for row, row_mask in zip(prompts, mask_bool, strict=True)]


class _CachedDecoder:
    """Logits of the next tokens, by a model with a KV cache."""

    def __init__(self, model: TextModel, rows: list[Tensor], max_new_tokens: int) -> None:
        self._model = model
        ids = pad_sequence(rows, batch_first=True, padding_side="left")
        lengths = torch.tensor([len(row) for row in rows]).to(ids.device)
        self._n_columns = width = ids.shape[1]
        self._mask: Tensor | None = None
        if any(len(row) != width for row in rows):
            self._mask = torch.ones(len(rows), width + max_new_tokens, dtype=torch.bool, device=ids.device)
            columns = torch.arange(width, device=ids.device)
            self._mask[:, :width] = columns >= (width - lengths).unsqueeze(1)
        self.logits, self._cache = model.prefill(ids, self._attention_mask(), width + max_new_tokens)
        self._stepper: LlamaStepper | None = None
        if isinstance(model.module, Llama) and not model.bf16:
            self._stepper = make_stepper(model.module, self._cache, width - lengths)

    def append(self, tokens: Tensor) -> None:
        """Append one token to each sequence and update the logits."""
        if self._stepper is not None:
            self.logits = self._stepper(tokens)
            return
        self._n_columns += 1
        self._model.require_positions(self._n_columns)
        ids = tokens.unsqueeze(1)
        self.logits, self._cache = self._model.decode_step(ids, self._attention_mask(), self._cache)

    def _attention_mask(self) -> Tensor | None:
        return None if self._mask is None else self._mask[:, : self._n_columns]


class _UncachedDecoder:
    """Logits of the next tokens, computed from the whole sequences; right padding has no effect."""

    def __init__(self, model: TextModel, rows: list[Tensor], max_new_tokens: int) -> None:
        self._model = model
        ids = pad_sequence(rows, batch_first=True)
        self._lengths = torch.tensor([len(row) for row in rows]).to(ids.device)
        self._ids = torch.cat([ids, ids.new_zeros(len(rows), max_new_tokens)], 1)
        self._row_indices = torch.arange(len(rows), device=ids.device)
        self._update_logits()

    def append(self, tokens: Tensor) -> None:
        """Append one token to each sequence and update the logits."""
        self._ids[self._row_indices, self._lengths] = tokens
        self._lengths += 1
        self._update_logits()

    def _update_logits(self) -> None:
        logits = self._model.all_logits(self._ids[:, : int(self._lengths.max())])
        self.logits = logits[self._row_indices, self._lengths - 1]


def _decode(
    decoder: _CachedDecoder | _UncachedDecoder, model: TextModel, sampling: Sampling, uniforms: Tensor | None
) -> GeneratedTokens:
    """Sample tokens until all completions have ended or reach the maximum length."""
    n_rows, device = len(decoder.logits), decoder.logits.device
    _require_in_vocabulary(sampling, decoder.logits.shape[-1], type(model.module).__name__)
    eos_ids = torch.tensor(sampling.eos).to(device)
    is_active, columns = torch.ones(n_rows, dtype=torch.bool, device=device), []
    for step in range(sampling.max_new_tokens):
        raise_if_expired()
        require_finite_logits(decoder.logits, model.module)
        tokens, token_log_probs = _sample_token(
            decoder.logits, sampling, None if uniforms is None else uniforms[:, step]
        )
        columns.append(
            (
                torch.where(is_active, tokens, sampling.pad),
                is_active,
                torch.where(is_active, token_log_probs, 0.0),
            )
        )
        is_active = is_active & ~torch.isin(tokens, eos_ids)
        if step == sampling.max_new_tokens - 1 or not bool(is_active.any()):
            break
        decoder.append(columns[-1][0])
    tokens, mask, log_probs = (torch.stack(column, 1) for column in zip(*columns, strict=True))
    return GeneratedTokens(tokens, mask, log_probs, ~is_active)


def _require_in_vocabulary(sampling: Sampling, vocabulary: int, model: str) -> None:
    """Raise `ConfigError` for an EOS or padding token outside the model's vocabulary."""
    for name, token in (*(("eos", eos_id) for eos_id in sampling.eos), ("pad", sampling.pad)):
        if token >= vocabulary:
            raise ConfigError(f"{name}={token}: {model} has {vocabulary} tokens, expected a smaller id")


def _sample_token(logits: Tensor, sampling: Sampling, uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
    """Choose one token for each row of `[B, V]`; return the tokens and their log-probabilities."""
    logits = logits.float()
    if uniforms is None:
        max_logits, greedy = logits.max(-1)
        return greedy, max_logits - logits.logsumexp(-1)
    row_log_probs = (logits / sampling.temperature).log_softmax(-1)
    tokens = _inverse_cdf(_filter_tokens(row_log_probs, sampling).exp(), uniforms.to(row_log_probs.device))
    return tokens, row_log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def _inverse_cdf(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Return tokens `[B]` where the cumulative `weights` `[B, V]` pass `uniforms` `[B]` times their sum."""
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    thresholds = uniforms.to(torch.float64).unsqueeze(1) * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, thresholds, right=True).squeeze(1)
    # a threshold rounded up to the total sum would select an index after the last token
    last_possible = (weights > 0).long().cumsum(-1).argmax(-1)
    return torch.minimum(tokens, last_possible)


def _filter_tokens(token_log_probs: Tensor, sampling: Sampling) -> Tensor:
    """Set the log-probabilities of tokens outside top-k, top-p and min-p to -inf."""
    if sampling.top_k is not None and sampling.top_k < token_log_probs.shape[-1]:
        kth_best = token_log_probs.topk(sampling.top_k, -1).values[:, -1:]
        token_log_probs = token_log_probs.masked_fill(token_log_probs < kth_best, -torch.inf)
    if sampling.top_p is not None and sampling.top_p < 1.0:
        sorted_probs, order = token_log_probs.softmax(-1).sort(-1, descending=True)
        is_cut = sorted_probs.cumsum(-1) - sorted_probs >= sampling.top_p
        token_log_probs = token_log_probs.masked_fill(is_cut.scatter(-1, order, is_cut), -torch.inf)
    if sampling.min_p:
        max_log_probs = token_log_probs.amax(-1, keepdim=True)
        token_log_probs = token_log_probs.masked_fill(
            token_log_probs < max_log_probs + torch.tensor(sampling.min_p).log(), -torch.inf
        )
    return token_log_probs

"""A small causal language model, of the architecture and the weights' names of Llama (arXiv:2302.13971).

transformers loads what it saves, and it loads what transformers saves of it in one file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from rlox.errors import ConfigError, ShapeError

__all__ = ["Cache", "Llama", "LlamaLayer", "LlamaSize", "Output"]

STD = 0.02  # of initial weights


@dataclass(frozen=True)
class LlamaSize:
    """The sizes of a model, by the names that its config.json has.

    Attributes
    ----------
    vocab_size : tokens that there are
    hidden_size, intermediate_size : numbers between layers, and in the midst of one
    num_hidden_layers : layers
    num_attention_heads, num_key_value_heads : heads that ask, and heads that they share
    max_position_embeddings : tokens of a sequence at most
    rope_theta : base of the rotary positions
    rms_norm_eps : beside a mean square
    tie_word_embeddings : whether the last layer is the first one transposed
    """

    vocab_size: int
    hidden_size: int = 64
    intermediate_size: int = 176
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int = 4
    max_position_embeddings: int = 256
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False

    def __post_init__(self) -> None:
        for f in fields(self):
            value, whole = getattr(self, f.name), f.type == "int"
            good = isinstance(value, int if whole else (int, float)) and value > 0
            if f.type != "bool" and (isinstance(value, bool) or not good):
                raise ConfigError(
                    f"{f.name}={value!r}, expected a {'whole ' if whole else ''}number above 0"
                )
        heads, shared = self.num_attention_heads, self.num_key_value_heads
        if self.hidden_size % heads or (self.hidden_size // heads) % 2:
            raise ConfigError(
                f"hidden_size={self.hidden_size} and num_attention_heads={heads}: expected heads of an even "
                "width that fill it"
            )
        if heads % shared:
            raise ConfigError(
                f"num_attention_heads={heads} and num_key_value_heads={shared}: expected a multiple"
            )

    def require_room(self, tokens: int) -> None:
        """`ConfigError` for a sequence of more tokens than there are positions."""
        if tokens > self.max_position_embeddings:
            raise ConfigError(
                f"a sequence of {tokens} tokens, expected at most max_position_embeddings="
                f"{self.max_position_embeddings}"
            )

    @property
    def head_dim(self) -> int:
        """Numbers of a head."""
        return self.hidden_size // self.num_attention_heads


class Cache:
    """Keys and values of the tokens that were seen, for each layer `[B, heads, length, head_dim]`."""

    def __init__(self, size: LlamaSize, batch: int, length: int, like: Tensor) -> None:
        shape = (size.num_hidden_layers, 2, batch, size.num_key_value_heads, length, size.head_dim)
        self._held = torch.empty(shape, dtype=like.dtype, device=like.device)
        self.length = 0

    @property
    def batch(self) -> int:
        """Sequences."""
        return self._held.shape[2]

    @property
    def room(self) -> int:
        """Tokens of a sequence that there is room for."""
        return self._held.shape[4]

    def put(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keep those of the newest tokens; all up to them."""
        end = self.length + key.shape[2]
        for held, new in zip(self._held[layer], (key, value), strict=True):
            held[:, :, self.length : end] = new
        kept_keys, kept_values = self._held[layer, :, :, :, :end]
        return kept_keys, kept_values


class Output(NamedTuple):
    """What a model says of the next tokens."""

    logits: Tensor  # [B, L or `logits_to_keep`, V]
    past_key_values: Cache | None


class Llama(nn.Module):
    """Token ids in, logits of the next ones out."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.size = size
        self.ends: tuple[int, ...] = ()  # tokens that end a text, by the files that it came from
        self.model = _Body(size)
        self.lm_head = nn.Linear(size.hidden_size, size.vocab_size, bias=False)
        if size.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=STD)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        logits_to_keep: int = 0,
    ) -> Output:
        """The logits behind each token, or behind the last `logits_to_keep`.

        Parameters
        ----------
        input_ids : int64 `[B, L]`
        attention_mask : `[B, past + L]`, 0 for padding, before or behind the text; None: there is none. Or
            bool `[B, L, L]`, which tokens each sees, without a cache
        position_ids : `[B, L]`; None: counted from what is in the cache
        past_key_values : where keys and values of earlier tokens are, and those of these go

        Raises `ShapeError` for shapes and dtypes that are none of these: nothing is stretched.
        """
        past = 0 if past_key_values is None else past_key_values.length
        _require_fitting(input_ids, attention_mask, position_ids, past_key_values, logits_to_keep)
        length = input_ids.shape[1]
        self.size.require_room(past + length)
        if position_ids is None:
            position_ids = torch.arange(past, past + length, device=input_ids.device)
        hidden = self.model(input_ids, attention_mask, position_ids, past_key_values)
        if past_key_values is not None:
            past_key_values.length = past + length
        return Output(self.lm_head(hidden[:, -logits_to_keep:]), past_key_values)

    def cache(self, batch: int, length: int) -> Cache:
        """An empty one for so many sequences of so many tokens."""
        return Cache(self.size, batch, length, self.lm_head.weight)


def _require_fitting(
    ids: Tensor, mask: Tensor | None, positions: Tensor | None, cache: Cache | None, keep: int
) -> None:
    if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
        raise ShapeError(
            f"input_ids {list(ids.shape)} of {ids.dtype}: expected token ids, int64 [B, L]"
        )
    batch, length = ids.shape
    total = length if cache is None else cache.length + length
    if mask is not None:
        apart = mask.dim() == 3 and cache is None and mask.dtype == torch.bool
        if list(mask.shape) != ([batch, length, length] if apart else [batch, total]):
            raise ShapeError(
                f"attention_mask {list(mask.shape)} of {mask.dtype} for {batch} sequences of {total} tokens, "
                f"expected [{batch}, {total}], or without a cache bool [{batch}, {length}, {length}]"
            )
    if positions is not None and list(positions.shape) not in (
        [length],
        [1, length],
        [batch, length],
    ):
        raise ShapeError(f"position_ids {list(positions.shape)}, expected [{batch}, {length}]")
    if cache is not None and (cache.batch != batch or cache.room < total):
        raise ShapeError(
            f"past_key_values for {cache.batch} sequences of {cache.room} tokens, expected {batch} of at "
            f"least {total}"
        )
    if keep < 0:
        raise ConfigError(f"logits_to_keep={keep}, expected a number >= 0")


class _Body(nn.Module):
    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(size.vocab_size, size.hidden_size)
        self.layers = nn.ModuleList(LlamaLayer(size, i) for i in range(size.num_hidden_layers))
        self.norm = _Norm(size)
        self.size = size

    def forward(
        self, ids: Tensor, mask: Tensor | None, positions: Tensor, cache: Cache | None
    ) -> Tensor:
        hidden = self.embed_tokens(ids)
        # not a buffer, which a cast of the model would round
        angles = positions.unsqueeze(-1).float() * inv_freq(self.size, ids.device)
        turn = torch.cat([angles, angles], -1).unsqueeze(-3)
        turned = turn.cos().to(hidden.dtype), turn.sin().to(hidden.dtype)
        seen = _seen(mask, ids, 0 if cache is None else cache.length)
        for layer in self.layers:
            hidden = layer(hidden, turned, seen, cache)
        found: Tensor = self.norm(hidden)
        return found


def _seen(mask: Tensor | None, ids: Tensor, past: int) -> Tensor | None:
    """`[B, 1, L, past + L]`, what each token sees; None: as much as its place says, or all of the past."""
    length = ids.shape[1]
    if mask is None and (past == 0 or length == 1):
        return None
    if mask is not None and mask.dim() == 3:
        return mask.unsqueeze(1)
    rows = torch.arange(past, past + length, device=ids.device).unsqueeze(1)
    causal = torch.arange(past + length, device=ids.device) <= rows
    if mask is None:
        return causal[None, None]
    return (causal & mask.bool()[:, None]).unsqueeze(1)


class _Norm(nn.Module):
    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size.hidden_size)), size.rms_norm_eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, x.shape[-1:], self.weight, self.eps)


class LlamaLayer(nn.Module):
    """Attention and what follows it, each added to what it sees."""

    def __init__(self, size: LlamaSize, number: int) -> None:
        super().__init__()
        self.self_attn, self.mlp = _Attention(size, number), _MLP(size)
        self.input_layernorm, self.post_attention_layernorm = _Norm(size), _Norm(size)

    def forward(
        self,
        hidden: Tensor,
        turned: tuple[Tensor, Tensor],
        seen: Tensor | None,
        cache: Cache | None,
    ) -> Tensor:
        """`[B, L, hidden_size]` of the same; `turned` has cosines and sines of places."""
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), turned, seen, cache)
        found: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return found


class _MLP(nn.Module):
    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        inside = size.hidden_size, size.intermediate_size
        self.gate_proj, self.up_proj = (nn.Linear(*inside, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(*inside[::-1], bias=False)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return found


class _Attention(nn.Module):
    def __init__(self, size: LlamaSize, number: int) -> None:
        super().__init__()
        self.number, self.head_dim = number, size.head_dim
        self.shared = size.num_attention_heads != size.num_key_value_heads
        asking, shared = (
            n * size.head_dim for n in (size.num_attention_heads, size.num_key_value_heads)
        )
        self.q_proj = nn.Linear(size.hidden_size, asking, bias=False)
        self.k_proj, self.v_proj = (
            nn.Linear(size.hidden_size, shared, bias=False) for _ in range(2)
        )
        self.o_proj = nn.Linear(asking, size.hidden_size, bias=False)

    def forward(
        self,
        x: Tensor,
        turned: tuple[Tensor, Tensor],
        seen: Tensor | None,
        cache: Cache | None,
    ) -> Tensor:
        query, key, value = (
            of(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for of in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = _rotated(query, turned), _rotated(key, turned)
        if cache is not None:
            key, value = cache.put(self.number, key, value)
        alone = seen is None and x.shape[1] > 1
        found = scaled_dot_product_attention(
            query, key, value, attn_mask=seen, is_causal=alone, enable_gqa=self.shared
        )
        out: Tensor = self.o_proj(found.transpose(1, 2).flatten(-2))
        return out


def inv_freq(size: LlamaSize, device: torch.device) -> Tensor:
    """How much a token's place turns each pair of a head, in radians, float32 `[head_dim / 2]`."""
    powers = torch.arange(0, size.head_dim, 2, dtype=torch.float32, device=device) / size.head_dim
    return torch.reciprocal(size.rope_theta**powers)


def _rotated(x: Tensor, turned: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions: the pairs are a half of the head apart."""
    cos, sin = turned
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin

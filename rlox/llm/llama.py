"""A small causal language model with Llama's architecture and weight names (arXiv:2302.13971).

The files are compatible with transformers in both directions (`rlox.llm.llama_files`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from rlox.errors import ConfigError, ShapeError

__all__ = ["KVCache", "Llama", "LlamaLayer", "LlamaOutput", "LlamaSize"]

INIT_STD = 0.02  # standard deviation of initial weights


@dataclass(frozen=True)
class LlamaSize:
    """The sizes of a model, with the field names of config.json.

    Attributes
    ----------
    vocab_size : number of tokens
    hidden_size, intermediate_size : width of the residual stream, and of the MLP's hidden layer
    num_hidden_layers : number of layers
    num_attention_heads : number of query heads
    num_key_value_heads : number of key-value heads; each is shared by a group of query heads
    max_position_embeddings : maximum number of tokens in a sequence
    rope_theta : base of the rotary embeddings
    rms_norm_eps : added to the mean square in RMSNorm
    tie_word_embeddings : whether the output layer shares the weights of the embedding
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
            value, is_int = getattr(self, f.name), f.type == "int"
            is_valid = isinstance(value, int if is_int else (int, float)) and value > 0
            if f.type != "bool" and (isinstance(value, bool) or not is_valid):
                raise ConfigError(
                    f"{f.name}={value!r}, expected a {'whole ' if is_int else ''}number above 0"
                )
        heads, n_kv_heads = self.num_attention_heads, self.num_key_value_heads
        if self.hidden_size % heads or (self.hidden_size // heads) % 2:
            raise ConfigError(
                f"hidden_size={self.hidden_size} and num_attention_heads={heads}: expected hidden_size to be "
                "the number of heads times an even width"
            )
        if heads % n_kv_heads:
            raise ConfigError(
                f"num_attention_heads={heads}: expected a multiple of num_key_value_heads={n_kv_heads}"
            )

    def require_positions(self, tokens: int) -> None:
        """Raise `ConfigError` for a sequence with more tokens than positions."""
        if tokens > self.max_position_embeddings:
            raise ConfigError(
                f"a sequence of {tokens} tokens, expected at most max_position_embeddings="
                f"{self.max_position_embeddings}"
            )

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.hidden_size // self.num_attention_heads


class KVCache:
    """Keys and values of earlier tokens, for each layer `[B, heads, length, head_dim]`."""

    def __init__(self, size: LlamaSize, batch: int, length: int, reference: Tensor) -> None:
        shape = (size.num_hidden_layers, 2, batch, size.num_key_value_heads, length, size.head_dim)
        self._keys_values = torch.empty(shape, dtype=reference.dtype, device=reference.device)
        self.length = 0

    @property
    def batch_size(self) -> int:
        """Number of sequences."""
        return self._keys_values.shape[2]

    @property
    def max_length(self) -> int:
        """Allocated number of tokens per sequence."""
        return self._keys_values.shape[4]

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values of the newest tokens; return those of all tokens so far."""
        end = self.length + key.shape[2]
        for stored, new in zip(self._keys_values[layer], (key, value), strict=True):
            stored[:, :, self.length : end] = new
        all_keys, all_values = self._keys_values[layer, :, :, :, :end]
        return all_keys, all_values


class LlamaOutput(NamedTuple):
    """The output of a model."""

    logits: Tensor  # [B, L or `logits_to_keep`, V]
    past_key_values: KVCache | None


class Llama(nn.Module):
    """A Llama model: maps token ids to logits of the next tokens."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.size = size
        self.eos_ids: tuple[int, ...] = ()  # EOS tokens, from the files that the model was loaded from
        self.model = _Body(size)
        self.lm_head = nn.Linear(size.hidden_size, size.vocab_size, bias=False)
        if size.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=INIT_STD)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: KVCache | None = None,
        logits_to_keep: int = 0,
    ) -> LlamaOutput:
        """Return the logits after each token, or only after the last `logits_to_keep` tokens if not 0.

        Parameters
        ----------
        input_ids : int64 `[B, L]`, or int32
        attention_mask : `[B, n_cached + L]`, 0 for padding on the left or right; None: no padding. Without a
            cache it may also be bool `[B, L, L]`: the tokens that each token attends to
        position_ids : `[B, L]`; None: counted from the length of the cache
        past_key_values : cache of earlier tokens; the new keys and values are appended

        Raises `ShapeError` for other shapes and dtypes; nothing is broadcast.
        """
        n_cached = 0 if past_key_values is None else past_key_values.length
        _require_input_shapes(input_ids, attention_mask, position_ids, past_key_values, logits_to_keep)
        length = input_ids.shape[1]
        self.size.require_positions(n_cached + length)
        if position_ids is None:
            position_ids = torch.arange(n_cached, n_cached + length, device=input_ids.device)
        hidden = self.model(input_ids, attention_mask, position_ids, past_key_values)
        if past_key_values is not None:
            past_key_values.length = n_cached + length
        return LlamaOutput(self.lm_head(hidden[:, -logits_to_keep:]), past_key_values)

    def cache(self, batch: int, length: int) -> KVCache:
        """Return an empty cache for `batch` sequences of `length` tokens."""
        return KVCache(self.size, batch, length, self.lm_head.weight)


def _require_input_shapes(
    ids: Tensor, mask: Tensor | None, positions: Tensor | None, cache: KVCache | None, n_logits: int
) -> None:
    if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
        raise ShapeError(f"input_ids {list(ids.shape)} of {ids.dtype}: expected token ids, int64 [B, L]")
    batch_size, length = ids.shape
    total = length if cache is None else cache.length + length
    if mask is not None:
        is_pairwise = mask.dim() == 3 and cache is None and mask.dtype == torch.bool
        if list(mask.shape) != ([batch_size, length, length] if is_pairwise else [batch_size, total]):
            raise ShapeError(
                f"attention_mask {list(mask.shape)} of {mask.dtype} for {batch_size} sequences of {total} "
                f"tokens, expected [{batch_size}, {total}], or without a cache bool [{batch_size}, {length}, "
                f"{length}]"
            )
    if positions is not None and list(positions.shape) not in (
        [length],
        [1, length],
        [batch_size, length],
    ):
        raise ShapeError(f"position_ids {list(positions.shape)}, expected [{batch_size}, {length}]")
    if cache is not None and (cache.batch_size != batch_size or cache.max_length < total):
        raise ShapeError(
            f"past_key_values for {cache.batch_size} sequences of {cache.max_length} tokens, expected "
            f"{batch_size} sequences of at least {total}"
        )
    if n_logits < 0:
        raise ConfigError(f"logits_to_keep={n_logits}, expected a number >= 0")


class _Body(nn.Module):
    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(size.vocab_size, size.hidden_size)
        self.layers = nn.ModuleList(LlamaLayer(size, i) for i in range(size.num_hidden_layers))
        self.norm = _Norm(size)
        self.size = size

    def forward(self, ids: Tensor, mask: Tensor | None, positions: Tensor, cache: KVCache | None) -> Tensor:
        hidden = self.embed_tokens(ids)
        # computed in float32, not a buffer, because casting the model would round a buffer
        angles = positions.unsqueeze(-1).float() * rotary_frequencies(self.size, ids.device)
        angles_twice = torch.cat([angles, angles], -1).unsqueeze(-3)
        cos_sin = angles_twice.cos().to(hidden.dtype), angles_twice.sin().to(hidden.dtype)
        attention_mask = _attention_mask(mask, ids, 0 if cache is None else cache.length)
        for layer in self.layers:
            hidden = layer(hidden, cos_sin, attention_mask, cache)
        normalized: Tensor = self.norm(hidden)
        return normalized


def _attention_mask(mask: Tensor | None, ids: Tensor, n_cached: int) -> Tensor | None:
    """Return the mask `[B, 1, L, n_cached + L]`; None if attention is plainly causal, or over all tokens."""
    length = ids.shape[1]
    if mask is None and (n_cached == 0 or length == 1):
        return None
    if mask is not None and mask.dim() == 3:
        return mask.unsqueeze(1)
    rows = torch.arange(n_cached, n_cached + length, device=ids.device).unsqueeze(1)
    causal = torch.arange(n_cached + length, device=ids.device) <= rows
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
    """A transformer layer: attention and MLP, each with a residual connection."""

    def __init__(self, size: LlamaSize, layer_index: int) -> None:
        super().__init__()
        self.self_attn, self.mlp = _Attention(size, layer_index), _MLP(size)
        self.input_layernorm, self.post_attention_layernorm = _Norm(size), _Norm(size)

    def forward(
        self,
        hidden: Tensor,
        cos_sin: tuple[Tensor, Tensor],
        attention_mask: Tensor | None,
        cache: KVCache | None,
    ) -> Tensor:
        """Map `[B, L, hidden_size]` to the same shape; `cos_sin` are cosines and sines of rotary angles."""
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), cos_sin, attention_mask, cache)
        output: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return output


class _MLP(nn.Module):
    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        sizes = size.hidden_size, size.intermediate_size
        self.gate_proj, self.up_proj = (nn.Linear(*sizes, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(*sizes[::-1], bias=False)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return output


class _Attention(nn.Module):
    def __init__(self, size: LlamaSize, layer_index: int) -> None:
        super().__init__()
        self.layer_index, self.head_dim = layer_index, size.head_dim
        self.has_grouped_heads = size.num_attention_heads != size.num_key_value_heads
        q_size, kv_size = (n * size.head_dim for n in (size.num_attention_heads, size.num_key_value_heads))
        self.q_proj = nn.Linear(size.hidden_size, q_size, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(size.hidden_size, kv_size, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(q_size, size.hidden_size, bias=False)

    def forward(
        self,
        x: Tensor,
        cos_sin: tuple[Tensor, Tensor],
        attention_mask: Tensor | None,
        cache: KVCache | None,
    ) -> Tensor:
        query, key, value = (
            projection(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = _apply_rotary(query, cos_sin), _apply_rotary(key, cos_sin)
        if cache is not None:
            key, value = cache.append(self.layer_index, key, value)
        is_causal = attention_mask is None and x.shape[1] > 1
        attended = scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=attention_mask,
            is_causal=is_causal,
            enable_gqa=self.has_grouped_heads,
        )
        out: Tensor = self.o_proj(attended.transpose(1, 2).flatten(-2))
        return out


def rotary_frequencies(size: LlamaSize, device: torch.device) -> Tensor:
    """Return the rotary frequencies in radians per position, float32 `[head_dim / 2]`."""
    powers = torch.arange(0, size.head_dim, 2, dtype=torch.float32, device=device) / size.head_dim
    return torch.reciprocal(size.rope_theta**powers)


def _apply_rotary(x: Tensor, cos_sin: tuple[Tensor, Tensor]) -> Tensor:
    """Apply rotary embeddings; the elements of a pair are half a head apart."""
    cos, sin = cos_sin
    first_half, second_half = x.chunk(2, -1)
    return x * cos + torch.cat([-second_half, first_half], -1) * sin

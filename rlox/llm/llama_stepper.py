"""Fast decoding steps of a Llama by few torch calls, because their overhead dominates in a small model."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

from rlox.llm.llama import KVCache, Llama, rotary_frequencies

__all__ = ["LlamaStepper", "make_stepper"]


class _FusedLayerWeights(NamedTuple):
    """The weights of a layer, `[in, out]`, with the preceding norm's weights multiplied in."""

    qkv: Tensor  # query, key, value, concatenated
    out: Tensor
    gate_up: Tensor  # gate, up
    down: Tensor


class LlamaStepper:
    """`Llama.forward` for one token per sequence, with the weights that the model had at construction.

    Parameters
    ----------
    model : a float32 model without hooks
    cache : cache of the earlier tokens; each call adds its tokens
    n_padding : left padding of each sequence in the cache, int64 `[B]`
    """

    def __init__(self, model: Llama, cache: KVCache, n_padding: Tensor) -> None:
        self._size, self._cache = model.size, cache
        self._embedding = model.model.embed_tokens.weight.detach()
        self._layers = [_fuse_weights(layer) for layer in model.model.layers]
        self._head = _transpose(model.lm_head.weight * model.model.norm.weight)
        positions = torch.arange(cache.max_length, device=n_padding.device)
        angles = positions.unsqueeze(1) * rotary_frequencies(model.size, n_padding.device)
        self._cos = torch.cat([angles.cos(), angles.cos()], -1).unsqueeze(1)
        self._sin = torch.cat([-angles.sin(), angles.sin()], -1).unsqueeze(1)
        self._n_padding = n_padding
        self._has_padding = bool(self._n_padding.any())

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the logits `[B, V]` after `tokens` `[B]`."""
        size, length = self._size, self._cache.length
        size.require_positions(length + 1)
        heads, n_kv_heads = size.num_attention_heads, size.num_key_value_heads
        position: int | Tensor = length
        attention_mask = None
        if self._has_padding:
            position = length - self._n_padding
            columns = torch.arange(length + 1, device=tokens.device)
            attention_mask = (columns >= self._n_padding.unsqueeze(1))[:, None, None]
        cos, sin = self._cos[position], self._sin[position]
        hidden = self._embedding[tokens]
        for layer_index, weights in enumerate(self._layers):
            split = (self._rms_normalize(hidden) @ weights.qkv).view(len(tokens), -1, size.head_dim)
            rotated = split[:, : heads + n_kv_heads]
            rotated = rotated * cos + rotated.roll(size.head_dim // 2, -1) * sin
            new_keys_values = rotated[:, heads:].unsqueeze(2), split[:, heads + n_kv_heads :].unsqueeze(2)
            keys, values = self._cache.append(layer_index, *new_keys_values)
            query = rotated[:, :heads].unsqueeze(2)
            attended = scaled_dot_product_attention(
                query, keys, values, attn_mask=attention_mask, enable_gqa=heads != n_kv_heads
            )
            hidden = torch.addmm(hidden, attended.flatten(1), weights.out)
            gate, up = (self._rms_normalize(hidden) @ weights.gate_up).chunk(2, -1)
            hidden = torch.addmm(hidden, silu(gate) * up, weights.down)
        self._cache.length = length + 1
        return self._rms_normalize(hidden) @ self._head

    def _rms_normalize(self, x: Tensor) -> Tensor:
        """Divide by the root mean square."""
        return x * x.square().mean(-1, keepdim=True).add_(self._size.rms_norm_eps).rsqrt_()


def make_stepper(model: Llama, cache: KVCache, n_padding: Tensor) -> LlamaStepper | None:
    """Return a stepper; None unless the model is float32, without hooks and with `Llama`'s modules only.

    Only then does the stepper equal `forward` up to rounding.
    """
    modules, plain_types = list(model.modules()), (nn.Linear, nn.Embedding, nn.ModuleList)
    is_plain = all(type(p) in plain_types or type(p).__module__ == Llama.__module__ for p in modules)
    is_hooked = any(module_part._forward_hooks or module_part._forward_pre_hooks for module_part in modules)
    if not is_plain or is_hooked or type(model) is not Llama or model.lm_head.weight.dtype != torch.float32:
        return None
    return LlamaStepper(model, cache, n_padding)


def _fuse_weights(layer: nn.Module) -> _FusedLayerWeights:
    weights = {name: value for name, value in layer.named_parameters()}
    qkv = torch.cat([weights[f"self_attn.{name}_proj.weight"] for name in "qkv"])
    gate_up = torch.cat([weights[f"mlp.{name}_proj.weight"] for name in ("gate", "up")])
    return _FusedLayerWeights(
        _transpose(qkv * weights["input_layernorm.weight"]),
        _transpose(weights["self_attn.o_proj.weight"]),
        _transpose(gate_up * weights["post_attention_layernorm.weight"]),
        _transpose(weights["mlp.down_proj.weight"]),
    )


def _transpose(weight: Tensor) -> Tensor:
    return weight.detach().t().contiguous()

"""One more token of a Llama's sequences, with few calls: of a small model a call costs more than its sums."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

from rlox.llm.llama import Cache, Llama, inv_freq

__all__ = ["Stepper", "steps_of"]


class _Joined(NamedTuple):
    """The weights of a layer, `[in, out]`, what normalises before them multiplied in."""

    asking: Tensor  # query, key, value, one behind the other
    out: Tensor
    gated: Tensor  # gate, up
    down: Tensor


class Stepper:
    """`Llama.forward` of one token each, with the weights as they are when it is made.

    Parameters
    ----------
    model : float32, without hooks
    cache : what was seen, which goes on
    before : tokens of padding before each text in it, int64 `[B]`
    """

    def __init__(self, model: Llama, cache: Cache, before: Tensor) -> None:
        self._size, self._cache = model.size, cache
        self._embedding = model.model.embed_tokens.weight.detach()
        self._layers = [_joined(layer) for layer in model.model.layers]
        self._head = _turned(model.lm_head.weight * model.model.norm.weight)
        places = torch.arange(cache.room, device=before.device)
        angles = places.unsqueeze(1) * inv_freq(model.size, before.device)
        self._cos = torch.cat([angles.cos(), angles.cos()], -1).unsqueeze(1)
        self._sin = torch.cat([-angles.sin(), angles.sin()], -1).unsqueeze(1)
        self._before = before
        self._padded = bool(self._before.any())

    def __call__(self, tokens: Tensor) -> Tensor:
        """The logits behind `tokens` `[B]`, `[B, V]`."""
        size, at = self._size, self._cache.length
        size.require_room(at + 1)
        heads, shared = size.num_attention_heads, size.num_key_value_heads
        place: int | Tensor = at
        seen = None
        if self._padded:
            place = at - self._before
            columns = torch.arange(at + 1, device=tokens.device)
            seen = (columns >= self._before.unsqueeze(1))[:, None, None]
        cos, sin = self._cos[place], self._sin[place]
        hidden = self._embedding[tokens]
        for number, weights in enumerate(self._layers):
            split = (self._even(hidden) @ weights.asking).view(len(tokens), -1, size.head_dim)
            turned = split[:, : heads + shared]
            turned = turned * cos + turned.roll(size.head_dim // 2, -1) * sin
            newest = turned[:, heads:].unsqueeze(2), split[:, heads + shared :].unsqueeze(2)
            keys, values = self._cache.put(number, *newest)
            query = turned[:, :heads].unsqueeze(2)
            found = scaled_dot_product_attention(
                query, keys, values, attn_mask=seen, enable_gqa=heads != shared
            )
            hidden = torch.addmm(hidden, found.flatten(1), weights.out)
            gate, up = (self._even(hidden) @ weights.gated).chunk(2, -1)
            hidden = torch.addmm(hidden, silu(gate) * up, weights.down)
        self._cache.length = at + 1
        return self._even(hidden) @ self._head

    def _even(self, x: Tensor) -> Tensor:
        """Over its root mean square."""
        return x * x.square().mean(-1, keepdim=True).add_(self._size.rms_norm_eps).rsqrt_()


def steps_of(model: Llama, cache: Cache, before: Tensor) -> Stepper | None:
    """A stepper, where that is `forward` up to rounding: of float32, without hooks or parts of one's own."""
    parts, plain = list(model.modules()), (nn.Linear, nn.Embedding, nn.ModuleList)
    ours = all(type(p) in plain or type(p).__module__ == Llama.__module__ for p in parts)
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in parts)
    if (
        not ours
        or hooked
        or type(model) is not Llama
        or model.lm_head.weight.dtype != torch.float32
    ):
        return None
    return Stepper(model, cache, before)


def _joined(layer: nn.Module) -> _Joined:
    weights = {name: value for name, value in layer.named_parameters()}
    attention = torch.cat([weights[f"self_attn.{name}_proj.weight"] for name in "qkv"])
    gated = torch.cat([weights[f"mlp.{name}_proj.weight"] for name in ("gate", "up")])
    return _Joined(
        _turned(attention * weights["input_layernorm.weight"]),
        _turned(weights["self_attn.o_proj.weight"]),
        _turned(gated * weights["post_attention_layernorm.weight"]),
        _turned(weights["mlp.down_proj.weight"]),
    )


def _turned(weight: Tensor) -> Tensor:
    return weight.detach().t().contiguous()

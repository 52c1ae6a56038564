"""A causal transformer in the layout of GPT-2 (Radford et al. 2019, layer norms first), with ReLU."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["CausalTransformer"]

INIT_STD = 0.02  # standard deviation of initial weights, as in GPT-2


class CausalTransformer(nn.Module):
    """Maps embeddings `tokens` `[B, T, width]` to outputs `[B, T, width]`; output t depends on tokens 0 to t.

    Parameters
    ----------
    width : size of an embedding
    n_layers : number of blocks
    n_heads : number of attention heads in each block
    dropout : dropout probability of attention weights and of each residual branch
    """

    def __init__(self, width: int, n_layers: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_Block(width, n_heads, dropout) for _ in range(n_layers))
        self.norm = nn.LayerNorm(width)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=INIT_STD)
                nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """Apply the blocks in order, then a layer norm."""
        for block in self.blocks:
            tokens = block(tokens)
        out: Tensor = self.norm(tokens)
        return out


class _Block(nn.Module):
    def __init__(self, width: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wider, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.n_heads, self.dropout = n_heads, dropout

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self._dropout(self.joined(self._attend(self.before(tokens))))
        hidden = torch.relu(self.wider(self.between(tokens)))
        return tokens + self._dropout(self.back(hidden))

    def _attend(self, tokens: Tensor) -> Tensor:
        heads = (
            part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for part in self.attention(tokens).chunk(3, -1)
        )
        query, key, value = heads
        dropout_rate = self.dropout if self.training else 0.0
        attended = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=dropout_rate, is_causal=True
        )
        return attended.transpose(1, 2).flatten(-2)

    def _dropout(self, added: Tensor) -> Tensor:
        return functional.dropout(added, self.dropout, self.training)

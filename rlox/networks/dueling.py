"""Dueling networks: value and advantage in separate streams (Wang et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from rlox.networks.mlp import ACTIVATIONS, mlp

__all__ = ["DuelingMLP"]


class DuelingMLP(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean over a' of A(s, a') (equation 9).

    All hidden layers but the last are shared; each stream has one of the last width.
    """

    def __init__(
        self, obs_dim: int, n_actions: int, widths: Sequence[int], activation: str
    ) -> None:
        super().__init__()
        sizes = (obs_dim, *widths)
        shared = mlp(sizes[:-1], activation)
        if len(widths) > 1:
            shared.append(ACTIVATIONS[activation]())
        self.shared = shared
        self.value = mlp((*sizes[-2:], 1), activation)
        self.advantage = mlp((*sizes[-2:], n_actions), activation)

    def forward(self, obs: Tensor) -> Tensor:
        """Q-values `[..., n_actions]` for `obs` `[..., obs_dim]`."""
        features = self.shared(obs)
        advantage = self.advantage(features)
        values: Tensor = self.value(features) + advantage - advantage.mean(-1, keepdim=True)
        return values

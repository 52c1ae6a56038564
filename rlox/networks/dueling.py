"""Dueling networks: value and advantage in separate streams (Wang et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlox.networks.mlp import ACTIVATIONS, mlp
from rlox.networks.noisy import NoisyMLP, apply, noise_size

__all__ = ["DuelingMLP"]


class DuelingMLP(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean over a' of A(s, a') (equation 9).

    All hidden layers but the last are shared; each stream has one of the last width. With `atoms` there are
    so many numbers of each action, each of them dueling by itself (Hessel et al. 2018, "Integrated agent");
    with `sigma` all linear layers are noisy.
    """

    def __init__(
        self,
        obs_dim: int,
        n_actions: int,
        widths: Sequence[int],
        activation: str,
        atoms: int | None = None,
        sigma: float | None = None,
    ) -> None:
        super().__init__()
        sizes, each = (obs_dim, *widths), atoms or 1
        self._shape = None if atoms is None else (n_actions, atoms)
        ends = (*sizes[-2:], each), (*sizes[-2:], n_actions * each)
        self.shared: nn.Module
        self.value: nn.Module
        self.advantage: nn.Module
        if sigma is None:
            self.shared = mlp(sizes[:-1], activation)
            if len(widths) > 1:
                self.shared.append(ACTIVATIONS[activation]())
            self.value, self.advantage = (mlp(end, activation) for end in ends)
        else:
            self.shared = NoisyMLP(sizes[:-1], activation, sigma, ends=True)
            self.value, self.advantage = (NoisyMLP(end, activation, sigma) for end in ends)
        self._cuts = [noise_size(net) for net in (self.shared, self.value, self.advantage)]

    def forward(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """Q-values `[..., n_actions]` for `obs` `[..., obs_dim]`; with atoms `[..., n_actions * atoms]`.

        `noise` has the factors of the noisy layers: shared, value, advantage.
        """
        parts = (None, None, None) if noise is None else torch.split(noise, self._cuts)
        features = apply(self.shared, obs, parts[0])
        value = apply(self.value, features, parts[1])
        advantage = apply(self.advantage, features, parts[2])
        if self._shape is None:
            return value + advantage - advantage.mean(-1, keepdim=True)
        advantage = torch.unflatten(advantage, -1, self._shape)
        each: Tensor = value.unsqueeze(-2) + advantage - advantage.mean(-2, keepdim=True)
        return each.flatten(-2)

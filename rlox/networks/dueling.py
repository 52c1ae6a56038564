"""Dueling networks: value and advantages from separate last layers (Wang et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlox.networks.mlp import ACTIVATIONS, mlp
from rlox.networks.noisy import NoisyMLP, apply_with_noise, noise_size

__all__ = ["DuelingMLP"]


class DuelingMLP(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean over a' of A(s, a') (equation 9).

    All hidden layers but the last are shared; V and A each have their own last hidden layer. With `atoms`
    each action has this many outputs, and the equation applies to each of them (Hessel et al. 2018,
    "Integrated agent"). With `sigma` all linear layers are noisy.
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
        sizes, outputs_per_action = (obs_dim, *widths), atoms or 1
        self._shape = None if atoms is None else (n_actions, atoms)
        branch_sizes = (*sizes[-2:], outputs_per_action), (*sizes[-2:], n_actions * outputs_per_action)
        self.shared: nn.Module
        self.value: nn.Module
        self.advantage: nn.Module
        if sigma is None:
            self.shared = mlp(sizes[:-1], activation)
            if len(widths) > 1:
                self.shared.append(ACTIVATIONS[activation]())
            self.value, self.advantage = (mlp(stream, activation) for stream in branch_sizes)
        else:
            self.shared = NoisyMLP(sizes[:-1], activation, sigma, activate_last=True)
            self.value, self.advantage = (NoisyMLP(stream, activation, sigma) for stream in branch_sizes)
        self._noise_sizes = [noise_size(net) for net in (self.shared, self.value, self.advantage)]

    def forward(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the Q-values `[..., n_actions]` for `obs` `[..., obs_dim]`.

        With atoms they are `[..., n_actions * atoms]`. `noise` has the factors of the noisy layers: shared,
        value, advantage.
        """
        noises = (None, None, None) if noise is None else torch.split(noise, self._noise_sizes)
        features = apply_with_noise(self.shared, obs, noises[0])
        value = apply_with_noise(self.value, features, noises[1])
        advantage = apply_with_noise(self.advantage, features, noises[2])
        if self._shape is None:
            return value + advantage - advantage.mean(-1, keepdim=True)
        advantage = torch.unflatten(advantage, -1, self._shape)
        q_atoms: Tensor = value.unsqueeze(-2) + advantage - advantage.mean(-2, keepdim=True)
        return q_atoms.flatten(-2)

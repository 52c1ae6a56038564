"""Networks as a user would write them, for DQN and SAC."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn


class QNet(nn.Module):
    """A Q-network with a layer of its own; it writes to its input."""

    def __init__(self, observation_space: Any, action_space: Any, hidden: int = 8) -> None:
        super().__init__()
        size = spaces.flatdim(observation_space)
        self.body, self.scale = nn.Linear(size, hidden), nn.Parameter(torch.ones(hidden))
        self.head = nn.Linear(hidden, int(action_space.n))

    def forward(self, obs: Tensor) -> Tensor:
        obs *= 0.5
        out: Tensor = self.head(torch.sin(self.body(obs)) * self.scale)
        return out


class Critics(nn.Module):
    """Two critics of an action, or of each choice."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs)) for _ in range(2)
        )

    def forward(self, obs: Tensor, actions: Tensor | None = None) -> Tensor:
        rows = obs if actions is None else torch.cat([obs, actions], -1)
        values = torch.stack([net(rows) for net in self.nets])
        return values if actions is None else values.squeeze(-1)


class Nets(nn.Module):
    """Actor and critics for Box actions, or for choices."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        super().__init__()
        size, is_box = spaces.flatdim(observation_space), isinstance(action_space, spaces.Box)
        n = action_space.shape[0] if is_box else int(action_space.n)
        self.actor = nn.Sequential(nn.Linear(size, 8), nn.Tanh(), nn.Linear(8, 2 * n if is_box else n))
        self.critic = Critics(size + n if is_box else size, 1 if is_box else n)

"""rlox's network for grids of a few cells, `algo.encoder=small`, as a features extractor of
Stable-Baselines3.
"""

from __future__ import annotations

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn


class SmallCNN(BaseFeaturesExtractor):
    """Convolutions 16, 32, 64 of 2x2 and a linear layer, with ReLU, for images `[B, C, H, W]`.

    Stable-Baselines3 has already divided the input by 255 and put its channels first. If its policy uses
    orthogonal initialisation, these layers are initialised in this way too, as in rlox.
    """

    def __init__(self, observation_space: spaces.Box, features_dim: int = 128) -> None:
        super().__init__(observation_space, features_dim)
        layers: list[nn.Module] = []
        channels = observation_space.shape[0]
        for width in (16, 32, 64):
            layers += [nn.Conv2d(channels, width, 2), nn.ReLU()]
            channels = width
        self.cnn = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            flat = self.cnn(torch.zeros(1, *observation_space.shape)).shape[1]
        self.linear = nn.Sequential(nn.Linear(flat, features_dim), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        """Return features `[B, features_dim]`."""
        features: Tensor = self.linear(self.cnn(observations))
        return features

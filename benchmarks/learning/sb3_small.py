"""rlox's network for grids of a few cells, `algo.encoder=small`, as Stable-Baselines3 takes networks."""

from __future__ import annotations

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn


class SmallCNN(BaseFeaturesExtractor):
    """Convolutions 16, 32, 64 of 2x2 and a linear layer, with ReLU, of images `[B, C, H, W]`.

    What comes in is divided by 255 already and has its channels first, which Stable-Baselines3 does; where
    its policies begin with orthogonal weights they give them to these layers too, as rlox does.
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
        """Features `[B, features_dim]`."""
        features: Tensor = self.linear(self.cnn(observations))
        return features
